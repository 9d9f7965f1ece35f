"""Tells who wrote a line of Aider's history. Its marks count everywhere but within a fenced block of an answer, which may quote anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from sessiond.limits import MIB

Line: TypeAlias = tuple[str, int, str]
"""The speaker of a line, its number, and its text without Aider's marks."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_TURN_ENDS = ("> Tokens: ", "> ^C")
"""What Aider says after an answer, also after one that was broken off within a fenced block."""
_MOST_HELD_BYTES = 16 * MIB


class Speakers:
    """Put the lines of one chat in. Those after a fence are held until it is known whether the block is closed."""

    def __init__(self) -> None:
        self._fence: str | None = None
        self._held: list[tuple[int, str]] = []
        self._size = 0

    def feed(self, number: int, line: str) -> Iterator[Line]:
        if self._fence is None:
            role, text = _speaker(line)
            opened = _FENCE.match(line) if role == "assistant" else None
            self._fence = opened[1] if opened else None
            yield role, number, text
            return
        fence = _FENCE.match(line)
        ends = fence is not None and fence[1][0] == self._fence[0] and len(fence[1]) >= len(self._fence)
        if ends and fence is not None and fence[2].strip():
            yield from self.end()  # another block begins: the one before it was never closed
            yield from self.feed(number, line)
            return
        self._held.append((number, line))
        self._size += len(line)
        if ends:
            yield from (("assistant", nth, one) for nth, one in self._released())
        elif self._size > _MOST_HELD_BYTES or line.startswith(_TURN_ENDS):
            yield from self.end()

    def end(self) -> Iterator[Line]:
        """Yield what is held. The block may be that of an answer that was broken off, so the marks after its fence count."""
        for number, line in self._released():
            role, text = _speaker(line)
            yield role, number, text

    def _released(self) -> list[tuple[int, str]]:
        held, self._held, self._size, self._fence = self._held, [], 0, None
        return held


def _speaker(line: str) -> tuple[str, str]:
    """The speaker of a line, and the line without Aider's marks (the prefix and the two blanks of a Markdown line break)."""
    if line.startswith("#### ") and line.endswith("  "):
        return "user", line[5:].removesuffix("  ")
    if line.startswith("> "):
        return "tool", line[2:].removesuffix("  ")
    return "assistant", line
