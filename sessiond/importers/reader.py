"""Reads foreign files off the event loop, a batch of events at a time: on a thread or, for a large import, in a separate
process, so that neither the disk nor a parser keeps other clients waiting.
"""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import AsyncGenerator
from contextlib import suppress

import msgspec

from sessiond import pipes
from sessiond.fs import IMPORTING, Threads
from sessiond.importers import reading_worker, registry
from sessiond.importers.growth import Growth
from sessiond.importers.reading import Counter, SourceReading
from sessiond.importers.record import Event, RowsRead
from sessiond.limits import MIB

PROCESS_BYTES = 8 * MIB
"""A smaller import is read on a thread: a process would take longer to start."""

Batch = tuple[list[Event], int]
"""Events, and the number of source bytes read for them."""


class ReadingFault(Exception):
    """The importer failed in the process, or the process itself failed. The text says how."""


class ImportReader:
    """Reads the files of one import, one after the other. `counter`: bytes read of the current file. `grows`: files may be read on
    afterwards, each with the `growth` that is there when it was read.
    """

    def __init__(self) -> None:
        self.threads: Threads = IMPORTING
        self.counter = Counter()
        self.large = False
        """Whether the import is large enough for a process."""
        self.grows = False
        self.growth: Growth | None = None
        self.before: RowsRead | None = None
        """What was read of the next file before: only what has changed is read, which is not worth a process."""
        self._process: subprocess.Popen[bytes] | None = None

    def batches(self, found: registry.Found) -> AsyncGenerator[Batch, None]:
        """The importer's events. Raises what the importer raises, or ReadingFault, after all earlier events."""
        self.growth = None
        if self.large and self.before is None and found.path.encode("utf-8", "replace").decode() == found.path:
            return self._elsewhere(found)
        return self._here(found)

    async def _here(self, found: registry.Found) -> AsyncGenerator[Batch, None]:
        reading = SourceReading(found.importer, found.path, self.counter, grows=self.grows, before=self.before)
        before = self.counter.bytes
        try:
            while batch := await self.threads.run(reading.batch):
                read, before = self.counter.bytes - before, self.counter.bytes
                yield batch, read
            self.growth = reading.growth
        finally:
            # Close its files now, not at garbage collection; and on a thread, because that may take a moment.
            await self.threads.call(reading.close)

    async def _elsewhere(self, found: registry.Found) -> AsyncGenerator[Batch, None]:
        first, before, ended = self.counter.bytes, 0, False
        try:
            await self.threads.call(self._ask, found)
            while True:
                answer = await self.threads.run(self._answer)
                self.counter.bytes = first + answer.size
                if not answer.events:
                    ended = True
                    break
                yield answer.events, answer.size - before
                before = answer.size
        finally:
            if not ended:  # the rest of its events for this file must not be taken for the next file's
                await self.threads.call(self.close)
        if answer.growth is not None:
            self.growth = await self.threads.run(pickle.loads, answer.growth)
        if answer.wrong is not None:
            number, reason = answer.wrong
            raise ReadingFault(reason) if number is None else OSError(number, reason, found.path)

    def _ask(self, found: registry.Found) -> None:
        request = msgspec.msgpack.encode((found.importer, found.path, self.grows))
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = pipes.start(os.path.abspath(reading_worker.__file__))
        assert self._process.stdin is not None
        pipes.write_frame(self._process.stdin, request)

    def _answer(self) -> reading_worker.WorkerResponse:
        assert self._process is not None
        assert self._process.stdout is not None
        answer = pipes.read_frame(self._process.stdout)
        if answer is None:
            raise ReadingFault("the process that reads the file has exited")
        return reading_worker.decode(answer)

    def close(self) -> None:
        """End the process. Blocks briefly."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        process.wait()
