"""LibreChat's export of a conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

CALL = {"id": "c1", "name": "search", "args": '{"q": "a"}', "type": "tool_call", "progress": 1, "output": "apples"}
CONTENT = [
    {"type": "think", "think": "hm"},
    {"type": "text", "text": {"value": "I look."}},
    {"type": "tool_call", "tool_call": CALL},
    {"type": "text", "text": "Apples."},
    {"type": "image_file", "image_file": {"file_id": "f"}},
]
ROOT = "00000000-0000-0000-0000-000000000000"


def message(number: int, parent: str, **more: Any) -> dict[str, Any]:
    created = f"2025-05-01T10:00:0{number}.000Z"
    return {"messageId": f"m{number}", "parentMessageId": parent, "conversationId": "c", "createdAt": created, **more}


MESSAGES = [
    message(1, ROOT, text="What is it?", sender="User", isCreatedByUser=True),
    message(
        2, "m1", text="", sender="GPT", isCreatedByUser=False, content=[{"type": "text", "text": "left"}], error=True
    ),
    message(3, "m1", text="", sender="GPT", isCreatedByUser=False, content=CONTENT, model="gpt-x", unfinished=True),
]
EXPECTED = [
    ("user", "What is it?"),
    ("assistant", "left"),
    ("assistant", "I look."),
    ("tool", "apples"),
    ("assistant", [{"type": "text", "text": "Apples."}, CONTENT[4]]),
]


def export(path: Path, messages: Any = MESSAGES, key: str = "messages") -> Path:
    about = {
        "conversationId": "c",
        "endpoint": "openAI",
        "title": "Fruit",
        "exportAt": "10:00:00 GMT+0000",
        "branches": True,
    }
    path.write_text(json.dumps({**about, "options": {"model": "gpt-y"}, key: messages}))
    return path


def test_a_conversation(tmp_path: Path) -> None:
    """Thinking, call and result in their order; the abandoned answer is marked."""
    path = export(tmp_path / "fruit.json")
    assert recognised(path) == "librechat"
    stream = read(path)
    assert told(stream.only) == EXPECTED
    _, left, called, result, _ = stream.only
    assert (left["metadata"]["branch"], left["status"]) == (True, "error")
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "search", '{"q": "a"}')])
    assert (called["status"], "branch" in called["metadata"]) == ("interrupted", False)
    assert result["toolCallId"] == "c1"
    info = stream.only_info
    assert (info["name"], info["model"], info["createdAt"]) == ("Fruit", "gpt-x", "2025-05-01T10:00:01.000Z")
    assert info["metadata"]["endpoint"] == "openAI"


def test_a_tree_gives_the_same(tmp_path: Path) -> None:
    """A recursive export nests the answers below the prompt."""
    first, *answers = MESSAGES
    stream = read(export(tmp_path / "fruit.json", [{**first, "children": [*answers, 5]}], "messagesTree"))
    assert told(stream.only) == EXPECTED
    assert [one.reason for one in stream.skipped] == ["an element of `children` that is not an object"]


def test_a_cut_export_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported and the cut is reported; an export without messages is an empty session."""
    path = export(tmp_path / "fruit.json")
    path.write_text(path.read_text()[: path.read_text().index("image_file")])
    stream = read(path)
    assert told(stream.only) == EXPECTED[:2]
    assert "cut off" in stream.skipped[0].reason
    assert read(export(tmp_path / "empty.json", [])).only == []


def test_another_export_is_not_recognised(tmp_path: Path) -> None:
    """Other programs write ids of conversations too."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"conversationId": "c", "messages": [{"role": "user", "content": "x"}]}))
    assert recognised(path) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", export(tmp_path / "fruit.json"), 5)
