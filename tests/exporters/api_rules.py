"""What the APIs of models refuse, and what a model must not be told as somebody's words: faults of a request's body, in words.

The rules are those of the APIs and of docs/exports.md; the exporters are not asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_SENT = (
    "injected",
    "sidechain",
    "branch",
    "rewound",
    "superseded",
    "compaction",
    "checkpoint",
    "isApiErrorMessage",
)
_TELLING = 20
"""Characters: a shorter text may stand in somebody else's words by chance."""


def openai_faults(body: dict[str, Any]) -> list[str]:
    """Of a body for chat completions."""
    return list(_openai(body["messages"]))


def anthropic_faults(body: dict[str, Any]) -> list[str]:
    """Of a body for messages."""
    return list(_anthropic(body))


def tools_words(session: dict[str, Any], messages: list[dict[str, Any]], body: dict[str, Any]) -> list[str]:
    """Texts of a tool that a body gives to the person or the assistant. `session`, `messages`: of the JSON export."""
    aside = session.get("metadata", {}).get("sidechain") is True
    said = [text for one in messages if _is_told(one, aside=aside) for text in _texts(one["content"])]
    whole = "\n".join(said)
    others = {text for one in messages if not _is_told(one, aside=aside) for text in _texts(one["content"])}
    others = {text for text in others if len(text) >= _TELLING and text not in whole}
    spoken = [
        text
        for one in body["messages"]
        if one["role"] in ("user", "assistant")
        for text in _texts(one.get("content") or "")
    ]
    return [f"a tool's words: {text[:60]!r}" for text in sorted(others) if any(text in one for one in spoken)]


def _is_told(message: dict[str, Any], *, aside: bool) -> bool:
    """Whether the message is something that the person or the assistant said and that is still part of the conversation."""
    marks = message.get("metadata", {})
    if any(marks.get(key) for key in _NOT_SENT if not (aside and key == "sidechain")):
        return False
    return message["role"] in ("user", "assistant")


def _texts(content: Any) -> list[str]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found = [one.get("text") for one in blocks if isinstance(one, dict) and one.get("type") == "text"]
    return [text.strip() for text in found if isinstance(text, str)]


def _openai(messages: list[dict[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    ids: set[str] = set()
    for one in messages:
        role, content = one["role"], one.get("content")
        if role == "tool":
            if not waiting or one["tool_call_id"] != waiting.pop(0):
                yield "a result that does not follow its call"
            if not content:
                yield "an empty result"
            continue
        if waiting:
            yield "a call without a result"
            waiting = []
        if role not in ("system", "user", "assistant"):
            yield f"an unknown role: {role}"
        if not (content or one.get("tool_calls")):
            yield "an empty message"
        yield from _openai_content(content)
        for call in one.get("tool_calls", ()):
            if role != "assistant":
                yield "a call of somebody else's"
            yield from _call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]), ids)
            waiting.append(call["id"])
    if waiting:
        yield "a call without a result"


def _openai_content(content: Any) -> Iterator[str]:
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
        if part["type"] not in ("text", "image_url"):
            yield f"an unknown part: {part['type']}"
        if part["type"] == "text" and not part["text"].strip():
            yield "an empty text"


def _anthropic(body: dict[str, Any]) -> Iterator[str]:
    if "system" in body and not body["system"].strip():
        yield "an empty system prompt"
    waiting: list[str] = []
    ids: set[str] = set()
    for nth, one in enumerate(body["messages"]):
        if one["role"] != ("user", "assistant")[nth % 2]:
            yield "roles that do not alternate from the user on"
        blocks = one["content"]
        if not blocks:
            yield "an empty message"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield "results that are not those of the calls before them"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield "a result after other words"
        waiting = []
        for block in blocks:
            yield from _anthropic_block(one["role"], block, ids, waiting)
    if waiting:
        yield "a call without a result"


def _anthropic_block(role: str, block: dict[str, Any], ids: set[str], waiting: list[str]) -> Iterator[str]:
    match block["type"]:
        case "text":
            if not block["text"].strip():
                yield "an empty text"
        case "tool_result":
            if role != "user":
                yield "a result of somebody else's"
            if not block["content"]:
                yield "an empty result"
        case "tool_use":
            if role != "assistant":
                yield "a call of somebody else's"
            yield from _call(block["id"], block["name"], block["input"], ids)
            waiting.append(block["id"])
        case "image":
            pass
        case other:
            yield f"an unknown part: {other}"


def _call(call_id: str, name: str, arguments: Any, ids: set[str]) -> Iterator[str]:
    if not (_NAME.fullmatch(call_id) and _NAME.fullmatch(name)):
        yield "an id or a name that the API refuses"
    if call_id in ids:
        yield "two calls with one id"
    if not isinstance(arguments, dict):
        yield "arguments that are not an object"
    ids.add(call_id)
