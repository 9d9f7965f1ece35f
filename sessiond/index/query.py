"""Turns what people type into a query. Pure and total: every text has a meaning and is never an error.

    query   = blanks between items; every group must hold                    a b         a AND b
    group   = item { OR item }                                               a b OR c    a AND (b OR c)
    item    = [-] ( "phrase" | word* | key:value | literal )
    key     = role | tag | in | before | after | cwd | model | store;  a value may be in quotes

Any other item is literal: its words, in order, one right after another (`foo.bar()` is the phrase foo bar). So are an `OR`
with nothing on one side, an unbalanced quote, an unknown key, an invalid date. Items without any word are left out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

from sessiond.index.tokens import identifiers, plain, words
from sessiond.model.values import epoch_ms


class PhraseTerm(msgspec.Struct, frozen=True):
    """Words that must follow one another. `parts`: those of a single camelCase word (which then also matches a run of
    parts).
    """

    words: tuple[str, ...]
    parts: tuple[str, ...] = ()
    prefix: bool = False
    """The last word is a prefix."""
    negated: bool = False


class Where(msgspec.Struct, frozen=True):
    """A condition on the message, or on its session. `value` as typed; milliseconds since 1970 for before and after."""

    key: str
    value: str | int
    negated: bool = False


Atom: TypeAlias = PhraseTerm | Where
Group: TypeAlias = tuple[Atom, ...]


class Query(msgspec.Struct, frozen=True):
    """Every group must hold; a group holds if one of its atoms does. Without groups, nothing was asked and nothing is found."""

    groups: tuple[Group, ...]
    thinking: bool = False
    """`in:thinking` was given: thinking is searched too."""
    tools: bool = True
    """False: `-in:tools` was given, so input and output of tools are not searched."""

    def searches(self, kind: str) -> bool:
        """Return whether texts of a kind (see text.py) are searched."""
        return kind == "text" or (self.thinking if kind == "thought" else self.tools)

    def texts(self) -> list[PhraseTerm]:
        """Return what a snippet shows: every text that is not excluded."""
        found = (atom for group in self.groups for atom in group if isinstance(atom, PhraseTerm) and not atom.negated)
        return list(dict.fromkeys(found))


_KEYS = ("role", "tag", "in", "before", "after", "cwd", "model", "store")
_ITEM = re.compile(
    rf"""(?P<not>-(?=[^\s-]))?
    (?: (?P<key>{"|".join(_KEYS)}):(?:"(?P<quoted>[^"]+)"(?=\s|\Z)|(?P<value>[^\s"]\S*))
      | "(?P<phrase>[^"]*)"
      | (?P<literal>\S+) )""",
    re.VERBOSE,
)
_DATE = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?")
_ZONE = re.compile(r".*T.*(?:Z|[+-]\d\d:?\d\d)", re.IGNORECASE)


def parse(text: str) -> Query:
    """The meaning of a typed text."""
    items = list(_ITEM.finditer(text))
    groups: list[list[Atom]] = []
    thinking, tools = False, True
    joins = False
    for i, item in enumerate(items):
        if _is_or(item) and groups and not joins and i + 1 < len(items):
            joins = True
            continue
        atom = _atom(item)
        if atom == Where("in", "thinking"):
            thinking = True
        elif atom == Where("in", "tools", negated=True):
            tools = False
        elif atom is not None and joins:
            groups[-1].append(atom)
        elif atom is not None:
            groups.append([atom])
        joins = False
    return Query(tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups)), thinking, tools)


def wording(text: str) -> str:
    """The typed text without filters, exclusions, quotes and OR: its meaning for a reader."""
    kept = []
    for item in _ITEM.finditer(text):
        atom = _atom(item)
        if isinstance(atom, PhraseTerm) and not atom.negated and not _is_or(item):
            kept.append(item["phrase"] or item["literal"] or item.group())
    return " ".join(kept)


def _is_or(item: re.Match[str]) -> bool:
    return item["literal"] == "OR" and item["not"] is None


def _atom(item: re.Match[str]) -> Atom | None:
    negated = item["not"] is not None
    if item["key"] is not None:
        where = _where(item["key"], item["quoted"] or item["value"], negated)
        if where is not None:
            return where
        return _literal(item.group()[negated:], negated)
    if item["phrase"] is not None:
        return _text(item["phrase"], prefix=False, negated=negated)
    return _literal(item["literal"], negated)


def _literal(text: str, negated: bool) -> PhraseTerm | None:
    prefix = len(text) > 1 and text.endswith("*") and text[-2] != "*" and _ends_with_word(text[:-1])
    return _text(text[:-1] if prefix else text, prefix=prefix, negated=negated)


def _ends_with_word(text: str) -> bool:
    found = words(text)
    return bool(found) and words(text[-1]) != [] and found[-1].endswith(words(text[-1])[-1])


def _text(text: str, *, prefix: bool, negated: bool) -> PhraseTerm | None:
    found = words(text)
    if not found:
        return None
    split: tuple[str, ...] = ()
    if len(found) == 1:
        split = next((tuple(identifier.split()) for identifier in identifiers(plain(text))), ())
    return PhraseTerm(tuple(found), split, prefix, negated)


def _where(key: str, value: str, negated: bool) -> Where | None:
    if key in ("before", "after"):
        moment = moment_of(value)
        return None if moment is None else Where(key, moment, negated)
    if key == "in":
        if value == "thinking" and negated:
            return None
        if value == "tools":
            return Where(key, value, negated) if negated else None
        return Where(key, value, negated) if value in ("name", "thinking") else None
    return Where(key, value, negated)


def moment_of(text: str) -> int | None:
    """`2026`, `2026-01`, `2026-01-11` (its first moment) or RFC 3339 -> milliseconds since 1970, or None. UTC unless a
    zone is named.
    """
    match = _DATE.fullmatch(text)
    try:
        if match is None:
            return epoch_ms(text if _ZONE.fullmatch(text) else text + "Z") if "T" in text.upper() else None
        day = datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1), tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return (day - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
