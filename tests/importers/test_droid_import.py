"""Factory Droid's sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import lines, read, recognised

from tests.importers.tools import calls, imported_twice, told

S = "5d1f5cf6-8c61-4f4a-9c39-8a54d1d3e0a1"
START = {
    "type": "session_start",
    "id": S,
    "title": "Fruit",
    "owner": "me",
    "version": 2,
    "cwd": "/work",
    "parent": "p0",
}


def message(number: int, role: str, *content: Any, **more: Any) -> dict[str, Any]:
    time = f"2025-12-01T10:00:0{number}.000Z"
    return {
        "type": "message",
        "id": f"m{number}",
        "timestamp": time,
        "message": {"role": role, "content": list(content), **more},
    }


TEXT = {"type": "text", "text": "What is here?"}
CALL = {"type": "tool_use", "id": "t1", "name": "LS", "input": {"path": "."}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "apple.txt", "is_error": False}
RECORDS = [
    START,
    message(1, "user", {"type": "text", "text": "<system-reminder>\nToday\n</system-reminder>"}),
    message(2, "user", TEXT),
    message(3, "assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}, CALL),
    message(4, "user", RESULT),
    {"type": "todo_state", "id": "x", "timestamp": "2025-12-01T10:00:05.000Z", "todos": []},
    message(6, "assistant", {"type": "text", "text": "An apple."}, model="claude-y"),
    {
        "type": "compaction_state",
        "id": "c",
        "timestamp": "2025-12-01T10:00:07.000Z",
        "summary": {"title": "s", "body": "We saw."},
    },
    {"type": "of_next_week", "words": "kept"},
]


def session(folder: Path, *records: Any) -> Path:
    path = lines(folder / "-work" / f"{S}.jsonl", *(records or RECORDS))
    (path.parent / f"{S}.settings.json").write_text(json.dumps({"model": "claude-x", "tokenUsage": {"inputTokens": 5}}))
    return path


def test_a_session(tmp_path: Path) -> None:
    """Messages have Anthropic's blocks; a reminder is injected, a summary is a message, an unknown record is kept."""
    path = session(tmp_path)
    assert recognised(path) == "droid"
    stream = read(path)
    assert told(stream.only)[1:] == [
        ("user", "What is here?"),
        ("assistant", ""),
        ("tool", "apple.txt"),
        ("assistant", "An apple."),
        ("system", "We saw."),
    ]
    reminder, _, called, result = stream.only[:4]
    assert reminder["metadata"] == {"injected": True}
    assert (called["thinking"], calls(called)) == ("hm", [("t1", "LS", {"path": "."})])
    assert (result["toolCallId"], result["timestamp"]) == ("t1", "2025-12-01T10:00:04.000Z")
    assert stream.ignored == {"todo_state": 1}
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/work", "claude-y")
    assert info["parent"] == {"sessionId": "droid-p0", "seq": None}
    assert info["metadata"]["records"] == [RECORDS[8]]
    assert info["metadata"]["settings"] == {"tokenUsage": {"inputTokens": 5}}


def test_damage_costs_a_line(tmp_path: Path) -> None:
    """A damaged line is reported; a session without its start is imported."""
    stream = read(session(tmp_path, START, b'{"type": "mess', *RECORDS[2:4]))
    assert told(stream.only) == [("user", "What is here?"), ("assistant", "")]
    assert [one.line for one in stream.skipped] == [2]
    assert len(read(lines(tmp_path / "x.jsonl", *RECORDS[2:4]), "droid").only) == 2


def test_another_start_is_not_recognised(tmp_path: Path) -> None:
    """The words alone do not decide."""
    assert recognised(lines(tmp_path / "x.jsonl", {"role": "user", "content": '"session_start"'})) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", session(tmp_path), 6)
