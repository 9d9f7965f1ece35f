"""Warp's database, and Protocol Buffers without a schema."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from collected import read, recognised

from sessiond.importers import protobuf
from tests.importers.tools import calls, imported_twice, told

TABLES = """
CREATE TABLE agent_conversations (id INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, conversation_data TEXT NOT NULL);
CREATE TABLE agent_tasks (id INTEGER PRIMARY KEY, conversation_id TEXT NOT NULL, task_id TEXT NOT NULL, task BLOB NOT NULL);
CREATE TABLE ai_queries (id INTEGER PRIMARY KEY, exchange_id TEXT NOT NULL, conversation_id TEXT NOT NULL,
  start_ts DATETIME NOT NULL, input TEXT NOT NULL, working_directory TEXT, output_status TEXT NOT NULL, model_id TEXT NOT NULL);
"""


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(number: int, kind: int, content: bytes) -> bytes:
    time = field(1, 1761991200 + number) + field(2, 500_000_000)
    return field(5, field(1, f"m{number}") + field(kind, content) + field(11, "task") + field(14, time))


TASK = field(1, "task") + b"".join(
    [
        message(1, 2, field(1, "What is here?") + field(2, b"\x08\x01")),
        message(2, 15, field(1, "hm")),
        message(3, 3, field(1, "Let me look.")),
        message(4, 4, field(1, "c1") + field(2, field(1, "ls") + field(2, 1))),
        message(6, 5, field(1, "c1") + field(2, field(1, "ls") + field(2, "apple.txt"))),
        message(7, 4, field(1, "c2") + field(9, field(1, "x") + field(2, "/work"))),
        message(8, 25, field(1, "model")),
        message(9, 16, field(1, field(1, "We saw an apple."))),
        message(10, 99, field(1, "kept")),
    ]
)
SUBTASK = field(1, "sub") + field(3, field(1, "task")) + message(5, 3, field(1, "aside"))


def database(path: Path, *tasks: bytes) -> Path:
    query = json.dumps([{"Query": {"text": "hi", "context": []}}, {"ActionResult": {"x": 1}}])
    with closing(sqlite3.connect(path)) as db:
        db.executescript(TABLES)
        for nth, task in enumerate([TASK, SUBTASK, *tasks]):
            db.execute("INSERT INTO agent_tasks VALUES (?, 'c1', ?, ?)", (nth, f"t{nth}", task))
        for nth, source in enumerate(("c1", "c2")):
            row = (nth, f"e{nth}", source, "2025-11-01 10:00:00.123", query, "/work", "Completed", "claude-x")
            db.execute("INSERT INTO ai_queries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.commit()
    return path


def test_conversations(tmp_path: Path) -> None:
    """Messages of all tasks come in the order of their times, a subtask's are marked; without tasks, the prompts are imported."""
    path = database(tmp_path / "warp.sqlite")
    assert recognised(path) == "warp"
    stream = read(path)
    messages = stream.messages["c1"]
    assert told(messages) == [
        ("user", "What is here?"),
        ("assistant", ""),
        ("assistant", "Let me look."),
        ("assistant", ""),
        ("assistant", "aside"),
        ("tool", '{"2": {"1": "ls", "2": "apple.txt"}}'),
        ("assistant", ""),
        ("system", "We saw an apple."),
        ("system", ""),
    ]
    assert (messages[0]["id"], messages[0]["timestamp"]) == ("m1", "2025-11-01T10:00:01.500Z")
    assert messages[1]["thinking"] == "hm"
    assert calls(messages[3]) == [("c1", "run_shell_command", {"command": "ls"})]
    assert messages[4]["metadata"] == {"sidechain": True}
    assert messages[5]["toolCallId"] == "c1"
    assert calls(messages[6]) == [("c2", "grep", {"1": "x", "2": "/work"})]
    assert messages[8]["metadata"]["record"] == {"99": {"1": "kept"}}
    assert stream.ignored == {"model_used": 1}
    assert (stream.info["c1"]["cwd"], stream.info["c1"]["model"]) == ("/work", "claude-x")
    assert told(stream.messages["c2"]) == [("user", "hi"), ("system", "")]
    assert stream.messages["c2"][1]["metadata"]["record"] == {"ActionResult": {"x": 1}}
    assert stream.messages["c2"][0]["timestamp"] == "2025-11-01T10:00:00.123Z"


def test_a_damaged_task_costs_itself(tmp_path: Path) -> None:
    """It is reported, and the others are imported."""
    stream = read(database(tmp_path / "warp.sqlite", TASK[:-3]))
    assert [one.reason for one in stream.skipped] == [
        "a task of conversation c1 cannot be read: a field that is cut off",
    ]
    assert len(stream.messages["c1"]) == 9


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"words\n", "words\n"),
        (field(1, b"\x00\xff") + field(1, 3), {"1": ["00ff", 3]}),
        (b"\x00\xff", "00ff"),
        (varint(1 << 3 | 1) + b"\x01" + b"\0" * 7 + varint(2 << 3 | 5) + b"\x02\0\0\0", {"1": 1, "2": 2}),
    ],
)
def test_bytes_without_a_schema(data: bytes, shown: Any) -> None:
    """A text, a message by field number, or digits."""
    assert protobuf.plain(data) == shown


@pytest.mark.parametrize("data", [b"\x0b", b"\x80", b"\x0a\x05a", b"\x80" * 20])
def test_bytes_that_are_not_a_message(data: bytes) -> None:
    """A group, or bytes that end in the middle of a field."""
    with pytest.raises(protobuf.NotProtobuf):
        protobuf.fields(data)


def test_another_database_is_not_recognised(tmp_path: Path) -> None:
    """Another program may have queries."""
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as db:
        db.execute("CREATE TABLE ai_queries (id TEXT)")
    assert recognised(tmp_path / "x.sqlite") is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", database(tmp_path / "warp.sqlite"), 11)
