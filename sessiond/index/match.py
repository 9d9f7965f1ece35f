"""Finds where a query matches in a text: the index finds the message, this finds the place. Pure.

The same rules as in the index (tokens.py), on the original text, with exact code points. A long text is examined in pieces,
so that a snippet from its beginning does not cost its whole length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sessiond.index.query import PhraseTerm
from sessiond.index.snippets import SNIPPET_CHARS, clip, window
from sessiond.index.tokens import Alignment, cuts, may_have_parts, spans

_PIECE_CHARS = 4096
_CUT = re.compile(r"\s")

Span = tuple[int, int, int]
"""Start, end, and the number of the query's text."""


class Matcher:
    """The texts of one query, ready to be searched for in many messages."""

    def __init__(self, texts: Sequence[PhraseTerm]) -> None:
        self._texts = texts
        self._by_word: dict[str, list[int]] = {}
        self._by_part: dict[str, list[int]] = {}
        self._prefixes: list[int] = []
        for number, text in enumerate(texts):
            if text.prefix and len(text.words) == 1:
                self._prefixes.append(number)
            else:
                self._by_word.setdefault(text.words[0], []).append(number)
                if len(text.words) == 1:
                    self._by_part.setdefault(text.words[0], []).append(number)
            if text.parts:
                self._by_part.setdefault(text.parts[0], []).append(number)
        self._stems = tuple(texts[number].words[0] for number in self._prefixes)
        self._first = [*self._by_word, *self._by_part, *self._stems]
        self._in_part = (*self._by_part, *self._stems)

    def snippet(self, texts: Iterable[str]) -> tuple[str, list[tuple[int, int]]]:
        """The piece of one message's texts that shows most of the query, and the ranges in it. Without a match: its
        beginning.
        """
        texts = [text for text in texts if text]
        if not texts:
            return "", []
        best: tuple[int, str, list[Span]] | None = None
        for text in texts:
            found = next(self._found(text), None)
            if found is not None:
                shown = len({number for _, _, number in found})
                if best is None or shown > best[0]:
                    best = (shown, text, found)
        if best is None:
            first, last = window(texts[0], 0, 0)
            return texts[0][first:last].rstrip(), []
        _, text, found = best
        start, end, _ = _anchor(found)
        first, last = window(text, start, end)
        return text[first:last], clip(((a, b) for a, b, _ in found), first, last)

    def matches(self, text: str) -> list[tuple[int, int]]:
        """Every place in a text where one of the query's texts matches."""
        return [(start, end) for start, end, _ in self._look(text, 0)]

    def _found(self, text: str) -> Iterator[list[Span]]:
        """The matches of each piece of a text that has any. If no piece has any, those of the whole text: a phrase may cross
        an edge.
        """
        if len(text) <= _PIECE_CHARS + SNIPPET_CHARS:
            found = self._look(text, 0)
            if found:
                yield found
            return
        none = True
        for start, end in _pieces(text):
            found = self._look(text[start:end], start)
            if found:
                none = False
                yield found
        if none and (found := self._look(text, 0)):
            yield found

    def _look(self, text: str, offset: int) -> list[Span]:
        aligned = Alignment(text)
        folded = aligned.text.casefold()
        if not any(word in folded for word in self._first):
            return []
        places = [match.span() for match in spans(aligned.text)]
        if len(folded) == len(aligned.text):
            tokens = [folded[start:end] for start, end in places]
        else:
            tokens = [aligned.text[start:end].casefold() for start, end in places]
        found: list[Span] = []
        for i, token in enumerate(tokens):
            if token in self._by_word:
                for number in self._by_word[token]:
                    length = self._phrase_at(self._texts[number].words, self._texts[number].prefix, tokens, i)
                    if length:
                        found.append((places[i][0], places[i + length - 1][1], number))
            if self._stems and token.startswith(self._stems):
                found.extend(
                    (*places[i], number) for number in self._prefixes if token.startswith(self._texts[number].words[0])
                )
        if self._by_part or self._prefixes:
            found.extend(self._in_identifiers(aligned.text, places))
        return sorted((*_shift(aligned.original(start, end), offset), number) for start, end, number in found)

    def _in_identifiers(self, text: str, places: list[tuple[int, int]]) -> Iterator[Span]:
        """Matches of parts, in the words of a plain text that have parts."""
        if not may_have_parts(text):
            return
        for start, end in places:
            word = text[start:end]
            if word.islower():
                continue
            folded = word.casefold()
            if any(part in folded for part in self._in_part) and (edges := cuts(word)):
                yield from self._in_parts(word, start, [0, *edges, len(word)])

    def _in_parts(self, word: str, at: int, edges: list[int]) -> Iterator[Span]:
        pieces = [(at + a, at + b) for a, b in pairwise(edges)]
        parts = [word[a:b].casefold() for a, b in pairwise(edges)]
        for i, part in enumerate(parts):
            for number in self._by_part.get(part, ()):
                text = self._texts[number]
                if len(text.words) == 1 and text.words[0] == part:
                    yield *pieces[i], number
                length = self._phrase_at(text.parts, text.prefix, parts, i)
                if length:
                    yield pieces[i][0], pieces[i + length - 1][1], number
            for number in self._prefixes:
                if part.startswith(self._texts[number].words[0]):
                    yield *pieces[i], number

    @staticmethod
    def _phrase_at(words: Sequence[str], prefix: bool, tokens: Sequence[str], at: int) -> int:
        """Return how many tokens a phrase at `at` takes: all of its words, or 0."""
        length = len(words)
        if not length or at + length > len(tokens):
            return 0
        for i in range(length - 1):
            if tokens[at + i] != words[i]:
                return 0
        last = tokens[at + length - 1]
        return length if last == words[-1] or (prefix and last.startswith(words[-1])) else 0


def _shift(span: tuple[int, int], offset: int) -> tuple[int, int]:
    return span[0] + offset, span[1] + offset


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Pieces of a long text that end at a blank if possible, so that words are not cut without need."""
    start = 0
    while start < len(text):
        end = min(len(text), start + _PIECE_CHARS)
        if end < len(text):
            blank = _CUT.search(text, end, end + SNIPPET_CHARS)
            end = blank.start() if blank else end
        yield start, end
        start = end


def _anchor(found: list[Span]) -> Span:
    """The first match from which a snippet shows the most of the query."""
    if len({number for _, _, number in found}) == 1:
        return found[0]
    starts = [start for start, _, _ in found]
    best, most = found[0], 0
    for i, span in enumerate(found[:500]):
        near = found[i : bisect_left(starts, span[0] + SNIPPET_CHARS // 2, i)]
        shown = len({number for _, _, number in near[:100]})
        if shown > most:
            best, most = span, shown
    return best
