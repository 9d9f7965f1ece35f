"""The answer to a request of Copilot Chat: as it was shown, and as the rounds with the model that led to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.jsontext import as_text
from sessiond.importers.source_file import listed, mapped, rest_of, word
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_SHOWN_ONLY = frozenset(
    {"undoStop", "mcpServersStarting", "progressMessage", "progressTaskSerialized", "command", "prepareToolInvocation"}
)


def take_rounds(turn: Turn, rounds: list[object], results: JsonObject) -> None:
    """Add to the turn what went to and fro between Copilot and the model."""
    for one in rounds:
        if not isinstance(one, dict):
            continue
        thinking = one.get("thinking")
        turn.think(_joined(thinking.get("text") if isinstance(thinking, dict) else thinking))
        turn.say(one.get("response"))
        made = [call for call in listed(one.get("toolCalls")) if isinstance(call, dict)]
        for call in made:
            turn.call(call.get("id"), call.get("name"), call.get("arguments"))
        for call in made:
            found = results.get(str(call.get("id")))
            if isinstance(found, dict):
                turn.result(call.get("id"), "".join(_texts(found.get("content"))), rest_of(found, "content", "$mid"))


def take_parts(turn: Turn, parts: list[Any], *, is_text: bool) -> None:
    """The answer as it was shown. `is_text`: whether its texts, thoughts and calls count, because no rounds have them."""
    text: list[str] = []
    last = {str(part.get("toolCallId")): part for part in parts if isinstance(part, dict)}
    for part in parts:
        kind = mapped(part).get("kind")
        if kind in (None, "inlineReference"):
            text.append(_shown(part))
            continue
        if kind in ("thinking", "toolInvocationSerialized") and is_text:
            turn.say("".join(text))
            text.clear()
        if kind == "thinking" and is_text:
            turn.think(_joined(part.get("value")))
        elif kind == "toolInvocationSerialized" and is_text and str(part.get("toolCallId")) in last:
            _take_call(turn, last.pop(str(part.get("toolCallId"))))
        elif kind not in ("thinking", "toolInvocationSerialized") and word(kind) not in _SHOWN_ONLY:
            turn.metadata.setdefault("response", []).append(part)
    if is_text:
        turn.say("".join(text))


def _take_call(turn: Turn, part: JsonObject) -> None:
    details = mapped(part.get("resultDetails"))
    arguments = details.get("input", part.get("toolSpecificData"))
    turn.call(
        part.get("toolCallId"), part.get("toolId"), arguments, message=_shown(part.get("pastTenseMessage")) or None
    )
    if "output" in details:
        turn.result(part.get("toolCallId"), "".join(_texts(details["output"])), error=bool(details.get("isError")))


def _shown(part: object) -> str:
    """The text of a piece of Markdown, or the name of what a reference leads to."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else ""
    inner = part.get("inlineReference")
    if isinstance(inner, dict):
        return f"`{part.get('name') or str(inner.get('fsPath') or inner.get('path') or '').rpartition('/')[2]}`"
    value = part.get("value", part.get("content"))
    return _shown(value)


def _joined(value: object) -> str:
    return "".join(one for one in value if isinstance(one, str)) if isinstance(value, list) else str(value or "")


def _texts(value: object) -> Iterator[str]:
    """The texts in a result, which may be a tree of nodes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        known = [value[key] for key in ("value", "text", "node", "children", "content") if value.get(key) is not None]
        yield from _texts(known) if known else [as_text(value)]
