"""Reading on where a file of JSON Lines was last read to its end, so that a record costs what it has, not what its file has.

Theory of operation
-------------------
The reader of such a file is a fold: what it knows of the records so far is in its fields. After the last record a reading
keeps it (`Growth`), and says its end with a copy (`Ending`, then what the file's end lets it say). When the file has grown, the
reader is fed the lines since, and says its end again. What the former end said may then be said otherwise.

     read whole ──> Growth ──read_on──> events ──> Growth ...
                      └── whatever else happened to the file: None, and it is read whole

A reading goes on only if nothing but lines at the end can be new:

- it is the same file, at least as long as before;
- the last block before the place that was reached has the same bytes. The blocks before it are compared at leisure
  (`Growth.check`), since a tool may write to the middle of its file;
- nothing was made of a last line without its end. If there is one now, it is left for the next time; if it already is a whole
  record, the file is read whole, as it would be by an import;
- a reader that knew the whole file beforehand says that it would have done the same (`Foresighted`).
"""

from __future__ import annotations

import codecs
import copy
import hashlib
import io
import os
import time
from collections.abc import Iterator
from typing import BinaryIO, Protocol, cast, runtime_checkable

from sessiond.importers.bytestream import ZSTD
from sessiond.importers.lines import Foresighted, LineReader, Position, objects, read_lines
from sessiond.importers.record import Ending, Event, Importer, Opener, SkippedLine
from sessiond.limits import KIB, MIB

BLOCK = 32 * KIB
MOST = 4 * MIB
"""Bytes that are read on at a time; a file that grew by more is read whole."""
_RECODED = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, ZSTD)
"""Files that begin so are not read byte by byte as they are."""


@runtime_checkable
class GrowingImporter(Importer, Protocol):
    """An importer that reads a file of JSON Lines record by record."""

    def reader(self, path: str, open_: Opener) -> LineReader:
        """Return the reader to begin with. OSError."""


class Blocks:
    """Digests of the blocks of a file that was read, and its last bytes."""

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.rest = b""

    def add(self, data: bytes | memoryview) -> None:
        data = self.rest + bytes(data)
        whole = len(data) // BLOCK * BLOCK
        self.digests += (digest_of_block(data[at : at + BLOCK]) for at in range(0, whole, BLOCK))
        self.rest = data[whole:]

    @property
    def size(self) -> int:
        return len(self.digests) * BLOCK + len(self.rest)

    def cut(self, file: BinaryIO, size: int) -> bool:
        """Forget what is behind the first `size` bytes. Returns whether the file still has the block in which they end."""
        count = size // BLOCK
        if count < len(self.digests):
            file.seek(count * BLOCK)
            block = file.read(BLOCK)
            if digest_of_block(block) != self.digests[count]:
                return False
            self.digests, self.rest = self.digests[:count], block
        self.rest = self.rest[: size - count * BLOCK]
        return True


def digest_of_block(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:8]


class SourceOpener:
    """Opens a source for its importer. The bytes that are read from it, by whoever opens it first, go through `blocks`."""

    def __init__(self, path: str, open_: Opener, blocks: Blocks) -> None:
        self._path = path
        self._open = open_
        self._blocks: Blocks | None = blocks

    def open(self, path: str) -> BinaryIO:
        if path != self._path or self._blocks is None:
            return self._open(path)
        blocks, self._blocks = self._blocks, None
        return cast("BinaryIO", io.BufferedReader(_Passed(self._open(path), blocks), 128 * KIB))


class _Passed(io.RawIOBase):
    def __init__(self, file: BinaryIO, blocks: Blocks) -> None:
        super().__init__()
        self._file = file
        self._blocks = blocks

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        if (offset, whence) == (0, 0) and not self._blocks.digests:
            # Somebody looked at how the file begins, and that was all of it: nothing of it is left in the buffer.
            self._file.seek(0)
            self._blocks.rest = b""
        assert (offset, whence) in ((0, 1), (self._blocks.size, 0)), "a source is read from its beginning to its end"
        return self._blocks.size

    def tell(self) -> int:
        return self._blocks.size

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._blocks.add(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class Growth:
    """A file that was read to its end, and its reader. One thread at a time reads on; another one may `check` meanwhile, since blocks
    are only added. `written`: when the file was last written, in nanoseconds.
    """

    def __init__(self, path: str, reader: LineReader, at: Position, blocks: Blocks, state: os.stat_result) -> None:
        self.path = path
        self.written = state.st_mtime_ns
        self._reader = reader
        self._at = at
        self._blocks = blocks
        self._identity = _identity(state)
        self.at_end = not at.cut
        """Whether nothing comes after the last whole line."""
        self.unchecked = len(blocks.digests)
        """How many blocks are still to be compared since the file last grew, from `_next` on, in turn."""
        self._next = 0
        self.grew_at = time.monotonic()

    @property
    def read_to(self) -> int:
        """The end of the last whole line, in bytes."""
        return self._at.offset

    @property
    def lines(self) -> int:
        """The number of whole lines that were read."""
        return self._at.line

    @property
    def weight(self) -> int:
        """About how many bytes it holds in memory."""
        return 2 * KIB + 400 * self._at.line + 50 * len(self._blocks.digests) + len(self._blocks.rest)

    def end(self) -> list[Event]:
        return [Ending(), *copy.deepcopy(self._reader).end()]

    def read_on(self) -> list[Event] | None:
        """Read what the lines say that were written since, and the file's end. None: it must be read whole, and this is of no use any
        more. OSError. Blocks.
        """
        begin = len(self._blocks.digests) * BLOCK
        with open(self.path, "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            grown = state.st_size - self._at.offset
            if _identity(state) != self._identity or not 0 <= grown <= MOST:
                return None
            file.seek(begin)
            data = file.read(state.st_size - begin)
        before = self._blocks.rest
        if len(data) < state.st_size - begin or not data.startswith(before):
            return None
        written = data[len(before) :]
        whole = written[: written.rfind(b"\n") + 1]
        if whole.startswith(_RECODED) or _has_records(written[len(whole) :]):
            return None
        if isinstance(self._reader, Foresighted) and not self._reader.stands_with(
            self._at.line, whole.split(b"\n")[:-1]
        ):
            return None
        events = list(read_lines(self._reader, self.path, lambda _: io.BytesIO(whole), self._at))
        self._blocks.add(whole)
        self.written = state.st_mtime_ns
        self.at_end = len(whole) == len(written)
        self.unchecked, self.grew_at = len(self._blocks.digests), time.monotonic()
        if any(isinstance(one, SkippedLine) and one.failed for one in events):
            return None
        return events + self.end()

    def check(self, count: int) -> bool:
        """Compare the next `count` blocks with what is there now. Returns whether they are the same. OSError. Blocks."""
        first = self._next if self._next < len(self._blocks.digests) else 0
        digests = self._blocks.digests[first : first + count]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(first * BLOCK)
            data = file.read(len(digests) * BLOCK)
        self._next = first + len(digests)
        self.unchecked = max(self.unchecked - len(digests), 0)
        return [digest_of_block(data[at : at + BLOCK]) for at in range(0, len(digests) * BLOCK, BLOCK)] == digests


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def _has_records(line: bytes) -> bool:
    return any(not isinstance(one, SkippedLine) for one in objects("", lambda _: io.BytesIO(line)))


class GrowingReading:
    """Reads a file from its beginning, for `growth` afterwards."""

    def __init__(self, importer: GrowingImporter, path: str, open_: Opener) -> None:
        self._path = path
        self._blocks = Blocks()
        self._at = Position()
        self._open = SourceOpener(path, open_, self._blocks).open
        self._state = os.stat(path)
        self.reader = importer.reader(path, self._open)

    def lines(self) -> Iterator[Event]:
        return read_lines(self.reader, self._path, self._open, self._at)

    def growth(self) -> Growth | None:
        """None if it cannot be read on. OSError."""
        if self._at.beyond or not self._at.offset:
            return None
        with open(self._path, "rb") as file:
            if file.read(4).startswith(_RECODED) or not self._blocks.cut(file, self._at.offset):
                return None
        return Growth(self._path, self.reader, self._at, self._blocks, self._state)
