"""opencode since 2: new tables beside those of before, which a session may be in as well."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.importers import opencode
from sessiond.importers.record import MessageRecord, SessionEnd, SkippedLine, open_source
from tests.importers.collected import Stream, read, recognised
from tests.importers.test_usage import totals

OLD = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT,
  time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
"""
NEW = """
CREATE TABLE session_v2 (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, fork_session_id TEXT, fork_boundary TEXT,
  directory TEXT, title TEXT, model TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER,
  time_updated INTEGER, data TEXT);
"""
T0 = 1_790_000_000_000
USED = {"input": 7, "output": 2, "reasoning": 1, "cache": {"read": 3, "write": 0}}


class Tables:
    """A database of opencode's; times are seconds after a first one."""

    def __init__(self, path: Path, *schemas: str) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as db:
            db.executescript("".join(schemas or (OLD, NEW)))

    def put(self, table: str, **row: Any) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            marks = ", ".join("?" * len(row))
            db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    def session(self, table: str, session_id: str, title: str, at: int, **more: Any) -> None:
        times = {"time_created": T0, "time_updated": T0 + at * 1000}
        self.put(table, id=session_id, project_id="p", directory="/garden", title=title, **times, **more)

    def old(self, session_id: str, message_id: str, role: str, at: int, *parts: dict[str, Any], **about: Any) -> None:
        time = T0 + at * 1000
        data = json.dumps({"role": role, "time": {"created": time}, **about})
        self.put("message", id=message_id, session_id=session_id, time_created=time, time_updated=time, data=data)
        for number, part in enumerate(parts):
            row = {"id": f"prt_{message_id}_{number}", "message_id": message_id, "session_id": session_id}
            self.put("part", **row, time_created=time, data=json.dumps(part))

    def new(self, session_id: str, message_id: str, kind: str, seq: int, **data: Any) -> None:
        data.setdefault("time", {"created": T0 + seq * 1000})
        row = {"id": message_id, "session_id": session_id, "type": kind, "seq": seq, "time_created": T0 + seq * 1000}
        self.put("session_message", **row, time_updated=T0, data=json.dumps(data))


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def told(stream: Stream, session_id: str) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in stream.messages[session_id]]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path / "opencode.db")


def test_both_generations_are_read(tables: Tables) -> None:
    """What is only in the old tables, and what is only in the new ones, in the order of `seq`."""
    tables.session("session", "ses_a", "Old", 1)
    tables.old("ses_a", "msg_a", "user", 1, said("sow the peas"))
    tables.session("session_v2", "ses_b", "New", 9, model='{"id": "m", "providerID": "x"}')
    state = {"status": "completed", "input": {"row": 1}, "content": [said("dry"), said("soil")]}
    failed = {"status": "error", "input": {}, "error": {"type": "unknown", "message": "no spade"}}
    content = [
        {"type": "reasoning", "text": "look first"},
        {"type": "tool", "id": "c1", "name": "look", "state": state, "time": {"created": T0, "completed": T0 + 5000}},
        {"type": "tool", "id": "c2", "name": "dig", "state": failed},
        said("water them"),
    ]
    model = {"id": "m", "providerID": "x"}
    tables.new("ses_b", "msg_c", "assistant", 2, agent="build", model=model, content=content, tokens=USED, cost=0.5)
    tables.new(
        "ses_b", "msg_b", "user", 1, text="and the beans?", files=[{"uri": "file:///bed.png", "mime": "image/png"}]
    )
    stream = read(tables.path)
    assert recognised(tables.path) == "opencode"
    assert told(stream, "ses_a") == [("user", "sow the peas")]
    prompt, answer, result, error = stream.messages["ses_b"]
    assert prompt["content"] == [
        said("and the beans?"),
        {"type": "file", "uri": "file:///bed.png", "mime": "image/png"},
    ]
    assert (answer["content"], answer["thinking"]) == ("water them", "look first")
    assert [(call["id"], call["name"], call["arguments"]) for call in answer["toolCalls"]] == [
        ("c1", "look", {"row": 1}),
        ("c2", "dig", {}),
    ]
    assert answer["metadata"]["tokens"]["output"] == 3
    assert answer["metadata"]["modelID"] == "m"
    assert (result["content"], result["toolCallId"], result["timestamp"][17:19]) == ("dry\nsoil", "c1", "25")
    assert (error["content"], error["metadata"]["isError"]) == ("no spade", True)
    assert (stream.info["ses_b"]["name"], stream.info["ses_b"]["model"]) == ("New", "m")
    assert not stream.unknown
    assert not stream.skipped


def test_the_other_types_of_rows(tables: Tables) -> None:
    """A shell command and a summary are said; switches are not; what nobody knows is kept and counted."""
    tables.session("session_v2", "ses_b", "New", 9)
    tables.new("ses_b", "m1", "agent-switched", 1, agent="plan")
    tables.new(
        "ses_b", "m2", "shell", 2, shellID="sh1", command="ls beds", status="completed", output={"output": "peas"}
    )
    tables.new("ses_b", "m3", "synthetic", 3, text="a reminder")
    tables.new("ses_b", "m4", "compaction", 4, status="completed", reason="auto", summary="peas were sown", recent="x")
    tables.new("ses_b", "m5", "skill", 5, skill="dig", name="Dig", text="how to dig")
    tables.new("ses_b", "m6", "pruned", 6, branch="oak")
    tables.new("ses_b", "m7", "idle", 7, outcome="succeeded")
    stream = read(tables.path)
    command, output, reminder, summary, skill = stream.messages["ses_b"]
    assert (command["role"], command["toolCalls"][0]["arguments"]) == ("user", {"command": "ls beds"})
    assert (output["role"], output["content"], output["toolCallId"]) == ("tool", "peas", "sh1")
    assert reminder["metadata"]["injected"] is skill["metadata"]["injected"] is True
    assert (summary["role"], summary["content"]) == ("system", "peas were sown")
    assert summary["metadata"]["compaction"] == {"status": "completed", "reason": "auto", "recent": "x"}
    assert stream.ignored == {"agent-switched": 1, "idle": 1}
    assert stream.unknown == {"pruned": 1}
    assert stream.info["ses_b"]["metadata"]["records"][0]["branch"] == "oak"


def in_both(tables: Tables) -> None:
    """A session that opencode 2 copied, with and without the ids, and that both of them went on with."""
    state = {"status": "completed", "input": {}, "output": "dry", "time": {"start": T0, "end": T0}}
    tables.session("session", "ses_a", "Before", 5)
    tables.old("ses_a", "msg_1", "user", 1, said("sow the peas"))
    tables.old(
        "ses_a", "msg_2", "assistant", 2, said("sown"), {"type": "tool", "callID": "c1", "tool": "look", "state": state}
    )
    tables.old("ses_a", "msg_3", "user", 3, said("only version 1 knows this"))
    tables.session("session_v2", "ses_a", "After", 9)
    tables.new("ses_a", "msg_1", "user", 1, text="sow the peas")
    content = [
        said("sown in rows"),
        {"type": "tool", "id": "c1", "name": "look", "state": {**state, "output": "dry, as before"}},
    ]
    tables.new("ses_a", "msg_2", "assistant", 2, content=content)
    tables.new("ses_a", "msg_9", "user", 4, text="and the beans?")


def test_a_session_in_both_generations_is_one(tables: Tables) -> None:
    """Each message once, in its place; the fuller form of the two, under the ids that it had before."""
    in_both(tables)
    stream = read(tables.path)
    assert list(stream.messages) == ["ses_a"]
    assert told(stream, "ses_a") == [
        ("user", "sow the peas"),
        ("assistant", "sown in rows"),
        ("tool", "dry, as before"),
        ("user", "only version 1 knows this"),
        ("user", "and the beans?"),
    ]
    assert [message["id"] for message in stream.messages["ses_a"]] == [
        "msg_1",
        "msg_2",
        "prt_msg_2_1",
        "msg_3",
        "msg_9",
    ]
    assert stream.info["ses_a"]["name"] == "After"


@pytest.mark.parametrize("table", ["old", "new"])
def test_a_row_of_a_session_in_both_generations_costs_itself(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """A row on which comparing fails is left out and told, unless the other generation has it; the session is read to its end."""
    in_both(tables)
    whole = told(read(tables.path), "ses_a")
    real = getattr(opencode._Both, f"take_{table}")
    calls = 0

    def planted(both: Any, *args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyError("planted")
        real(both, *args)

    monkeypatch.setattr(opencode._Both, f"take_{table}", planted)
    found = list(opencode.OpenCode().read(str(tables.path), open_source))
    assert calls > 1
    assert len([one for one in found if isinstance(one, MessageRecord)]) >= len(whole) - 1
    assert [one for one in found if isinstance(one, SessionEnd)] == [SessionEnd("ses_a")]
    [skipped] = [one for one in found if isinstance(one, SkippedLine)]
    assert ("planted" in skipped.reason, skipped.failed) == (True, True)


def test_a_copy_under_another_id_is_known_by_what_it_says(tables: Tables) -> None:
    tables.session("session", "ses_a", "Before", 5)
    tables.old("ses_a", "msg_1", "user", 1, said("sow the peas"))
    tables.old("ses_a", "msg_2", "user", 2, said("sow the peas"))
    tables.session("session_v2", "ses_a", "After", 5)
    tables.new("ses_a", "msg_x", "user", 1, text="sow the peas")
    tables.new("ses_a", "msg_y", "user", 3, text="sow the peas")
    assert [message["id"] for message in read(tables.path).messages["ses_a"]] == ["msg_1", "msg_2", "msg_y"]


def test_version_1_had_the_new_table_for_switches_only(tmp_path: Path) -> None:
    tables = Tables(
        tmp_path / "opencode.db",
        OLD,
        NEW.partition("CREATE TABLE session_message")[1],
        NEW.partition("CREATE TABLE session_message")[2],
    )
    tables.session("session", "ses_a", "Old", 1)
    tables.old("ses_a", "msg_1", "user", 1, said("sow the peas"))
    tables.new("ses_a", "evt_1", "model-switched", 1, model={"id": "m"})
    assert told(read(tables.path), "ses_a") == [("user", "sow the peas")]


def test_a_database_without_the_old_tables(tmp_path: Path) -> None:
    """Its name says nothing; a beta kept its sessions in `session`."""
    tables = Tables(tmp_path / "beta.db", OLD.split(";", maxsplit=1)[0] + ";", NEW)
    tables.session("session", "ses_a", "Beta", 1)
    tables.new("ses_a", "msg_1", "user", 1, text="sow the peas")
    assert recognised(tables.path) == "opencode"
    assert told(read(tables.path), "ses_a") == [("user", "sow the peas")]


def test_tokens_of_a_fork_count_once(tables: Tables) -> None:
    """Its copies have other ids and other times; a fork of the fork as well, and one of a session of before."""
    model = {"id": "m", "providerID": "x"}
    tables.session("session", "ses_a", "First", 9)
    old = {"modelID": "m", "providerID": "x", "tokens": USED, "cost": 0.5}
    tables.old("ses_a", "msg_1", "assistant", 1, said("sown"), **old)
    tables.session("session_v2", "ses_a", "First", 9)
    for number, (session_id, parent) in enumerate((("ses_a", None), ("ses_b", "ses_a"), ("ses_c", "ses_b"))):
        if parent:
            tables.session("session_v2", session_id, "Fork", 9, fork_session_id=parent)
        time = {"time": {"created": T0 + 1000 + number}}
        said_once = {"model": model, "tokens": USED, "cost": 0.5}
        one = "msg_1" if not parent else f"msg_1_{number}"
        tables.new(session_id, one, "assistant", 1, content=[said("sown")], **said_once, **time)
    tables.new("ses_c", "msg_own", "assistant", 2, content=[said("sown")], model=model, tokens=USED, cost=0.5)
    assert totals(tables.path) == (14, 6, 0, 6, 2)
    stream = read(tables.path)
    assert stream.info["ses_c"]["parent"] == {"sessionId": "opencode-ses_b", "seq": None}


def test_a_table_that_nobody_reads_is_reported_if_it_is_newer(tables: Tables) -> None:
    """The tool's notes of the same days are not, nor is one that is not about conversations."""
    tables.session("session_v2", "ses_a", "New", 9)
    tables.new("ses_a", "msg_1", "user", 1, text="sow the peas")
    day = 86_400_000
    with closing(sqlite3.connect(tables.path)) as db, db:
        for table, at in (("session_v3", T0 + 40 * day), ("session_input", T0 + day), ("kv", T0 + 40 * day)):
            db.execute(f"CREATE TABLE {table} (id TEXT, data TEXT, time_created INTEGER)")
            db.execute(f"INSERT INTO {table} VALUES ('1', '{{}}', {at}), ('2', '{{}}', {at}), ('3', '{{}}', {T0})")
    assert read(tables.path).unknown == {"table session_v3": 2}
