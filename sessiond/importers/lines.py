"""JSON Lines of any size, one record at a time: split only at `b"\\n"`, with damage reported and skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import BinaryIO, Protocol, runtime_checkable

from sessiond.formats.shared_line import pieces_of
from sessiond.importers.alone import failed_on
from sessiond.importers.bytestream import utf8
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.limits import MIB
from sessiond.model.values import JsonObject

LINE_SUFFIXES = (".jsonl", ".ndjson")
MAX_LINE_BYTES = 64 * MIB
"""Longer lines are skipped: a message may not be larger than that anyway."""

_HEAD_LINES = 50
_PASSED_BYTES = 4 * MAX_LINE_BYTES
"""How many bytes `short_lines` looks at."""


class Position:
    """The point up to which a file of lines was read: `offset` (bytes) and `line` of the end of the last whole line. `cut`: something comes after
    it. `beyond`: there were records in that.
    """

    def __init__(self) -> None:
        self.offset = 0
        self.line = 0
        self.cut = False
        self.beyond = False


def raw_lines(path: str, open_: Opener, at: Position | None = None) -> Iterator[tuple[int, bytes | None]]:
    """Every line with its number, without its line end; None for a line over MAX_LINE_BYTES. `at`: where in the file the lines
    begin that `open_` gives. It is moved past each line.
    """
    at = Position() if at is None else at
    with utf8(path, open_) as file:
        while raw := file.readline(MAX_LINE_BYTES + 1):
            if raw.endswith(b"\n"):
                at.offset += len(raw)
                at.line += 1
                yield at.line, raw[:-1]
            elif len(raw) > MAX_LINE_BYTES:
                at.offset += len(raw) + _to_line_end(file)
                at.line += 1
                yield at.line, None
            else:
                at.cut = True
                yield at.line + 1, raw


def _to_line_end(file: BinaryIO) -> int:
    """Skip the rest of the line. Returns how many bytes that was."""
    passed = 0
    while rest := file.readline(1 << 20):
        passed += len(rest)
        if rest.endswith(b"\n"):
            break
    return passed


def objects(path: str, open_: Opener, at: Position | None = None) -> Iterator[tuple[int, JsonObject] | SkippedLine]:
    """The JSON objects of a file with their line numbers, and what was skipped or repaired between them. Ignores blank
    lines. `at` as for `raw_lines`.
    """
    for number, raw in raw_lines(path, open_, at):
        if raw is None:
            yield SkippedLine(path, number, f"longer than {MAX_LINE_BYTES} bytes")
            continue
        if not raw or raw.isspace():
            continue
        try:
            value, repair = decode(raw)
        except NotJson as error:
            yield from _sharing(path, number, raw, str(error))
            continue
        if not isinstance(value, dict):
            yield SkippedLine(path, number, "not a JSON object")
            continue
        if repair:
            yield SkippedLine(path, number, repair, taken=True)
        yield number, value


def _sharing(path: str, number: int, raw: bytes, reason: str) -> Iterator[tuple[int, JsonObject] | SkippedLine]:
    """The whole records on a line that is not JSON (`reason` says why), and what became of the rest."""
    count, lost = 0, False
    for piece, whole in pieces_of(raw):
        try:
            value, repair = decode(piece) if whole else (None, None)
        except NotJson:
            value, repair = None, None
        if not isinstance(value, dict):
            lost = True
            continue
        count += 1
        if repair:
            yield SkippedLine(path, number, repair, taken=True)
        yield number, value
    if not count:
        yield SkippedLine(path, number, reason)
    elif lost:
        yield SkippedLine(path, number, f"{reason}; read of this line: {count} whole record{'s'[: count > 1]}")
    else:
        yield SkippedLine(path, number, f"{count} records on one line", taken=True)


def beheaded(path: str, line: int) -> SkippedLine:
    """For a session whose first record, which describes it, is not there: `line` has another one."""
    return SkippedLine(path, line, "the session's first record is missing; what came later is read", taken=True)


class LineReader(Protocol):
    """Turns the records of a JSON Lines file into events."""

    def feed(self, line: int, record: JsonObject, /) -> Iterable[Event]: ...

    def end(self) -> Iterable[Event]: ...


@runtime_checkable
class Foresighted(Protocol):
    """A reader that knew all of the file before it was fed the first record."""

    def stands_with(self, before: int, lines: Sequence[bytes], /) -> bool:
        """Return whether all that was made of the records so far, in so many lines, is the same if these follow. They are fed next; if they
        cannot be, the reader is of no use any more.
        """


def fed(reader: LineReader, path: str, line: int, record: JsonObject) -> Iterator[Event]:
    """The events of one record. Raises OSError; any other error costs this record, is reported, and those after it are read."""
    try:
        yield from reader.feed(line, record)
    except OSError:
        raise
    except Exception as error:  # a bug of ours, with what somebody wrote into this record
        yield failed_on(path, "this record", error, line)


def read_with(reader: LineReader, path: str, open_: Opener) -> Iterator[Event]:
    """A complete `read` for an importer: passes every object to the reader and what was skipped to the caller."""
    yield from read_lines(reader, path, open_)
    yield from reader.end()


def read_lines(reader: LineReader, path: str, open_: Opener, at: Position | None = None) -> Iterator[Event]:
    """The same without its end. `at` as for `raw_lines`."""
    at = Position() if at is None else at
    for item in objects(path, open_, at):
        if isinstance(item, SkippedLine):
            yield item
        else:
            at.beyond = at.cut
            yield from fed(reader, path, *item)


def short_lines(path: str, open_: Opener, size: int) -> bytes:
    """The first lines of at most `size` bytes each, as many as fit into `size`: what the file's head would show without
    any huge lines. Raises OSError.
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


@lru_cache(maxsize=1)  # each importer asks for those of the same file
def head_objects(head: bytes) -> Sequence[JsonObject]:
    """The objects on the complete lines at the start of a file, for recognising it: do not change them. Damaged lines are left
    out.
    """
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", _HEAD_LINES)
    found = []
    for raw in lines[:_HEAD_LINES]:
        try:
            value = decode(raw)[0] if raw.strip() else None
        except NotJson:
            found += [item[1] for item in _sharing("", 0, raw, "") if not isinstance(item, SkippedLine)]
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
