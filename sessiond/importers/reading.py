"""Reads a foreign file a batch of events at a time, on the calling thread or process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from sessiond.importers import registry
from sessiond.importers.changed_rows import RowImporter
from sessiond.importers.growth import GrowingImporter, GrowingReading, Growth
from sessiond.importers.record import BUFFER_BYTES, Event, RowsRead
from sessiond.limits import KIB

_EVENTS = 200
_BYTES = 512 * KIB


class Counter:
    """`bytes`: how much has been read so far from the files that `open` opened."""

    def __init__(self) -> None:
        self.bytes = 0

    def open(self, path: str) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Counted(path, self._add), BUFFER_BYTES))

    def _add(self, size: int) -> None:
        self.bytes += size


class _Counted(io.FileIO):
    """Counts the bytes read from it."""

    def __init__(self, path: str, add: Callable[[int], None]) -> None:
        super().__init__(path, "r")
        self._add = add

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        size = super().readinto(buffer)
        self._add(size or 0)
        return size


class SourceReading:
    """Reads one file with its importer. `grows`: it may be read on afterwards, with `growth`, which is None before its end and where
    that cannot be. `before`: what was read of it when it was last read, if it is a database.
    """

    def __init__(
        self, importer: str, path: str, counter: Counter, *, grows: bool = False, before: RowsRead | None = None
    ) -> None:
        one = registry.BY_NAME[importer]
        self._stream: Iterator[Event]
        if grows and isinstance(one, GrowingImporter):
            self._stream = self._growing(one, path)
        elif grows and isinstance(one, RowImporter) and not path.endswith((".json", ".jsonl")):
            self._stream = one.read_changed(path, counter.open, before)
        else:
            self._stream = registry.read(importer, path, counter.open)
        self._counter = counter
        self._broken: Exception | None = None
        self.growth: Growth | None = None

    def _growing(self, importer: GrowingImporter, path: str) -> Iterator[Event]:
        reading = GrowingReading(importer, path, self._counter.open)
        yield from reading.lines()
        self.growth = reading.growth()
        yield from reading.reader.end() if self.growth is None else self.growth.end()

    def batch(self) -> list[Event]:
        """The next events, bounded in number and in the bytes read for them; empty at the end. Raises what the importer
        raises, after all earlier events.
        """
        if self._broken is not None:
            raise self._broken
        batch: list[Event] = []
        enough = self._counter.bytes + _BYTES
        try:
            for event in self._stream:
                batch.append(event)
                if len(batch) >= _EVENTS or self._counter.bytes >= enough:
                    break
        except Exception as error:
            if not batch:
                raise
            self._broken = error
        return batch

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
