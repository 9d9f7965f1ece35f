"""Says which bytes may contain a text that a regular expression matches: a quick check of many texts at once, before Python's
`re` searches those that remain. Pure except for RE2, which is used if installed; the regex worker uses this.

A sieve checks a packed document, or says where in a chunk of them a match may begin. It may admit what does not match, but
never exclude what does, so a pattern is read generously: anchors, lookaheads and lookbehinds count as met, a back reference
as anything. Lengths, keys and kinds are among the texts; they can only admit more.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

try:
    from re import _constants as op  # type: ignore[attr-defined]
    from re import _parser as sre  # type: ignore[attr-defined]
except ImportError:  # other internals of Python: nothing is excluded
    sre = None

Finder: TypeAlias = Callable[[bytes, int], int]
"""Where the first match begins at or after a place; -1 if there is none."""
Ranges: TypeAlias = list[tuple[int, int]]
"""Code points, both ends included; sorted and apart."""

_SHORTEST_BYTES = 3
"""A shorter literal occurs nearly everywhere."""
_MOST_LITERALS = 16
_MOST_REPEATS = 1000
"""RE2's own limit."""
_RE2_BYTES = 64 << 20
_END = 0x110000
_SURROGATES = (0xD800, 0xDFFF)
_EVERYTHING: Ranges = [(0, 0xD7FF), (0xE000, _END - 1)]
_ASCII_LETTERS: Ranges = [(65, 90), (97, 122)]
_ALIKE = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""Other characters that match an ASCII letter if case is ignored."""
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


class _Unknown(Exception):
    """A part of a pattern that is not understood."""


class Sieve:
    """The facts that are known of the matches of a pattern. At least one of the two is given."""

    def __init__(self, literals: frozenset[bytes] | None, finder: Finder | None) -> None:
        """Each match, with what is around it in its text, has one of the literals."""
        self._literals = tuple(literals or ())
        self._finder = finder

    def __call__(self, document: bytes) -> bool:
        """Return whether a text of this document may match."""
        return self.next(document, 0) >= 0

    def next(self, data: bytes, start: int) -> int:
        """A place in the first document after `start`, where a document begins, that may match; -1 if there is none."""
        if self._finder is None:
            return min((at for literal in self._literals if (at := data.find(literal, start)) >= 0), default=-1)
        if self._literals and not start and not any(literal in data for literal in self._literals):
            return -1
        return self._finder(data, start)


def sieve(pattern: re.Pattern[str]) -> Sieve | None:
    """None: nothing is known about what it matches, or it matches everywhere."""
    if sre is None:
        return None
    try:
        parsed = sre.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
        literals = _literals(parsed, pattern.flags)
        compiled = _re2_of(_whole(parsed, pattern.flags))
    except (RecursionError, re.error, ValueError, TypeError, _Unknown):  # the internals are not guaranteed
        return None
    return None if literals is None and compiled is None else Sieve(literals, compiled)


def required(pattern: re.Pattern[str]) -> frozenset[bytes]:
    """One of these must be in the UTF-8 of a matching text; empty: nothing is known."""
    return _literals(sre.parse(pattern.pattern, pattern.flags & ~re.DEBUG), pattern.flags) or frozenset()


def translated(pattern: re.Pattern[str]) -> str:
    """A pattern for RE2 that matches wherever this one does. ValueError if that is not possible."""
    try:
        return _whole(sre.parse(pattern.pattern, pattern.flags & ~re.DEBUG), pattern.flags)
    except _Unknown as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=16)
def _re2_of(text: str) -> Finder | None:
    try:
        import re2
    except ImportError:
        return None
    if not hasattr(re2, "Options"):  # another package of the same name
        return None
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _RE2_BYTES, False, True
    try:
        compiled = re2.compile(text, options)
    except re2.error:  # too large for it
        return None
    search = compiled.search

    def find(data: bytes, start: int) -> int:
        match = search(data, start)
        return -1 if match is None else int(match.start())

    return None if search(b"") else find


# Literals


def _literals(items: Iterable[tuple[Any, Any]], flags: int) -> frozenset[bytes] | None:
    """The best of the parts' needs: the one whose shortest literal is longest."""
    needs: list[frozenset[bytes]] = []
    run: list[str] = []

    def close() -> None:
        if run:
            needs.append(frozenset(["".join(run).encode()]))
        run.clear()

    for kind, value in items:
        if kind is op.LITERAL and _plain(value, flags):
            run.append(chr(value))
            continue
        close()
        inner = _literals_of(kind, value, flags)
        if inner:
            needs.append(inner)
    close()
    best = max(needs, key=lambda need: min(map(len, need)), default=None)
    return best if best is not None and min(map(len, best)) >= _SHORTEST_BYTES else None


def _literals_of(kind: object, value: Any, flags: int) -> frozenset[bytes] | None:
    if kind is op.SUBPATTERN:
        _, added, removed, items = value
        return _literals(items, _combined(flags, added, removed))
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return _literals(value[2], flags) if value[0] else None
    if kind is op.ATOMIC_GROUP:
        return _literals(value, flags)
    if kind is op.ASSERT:
        return _literals(value[1], flags)
    if kind is op.BRANCH:
        branches = [_literals(branch, flags) for branch in value[1]]
        found = frozenset[bytes]().union(*(branch for branch in branches if branch))
        return found if None not in branches and len(found) <= _MOST_LITERALS else None
    return None


def _plain(code: int, flags: int) -> bool:
    """Return whether a character in a pattern matches only itself. (A lone surrogate never occurs in a text.)"""
    one = chr(code)
    if _SURROGATES[0] <= code <= _SURROGATES[1]:
        return False
    return not flags & re.IGNORECASE or one.lower() == one.upper() == one


def _combined(flags: int, added: int, removed: int) -> int:
    """Flags within a group that adds and removes some. The flags a and u replace each other."""
    kinds = int(re.ASCII | re.UNICODE | re.LOCALE)
    return int((flags & ~kinds if added & kinds else flags) | added) & ~removed


# For RE2


def _sequence(items: Iterable[tuple[object, object]], flags: int) -> str:
    return "".join(_item(kind, value, flags) for kind, value in items)


def _whole(items: Sequence[tuple[object, Any]], flags: int) -> str:
    """Return a whole pattern. If it ends with a word, what follows in its document is not of that word; a packed text is followed by a byte
    that is not a letter.
    """
    text = _sequence(items, flags)
    if (
        len(items) > 1
        and items[-1] == (op.AT, op.AT_BOUNDARY)
        and items[-2][0] is op.LITERAL
        and _in_words(items[-2][1])
    ):
        return f"(?:{text}(?:{_class(_complement(_members(_CATEGORIES['WORD'], flags & re.ASCII)))}|\\z))"
    return f"(?:{text})"


def _in_words(code: int) -> bool:
    return code < 0x80 and chr(code).isalnum()


def _alternative(items: Iterable[tuple[object, object]], flags: int) -> str:
    return f"(?:{_sequence(items, flags)})"


def _item(kind: object, value: Any, flags: int) -> str:
    if kind is op.LITERAL:
        return _class(_character(value, flags))
    if kind is op.NOT_LITERAL:
        return _class(_EVERYTHING if flags & re.IGNORECASE else _complement([(value, value)]))
    if kind is op.ANY:
        return _class(_EVERYTHING if flags & re.DOTALL else _complement([(10, 10)]))
    if kind is op.IN:
        return _class(_set(value, flags))
    if kind is op.BRANCH:
        return f"(?:{'|'.join(_sequence(branch, flags) for branch in value[1])})"
    if kind is op.SUBPATTERN:
        _, added, removed, items = value
        return _alternative(items, _combined(flags, added, removed))
    if kind is op.ATOMIC_GROUP:
        return _alternative(value, flags)
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, items = value
        upper = "" if most > _MOST_REPEATS else most
        return f"(?:{_alternative(items, flags)}{{{min(least, _MOST_REPEATS)},{upper}}})"
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return ""
    if kind is op.GROUPREF:
        return _class(_EVERYTHING) + "*"
    if kind is op.GROUPREF_EXISTS:
        _, yes, no = value
        return f"(?:{_sequence(yes, flags)}|{_sequence(no or (), flags)})"
    raise _Unknown(str(kind))


def _character(code: int, flags: int) -> Ranges:
    if not flags & re.IGNORECASE:
        return [(code, code)]
    return _any_case([(code, code)])


def _set(items: Sequence[tuple[object, Any]], flags: int) -> Ranges:
    found: Ranges = []
    negated = False
    for kind, value in items:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            found.append((value, value))
        elif kind is op.RANGE:
            found.append(value)
        elif kind is op.CATEGORY:
            found.extend(_category(str(value).removeprefix("CATEGORY_"), flags & re.ASCII))
        else:
            raise _Unknown(str(kind))
    if flags & re.IGNORECASE:
        return _EVERYTHING if negated else _any_case(_joined(found))
    return _complement(_joined(found)) if negated else _joined(found)


def _category(name: str, ascii_only: int) -> Ranges:
    positive = name.removeprefix("NOT_")
    if positive not in _CATEGORIES:
        raise _Unknown(name)
    found = _members(_CATEGORIES[positive], ascii_only)
    return found if positive == name else _complement(found)


@cache
def _members(category: str, ascii_only: int) -> Ranges:
    """According to this Python, whatever its version of Unicode."""
    everything = array("I", range(_END)).tobytes().decode("utf-32", "surrogatepass")
    return [(match.start(), match.end() - 1) for match in re.compile(f"{category}+", ascii_only).finditer(everything)]


def _any_case(found: Ranges) -> Ranges:
    """With all characters that may match if case is ignored, and more: which ones do is not documented."""
    if any(high >= 0x80 for _, high in found):
        return _joined([*found, *_ASCII_LETTERS, (0x80, _END - 1)])
    letters = {chr(code).lower() for low, high in found for code in range(low, high + 1) if chr(code).isalpha()}
    alike = "".join(one + one.upper() + _ALIKE.get(one, "") for one in letters)
    return _joined([*found, *((ord(one), ord(one)) for one in alike)])


def _joined(found: Iterable[tuple[int, int]]) -> Ranges:
    out: Ranges = []
    for low, high in sorted(found):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _complement(found: Ranges) -> Ranges:
    out: Ranges = []
    begin = 0
    for low, high in found:
        if low > begin:
            out.append((begin, low - 1))
        begin = high + 1
    return [*out, (begin, _END - 1)] if begin < _END else out


def _class(found: Ranges) -> str:
    """A lone surrogate never occurs in a text, and RE2 lacks an empty class."""
    low, high = _SURROGATES
    parts = [
        part
        for one in found
        for part in ((one[0], min(one[1], low - 1)), (max(one[0], high + 1), one[1]))
        if part[0] <= part[1]
    ]
    if not parts:
        return r"[^\x{0}-\x{10ffff}]"
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in parts) + "]"
