"""Kiro: the command's three layouts, and the editor's."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from collected import lines, read, recognised

from tests.importers.tools import calls, imported_twice, told

S = "0f5c1d0e-7d3c-4d0e-9a53-1c6f5a9b0001"
ABOUT = {
    "session_id": S,
    "cwd": "/work",
    "title": "Fruit",
    "created_at": "2026-01-01T10:00:00.000Z",
    "updated_at": "2026-01-01T10:05:00.000Z",
    "parent_session_id": "p0",
    "session_state": {"rts_model_state": {"model_info": {"model_id": "claude-x"}}},
}


def record(kind: str, number: int, *content: Any, **more: Any) -> dict[str, Any]:
    return {"version": "v1", "kind": kind, "data": {"message_id": f"m{number}", "content": list(content), **more}}


def text(words: str) -> dict[str, Any]:
    return {"kind": "text", "data": words}


CALL = {"kind": "toolUse", "data": {"toolUseId": "t1", "name": "read", "input": {"path": "a"}}}
RESULT = {"kind": "toolResult", "data": {"toolUseId": "t1", "content": [text("apples")], "status": "success"}}
RECORDS = [
    record("Prompt", 1, text("What is in a?"), meta={"timestamp": 1767261600}),
    record("AssistantMessage", 2, {"kind": "thinking", "data": {"text": "hm"}}, text("I look."), CALL),
    record("ToolResults", 3, RESULT, results={"t1": {}}),
    record("AssistantMessage", 4, text("Apples.")),
    {"version": "v1", "kind": "OfNextWeek", "data": {"words": "kept"}},
]
EXPECTED = [("user", "What is in a?"), ("assistant", "I look."), ("tool", "apples"), ("assistant", "Apples.")]
HISTORY = [
    {
        "user": {
            "content": {"Prompt": {"prompt": "What is in a?"}},
            "timestamp": "2025-11-01T10:00:00Z",
            "env_context": {"x": 1},
        },
        "assistant": {
            "ToolUse": {
                "message_id": "m1",
                "content": "I look.",
                "tool_uses": [{"id": "t1", "name": "read", "args": {"path": "a"}}],
            }
        },
        "request_metadata": {"model_id": "claude-x", "request_start_timestamp_ms": 1761991201000},
    },
    {
        "user": {
            "content": {
                "ToolUseResults": {
                    "tool_use_results": [{"tool_use_id": "t1", "content": [{"Text": "apples"}], "status": "Success"}]
                }
            }
        },
        "assistant": {"Response": {"message_id": "m2", "content": "Apples."}},
    },
]


EVENTS = [
    {"type": "user", "content": "What is in a?"},
    {"type": "assistant", "operationType": "Say", "content": "I look."},
    {"type": "tool_call", "toolCallId": "t1", "toolName": "read", "args": {"path": "a"}},
    {"type": "tool_result", "toolCallId": "t1", "content": "denied", "success": False},
    {"type": "assistant", "operationType": "Plan", "content": "Ask again."},
    {"type": "usage_summary", "promptTurnSummaries": [{"usage": 0.5}]},
    {"type": "of_next_week", "words": "kept"},
]


def events(folder: Path) -> Path:
    records = [{"timestamp": f"2026-06-01T10:00:0{nth}.000Z", "payload": one} for nth, one in enumerate(EVENTS)]
    path = lines(folder / "sessions" / "abc" / "sess_s1" / "messages.jsonl", *records)
    about = {"id": "s1", "title": "Fruit", "modelId": "claude-x", "lastModifiedAt": "2026-06-01T10:00:09.000Z", "x": 1}
    (path.parent / "session.json").write_text(json.dumps(about))
    return path


def session(folder: Path, *records: Any) -> Path:
    path = lines(folder / "sessions" / "cli" / f"{S}.jsonl", *(records or RECORDS))
    (path.parent / f"{S}.json").write_text(json.dumps(ABOUT))
    return path


def database(path: Path, *more: Any) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "CREATE TABLE conversations_v2 (key TEXT NOT NULL, conversation_id TEXT NOT NULL, value TEXT NOT NULL,"
            " created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (key, conversation_id))"
        )
        for nth, history in enumerate([HISTORY, *more]):
            value = json.dumps(
                {"conversation_id": f"c{nth}", "history": history, "model_info": {"model_id": "m"}, "tools": {}}
            )
            db.execute(
                "INSERT INTO conversations_v2 VALUES ('/work', ?, ?, 1761991200000, 1761991300000)", (f"c{nth}", value)
            )
        db.commit()
    return path


def test_a_session_of_the_command(tmp_path: Path) -> None:
    """A record's content has kinds; an unknown record is kept; name, folder and model come from the file next to it."""
    path = session(tmp_path)
    assert recognised(path) == "kiro"
    stream = read(path)
    assert told(stream.only) == EXPECTED
    assert (stream.only[1]["thinking"], calls(stream.only[1])) == ("hm", [("t1", "read", {"path": "a"})])
    assert (stream.only[2]["toolCallId"], stream.only[0]["timestamp"]) == ("t1", "2026-01-01T10:00:00.000Z")
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/work", "claude-x")
    assert info["parent"] == {"sessionId": "kiro-p0", "seq": None}
    assert info["metadata"]["records"] == [RECORDS[4]]


def test_a_session_of_events(tmp_path: Path) -> None:
    """The newest layout has an event for each call and result; its summary of usage is counted."""
    path = events(tmp_path)
    assert recognised(path) == "kiro"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is in a?"),
        ("assistant", "I look."),
        ("assistant", ""),
        ("tool", "denied"),
        ("assistant", "Ask again."),
    ]
    _, _, called, result, planned = stream.only
    assert calls(called) == [("t1", "read", {"path": "a"})]
    assert (result["toolCallId"], result["metadata"]) == ("t1", {"isError": True})
    assert planned["metadata"] == {"operationType": "Plan"}
    assert stream.ignored == {"usage_summary": 1}
    info = stream.only_info
    assert (info["name"], info["model"], info["createdAt"]) == ("Fruit", "claude-x", "2026-06-01T10:00:00.000Z")
    assert info["metadata"]["records"][0]["payload"] == EVENTS[6]


def test_a_session_in_the_database(tmp_path: Path) -> None:
    """Older versions have a row for each conversation, which becomes a session."""
    path = database(tmp_path / "data.sqlite3", [{"odd": 1}])
    assert recognised(path) == "kiro"
    stream = read(path)
    assert told(stream.messages["c0"]) == EXPECTED
    asked, called, result, _ = stream.messages["c0"]
    assert asked["metadata"] == {"env_context": {"x": 1}}
    assert calls(called) == [("t1", "read", {"path": "a"})]
    assert result["toolCallId"] == "t1"
    assert (stream.info["c0"]["model"], stream.info["c0"]["cwd"]) == ("claude-x", "/work")
    assert stream.info["c1"]["metadata"]["records"] == [{"odd": 1}]


def test_a_session_of_the_editor(tmp_path: Path) -> None:
    """The file has Continue's form; only its folder is Kiro's."""
    path = tmp_path / "kiro.kiroagent" / "workspace-sessions" / "abc" / "s1.json"
    path.parent.mkdir(parents=True)
    history = [{"message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "id": "m1"}}]
    path.write_text(json.dumps({"sessionId": "s1", "title": "T", "workspaceDirectory": "/work", "history": history}))
    assert recognised(path) == "kiro"
    stream = read(path)
    assert told(stream.only) == [("user", "hi")]
    assert stream.starts["s1"].suggested_id == "kiro-s1"


def test_damage_costs_a_record(tmp_path: Path) -> None:
    """A damaged line, and a row that is not a conversation, are reported."""
    stream = read(session(tmp_path, RECORDS[0], b'{"kind": "Assist', RECORDS[3]))
    assert [one.line for one in stream.skipped] == [2]
    assert len(stream.only) == 2
    stream = read(database(tmp_path / "data.sqlite3", None))
    assert list(stream.messages) == ["c0"]
    assert [one.reason for one in stream.skipped] == ["the conversation of /work has no history"]


def test_other_kinds_are_not_recognised(tmp_path: Path) -> None:
    """Other programs' logs have kinds, and their databases conversations."""
    assert recognised(lines(tmp_path / "x.jsonl", {"kind": "Prompt", "data": "x"})) is None
    with closing(sqlite3.connect(tmp_path / "x.sqlite3")) as db:
        db.execute("CREATE TABLE conversations (id TEXT)")
    assert recognised(tmp_path / "x.sqlite3") is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", session(tmp_path), 4)
    await imported_twice(tmp_path / "third", events(tmp_path), 5)
    await imported_twice(tmp_path / "other", database(tmp_path / "data.sqlite3"), 4)
