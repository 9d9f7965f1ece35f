"""A foreign file read on a thread, a batch of events at a time, so that the loop never waits for a disk or a parser."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator
from typing import BinaryIO, cast

from sessiond.importers import registry
from sessiond.importers.record import Event
from sessiond.limits import KIB
from sessiond.unbroken import unbroken

_EVENTS = 200
_BYTES = 512 * KIB
_BUFFER = 128 * KIB


class _Counted(io.FileIO):
    """Counts what was read of it."""

    def __init__(self, path: str, count: Counter) -> None:
        super().__init__(path, "r")
        self._count = count

    def readinto(self, buffer: bytearray | memoryview, /) -> int | None:  # type: ignore[override]
        size = super().readinto(buffer)
        self._count.bytes += size or 0
        return size


class Counter:
    """`bytes` read so far of the files that `open` opened."""

    def __init__(self) -> None:
        self.bytes = 0

    def open(self, path: str) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Counted(path, self), _BUFFER))


async def batches(found: registry.Found, counter: Counter) -> AsyncGenerator[tuple[list[Event], int], None]:
    """The importer's events, and how many bytes were read for them. Raises what the importer raises, after what came
    before it.
    """
    reading = _Reading(registry.BY_NAME[found.importer].read(found.path, counter.open), counter)
    before = 0
    try:
        while batch := await unbroken(asyncio.to_thread(reading.batch)):
            read, before = counter.bytes - before, counter.bytes
            yield batch, read
    finally:
        # Its files are closed now, not when somebody collects the rubbish; and not here, for that may take a moment.
        await asyncio.to_thread(reading.close)


class _Reading:
    """On the thread."""

    def __init__(self, stream: Iterator[Event], counter: Counter) -> None:
        self._stream = stream
        self._counter = counter
        self._broken: Exception | None = None

    def batch(self) -> list[Event]:
        """The next events, bounded in number and in the bytes that are read for them."""
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
