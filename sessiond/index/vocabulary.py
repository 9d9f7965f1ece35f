"""The words that exist, and which of them contain some letters. Stdlib and `chunks.py` only: the regex worker uses it.

FTS5 knows all words, but says which there are only by reading all that it knows about each. So the table `vocabulary` has
them, folded, one after another, and looking through them takes milliseconds. They are written when the daemon rests
(`vocabulary_builder.py`); until then it has those of the texts up to a certain chunk. Words that no longer occur do no harm.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator

from sessiond.index.chunks import compress, decompress
from sessiond.index.narrowing import WordPart

MOST_WORDS = 256
"""A part that is in more words does not narrow a search."""
CUT_BYTES = 32_760
"""Words of about this length may have been cut by FTS5, and contain anything."""
_MOST_CUT = 16
_PIECE_BYTES = 256 * 1024
_BETWEEN = b"\n"


def packed(words: Iterable[bytes]) -> Iterator[bytes]:
    """Rows of the table for these words. A word that may have been cut gets a row of its own."""
    some: list[bytes] = []
    size = 0
    for word in words:
        if len(word) >= CUT_BYTES:
            yield compress(word)
            continue
        some.append(word)
        size += len(word)
        if size > _PIECE_BYTES:
            yield compress(_BETWEEN.join(some))
            some, size = [], 0
    if some:
        yield compress(_BETWEEN.join(some))


class Vocabulary:
    """The words of all texts in chunks up to `covered`."""

    def __init__(self, covered: int, rows: Iterable[bytes]) -> None:
        """Raises DamagedChunk."""
        self.covered = covered
        plain = [decompress(row) for row in rows]
        cut = [row for row in plain if len(row) >= CUT_BYTES and _BETWEEN not in row]
        self._cut = [word.decode("utf-8", "ignore") for word in cut]
        self._words = _BETWEEN + b"".join(row + _BETWEEN for row in plain if row not in cut)

    def holding(self, part: WordPart) -> list[str] | None:
        """The words in which a part is, and those that may have it where they were cut. None: too many."""
        token = part.token.encode()
        pieces = token.split(b"i") if part.dotless else [token]
        sure = max(pieces, key=len)
        if not sure or len(self._cut) > _MOST_CUT:
            return None
        inside = b"(?:i|\xc4\xb1)".join(map(re.escape, pieces))
        fits = re.compile((b"\\A" if part.begins else b"") + inside + (b"\\Z" if part.ends else b"")).search
        if len(pieces) == 1:
            sure = (_BETWEEN if part.begins else b"") + sure + (_BETWEEN if part.ends else b"")
        found = list(self._cut)
        for seen, word in enumerate(self._having(sure)):
            if fits(word):
                found.append(word.decode("utf-8", "replace"))
            if len(found) > MOST_WORDS or seen > 16 * MOST_WORDS:
                return None
        return found

    def _having(self, letters: bytes) -> Iterator[bytes]:
        words = self._words
        at = words.find(letters)
        while at >= 0:
            begin = words.rfind(_BETWEEN, 0, at + 1) + 1
            end = words.find(_BETWEEN, begin)
            yield words[begin:end]
            at = words.find(letters, end)


def vocabulary_of(db: sqlite3.Connection) -> Vocabulary:
    """The present one, kept for the next request. Raises sqlite3.Error, DamagedChunk."""
    facts = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('instance', 'vocabulary')"))
    [newest] = db.execute("SELECT max(no) FROM vocabulary").fetchone()
    key = (facts["instance"], facts["vocabulary"], newest)
    if key not in _kept:
        rows = [row for (row,) in db.execute("SELECT words FROM vocabulary ORDER BY no")]
        _kept.clear()
        _kept[key] = Vocabulary(facts["vocabulary"], rows)
    return _kept[key]


_kept: dict[tuple[str, int, int | None], Vocabulary] = {}
