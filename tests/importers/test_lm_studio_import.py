"""LM Studio's conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def single(role: str, *content: Any) -> dict[str, Any]:
    return {"type": "singleStep", "role": role, "content": list(content)}


def step(*content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "contentBlock", "content": list(content), "shouldIncludeInContext": True, **more}


ANSWER = {
    "type": "multiStep",
    "role": "assistant",
    "senderInfo": {"senderName": "Qwen"},
    "steps": [
        {"type": "debugInfoBlock", "debugInfo": "x"},
        step(text("hm"), style={"type": "thinking"}),
        step(
            text("I look."),
            {"type": "toolCallRequest", "toolCallRequestId": "c1", "name": "search", "parameters": {"q": "a"}},
            genInfo={
                "indexedModelIdentifier": "qwen/qwen3",
                "stats": {"stopReason": "toolCalls"},
                "loadModelConfig": {"x": 1},
            },
        ),
        {"type": "toolStatus", "callId": 1, "statusState": {}},
        step(
            {"type": "toolCallResult", "toolCallRequestId": "c1", "content": '[{"type":"text","text":"apples"}]'},
            roleOverride="tool",
        ),
        step(text("Apples.")),
        {"type": "ofNextWeek", "words": "kept"},
    ],
}
MESSAGES = [
    {
        "versions": [
            single("user", text("old")),
            single("user", text("What is it?"), {"type": "file", "name": "a.pdf"}),
        ],
        "currentlySelected": 1,
    },
    {"versions": [ANSWER], "currentlySelected": 0},
]
CONVERSATION = {
    "name": "Fruit",
    "createdAt": 1700000000000,
    "systemPrompt": "Be kind.",
    "tokenCount": 12,
    "messages": MESSAGES,
    "usePerChatPredictionConfig": True,
}


def conversation(folder: Path, value: Any = CONVERSATION) -> Path:
    path = folder / "1700000000000.conversation.json"
    path.write_text(json.dumps(value))
    return path


def test_a_conversation(tmp_path: Path) -> None:
    """Versions that are not selected are marked; an answer's steps are thinking, call, result and text, in their order."""
    path = conversation(tmp_path)
    assert recognised(path) == "lm-studio"
    stream = read(path)
    assert told(stream.only) == [
        ("system", "Be kind."),
        ("user", "old"),
        ("user", [text("What is it?"), {"type": "file", "name": "a.pdf"}]),
        ("assistant", "I look."),
        ("tool", "apples"),
        ("assistant", "Apples."),
    ]
    assert [one.get("metadata", {}).get("branch") for one in stream.only[1:4]] == [True, None, None]
    called, result = stream.only[3:5]
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "search", {"q": "a"})])
    assert called["metadata"] == {
        "sender": "Qwen",
        "genInfo": [{"stats": {"stopReason": "toolCalls"}}],
        "steps": [{"type": "ofNextWeek", "words": "kept"}],
    }
    assert result["toolCallId"] == "c1"
    assert stream.ignored == {"debugInfoBlock": 1, "toolStatus": 1}
    info = stream.only_info
    assert (info["name"], info["model"], info["createdAt"]) == ("Fruit", "qwen/qwen3", "2023-11-14T22:13:20.000Z")
    assert info["metadata"]["tokenCount"] == 12


def test_a_result_that_is_not_a_list_is_text(tmp_path: Path) -> None:
    """Most results are a JSON list in a text; others are kept as they are."""
    for given in ("plain", '{"a": 1}'):
        version = {"role": "assistant", "steps": [step({"type": "toolCallResult", "content": given})]}
        stream = read(conversation(tmp_path, {"systemPrompt": "", "messages": [{"versions": [version]}]}))
        assert told(stream.only) == [("tool", given)]


def test_a_cut_conversation_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported; the cut, and elements that are not messages, are reported; the system prompt alone is a session."""
    path = conversation(tmp_path, {**CONVERSATION, "messages": [{"odd": 1}, *MESSAGES]})
    path.write_text(path.read_text()[: path.read_text().index("apples")])
    stream = read(path)
    assert len(stream.only) == 3
    assert [one.reason for one in stream.skipped] == ["not a message: it needs versions", "cut off in the middle"]
    assert told(read(conversation(tmp_path, {**CONVERSATION, "messages": []})).only) == [("system", "Be kind.")]


def test_another_conversation_is_not_recognised(tmp_path: Path) -> None:
    """The name alone says nothing."""
    path = tmp_path / "x.conversation.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "x"}]}))
    assert recognised(path) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", conversation(tmp_path), 6)
