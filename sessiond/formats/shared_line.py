"""Whole records on a line that is not JSON: a writer that was killed within a record leaves a stub, and the next record, or a
writer that forgets the line end, comes behind it on the same line. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
_MOST_STUBS = 200
"""On one line. Each costs a look at the whole line, which may have 64 MiB; what comes after so many is not read."""
_scan = json.JSONDecoder(strict=False, parse_int=str, parse_float=str).raw_decode
_BLANKS = re.compile(r"[\0 \t\r\n]*")
_BEGINNING = re.compile(r'\{\s*"\s*')
_FREE = re.compile(r'[:,\[]\s*\{|(\{)\s*"')
"""The beginning of an object. Only with the group can it be a record; otherwise it is a value within one."""
_WITHIN = frozenset(',:]}"')
"""What follows an object that is a part of a damaged record."""


def whole_records(line: bytes) -> Iterator[Span]:
    """Yield where the complete objects are, in order, without those that are a part of another one. A line that ends within its only
    record has none.
    """
    text = line.decode("latin-1")  # one character for each byte; all that matters here is ASCII
    at = _first(text, 0)
    stubs = 0
    while at >= 0 and stubs < _MOST_STUBS:
        try:
            _, end = _scan(text, at)
        except json.JSONDecodeError as error:
            stubs += 1
            at = _behind_stub(text, at, error)
            continue
        except RecursionError:
            return
        rest = _BLANKS.match(text, end).end()  # type: ignore[union-attr]  # it matches everywhere
        if text[rest : rest + 1] not in _WITHIN:
            yield at, end
        at = _first(text, rest)


def _first(text: str, start: int) -> int:
    """Find where the next record may begin, at `start` or later; -1: nowhere."""
    begin = _BLANKS.match(text, start).end()  # type: ignore[union-attr]
    return begin if text.startswith("{", begin) else _free(text, begin)


def _free(text: str, start: int) -> int:
    return next((match.start(1) for match in _FREE.finditer(text, start) if match[1]), -1)


def _behind_stub(text: str, at: int, error: json.JSONDecodeError) -> int:
    """Find where to look for the next record if the one at `at` is broken. The search starts close to the error, so no part of a line
    is read more than twice.
    """
    wrong = error.pos
    if wrong >= len(text) or error.msg.startswith("Unterminated"):
        return -1
    if text[wrong] == "{":
        return wrong if wrong > at else _free(text, at + 1)
    # The stub ends within a text: the first quotation mark of the next record's first key ended it.
    begin = text.rfind("{", at + 1, wrong)
    if begin > 0 and _BEGINNING.fullmatch(text, begin, wrong):
        return begin
    return _free(text, wrong)


def pieces_of(line: bytes) -> Iterator[tuple[bytes, bool]]:
    """Splits a line into records and the text between them, as (bytes, is_record). Yields nothing if the line has no records."""
    at = 0
    for start, end in whole_records(line):
        yield from _between(line[at:start])
        yield line[start:end], True
        at = end
    if at:
        yield from _between(line[at:])


def _between(text: bytes) -> Iterator[tuple[bytes, bool]]:
    if text.strip(b"\0 \t\r\n"):
        yield text, False
