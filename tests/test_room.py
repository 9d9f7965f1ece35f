"""Everything accepted can be listed, opened, read, forked and exported again; what could not be is refused when it is written."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.home import Client
from tests.suite.explore import seeds
from tests.zygote import ForkedHome, Zygote

MOST = 64 * 1024
LIVES = seeds(few=1, usual=4)
CONFIG = f"""\
[autosave]
interval_s = 0
idle_s = 0.05
[limits]
message_bytes = {MOST}
unauthenticated_message_bytes = 4096
"""
ALPHABETS = ("x", "é", "語", "\n", '"', "\x01", "😀")
"""Some are longer in JSON than in UTF-8."""


class Grower:
    """Makes sessions grow by every request that can, in any order, and knows what was accepted."""

    def __init__(self, client: Client, rng: random.Random, store: str) -> None:
        self.client = client
        self.rng = rng
        self.store = store
        self.accepted: dict[str, set[str]] = {}
        """Session -> ids of its messages."""
        self.refused = 0
        self._made = 0

    def _text(self) -> str:
        """Often small, often so much that two or three of it are too much."""
        size = self.rng.choice((10, 1000, MOST // 8, MOST // 3, MOST - 2000))
        letter = self.rng.choice(ALPHABETS)
        return letter * (size // (len(json.dumps(letter, ensure_ascii=False).encode()) - 2))

    def _id(self) -> str:
        self._made += 1
        return f"n{self._made}"

    def _ask(self, method: str, **params: Any) -> Any:
        """The result, or None where it was refused for its size."""
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, ensure_ascii=False)
        if len(line.encode()) > MOST:
            return None
        answer = self.client.answer(self.client.send_raw(method, params))
        if "error" in answer:
            assert answer["error"]["data"]["kind"] in ("tooLarge", "conflict"), answer["error"]
            if answer["error"]["data"]["kind"] == "tooLarge":
                assert answer["error"]["data"]["limit"] <= MOST
                self.refused += 1
            return None
        return answer["result"]

    def step(self) -> None:
        session = self.rng.choice(list(self.accepted)) if self.accepted else None
        if session is None or self.rng.random() < 0.08:
            new = self._ask("session/new", name="n", store=self.store, metadata={"m": self._text()})
            if new is not None:
                self.accepted[new["session"]["sessionId"]] = set()
            return
        message = self.rng.choice(sorted(self.accepted[session]) or ["none"])
        match self.rng.randrange(8):
            case 0 | 1:
                one = {
                    "id": self._id(),
                    "role": "user",
                    "content": self._text(),
                    "status": self.rng.choice(("streaming", "done")),
                }
                if self._ask("session/append", sessionId=session, messages=[one]) is not None:
                    self.accepted[session].add(one["id"])
            case 2 | 3 if message != "none":
                self._ask("session/extend", sessionId=session, messageId=message, text=self._text())
            case 4 if message != "none":
                status = self.rng.choice(("interrupted", "done"))
                metadata = {self._id(): self._text()}
                self._ask("session/finish", sessionId=session, messageId=message, status=status, metadata=metadata)
            case 5:
                self._ask("state/set", sessionId=session, values={self.rng.choice("abcdef"): self._text()})
            case 6:
                field = self.rng.choice(
                    ({"metadata": {"m": self._text()}}, {"summary": self._text()}, {"tags": [self._text()]})
                )
                self._ask("session/update", sessionId=session, **field)
            case _:
                self._ask("note/append", sessionId=session, heading="h", content=self._text())

    def check(self, path: Path) -> None:
        """Everything can be had again, and nothing is cut."""
        listed = list(pages(self.client, "session/list", "sessions"))
        assert {one["sessionId"] for one in listed} >= self.accepted.keys()
        assert not any("cut" in one for one in listed)
        for session, ids in self.accepted.items():
            opened = self.client.call("session/open", sessionId=session)
            self.client.call("session/open", sessionId=session, since=0)
            assert not any("shown" in one["message"] for one in opened["warnings"])
            self.client.call("state/get", sessionId=session)
            self.client.call("note/list", sessionId=session)
            found = read(self.client, session)
            assert {one["id"] for one in found} == ids
            assert not any("cut" in one for one in found)
            target = path / f"{self._id()}.jsonl"
            self.client.call("session/export", sessionId=session, format="jsonl", path=str(target))
        session = self.rng.choice(list(self.accepted))
        fork = self.client.call("session/fork", sessionId=session)["session"]["sessionId"]
        assert len(read(self.client, fork)) == len(self.accepted[session])
        self.accepted[fork] = set(self.accepted[session])
        self.client.notifications.clear()


def pages(client: Client, method: str, what: str, **params: Any) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = client.call(method, cursor=cursor, **params)
        yield from page[what]
        cursor = page["nextCursor"]
        if cursor is None:
            return


def read(client: Client, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        page = client.call("session/read", sessionId=session, since=found[-1]["seq"] if found else 0)
        found += page["messages"]
        if not page["hasMore"]:
            return found


@pytest.mark.parametrize("seed", LIVES)
def test_15_what_was_accepted_can_be_read_again(seed: int, zygote: Zygote, tmp_path: Path) -> None:
    """Any growth, by any request: all is listed, opened, paged through, forked and exported, also after a restart."""
    rng = random.Random(f"growth {seed}")
    home = ForkedHome(zygote, tmp_path, CONFIG)
    home.start()
    store = "default"
    client = home.client()
    if seed % 4 == 3:
        (tmp_path / "theirs").mkdir()
        store = "theirs"
        client.call("store/adopt", path=str(tmp_path / "theirs"), name=store, format=rng.choice(("theia", "agent-q")))
    grower = Grower(client, rng, store)
    for _ in range(4):
        for _ in range(25):
            grower.step()
        if grower.accepted:
            grower.check(tmp_path)
    assert grower.refused > 3, "nothing came near the limit"
    home.kill()
    home.forget_clients()
    home.start()
    grower.client = home.client()
    grower.check(tmp_path)
    home.stop()


def test_15_what_came_from_outside_harms_nobody_else(zygote: Zygote, tmp_path: Path) -> None:
    """A file with a message, metadata and state that fit into no answer: it is listed, opened and paged through with `cut` and
    warnings, others are not concerned, an export has all of it, and it can be written to.
    """
    home = ForkedHome(zygote, tmp_path, CONFIG)
    home.start()
    client = home.client()
    client.call("session/new", sessionId="big", name="Big", metadata={"k": "v"})
    client.call("session/new", sessionId="small", name="Small")
    for number in range(3):
        client.call(
            "session/append", sessionId="big", messages=[{"id": f"m{number}", "role": "user", "content": f"<{number}>"}]
        )
    client.call("state/set", sessionId="big", values={"little": 1, "much": "<s>"})
    for session in ("big", "small"):
        client.call("session/close", sessionId=session)
    home.stop()
    file = tmp_path / "data" / "sessions" / "big.jsonl"
    text = file.read_text()
    for old, much in (("<1>", "w" * 3 * MOST), ("<s>", "s" * 2 * MOST), ('"v"', '"' + "v" * 2 * MOST + '"')):
        assert old in text
        text = text.replace(old, much)
    file.write_text(text)
    home.start()
    client = home.client()
    listed = {one["sessionId"]: one for one in pages(client, "session/list", "sessions")}
    assert listed["big"]["cut"] == ["metadata"]
    assert "cut" not in listed["small"]
    assert client.call("session/open", sessionId="small")["session"]["name"] == "Small"
    opened = client.call("session/open", sessionId="big")
    assert opened["session"]["cut"] == ["metadata"]
    assert opened["state"] == {"little": 1}
    assert any("too large to be shown: much" in one["message"] for one in opened["warnings"])
    found = read(client, "big")
    assert [one["id"] for one in found] == ["m0", "m1", "m2"]
    assert found[1]["cut"] > 3 * MOST
    assert found[1]["content"].startswith("www")
    assert "cut" not in found[0]
    assert client.fails("state/get", sessionId="big")["data"]["kind"] == "tooLarge"
    assert client.call("state/get", sessionId="big", keys=["little"])["values"] == {"little": 1}
    client.call("session/append", sessionId="big", messages=[{"id": "m3", "role": "user", "content": "more"}])
    client.call("session/export", sessionId="big", format="jsonl", path=str(tmp_path / "big.jsonl"))
    assert "w" * 3 * MOST in (tmp_path / "big.jsonl").read_text()
    home.stop()
