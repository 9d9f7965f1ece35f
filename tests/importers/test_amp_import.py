"""Amp's threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

T = 1700000000000
NAME = "T-019b9d03-62e3-772f-9780-3e637f90eaec"
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "messageId": 0, "content": [{"type": "text", "text": "What is here?"}], "meta": {"sentAt": T}},
    {
        "role": "assistant",
        "messageId": 1,
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"cmd": "ls"}, "complete": True},
            {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"cmd": "rm"}, "complete": True},
        ],
        "state": {"type": "complete", "stopReason": "tool_use"},
        "usage": {"model": "claude-x", "inputTokens": 5, "outputTokens": 2, "timestamp": "2023-11-14T22:13:21.000Z"},
    },
    {
        "role": "user",
        "messageId": 2,
        "content": [
            {
                "type": "tool_result",
                "toolUseID": "t1",
                "run": {"status": "done", "result": {"output": "apple.txt", "exitCode": 0}},
            },
            {"type": "tool_result", "toolUseID": "t2", "run": {"status": "error", "error": {"message": "denied"}}},
        ],
    },
    {
        "role": "assistant",
        "messageId": 3,
        "content": [{"type": "text", "text": "An ap"}],
        "state": {"type": "cancelled"},
    },
]
THREAD = {
    "v": 12,
    "id": NAME,
    "created": T,
    "title": "Fruit",
    "agentMode": "smart",
    "messages": MESSAGES,
    "env": {"initial": {"trees": [{"displayName": "work", "uri": "file:///home/me/my%20work"}]}},
}


def thread(folder: Path, value: Any = THREAD) -> Path:
    path = folder / f"{NAME}.json"
    path.write_text(json.dumps(value))
    return path


def test_a_thread(tmp_path: Path) -> None:
    """Each result is a message after the calls; an answer that was stopped is marked."""
    path = thread(tmp_path)
    assert recognised(path) == "amp"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is here?"),
        ("assistant", "I look."),
        ("tool", '{"output": "apple.txt", "exitCode": 0}'),
        ("tool", "denied"),
        ("assistant", "An ap"),
    ]
    _, called, result, failed, stopped = stream.only
    assert calls(called) == [("t1", "Bash", {"cmd": "ls"}), ("t2", "Bash", {"cmd": "rm"})]
    assert (called["thinking"], called["timestamp"]) == ("hm", "2023-11-14T22:13:21.000Z")
    assert (result["toolCallId"], failed["toolCallId"]) == ("t1", "t2")
    assert (result["metadata"], failed["metadata"]) == ({"status": "done"}, {"status": "error", "isError": True})
    assert stopped["status"] == "interrupted"
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/home/me/my work", "claude-x")


def test_a_cut_thread_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported; the cut, and elements that are not messages, are reported."""
    path = thread(tmp_path, {**THREAD, "messages": [5, {"no": 1}, *MESSAGES]})
    path.write_text(path.read_text()[: path.read_text().index("denied")])
    stream = read(path)
    assert told(stream.only) == [("user", "What is here?"), ("assistant", "I look.")]
    assert [one.reason for one in stream.skipped] == [
        "an element of `messages` that is not an object",
        "not a message: it needs a role",
        "cut off in the middle",
    ]
    assert read(thread(tmp_path, {**THREAD, "messages": []})).only == []


def test_another_document_is_not_recognised(tmp_path: Path) -> None:
    """The file's name and the id in it decide."""
    path = tmp_path / "T-shirt.json"
    path.write_text(json.dumps({"created": T, "messages": [{"role": "user", "content": "x"}]}))
    assert recognised(path) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", thread(tmp_path), 5)
