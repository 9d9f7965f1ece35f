"""Reads one large JSON document element by element: the items of its arrays are returned one at a time, whatever the size
of the document.

The scanner works on bytes and knows only strings and brackets; `jsontext` then decodes each element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from sessiond.importers.bytestream import utf8
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Opener, SkippedLine
from sessiond.limits import MIB
from sessiond.model.values import JsonObject

MAX_ELEMENT_BYTES = 64 * MIB
_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb"[^ \t\r\n,\]}]++")
_TO_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)


class DocumentItem(msgspec.Struct, frozen=True):
    """`key` is the member of the root object (None in a root array). `element`: an item of its array, not its whole
    value.
    """

    key: str | None
    value: Any
    element: bool
    line: int

    @property
    def member(self) -> str:
        """The key of a whole value, which always has one."""
        assert self.key is not None
        return self.key


class Root(msgspec.Struct, frozen=True):
    """The start of a root object, or of one in a root array. The items that follow are its members."""

    line: int


class _CutOff(Exception):
    """The document ends in the middle."""


class _Broken(Exception):
    """Raised if what comes next is not JSON."""


class _Scanner:
    """Walks over bytes, and keeps only those not yet consumed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = b""
        self._at = 0
        self._ended = False
        self.line = 1

    def _more(self) -> bool:
        """Read more, in growing pieces, so that a long string is not scanned again and again."""
        if self._ended:
            return False
        rest = self._buffer[self._at :]
        chunk = self._file.read(max(256 * 1024, len(rest)))
        self._ended = not chunk
        self._buffer, self._at = rest + chunk, 0
        return bool(chunk)

    def _consume(self, end: int) -> bytes:
        piece = self._buffer[self._at : end]
        self.line += piece.count(b"\n")
        self._at = end
        return piece

    def peek(self) -> bytes:
        """The next byte that is not white space; b"" at the end."""
        while True:
            match = _SPACE.match(self._buffer, self._at)
            assert match is not None
            self._consume(match.end())
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._more():
                return b""

    def take(self, expected: bytes) -> None:
        found = self.peek()
        if not found:
            raise _CutOff
        if found != expected:
            raise _Broken(f"expected {expected.decode()!r}")
        self._at += 1

    def value(self) -> bytes | None:
        """The bytes of the next value; None if it is over the limit and was skipped."""
        first = self.peek()
        if not first:
            raise _CutOff
        if first in b"[{":
            return self._nested()
        pattern = _STRING if first == b'"' else _SCALAR
        while True:
            match = pattern.match(self._buffer, self._at)
            if match and (pattern is _STRING or match.end() < len(self._buffer)):
                return self._consume(match.end())
            if not match and pattern is _SCALAR:
                raise _Broken("expected a value")
            if not self._more():
                raise _CutOff  # a number at the end of a file may lack digits

    def _nested(self) -> bytes | None:
        depth, at, taken = 0, self._at, []
        dropped = False
        while True:
            match = _TO_BRACKET.match(self._buffer, at)
            assert match is not None
            at = match.end()
            if at < len(self._buffer) and self._buffer[at : at + 1] != b'"':
                depth += 1 if self._buffer[at : at + 1] in b"[{" else -1
                at += 1
                if depth == 0:
                    taken.append(self._consume(at))
                    return None if dropped else b"".join(taken)
                continue
            if at - self._at > MAX_ELEMENT_BYTES:
                taken, dropped = [], True
                self._consume(at)
            before = self._at
            if not self._more():
                raise _CutOff
            at -= before


def items(path: str, open_: Opener, arrays: frozenset[str]) -> Iterator[DocumentItem | SkippedLine]:
    """A root array: its elements. A root object: its members, those named in `arrays` element by element.

    A document that is cut off or broken yields what came before, then a SkippedLine.
    """
    with utf8(path, open_) as file:
        scanner = _Scanner(file)
        try:
            first = scanner.peek()
            if first == b"[":
                yield from _elements(scanner, path, None)
            elif first == b"{":
                yield from _members(scanner, path, arrays)
            elif first:
                raise _Broken("expected an array or an object")
        except _CutOff:
            yield SkippedLine(path, scanner.line, "cut off in the middle")
        except _Broken as error:
            yield SkippedLine(path, scanner.line, f"not valid JSON: {error}")


def roots(path: str, open_: Opener, arrays: frozenset[str]) -> Iterator[Root | DocumentItem | SkippedLine]:
    """Any number of root objects, in an array or one after the other: each as a Root and its members as from `items`.

    Anything else is skipped and reported. A document that is cut off or broken yields what came before.
    """
    with utf8(path, open_) as file:
        scanner = _Scanner(file)
        try:
            while first := scanner.peek():
                if first != b"[":
                    yield from _root(scanner, path, arrays)
                    continue
                scanner.take(b"[")
                while scanner.peek() != b"]":
                    yield from _root(scanner, path, arrays)
                    if scanner.peek() != b"]":
                        scanner.take(b",")
                scanner.take(b"]")
        except _CutOff:
            yield SkippedLine(path, scanner.line, "cut off in the middle")
        except _Broken as error:
            yield SkippedLine(path, scanner.line, f"not valid JSON: {error}")


def _root(scanner: _Scanner, path: str, arrays: frozenset[str]) -> Iterator[Root | DocumentItem | SkippedLine]:
    if scanner.peek() == b"{":
        yield Root(scanner.line)
        yield from _members(scanner, path, arrays)
        return
    for found in _one(scanner, path, None, element=True):
        yield SkippedLine(path, found.line, "not an object") if isinstance(found, DocumentItem) else found


def _members(scanner: _Scanner, path: str, arrays: frozenset[str]) -> Iterator[DocumentItem | SkippedLine]:
    scanner.take(b"{")
    if scanner.peek() == b"}":
        scanner.take(b"}")
        return
    while True:
        raw_key = scanner.value() if scanner.peek() == b'"' else None
        if raw_key is None:
            scanner.take(b'"')
            raise _Broken("expected a key")
        key = str(_decoded(raw_key))
        scanner.take(b":")
        if key in arrays and scanner.peek() == b"[":
            yield from _elements(scanner, path, key)
        else:
            yield from _one(scanner, path, key, element=False)
        if scanner.peek() != b",":
            scanner.take(b"}")
            return
        scanner.take(b",")


def _elements(scanner: _Scanner, path: str, key: str | None) -> Iterator[DocumentItem | SkippedLine]:
    scanner.take(b"[")
    if scanner.peek() == b"]":
        scanner.take(b"]")
        return
    while True:
        yield from _one(scanner, path, key, element=True)
        if scanner.peek() != b",":
            scanner.take(b"]")
            return
        scanner.take(b",")


def _one(scanner: _Scanner, path: str, key: str | None, *, element: bool) -> Iterator[DocumentItem | SkippedLine]:
    scanner.peek()
    line = scanner.line
    raw = scanner.value()
    if raw is None:
        yield SkippedLine(path, line, f"larger than {MAX_ELEMENT_BYTES} bytes")
        return
    try:
        value, repair = decode(raw)
    except NotJson as error:
        yield SkippedLine(path, line, str(error))
        return
    if repair:
        yield SkippedLine(path, line, repair, taken=True)
    yield DocumentItem(key, value, element, line)


def _decoded(raw: bytes) -> object:
    try:
        return decode(raw)[0]
    except NotJson as error:
        raise _Broken(str(error).removeprefix("not valid JSON: ")) from None


def members(path: str, open_: Opener, arrays: frozenset[str]) -> JsonObject:
    """The members of the root object except `arrays`, wherever they are in it; empty for anything else."""
    found: JsonObject = {}
    for item in items(path, open_, arrays):
        if isinstance(item, DocumentItem) and not item.element:
            found[item.member] = item.value
    return found
