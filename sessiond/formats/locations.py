"""Finds each message in a session file of any format by what the file shows of it, in order. Pure.

In amacs' chats every turn has a heading. In other formats a message's id counts first (JSON Lines, Agent-Q and any other
format with ids), then the beginning of its text, either plain or as JSON and Lisp write it. Each search starts after the
previous message, so order tells equal texts apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from sessiond.model.message import Message

_ENOUGH = 60
"""Number of characters that distinguish a text from others."""


_TURN = re.compile(r"^\*\*[ \t]+(?:Human|Agent)(?:[ \t]+:\S*:)?[ \t]*$", re.MULTILINE)
_TICK = re.compile(r"^\*[ \t]+Tick[ \t]+\d", re.MULTILINE)
_HEADING = re.compile(r"^\*{1,2}[ \t]", re.MULTILINE)


class MessageLocation(msgspec.Struct, frozen=True):
    """Lines are counted from 0; the end line is included."""

    message: Message
    start_line: int
    end_line: int


def places(text: str, messages: Sequence[Message]) -> list[MessageLocation]:
    """The place of every message that can be found, in file order. Each ends where the next one begins."""
    turns = _TURN.finditer(text) if _TICK.search(text) else iter(())
    headed = [match.start() for match in turns]
    if messages and len(headed) == len(messages):
        return _under_headings(text, messages, headed)
    starts = _LineStarts(text)
    found: list[tuple[int, Message]] = []
    position = 0
    for message in messages:
        at = _find(text, message, position)
        if at is not None:
            found.append((starts.line_of(at), message))
            position = at + 1
    last = _last_line(text)
    result = []
    for number, (line, message) in enumerate(found):
        following = found[number + 1][0] - 1 if number + 1 < len(found) else last
        result.append(MessageLocation(message, line, max(line, following)))
    return result


def _under_headings(text: str, messages: Sequence[Message], headed: Sequence[int]) -> list[MessageLocation]:
    """From each turn's heading to the last non-empty line before the next heading."""
    result = []
    for message, start in zip(messages, headed, strict=True):
        following = _HEADING.search(text, text.find("\n", start) + 1 or len(text))
        body = text[start : following.start() if following else len(text)].rstrip()
        line = text.count("\n", 0, start)
        result.append(MessageLocation(message, line, line + body.count("\n")))
    return result


def _last_line(text: str) -> int:
    """The last non-empty line."""
    return text.rstrip().count("\n")


def _find(text: str, message: Message, position: int) -> int | None:
    for needles in (_id_needles(message), _text_needles(message)):
        spots = [spot for needle in needles if (spot := text.find(needle, position)) >= 0]
        if spots:
            return min(spots)
    return None


def _id_needles(message: Message) -> list[str]:
    quoted = _quoted(message.id)
    return [f'"id":{quoted}', f'"id": {quoted}', f":id {quoted}"]


def _text_needles(message: Message) -> list[str]:
    first = message.text().lstrip().partition("\n")[0][:_ENOUGH]
    return [first, _quoted(first)[1:-1]] if first.strip() else []


def _quoted(text: str) -> str:
    import json  # imported late: only needed when somebody looks at a file, not when a daemon starts

    return json.dumps(text, ensure_ascii=False)


class _LineStarts:
    """Converts offsets to lines, for offsets that only grow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0
        self._line = 0

    def line_of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line
