"""Replaces values in JSON text in place: finds values and writes new ones in the style of the old. Pure. The text must
be valid JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from sessiond.model.values import Json

Span: TypeAlias = tuple[int, int]
Edit: TypeAlias = tuple[int, int, bytes]
"""Start, end and replacement."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}:,]', re.DOTALL)
_BLANK = b" \t\r\n"
_FIRST_INDENT = re.compile(rb"[{\[]\r?\n([ \t]+)")


def members(text: bytes, start: int = 0) -> dict[str, Span]:
    """Key -> span of its value, for the object that begins at or after `start`. The last of equal keys counts."""
    found: dict[str, Span] = {}
    for key, span in _parts(text, start):
        if key is not None:
            found[msgspec.json.decode(text[key[0] : key[1]])] = span
    return found


def elements(text: bytes, start: int) -> list[Span]:
    """Spans of the elements of the array that begins at or after `start`."""
    return [span for _, span in _parts(text, start)]


def _parts(text: bytes, start: int) -> Iterable[tuple[Span | None, Span]]:
    """The parts of one object or array: the key's span (None in an array) and the value's."""
    depth = 0
    key: Span | None = None
    last: Span | None = None
    begin = start
    for token in _TOKEN.finditer(text, start):
        char = text[token.start() : token.start() + 1]
        if char in b"{[":
            depth += 1
            begin = token.end() if depth == 1 else begin
        elif depth == 1 and char == b'"':
            last = token.span()
        elif depth == 1 and char == b":":
            key, begin = last, token.end()
        elif depth == 1 and char in b",}]":
            span = _trimmed(text, begin, token.start())
            if span[0] < span[1]:
                yield key, span
            key, begin = None, token.end()
        if char in b"}]":
            depth -= 1
            if depth == 0:
                return


def _trimmed(text: bytes, start: int, end: int) -> Span:
    while start < end and text[start] in _BLANK:
        start += 1
    while end > start and text[end - 1] in _BLANK:
        end -= 1
    return start, end


class Style(msgspec.Struct, frozen=True):
    """The layout of a text. `indent` None: all on one line."""

    indent: bytes | None = None
    newline: bytes = b"\n"

    @classmethod
    def of(cls, text: bytes) -> Style:
        match = _FIRST_INDENT.match(text.lstrip(_BLANK))
        if match is None:
            return cls()
        return cls(match[1], b"\r\n" if match[0][1:2] == b"\r" else b"\n")

    def value(self, value: Json, level: int) -> bytes:
        """A value as laid out `level` levels deep."""
        raw = msgspec.json.encode(value)
        if self.indent is None:
            return raw
        lines = msgspec.json.format(raw, indent=1).split(b"\n")
        indented = [
            self.indent * (len(line) - len(line.lstrip(b" ")) + level) + line.lstrip(b" ") for line in lines[1:]
        ]
        return self.newline.join([lines[0], *indented])

    def array(self, items: Sequence[bytes], level: int) -> bytes:
        """An array of values that are already laid out."""
        if self.indent is None or not items:
            return b"[" + b",".join(items) + b"]"
        inner = self.newline + self.indent * (level + 1)
        return b"[" + inner + (b"," + inner).join(items) + self.newline + self.indent * level + b"]"

    def member(self, key: str, value: bytes, level: int) -> bytes:
        """A key and its value, with the white space before them."""
        name = msgspec.json.encode(key)
        if self.indent is None:
            return name + b":" + value
        return self.newline + self.indent * level + name + b": " + value


def insert(text: bytes, found: dict[str, Span], new: Sequence[bytes]) -> Edit:
    """The edit that puts members at the end of the object whose members are `found`."""
    at = max((end for _, end in found.values()), default=text.index(b"{") + 1)
    return at, at, (b"," if found else b"") + b",".join(new)


def apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Edits must not overlap. Edits at the same place are applied in their order."""
    out: list[bytes] = []
    position = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        out += [text[position:start], new]
        position = end
    return b"".join([*out, text[position:]])
