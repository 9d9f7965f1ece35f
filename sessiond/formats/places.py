"""Where in a session file each message stands, for any format: found by what the file shows of it, in order. Pure.

A message's id counts first (JSON Lines, Agent-Q and whatever else has ids), then the beginning of its text, as JSON and
Lisp write it or plain. Both are looked for from the place of the message before on, so equal texts are told apart by
their order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from sessiond.model.message import Message

_ENOUGH = 60
"""Characters of a text that tell it from others."""


class Place(msgspec.Struct, frozen=True):
    """Lines from 0, the end included."""

    message: Message
    start_line: int
    end_line: int


def places(text: str, messages: Sequence[Message]) -> list[Place]:
    """The place of every message that can be found, in the order of the file. Ends where the next one begins."""
    starts = _LineStarts(text)
    found: list[tuple[int, Message]] = []
    position = 0
    for message in messages:
        at = _find(text, message, position)
        if at is not None:
            found.append((starts.line_of(at), message))
            position = at + 1
    last = starts.count - 1
    result = []
    for number, (line, message) in enumerate(found):
        following = found[number + 1][0] - 1 if number + 1 < len(found) else last
        result.append(Place(message, line, max(line, following)))
    return result


def _find(text: str, message: Message, position: int) -> int | None:
    spots = [spot for needle in _needles(message) if (spot := text.find(needle, position)) >= 0]
    return min(spots, default=None)


def _needles(message: Message) -> list[str]:
    quoted_id = json.dumps(message.id, ensure_ascii=False)
    needles = [f'"id":{quoted_id}', f'"id": {quoted_id}', f":id {quoted_id}"]
    first = message.text().lstrip().partition("\n")[0][:_ENOUGH]
    if first.strip():
        escaped = json.dumps(first, ensure_ascii=False)[1:-1]
        needles += [first, escaped]
    return needles


class _LineStarts:
    """Offsets to lines, for offsets that only grow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0
        self._line = 0
        self.count = text.count("\n") + 1

    def line_of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line
