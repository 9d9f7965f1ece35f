"""A conversation as the list of messages that a model's API takes: OpenAI's chat completions, or Anthropic's messages.

What the model of another tool was told about that tool is left out: injected prompts, and summaries of what is there anyway. So are
abandoned branches and subagents' turns. Everything else is there once and in order, and the list is valid for the API: every call
has exactly one result, right after it, and every result its call; ids are unique; no text is empty; Anthropic's roles alternate and
begin with the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sessiond.exporters.turns import pretty
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

_LEFT_OUT = ("injected", "sidechain", "branch", "rewound", "compaction", "checkpoint", "record")
"""Marks in the metadata of messages that the model is not sent again."""
_NO_RESULT = "(no result: the call was cut off)"
_BEGINNING = "(The conversation begins with the assistant.)"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_CHARS = 64
"""Of a tool's name and of a call's id, in both APIs."""
_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)


class _Call(msgspec.Struct):
    id: str
    name: str
    arguments: JsonObject
    result: list[JsonObject] | None = None
    """Blocks; None if there is none."""
    failed: bool = False


class _Turn(msgspec.Struct):
    """`role`: system, user or assistant. `blocks`: text and images, with Anthropic's shape."""

    role: str
    blocks: list[JsonObject]
    calls: list[_Call] = []


def openai(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The body of a request without its settings: `{"model", "messages"}`."""
    found: list[JsonObject] = []
    for turn in _conversation(messages):
        message: JsonObject = {"role": turn.role}
        if turn.blocks or not turn.calls:
            message["content"] = _openai_content(turn.blocks)
        if turn.calls:
            message["tool_calls"] = [_openai_call(call) for call in turn.calls]
        found.append(message)
        found += [{"role": "tool", "tool_call_id": call.id, "content": _text_of(_result(call))} for call in turn.calls]
    yield _document(session, {"messages": found})


def anthropic(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The body of a request without its settings: `{"model", "system", "messages"}`."""
    found: list[JsonObject] = []
    system: list[str] = []

    def say(role: str, blocks: list[JsonObject]) -> None:
        if not found and role == "assistant":
            found.append({"role": "user", "content": [_text(_BEGINNING)]})
        if found and found[-1]["role"] == role:
            found[-1]["content"] += blocks
        elif blocks:
            found.append({"role": role, "content": blocks})

    for turn in _conversation(messages):
        if turn.role == "system":
            system.append(_text_of(turn.blocks))
            continue
        uses = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in turn.calls]
        say(turn.role, [*turn.blocks, *uses])
        say("user", [_anthropic_result(call) for call in turn.calls])
    yield _document(session, {**({"system": "\n\n".join(system)} if system else {}), "messages": found})


def _document(session: Session, body: JsonObject) -> str:
    return pretty({**({"model": session.model} if session.model else {}), **body}) + "\n"


# The conversation


def _conversation(messages: Iterable[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    waiting: dict[str, _Call] = {}
    """Calls without a result, by the ids that their tool gave them."""
    ids: set[str] = set()
    for message in messages:
        if any(message.metadata.get(key) for key in _LEFT_OUT):
            continue
        blocks = _blocks(message.content)
        if message.role == "tool":
            _answer(turns, waiting, message, blocks)
            continue
        role = message.role if message.role in ("system", "assistant") else "user"
        calls = [_call(one, ids) for one in message.tool_calls if isinstance(one, dict)]
        waiting |= {str(one.get("id")): call for one, call in zip(_dicts(message.tool_calls), calls, strict=True)}
        last = turns[-1] if turns else None
        if last is not None and last.role == role == "assistant" and not last.calls:
            last.blocks += blocks  # pieces of one answer
            last.calls = calls
        elif blocks or calls:
            turns.append(_Turn(role, blocks, calls))
    return turns


def _dicts(values: Iterable[Any]) -> list[JsonObject]:
    return [one for one in values if isinstance(one, dict)]


def _call(given: JsonObject, ids: set[str]) -> _Call:
    name = _NOT_IN_NAMES.sub("_", str(given.get("name") or "tool"))[:_MOST_CHARS]
    wanted = _NOT_IN_NAMES.sub("_", str(given.get("id") or "call"))[: _MOST_CHARS - 8]
    fresh, nth = wanted, 1
    while fresh in ids:
        nth += 1
        fresh = f"{wanted}-{nth}"
    ids.add(fresh)
    return _Call(fresh, name, _arguments(given.get("arguments")))


def _arguments(given: Any) -> JsonObject:
    if isinstance(given, str):
        try:
            decoded = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return {"input": given} if given else {}
        given = decoded if isinstance(decoded, dict) else {"input": decoded}
    return given if isinstance(given, dict) else {}


def _answer(turns: list[_Turn], waiting: dict[str, _Call], message: Message, blocks: list[JsonObject]) -> None:
    """Give the results of a message to their calls. One without a call is something that the user says."""
    several = message.metadata.get("toolCallIds")
    ids = [str(one) for one in several] if isinstance(several, list) else [str(message.rest.get("toolCallId") or "")]
    for call_id in ids:
        call = waiting.pop(call_id, None)
        own = [one for one in blocks if len(ids) == 1 or one.get("tool_use_id", ids[0]) == call_id]
        own = [{key: value for key, value in one.items() if key in ("type", "text", "source")} for one in own]
        if call is not None:
            call.result, call.failed = own, message.metadata.get("isError") is True
        elif own:
            turns.append(_Turn("user", [_text("(A tool's result.)"), *own]))


def _result(call: _Call) -> list[JsonObject]:
    return [_text(_NO_RESULT)] if call.result is None else call.result


# Content


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _blocks(content: str | list[Any]) -> list[JsonObject]:
    """Texts and images of a content; what no API takes becomes a text that shows it."""
    found = []
    for block in [_text(content)] if isinstance(content, str) else content:
        one = _block(block)
        if one.get("type") != "text" or one["text"].strip():
            found.append(one)
    return found


def _block(block: Any) -> JsonObject:
    if isinstance(block, str):
        return _text(block)
    if not isinstance(block, dict):
        return _text(pretty(block))
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {key: block[key] for key in ("type", "text", "tool_use_id") if key in block}
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and source.get("type") in ("base64", "url"):
        return {"type": "image", "source": source}
    url = block.get("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if isinstance(url, str):
        data = _DATA_URL.fullmatch(url)
        if data:
            return {"type": "image", "source": {"type": "base64", "media_type": data[1], "data": data[2]}}
        return {"type": "image", "source": {"type": "url", "url": url}}
    return _text(f"[{block.get('type', 'block')}]\n{pretty(block)}")


def _text_of(blocks: list[JsonObject]) -> str:
    """Results and system prompts are texts: an image in them is only named."""
    return "\n".join(one["text"] if one["type"] == "text" else "[image]" for one in blocks) or "(empty)"


def _openai_content(blocks: list[JsonObject]) -> Any:
    if all(one["type"] == "text" for one in blocks):
        return "\n\n".join(one["text"] for one in blocks)
    return [_openai_block(one) for one in blocks]


def _openai_block(block: JsonObject) -> JsonObject:
    if block["type"] == "text":
        return _text(block["text"])
    source = block["source"]
    if source["type"] == "base64":
        url = f"data:{source.get('media_type', 'image/png')};base64,{source.get('data', '')}"
    else:
        url = str(source.get("url", ""))
    return {"type": "image_url", "image_url": {"url": url}}


def _openai_call(call: _Call) -> JsonObject:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _anthropic_result(call: _Call) -> JsonObject:
    content = _result(call) or [_text("(empty)")]
    return {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": content,
        **({"is_error": True} if call.failed or call.result is None else {}),
    }
