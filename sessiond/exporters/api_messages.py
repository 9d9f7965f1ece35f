"""A conversation as the list of messages that a model's API takes: OpenAI's chat completions, or Anthropic's messages.

What the model of another tool was told about that tool is left out: injected prompts, and summaries of what is there anyway. So are
abandoned branches and subagents' turns. Everything else is there once and in order, and the list is valid for the API: every call
has exactly one result, right after it, and every result its call; ids are unique; no text is empty; Anthropic's roles alternate and
begin with the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessiond.exporters.conversation import (
    ExportedCall,
    ExportedTurn,
    conversation,
    result_of,
    text_block,
    without_its_screen,
)
from sessiond.exporters.picture import data_url
from sessiond.exporters.turns import pretty
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

_BEGINNING = "(The conversation begins with the assistant.)"


def openai(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The body of a request without its settings: `{"model", "messages"}`."""
    found: list[JsonObject] = []
    for turn in _turns(session, messages):
        message: JsonObject = {"role": turn.role}
        if turn.blocks or not turn.calls:
            message["content"] = _openai_content(turn.blocks)
        if turn.calls:
            message["tool_calls"] = [_openai_call(call) for call in turn.calls]
        found.append(message)
        found += [
            {"role": "tool", "tool_call_id": call.id, "content": _text_of(result_of(call))} for call in turn.calls
        ]
    yield _document(session, {"messages": found})


def anthropic(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The body of a request without its settings: `{"model", "system", "messages"}`."""
    found: list[dict[str, Any]] = []
    system: list[str] = []

    def say(role: str, blocks: list[dict[str, Any]]) -> None:
        if not found and role == "assistant":
            found.append({"role": "user", "content": [text_block(_BEGINNING)]})
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        elif blocks:
            found.append({"role": role, "content": blocks})

    for turn in _turns(session, messages):
        if turn.role == "system":
            system.append(_text_of(turn.blocks))
            continue
        uses = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in turn.calls]
        say(turn.role, [*turn.blocks, *uses])
        say("user", [_anthropic_result(call) for call in turn.calls])
    yield _document(session, {**({"system": "\n\n".join(system)} if system else {}), "messages": found})


def _turns(session: Session, messages: Iterable[Message]) -> list[ExportedTurn]:
    told = without_its_screen(session, messages, Counter())
    return conversation(told, aside=session.metadata.get("sidechain") is True).turns


def _document(session: Session, body: JsonObject) -> str:
    return pretty({**({"model": session.model} if session.model else {}), **body}) + "\n"


# Content


def _text_of(blocks: list[dict[str, Any]]) -> str:
    """Results and system prompts are texts: an image in them is only named."""
    return "\n".join(one["text"] if one["type"] == "text" else "[image]" for one in blocks) or "(empty)"


def _openai_content(blocks: list[dict[str, Any]]) -> object:
    if all(one["type"] == "text" for one in blocks):
        return "\n\n".join(one["text"] for one in blocks)
    return [_openai_block(one) for one in blocks]


def _openai_block(block: dict[str, Any]) -> JsonObject:
    if block["type"] == "text":
        return text_block(block["text"])
    return {"type": "image_url", "image_url": {"url": data_url(block)}}


def _openai_call(call: ExportedCall) -> JsonObject:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _anthropic_result(call: ExportedCall) -> JsonObject:
    content = result_of(call) or [text_block("(empty)")]
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content,
        **({"is_error": True} if call.failed or call.result is None else {}),
    }
