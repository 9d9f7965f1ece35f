"""Searches chunks of texts for a pattern, a chunk at a time: most are given up without looking at their documents. Stdlib and
pure modules only: the regex worker uses it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from sessiond.index.chunks import decompress, texts_in, unpacked_starts
from sessiond.index.sieve import Sieve


def first_match(pattern: re.Pattern[str], data: bytes, start: int, end: int) -> re.Match[str] | None:
    """In the first text of the document in `data[start:end]` in which there is one. Thoughts are not searched."""
    for text in texts_in(data, start, end):
        if (match := pattern.search(text)) is not None:
            return match
    return None


def scanned(
    pattern: re.Pattern[str], lets: Sieve | None, rows: Iterable[tuple[int, int, bytes, bytes]]
) -> dict[int, int]:
    """The documents that match, with their chunks. Rows: a chunk's id, first document, starts and data. Raises DamagedChunk.

    A document may have been removed or rewritten since: if so, it is no longer in this chunk.
    """
    found: dict[int, int] = {}
    for chunk, first, starts, packed in rows:
        data = decompress(packed)
        at = 0 if lets is None else lets.next(data, 0)
        if at < 0:
            continue
        places = unpacked_starts(starts)
        count = len(places)
        places.append(len(data))
        while 0 <= at < len(data):
            document = bisect_right(places, at) - 1
            end = places[document + 1]
            if first_match(pattern, data, places[document], end) is not None:
                found[first + document] = chunk
            if document + 1 == count:
                break
            # A match that begins here may reach into other documents, whose own matches must not be passed over.
            at = end if lets is None else lets.next(data, end)
    return found
