"""Cuts messages into the passages that search by meaning compares. Pure.

The meaning of a long text is the average of its sentences, which is not close to anything; so every text is cut into
passages of a few sentences, each found by itself. Thinking of models is left out, and of tools' output only the beginning is
used: it is long, and seldom says what it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PASSAGE_CHARS = 480
MOST = {"text": 64, "tool": 4}
"""Passages of one document, by the kind of its texts."""

_END = re.compile(r"[.!?。！？]['\")\]]*\s+|[。！？\n]")
_WORD = re.compile(r"\w")


class Passage(NamedTuple):
    """Code points [start, end) of the document's text number `text`."""

    text: int
    start: int
    end: int


def passages(texts: Sequence[tuple[str, str]]) -> Iterator[Passage]:
    """The passages of a document's texts, given as (kind, text)."""
    left = dict(MOST)
    for number, (kind, text) in enumerate(texts):
        for start, end in _cut(text, left.get(kind, 0)):
            left[kind] -= 1
            yield Passage(number, start, end)


def _cut(text: str, most: int) -> Iterator[tuple[int, int]]:
    start = found = 0
    while found < most and start < len(text):
        end = min(len(text), start + PASSAGE_CHARS)
        if end < len(text):
            end = _edge(text, start, end)
        if _WORD.search(text, start, end):
            found += 1
            yield start, end
        start = end


def _edge(text: str, start: int, end: int) -> int:
    """The last end of a sentence or line in the second half of [start, end), otherwise the last blank, otherwise `end`."""
    middle = start + PASSAGE_CHARS // 2
    sentence = max((match.end() for match in _END.finditer(text, middle, end)), default=0)
    if sentence:
        return sentence
    blank = max(text.rfind(" ", middle, end), text.rfind("\t", middle, end))
    return blank + 1 if blank > 0 else end
