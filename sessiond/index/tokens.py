"""Turns text into tokens, for the index, for queries and for snippets alike. Pure.

- *Plain* text is compatibility-decomposed, without accents, composed again: `é` is `e`, half width `ｶﾞ` is `ガ`, `ﬁ` is `fi`.
  The voicing marks of kana are not accents. Case is kept, because identifiers need it.
- A *word* is a run of letters, digits and the marks that belong to them; everything else separates, `_` too. It is
  compared casefolded, and by its first 32,768 bytes: FTS5 keeps no more.
- Every character of Chinese, Japanese and Korean script is a separate token, so that any substring is a phrase of tokens. So
  is every symbol outside ASCII (`→`, `€`, emoji).
- A camelCase word of at most 128 characters has *parts*: a new one begins at an upper case letter after a lower case letter
  or a digit, and at the last of several upper case letters before a lower case one (`HTTPServer2Go` is HTTP, Server2, Go).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, lru_cache

VERSION = f"1/{unicodedata.unidata_version}"
"""Changes whenever the same text may give other tokens. An index of another version is rebuilt."""

MAX_IDENTIFIER_CHARS = 128

_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe00-\ufe0f\ufe20-\ufe2f"
    "\U000e0100-\U000e01ef]+"
)
_CJK = (
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb"
    "\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_MARKS = (  # vowel signs and the like of scripts that cannot be read without them
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u0a01-\u0a03\u0a3c-\u0a51\u0a70-\u0a75"
    "\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83"
    "\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u135d-\u135f\u17b4-\u17d3\u1a17-\u1a1b\u1b00-\u1b04\u1b34-\u1b44"
    "\ua802-\ua827\ua980-\ua983\ua9b3-\ua9c0"
)
_SYMBOLS = (
    "\u00a2-\u00a7\u00a9\u00ac\u00ae\u00b0\u00b1\u00d7\u00f7\u20a0-\u20c0\u2100-\u2bff\u3004\u3012\u3013\u3020\u3036\u3037"
    "\u3200-\u33ff\u4dc0-\u4dff\ufffc\ufffd\U0001f000-\U0001faff"
)
_LATIN = f"[^\\W_{_CJK}{_SYMBOLS}]+(?:[{_MARKS}]+[^\\W_{_CJK}{_SYMBOLS}]*)*"
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")

# Characters that are already plain, or separate before and after: most text. Only the rest is normalized, with a kana or
# Hangul syllable before it, which it may join.
_SIMPLE = (
    "\u0000-\u007f\u2010-\u205e\u3000-\u3035\u3041-\u3096\u309d\u309e\u30a0-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e\uff61-\uff65"
)


# Compiled when first needed: together they take longer than all our other imports of a daemon.
@cache
def _word() -> re.Pattern[str]:
    return re.compile(_LATIN)


@cache
def _token() -> re.Pattern[str]:
    return re.compile(f"[{_CJK}{_SYMBOLS}]|{_LATIN}")


@cache
def _odd() -> re.Pattern[str]:
    return re.compile(f"[\u3041-\u30fe\uac00-\ud7a3]?[^{_SIMPLE}]+")


_CUT = re.compile(r"[A-Z](?:(?<=[a-z0-9].)|(?<=[A-Z].)(?=[a-z]))")
"""Where a part of an ASCII word begins. The pattern starts with the rarest character, an upper case letter: that makes it fast."""
_ASCII_KINDS = bytes(b" aA"[(chr(c).islower() or chr(c).isdigit()) + 2 * chr(c).isupper()] for c in range(128)) + bytes(
    128
)
"""`a` for a lower case letter or a digit, `A` for an upper case letter, a blank for anything else."""
_MARK = "\x01"
_MARKED_WORD = re.compile(r"(?<![A-Za-z0-9\x01])[A-Za-z0-9]++(?:\x01[A-Za-z0-9]++)+")
"""An ASCII word with cuts, with a mark at each of them."""
_MAY_BE_UPPER = re.compile(
    "[A-Z\u00c0-\u00de\u0100-\u024f\u0370-\u058f\u10a0-\u10ff\u13a0-\u13ff\u1c80-\u1cbf\u1e00-\u1fff\u2c00-\u2dff\ua640-\ua7ff"
    "\U00010400-\U0001ffff]"
)


def plain(text: str) -> str:
    """Without accents and compatibility forms; case kept. The length may change: `Alignment` leads back."""
    return text if text.isascii() else _odd().sub(_made_plain, text)


def _made_plain(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", match[0])))


def words(text: str) -> list[str]:
    """The tokens of a text in order, folded: what phrases are made of."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _token().findall(plain(text).casefold())


def stream(plain_text: str) -> str:
    """The text from which FTS5's ascii tokenizer makes the same tokens as `words`. It splits ASCII itself; it does not split
    anything else.
    """
    return plain_text if plain_text.isascii() else " ".join(_token().findall(plain_text.casefold()))


def spans(plain_text: str) -> Iterator[re.Match[str]]:
    """A match for every token of a text that is already plain, case kept."""
    return (_ASCII_WORD if plain_text.isascii() else _token()).finditer(plain_text)


def identifiers(plain_text: str) -> set[str]:
    """The words of a plain text that have parts: the folded parts of each, with blanks between them."""
    if plain_text.isascii():
        kinds = plain_text.encode("ascii").translate(_ASCII_KINDS)
        if b"aA" not in kinds and b"AAa" not in kinds:  # most texts: a word with parts has one of them
            return set()
        marked = _CUT.sub(_marked, plain_text.replace(_MARK, " "))
        if len(marked) == len(plain_text):
            return set()
        found = set(_MARKED_WORD.findall(marked))
        return {
            word.replace(_MARK, " ").lower() for word in found if len(word) - word.count(_MARK) <= MAX_IDENTIFIER_CHARS
        }
    if _MAY_BE_UPPER.search(plain_text) is None:
        return set()
    return {" ".join(parts(word)) for word in set(_word().findall(plain_text)) if not word.islower() and parts(word)}


def _marked(match: re.Match[str]) -> str:
    return _MARK + match[0]


def may_have_parts(plain_text: str) -> bool:
    """Return whether any word of a plain text may have parts. Quick."""
    return (_CUT if plain_text.isascii() else _MAY_BE_UPPER).search(plain_text) is not None


def cuts(word: str) -> list[int]:
    """Return where the parts of a plain word begin, except the first: empty for a word without parts."""
    if len(word) > MAX_IDENTIFIER_CHARS:
        return []
    if word.isascii():
        return [match.start() for match in _CUT.finditer(word)]
    found = []
    for i in range(1, len(word)):
        before, here = word[i - 1], word[i]
        if not _upper(here):
            continue
        starts_part = before.islower() or before.isdigit()
        ends_acronym = _upper(before) and i + 1 < len(word) and word[i + 1].islower()
        if starts_part or ends_acronym:
            found.append(i)
    return found


@lru_cache(maxsize=32_768)
def parts(word: str) -> tuple[str, ...]:
    """The parts of a plain word, folded; empty for a word without parts."""
    at = cuts(word)
    return tuple(word[i:j].casefold() for i, j in zip([0, *at], [*at, len(word)], strict=True)) if at else ()


def _upper(char: str) -> bool:
    return char.isupper() or char.istitle()


class Alignment:
    """A text made plain, and the way back: which code points of the original a span of the plain text comes from."""

    __slots__ = ("_at", "_pieces", "text")

    def __init__(self, original: str) -> None:
        special = _special(original)
        if not special:
            self.text = plain(original)
            self._pieces: list[tuple[int, int, int]] = []
            return
        self._align(original, special)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span in the original that [start, end) of the plain text comes from. `start < end`."""
        if not self._pieces:
            return start, end
        return self._lookup(start)[0], self._lookup(end - 1)[1]

    def _align(self, original: str, special: list[tuple[int, int]]) -> None:
        out: list[str] = []
        self._pieces = []  # (start in plain, start in original, length in original of a cluster; 0 where both run in step)
        length = done = 0
        for start, end in special:
            if start > done:
                piece = plain(original[done:start])
                self._pieces.append((length, done, 0))
                out.append(piece)
                length += len(piece)
            piece = plain(original[start:end])
            if piece:
                self._pieces.append((length, start, end - start))
                out.append(piece)
                length += len(piece)
            done = end
        if done < len(original):
            self._pieces.append((length, done, 0))
            out.append(plain(original[done:]))
        self.text = "".join(out)
        self._at = [piece[0] for piece in self._pieces]

    def _lookup(self, position: int) -> tuple[int, int]:
        at, original, cluster = self._pieces[bisect_right(self._at, position) - 1]
        if cluster:
            return original, original + cluster
        return original + position - at, original + position - at + 1


def _special(text: str) -> list[tuple[int, int]]:
    """Spans of the clusters that do not become exactly one plain character each, in order."""
    if text.isascii():
        return []
    odd = {char for char in set(text) if not char.isascii() and _kind(char) != _SINGLE}
    if not odd:
        return []
    found: list[tuple[int, int]] = []
    for match in re.finditer("[" + "".join(map(re.escape, sorted(odd))) + "]+", text):
        start, end = match.span()
        if _kind(text[start]) == _EXTENDS and start > 0:
            start -= 1  # the base that it belongs to
        found.extend(_clusters(text, start, end))
    return found


def _clusters(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for i in range(start + 1, end):
        if _kind(text[i]) != _EXTENDS:
            yield begin, i
            begin = i
    yield begin, end


_SINGLE, _EXPANDS, _EXTENDS = range(3)


@lru_cache(maxsize=8192)
def _kind(char: str) -> int:
    """Return the kind of a character: it remains one character, becomes several or disappears, or may join the one before it."""
    if char.isascii():
        return _SINGLE
    decomposed = unicodedata.normalize("NFKD", char)
    if unicodedata.combining(decomposed[0]) or _ACCENTS.match(decomposed) or decomposed[0] in _seconds():
        return _EXTENDS
    return _SINGLE if len(plain(char)) == 1 else _EXPANDS


@lru_cache(maxsize=1)
def _seconds() -> frozenset[str]:
    """Characters that normalization may join to the one before, although they are not combining marks."""
    jamo = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    found = set()
    # All of them are in these blocks; those of planes 1 and up are Brahmic vowel signs, Kirat Rai's the last.
    for code in (*range(0x0900, 0x1B50), *range(0x3040, 0x3100), *range(0x11080, 0x16E00)):
        pair = unicodedata.decomposition(chr(code)).split()
        if len(pair) == 2 and not pair[0].startswith("<"):
            found.add(chr(int(pair[1], 16)))
    return frozenset(jamo | found)
