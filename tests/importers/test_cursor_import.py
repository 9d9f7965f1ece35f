"""Cursor: its SQLite file of keys and values."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from collected import read, recognised

from sessiond.importers import registry
from tests.importers.tools import calls, imported_twice, told

T = 1700000000000
TOOL = {
    "tool": 5,
    "name": "read_file",
    "toolCallId": "t1",
    "rawArgs": '{"path": "a.txt"}',
    "result": '{"contents": "apples"}',
    "status": "completed",
}
BUBBLES: list[dict[str, Any]] = [
    {
        "_v": 3,
        "bubbleId": "b1",
        "type": 1,
        "text": "What is in a?",
        "richText": "{}",
        "createdAt": "2025-09-01T10:00:00.000Z",
    },
    {
        "bubbleId": "b2",
        "type": 2,
        "text": "",
        "thinking": {"text": "hm", "signature": "s"},
        "timingInfo": {"clientEndTime": 812.5},
    },
    {"bubbleId": "b3", "type": 2, "text": "", "toolFormerData": TOOL, "modelInfo": {"modelName": "gpt-x"}},
    {"bubbleId": "b4", "type": 2, "text": "", "isAgentic": True},
    {"bubbleId": "b5", "type": 2, "text": "Apples.", "tokenCount": {"inputTokens": 5, "outputTokens": 2}},
]
COMPOSER = {
    "_v": 10,
    "composerId": "c1",
    "name": "Fruit",
    "createdAt": T,
    "lastUpdatedAt": T + 5000,
    "fullConversationHeadersOnly": [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in BUBBLES],
    "workspaceIdentifier": {"id": "h", "uri": {"fsPath": "/work"}},
    "subagentInfo": {"parentComposerId": "c0"},
    "isAgentic": True,
    "unifiedMode": "agent",
}
OLDER = {"composerId": "c2", "createdAt": T, "conversation": [{"bubbleId": "o1", "type": 1, "text": "hi"}]}
CHATS = {
    "tabs": [
        {
            "tabId": "tab1",
            "chatTitle": "Old",
            "bubbles": [{"type": "user", "text": "a"}, {"type": "ai", "rawText": "b"}],
        }
    ]
}


def state(path: Path, *more: tuple[str, str]) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for table in ("ItemTable", "cursorDiskKV"):
            db.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [(f"bubbleId:c1:{one['bubbleId']}", json.dumps(one).encode()) for one in BUBBLES]
        rows += [("composerData:c1", json.dumps(COMPOSER).encode()), ("composerData:c2", json.dumps(OLDER).encode())]
        rows += [(key, value.encode()) for key, value in more]
        db.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
        db.execute(
            "INSERT INTO ItemTable VALUES ('workbench.panel.aichat.view.aichat.chatdata', ?)",
            (json.dumps(CHATS).encode(),),
        )
        db.commit()
    return path


def test_conversations(tmp_path: Path) -> None:
    """The bubbles in the order of their headers; a tool's bubble is a call and its result; each conversation is a session."""
    path = state(tmp_path / "state.vscdb")
    assert recognised(path) == "cursor"
    assert [one.importer for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)] == ["cursor"]
    stream = read(path)
    assert told(stream.messages["c1"]) == [
        ("user", "What is in a?"),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", '{"contents": "apples"}'),
        ("assistant", "Apples."),
    ]
    _, thought, called, result, answer = stream.messages["c1"]
    assert thought["thinking"] == "hm"
    assert calls(called) == [("t1", "read_file", {"path": "a.txt"})]
    assert (result["toolCallId"], result["metadata"]) == ("t1", {"status": "completed"})
    assert answer["metadata"] == {
        "tokenCount": {"inputTokens": 5, "outputTokens": 2},
        "tokens": {"input": 5, "output": 2},
    }
    assert {one["timestamp"] for one in stream.messages["c1"]} == {"2025-09-01T10:00:00.000Z"}
    info = stream.info["c1"]
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/work", "gpt-x")
    assert info["parent"] == {"sessionId": "cursor-c0", "seq": None}
    assert told(stream.messages["c2"]) == [("user", "hi")]
    assert told(stream.messages["tab1"]) == [("user", "a"), ("assistant", "b")]
    assert stream.ignored == {"bubbles that say nothing": 1}


def test_a_bubble_that_is_not_listed_is_kept(tmp_path: Path) -> None:
    """A message that was taken back is still in the file: it comes last, and is marked."""
    lost = {"bubbleId": "b9", "type": 1, "text": "taken back"}
    stream = read(
        state(tmp_path / "state.vscdb", ("bubbleId:c1:b9", json.dumps(lost)), ("bubbleId:c10:b9", json.dumps(lost)))
    )
    assert told(stream.messages["c1"])[-1] == ("user", "taken back")
    assert stream.messages["c1"][-1]["metadata"] == {"branch": True}
    assert len(stream.messages["c1"]) == 6


def test_a_call_without_a_result(tmp_path: Path) -> None:
    """The call says what became of it."""
    running = {"bubbleId": "r1", "type": 2, "toolFormerData": {"tool": 5, "params": "{}", "status": "cancelled"}}
    composer = {"composerId": "c3", "createdAt": T, "conversation": [running]}
    (message,) = read(state(tmp_path / "state.vscdb", ("composerData:c3", json.dumps(composer)))).messages["c3"]
    assert calls(message) == [("r1", "5", {})]
    assert message["metadata"] == {"tool": {"status": "cancelled"}}


def test_an_older_call(tmp_path: Path) -> None:
    """Before bubbles had rows of their own, calls were among the conversation's capabilities. A model that Cursor chose has no name."""
    capability = {
        "type": 15,
        "data": {"bubbleDataMap": json.dumps({"r1": {"tool": 1, "name": "ls", "params": "{}", "result": "a"}})},
    }
    bubbles = [
        {"bubbleId": "r1", "type": 2, "modelInfo": {"modelName": "default"}},
        {"bubbleId": "r2", "type": 2, "text": "ok"},
    ]
    composer = {"composerId": "c3", "createdAt": T, "conversation": bubbles, "capabilities": [capability, 5]}
    stream = read(state(tmp_path / "state.vscdb", ("composerData:c3", json.dumps(composer))))
    assert told(stream.messages["c3"]) == [("assistant", ""), ("tool", "a"), ("assistant", "ok")]
    assert calls(stream.messages["c3"][0]) == [("r1", "ls", {})]
    assert "model" not in stream.info["c3"]


def test_a_damaged_value_costs_its_conversation(tmp_path: Path) -> None:
    """The others are imported; a file whose pages are gone is reported."""
    path = state(tmp_path / "state.vscdb", ("composerData:c0", '{"composerId": "c0", "na'))
    stream = read(path)
    assert set(stream.messages) == {"c1", "c2", "tab1"}
    assert [one.reason for one in stream.skipped] == ["composerData:c0 is not an object"]
    path.write_bytes(path.read_bytes()[:4096])
    broken = read(path)
    assert not broken.messages
    assert "cannot be read" in broken.skipped[0].reason


def test_vs_codes_own_state_is_not_recognised(tmp_path: Path) -> None:
    """VS Code's file has the same name and one of the tables."""
    path = tmp_path / "state.vscdb"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE ItemTable (key TEXT, value BLOB)")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", state(tmp_path / "state.vscdb"), 8)
