"""`session/usage` counts what the sessions say, whatever was done to them: random histories on a real daemon, compared with a
count of what `read` returns.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from sessiond.client import InvalidParams, Sessiond, SessionInfo, connect
from sessiond.client.usage import TokenTotals
from sessiond.errors import SessiondError
from tests.shell import Shell, wait_until

COUNTS = ("input", "cacheRead", "cacheWrite", "output", "reasoning")
ZONES = ("UTC", "Asia/Kathmandu", "America/New_York")
MODELS = (None, "m-large", "m-small")
FOLDERS = (None, "/w/a", "/w/b")


@pytest.fixture
def client(shell: Shell) -> Iterator[Sessiond]:
    """It starts the daemon again where it was killed."""
    assert shell("status").code == 0
    with connect(home=str(shell.path), timeout_s=30.0) as made:
        yield made


class Histories:
    """Does something at random to a few sessions. What is used is said by messages that clients append or finish."""

    def __init__(self, chance: random.Random, shell: Shell, client: Sessiond) -> None:
        self.chance = chance
        self.shell = shell
        self.client = client
        self.ids: list[str] = []
        self.requests = [f"request-{number}" for number in range(8)]

    def tokens(self) -> dict[str, Any]:
        chance = self.chance
        found: dict[str, Any] = {name: chance.randrange(1000) for name in COUNTS if chance.random() < 0.7}
        if chance.random() < 0.4:
            found["cost"] = chance.randrange(100) / 4
        if chance.random() < 0.8:
            found["model"] = chance.choice(MODELS)
        if chance.random() < 0.4:
            found["request"] = chance.choice(self.requests)
        if chance.random() < 0.1:
            found = {"input": -1, "output": "many"}
        return {"tokens": found}

    def message(self) -> dict[str, Any]:
        chance = self.chance
        at = datetime(2026, 3, 7, tzinfo=ZoneInfo("UTC")) + timedelta(minutes=chance.randrange(4 * 24 * 60))
        more = {"metadata": self.tokens()} if chance.random() < 0.8 else {}
        text = chance.choice(["short", "a longer text " * 50])
        return {"role": "assistant", "content": text, "timestamp": at.isoformat().replace("+00:00", "Z"), **more}

    def step(self) -> None:
        chance, client = self.chance, self.client
        kind = chance.choices(
            ["new", "append", "stream", "truncate", "clear", "fork", "archive", "delete", "restore", "kill", "lose"],
            [3, 12, 3, 2, 1, 2, 2, 2, 2, 1, 1],
        )[0]
        one = chance.choice(self.ids) if self.ids else None
        if kind == "new" or one is None:
            folder = chance.choice(FOLDERS)
            params = {"metadata": {"source": {"tool": "codex"}}} if chance.random() < 0.5 else {}
            if one is not None and chance.random() < 0.5:
                params = {"metadata": {"sidechain": True}}
                client.call("session/fork", {"sessionId": one, "atSeq": 0})
            made = client.call("session/new", {**params, **({"cwd": folder} if folder else {})})
            self.ids.append(made["session"]["sessionId"])
        elif kind == "append":
            messages = [self.message() for _ in range(chance.randrange(1, 5))]
            client.call("session/append", {"sessionId": one, "messages": messages})
        elif kind == "stream":
            sent = {**self.message(), "status": "streaming", "id": f"s{chance.random()}"}
            client.call("session/append", {"sessionId": one, "messages": [sent]})
            client.call("session/extend", {"sessionId": one, "messageId": sent["id"], "text": " more"})
            client.call("session/finish", {"sessionId": one, "messageId": sent["id"], "metadata": self.tokens()})
        elif kind == "truncate":
            client.call("session/truncate", {"sessionId": one, "afterSeq": chance.randrange(12)})
        elif kind == "clear":
            client.call("session/clear", {"sessionId": one})
        elif kind == "fork":
            self.ids.append(client.call("session/fork", {"sessionId": one})["session"]["sessionId"])
        elif kind == "archive":
            client.call("session/update", {"sessionId": one, "archived": chance.random() < 0.7})
        elif kind in ("delete", "restore"):
            client.call(f"session/{kind}", {"sessionId": one})
        else:
            client.status()  # it runs again
            self.shell.kill()
            if kind == "kill":
                return
            for path in self.shell.path.glob("**/index.db*"):
                path.unlink()

    def try_step(self) -> None:
        with contextlib.suppress(SessiondError):  # it is in the trash, say: nothing was done
            self.step()

    # What there is, as other requests show it

    def everything(self) -> list[tuple[SessionInfo, list[dict[str, Any]]]]:
        found = []
        for archived in (False, True):
            for info in self.client.sessions(archived=archived):
                page = self.client.call("session/read", {"sessionId": info.session_id, "last": 1000}, again=True)
                found.append((info, page["messages"]))
        return found


def reported(message: dict[str, Any]) -> dict[str, Any] | None:
    given = message.get("metadata", {}).get("tokens")
    if not isinstance(given, dict) or not any(isinstance(given.get(n), int) and given[n] > 0 for n in COUNTS):
        return None
    return {**dict.fromkeys(COUNTS, 0), "cost": None, "model": None, "request": None, **given}


def origin(session_id: str, parents: dict[str, str]) -> str:
    """The session with which a family of forks began. Where the id of a deleted one was used again, it may have no beginning."""
    for _ in range(100):
        session_id = parents.get(session_id, session_id)
    return session_id


def expected(everything: list[Any], by: str, zone: str) -> dict[str | None, Counter[str]]:
    """Row -> its counts. Equal reports of the same request go to the oldest session."""
    best: dict[object, Any] = {}
    parents = {session.session_id: session.parent.session_id for session, _ in everything if session.parent}
    for session, messages in everything:
        for message in messages:
            used = reported(message)
            if used is None:
                continue
            total = sum(used[name] for name in COUNTS[:4])
            order = (-total, session.created_at, message["timestamp"])
            key = used["request"] or (origin(session.session_id, parents), message["id"])
            if key not in best or order < best[key][0]:
                best[key] = (order, session, message, used)
    rows: dict[str | None, Counter[str]] = {}
    for _, session, message, used in best.values():
        day = datetime.fromisoformat(message["timestamp"]).astimezone(ZoneInfo(zone)).date().isoformat()
        tool = session.metadata.get("source", {}).get("tool", "sessiond")
        key = {"day": day, "model": used["model"], "tool": tool, "project": session.cwd}[by]
        row = rows.setdefault(key, Counter())
        row.update({name: used[name] for name in COUNTS})
        row["requests"] += 1
        row["priced"] += used["cost"] is not None
        row["cost"] += used["cost"] or 0
    return rows


def told(total: TokenTotals) -> dict[str, float]:
    counts = (total.input, total.cache_read, total.cache_write, total.output, total.reasoning)
    extra = {"requests": total.requests, "priced": total.priced, "cost": total.cost}
    return {**dict(zip(COUNTS, counts, strict=True)), **extra}


def settled(client: Sessiond) -> bool:
    return not client.usage().incomplete and client.status().index.state == "ready"


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(shell: Shell, client: Sessiond, seed: int) -> None:
    histories = Histories(random.Random(seed), shell, client)
    for _ in range(12):
        for _ in range(8):
            histories.try_step()
        wait_until(lambda: settled(client))
        everything = histories.everything()
        zone = histories.chance.choice(ZONES)
        for by in ("day", "model", "tool", "project"):
            report = client.usage(by, time_zone=zone)
            wanted = expected(everything, by, zone)
            assert {row.key: told(row.total) for row in report.rows} == {
                key: {**dict.fromkeys((*COUNTS, "requests", "priced", "cost"), 0), **row} for key, row in wanted.items()
            }, by
            assert told(report.total) == {
                name: sum(row[name] for row in wanted.values()) for name in (*COUNTS, "requests", "priced", "cost")
            }


def tokens(number: int, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "x", "metadata": {"tokens": {"output": number, **more}}}


def made(client: Sessiond, session_id: str, *messages: dict[str, Any], **info: Any) -> str:
    client.call("session/new", {"sessionId": session_id, "messages": list(messages), **info})
    return session_id


def test_a_subagent_counts_as_part_of_its_session(shell: Shell, client: Sessiond) -> None:
    """And the folder is that of the session that it works for; a fork counts by itself."""
    made(client, "main", tokens(1), cwd="/w", name="Main")
    sessions = shell.data / "sessions"
    client.save()
    at = "2026-03-07T10:00:00.000Z"
    for name, marks, number in (("agent", {"sidechain": True}, 10), ("fork", {}, 100)):
        header = {
            "sessiond": 1,
            "id": name,
            "createdAt": at,
            "cwd": "/tmp",
            "parent": {"sessionId": "main", "seq": None},
        }
        message = {"id": "m1", "seq": 1, "timestamp": at, **tokens(number)}
        lines = [json.dumps({**header, "metadata": marks}), json.dumps(message)]
        (sessions / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    wait_until(lambda: client.usage().total.output == 111)
    rows = client.usage("session").rows
    assert [(row.key, row.name, row.total.output, row.sessions) for row in rows] == [
        ("fork", None, 100, 1),
        ("main", "Main", 11, 1),
    ]
    assert {row.key: row.total.output for row in client.usage("project").rows} == {"/tmp": 100, "/w": 11}


def test_what_a_message_reports_may_change(shell: Shell, client: Sessiond) -> None:
    """When it is finished, and in its file; the words stay the same."""
    made(client, "a", {**tokens(1), "id": "m", "status": "streaming"})
    wait_until(lambda: client.usage().total.output == 1)
    client.call("session/finish", {"sessionId": "a", "messageId": "m", "metadata": {"tokens": {"output": 20}}})
    wait_until(lambda: client.usage().total.output == 20)
    client.save()
    path = shell.data / "sessions" / "a.jsonl"
    path.write_text(path.read_text().replace('"output":20', '"output":300'))
    wait_until(lambda: client.usage().total.output == 300)
    path.write_text(path.read_text().replace('"tokens"', '"words"'))
    wait_until(lambda: client.usage().total.output == 0)
    assert client.usage().rows == []


def test_what_may_be_asked(client: Sessiond) -> None:
    at = [f"2026-03-{day:02}T12:00:00.000Z" for day in (7, 8, 9)]
    made(client, "a", *({**tokens(10**n), "timestamp": time} for n, time in enumerate(at)), tags=["work"])
    made(client, "b", tokens(5, cost=0.5), metadata={"source": {"tool": "codex"}})
    wait_until(lambda: client.usage().total.output == 116)
    assert client.usage(since=at[1], until=at[2], time_zone="UTC").total.output == 10
    assert client.usage(tool="codex").total.cost == 0.5
    assert client.usage(tool="sessiond").total.output == 111
    assert client.usage(tags=["work"]).total.output == 111
    few = client.usage(limit=2, until="2026-04-01T00:00:00Z", time_zone="UTC")
    assert ([row.key for row in few.rows], few.omitted) == (["2026-03-08", "2026-03-09"], 1)
    assert few.total.output == 111
    first = client.usage("session", limit=1)
    assert ([row.key for row in first.rows], first.omitted) == (["a"], 1)
    client.session("a").update(archived=True)
    wait_until(lambda: client.usage(archived=True).total.output == 111)
    assert client.usage().total.output == 116
    assert client.usage(archived=False).total.output == 5
    client.session("a").delete()
    wait_until(lambda: client.usage().total.output == 5)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"by": "year"}, "by"),
        ({"timeZone": "Mars/Base"}, "timeZone"),
        ({"timeZone": "../etc/passwd"}, "timeZone"),
        ({"since": "yesterday"}, "since"),
        ({"limit": 0}, "limit"),
        ({"filter": {"store": 5}}, "filter"),
    ],
)
def test_bad_requests_name_the_field(client: Sessiond, params: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidParams) as raised:
        client.call("session/usage", params)
    assert field in str(raised.value)


def test_a_lost_index_is_said(shell: Shell, client: Sessiond) -> None:
    made(client, "a", tokens(7))
    shell.kill()
    shutil.rmtree(shell.path / "cache", ignore_errors=True)
    wait_until(lambda: client.usage().total.output == 7)
    wait_until(lambda: settled(client))
