"""Chooses which piece of a text is shown around a match. Pure, because the regex worker uses it too."""

from __future__ import annotations

from collections.abc import Iterable

SNIPPET_CHARS = 240
"""The longest snippet, in code points."""
BEFORE_CHARS = 60
"""How much of it precedes the match."""
_TO_A_BLANK = 20
"""How far an edge moves to fall on a blank."""


def window(text: str, start: int, end: int) -> tuple[int, int]:
    """The piece [from, to) of `text` that shows [start, end), or the beginning of that if it is longer than a snippet."""
    first = max(0, start - BEFORE_CHARS)
    if first:
        blank = next((i for i in range(first, min(first + _TO_A_BLANK, start)) if text[i].isspace()), None)
        first = first if blank is None else blank + 1
    last = min(len(text), first + SNIPPET_CHARS)
    if last < len(text):
        blank = next((i for i in range(last, max(last - _TO_A_BLANK, end), -1) if text[i].isspace()), None)
        last = last if blank is None else blank
    return first, last


def clip(ranges: Iterable[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """Ranges of a text as ranges of its piece [first, last): cut at its edges, sorted, joined if they overlap, without empty
    ones.
    """
    out: list[tuple[int, int]] = []
    for start, end in sorted((max(start, first) - first, min(end, last) - first) for start, end in ranges):
        if start >= end:
            continue
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
