"""Claude.ai's data export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

T = "2025-03-01T10:00:0{}.123456Z"


def message(number: int, sender: str, *content: Any, **more: Any) -> dict[str, Any]:
    times = {"created_at": T.format(number), "updated_at": T.format(number)}
    text = "".join(one.get("text", "") for one in content)
    return {
        "uuid": f"m{number}",
        "text": text,
        "content": list(content),
        "sender": sender,
        **times,
        "attachments": [],
        **more,
    }


def text(words: str) -> dict[str, Any]:
    stamps = {"start_timestamp": T.format(1), "stop_timestamp": T.format(2), "flags": None}
    return {"type": "text", "text": words, "citations": [], **stamps}


ANSWER = [
    {"type": "thinking", "thinking": "Let me see.", "summaries": [], "cut_off": False},
    text("I look it up."),
    {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "apples"}, "message": "Searching"},
    {"type": "tool_result", "tool_use_id": "t1", "name": "web_search", "content": [{"type": "text", "text": "red"}]},
    text("They are red."),
]


def export(folder: Path) -> Path:
    first = {
        "uuid": "c1",
        "name": "Apples",
        "summary": "",
        "created_at": T.format(0),
        "updated_at": T.format(9),
        "account": {"uuid": "a"},
        "chat_messages": [
            message(1, "human", text("What colour?"), attachments=[{"file_name": "x", "extracted_content": "pears"}]),
            message(2, "assistant", *ANSWER),
        ],
    }
    second = {"uuid": "c2", "name": "", "created_at": T.format(0), "chat_messages": [message(1, "human", text("hi"))]}
    path = folder / "conversations.json"
    path.write_text(json.dumps([first, second]))
    return path


def test_an_export(tmp_path: Path) -> None:
    """An answer keeps its order: thinking and call, result, the rest. Each conversation is a session."""
    path = export(tmp_path)
    assert recognised(path) == "claude-ai"
    stream = read(path)
    assert told(stream.messages["c1"]) == [
        ("user", "What colour?"),
        ("assistant", "I look it up."),
        ("tool", "red"),
        ("assistant", "They are red."),
    ]
    asked, called, result, _ = stream.messages["c1"]
    assert asked["metadata"]["attachments"] == [{"file_name": "x", "extracted_content": "pears"}]
    assert called["thinking"] == "Let me see."
    assert calls(called) == [("t1", "web_search", {"query": "apples"})]
    assert result["toolCallId"] == "t1"
    assert called["timestamp"] == "2025-03-01T10:00:02.123Z"
    assert stream.info["c1"]["name"] == "Apples"
    assert told(stream.messages["c2"]) == [("user", "hi")]
    assert not stream.skipped


def test_a_second_answer_is_a_branch(tmp_path: Path) -> None:
    """Of two answers to one message, the one that is not on the way to the last message is marked."""
    messages = [
        message(1, "human", text("a"), parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        message(2, "assistant", text("b"), parent_message_uuid="m1"),
        message(3, "assistant", text("c"), parent_message_uuid="m1"),
    ]
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"uuid": "c", "name": "n", "chat_messages": messages}))
    stream = read(path)
    assert [one.get("metadata", {}).get("branch") for one in stream.only] == [None, True, None]


def test_an_older_export_has_only_text(tmp_path: Path) -> None:
    """Without blocks, the text is the message; other elements are reported."""
    path = tmp_path / "old.json"
    old = {"uuid": "m", "text": "hello", "sender": "human", "created_at": T.format(1)}
    path.write_text(json.dumps([{"uuid": "c", "chat_messages": [old, {"no": 1}]}, {"uuid": "d"}]))
    stream = read(path)
    assert told(stream.only) == [("user", "hello")]
    assert [one.reason for one in stream.skipped] == [
        "an element of `chat_messages` that is not a message",
        "not a conversation: it has no chat_messages",
    ]


def test_a_cut_export_gives_whole_conversations(tmp_path: Path) -> None:
    """The first conversation is complete, the second is cut off."""
    path = export(tmp_path)
    path.write_text(path.read_text()[:-20])
    stream = read(path)
    assert list(stream.messages) == ["c1"]
    assert "cut off" in stream.skipped[0].reason


def test_another_export_is_not_recognised(tmp_path: Path) -> None:
    """ChatGPT's file has the same name."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"title": "t", "create_time": 1, "mapping": {}, "current_node": "x"}]))
    assert recognised(path) == "chatgpt"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", export(tmp_path), 5)
