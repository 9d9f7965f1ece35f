"""CodeCompanion's chats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

FUNCTION = {"name": "read_file", "arguments": '{"path": "a"}'}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind.", "id": 11, "cycle": 1, "opts": {"visible": False}},
    {"role": "user", "content": "<file>apples</file>", "id": 12, "opts": {"visible": False}},
    {"role": "user", "content": "ok", "id": 13, "cycle": 1, "opts": {"visible": True}},
    {
        "role": "llm",
        "content": "I look.",
        "id": 14,
        "reasoning": {"content": "hm"},
        "tools": {"calls": [{"id": "c1", "type": "function", "function": FUNCTION}, {"odd": 1}]},
    },
    {"role": "tool", "content": "apples", "id": 15, "tools": {"call_id": "c1"}, "opts": {"visible": False}},
    {"role": "user", "content": "ok", "id": 13, "cycle": 2, "opts": {"visible": True}},
    {"role": "llm", "content": "", "tool_calls": [{"id": "c2", "function": FUNCTION}]},
    {"role": "tool", "content": "pears", "tool_call_id": "c2"},
]
CHAT = {
    "save_id": "1700000000",
    "title": "Fruit",
    "messages": MESSAGES,
    "settings": {"model": "gpt-x"},
    "adapter": "copilot",
    "updated_at": 1700000000,
    "cwd": "/work",
    "cycle": 2,
    "in_use": {},
}


def chat(folder: Path, value: Any = CHAT) -> Path:
    path = folder / "codecompanion-history" / "chats" / "1700000000.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(value))
    return path


def test_a_chat(tmp_path: Path) -> None:
    """Text that the plugin added is marked; the same words said again are another message; both forms of calls are read."""
    path = chat(tmp_path)
    assert recognised(path) == "codecompanion"
    stream = read(path)
    assert told(stream.only) == [
        ("system", "Be kind."),
        ("user", "<file>apples</file>"),
        ("user", "ok"),
        ("assistant", "I look."),
        ("tool", "apples"),
        ("user", "ok"),
        ("assistant", ""),
        ("tool", "pears"),
    ]
    _, added, asked, called, result, again, older, last = stream.only
    assert [one["metadata"].get("injected") for one in (added, asked)] == [True, None]
    assert asked["id"] != again["id"]
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "read_file", '{"path": "a"}')])
    assert called["metadata"]["calls"] == [{"odd": 1}]
    assert (result["toolCallId"], last["toolCallId"]) == ("c1", "c2")
    assert calls(older) == [("c2", "read_file", '{"path": "a"}')]
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/work", "gpt-x")
    assert info["createdAt"] == asked["timestamp"] == "2023-11-14T22:13:20.000Z"


def test_a_cut_chat_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported; the cut, and elements that are not messages, are reported; an empty chat is an empty session."""
    path = chat(tmp_path, {"save_id": "1", "messages": [5, {}, *MESSAGES]})
    path.write_text(path.read_text()[: path.read_text().index("I look")])
    stream = read(path)
    assert len(stream.only) == 3
    assert [one.reason for one in stream.skipped] == [
        "an element of `messages` that is not an object",
        "not a message: it needs a role",
        "cut off in the middle",
    ]
    assert read(chat(tmp_path / "empty", {"save_id": "1", "messages": []})).only == []


def test_its_index_is_not_a_chat(tmp_path: Path) -> None:
    """Neither is another program's document."""
    path = tmp_path / "index.json"
    path.write_text(json.dumps({"1": {"save_id": "1", "message_count": 3, "cycle": 1, "messages": 1}}))
    assert recognised(path) is None
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "x"}]}))
    assert recognised(path) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", chat(tmp_path), 8)
