"""The searchable texts of a message, a note or a session's name. Pure.

Kinds: `text` is what people and models wrote, `tool` the input and output of tools, `thought` a model's thinking (found only
by `in:thinking`). Texts of one message are separate: a phrase never spans two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from sessiond.model.message import Message, Note
from sessiond.model.values import Json

Kind: TypeAlias = Literal["text", "tool", "thought"]
Texts: TypeAlias = list[tuple[Kind, str]]

_THOUGHTS = {"thinking": "thinking", "reasoning": "text", "redacted_thinking": ""}
"""Types of content blocks with thoughts -> the field with the text."""
_CALLS = ("tool_use", "toolCall", "tool_call", "function_call")
_RESULTS = ("tool_result", "toolResult", "function_call_output")


def searchable(message: Message) -> Texts:
    """The texts of a message in reading order, none of them empty."""
    written: Kind = "tool" if message.role == "tool" else "text"
    if isinstance(message.content, str):
        found: Texts = [(written, message.content)] if message.content else []
    else:
        found = [pair for block in message.content for pair in _block(block, written)]
    if message.rest:
        found.extend(("tool", text) for call in message.tool_calls for text in _call(call))
        thinking = message.rest.get("thinking")
        if isinstance(thinking, str):
            found.append(("thought", thinking))
        found = [pair for pair in found if pair[1]]
    return found


def searchable_note(note: Note) -> Texts:
    return [("text", text) for text in (note.heading, note.content) if text]


def searchable_name(name: str | None) -> Texts:
    return [("text", name)] if name else []


def _block(block: Json, written: Kind) -> Iterator[tuple[Kind, str]]:
    if isinstance(block, str):
        texts: Iterable[tuple[Kind, str]] = [(written, block)]
    elif not isinstance(block, dict):
        return
    elif not isinstance(kind := block.get("type"), str):  # anybody may have written it
        texts = [(written, block.get("text") or "")]
    elif kind in _THOUGHTS:
        texts = [("thought", block.get(_THOUGHTS[kind]) or block.get("text") or "")]
    elif kind in _CALLS:
        texts = [("tool", text) for text in _call(block)]
    elif kind in _RESULTS:
        texts = [("tool", text) for text in _written(block.get("content", block.get("output")))]
    else:
        texts = [(written, block.get("text") or "")]
    yield from (pair for pair in texts if isinstance(pair[1], str) and pair[1])


def _call(call: Json) -> Iterator[str]:
    """The name of a tool, and the keys and values of its arguments, each in a line of one text."""
    if not isinstance(call, dict):
        return
    lines = [call["name"]] if isinstance(call.get("name"), str) else []
    arguments = next((call[key] for key in ("arguments", "input") if key in call), None)
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    lines.extend(_leaves(arguments))
    yield "\n".join(lines)


def _decoded(arguments: str) -> Json:
    """Arguments that are JSON in a string, decoded, so that `\\n` is a line end and not a letter n."""
    if arguments[:1] not in ("{", "["):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _leaves(value: Json) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            for key, child in reversed(item.items()):
                stack.extend((child, key))
        elif isinstance(item, list):
            stack.extend(reversed(item))
        elif item is not None and not isinstance(item, bool):
            yield _number(item)


def _number(value: Json) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no more than 4300 digits, so that nobody can keep it busy
        return ""


def _written(value: Json) -> Iterator[str]:
    """The text of a tool's result: a string, or blocks of which some are text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield "\n".join(_leaves(value))
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict) and isinstance(item.get("text"), str):
                yield item["text"]
