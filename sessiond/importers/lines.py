"""JSON Lines of any size, one record at a time: split at `b"\\n"` only, damage reported and passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Protocol

from sessiond.importers.bytestream import utf8
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.limits import MIB

LINE_SUFFIXES = (".jsonl", ".ndjson")
MAX_LINE_BYTES = 64 * MIB
"""A longer line is skipped: no message may be larger than that anyway."""

_PASSED_BYTES = 4 * MAX_LINE_BYTES
"""How far `short_lines` looks."""


def raw_lines(path: str, open_: Opener) -> Iterator[tuple[int, bytes | None]]:
    """Every line with its number, without its end. None stands for one over MAX_LINE_BYTES."""
    with utf8(path, open_) as file:
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if raw.endswith(b"\n"):
                yield number, raw[:-1]
            elif len(raw) > MAX_LINE_BYTES:
                _to_line_end(file)
                yield number, None
            else:
                yield number, raw


def _to_line_end(file: BinaryIO) -> int:
    """How many bytes it was away."""
    passed = 0
    while rest := file.readline(1 << 20):
        passed += len(rest)
        if rest.endswith(b"\n"):
            break
    return passed


def objects(path: str, open_: Opener) -> Iterator[tuple[int, dict[str, Any]] | SkippedLine]:
    """The JSON objects of a file with their line numbers, and what was skipped or repaired between them. Blank lines
    are passed over."""
    for number, raw in raw_lines(path, open_):
        if raw is None:
            yield SkippedLine(path, number, f"longer than {MAX_LINE_BYTES} bytes")
            continue
        if not raw or raw.isspace():
            continue
        try:
            value, repair = decode(raw)
        except NotJson as error:
            yield SkippedLine(path, number, str(error))
            continue
        if not isinstance(value, dict):
            yield SkippedLine(path, number, "not a JSON object")
            continue
        if repair:
            yield SkippedLine(path, number, repair, taken=True)
        yield number, value


class LineReader(Protocol):
    """What an importer of JSON Lines makes of its records."""

    def feed(self, line: int, record: dict[str, Any], /) -> Iterable[Event]: ...

    def end(self) -> Iterable[Event]: ...


def read_with(reader: LineReader, path: str, open_: Opener) -> Iterator[Event]:
    """The whole of an importer's `read`: every object goes to the reader, what was skipped goes through."""
    for item in objects(path, open_):
        if isinstance(item, SkippedLine):
            yield item
        else:
            yield from reader.feed(*item)
    yield from reader.end()


def short_lines(path: str, open_: Opener, size: int) -> bytes:
    """The first lines that are no longer than `size` bytes, as many as fit into `size`: what a file's head would show if
    no giant stood before them. Raises OSError.
    """
    taken, room, passed = [], size, 0
    with utf8(path, open_) as file:
        while passed < _PASSED_BYTES and (raw := file.readline(size + 1)):
            passed += len(raw)
            if len(raw) > size and not raw.endswith(b"\n"):
                passed += _to_line_end(file)
                continue
            if len(raw) > room:
                break
            taken.append(raw)
            room -= len(raw)
    return b"".join(taken)


def head_objects(head: bytes) -> list[dict[str, Any]]:
    """The objects on the complete lines at the beginning of a file, for recognising it. Damaged lines are left out."""
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = []
    for raw in lines[:50]:
        try:
            value = decode(raw)[0] if raw.strip() else None
        except NotJson:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
