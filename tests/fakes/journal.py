"""The real journal without its thread: every call is carried out at once, so that a crash may come between any two
steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from sessiond.errors import Indeterminate, ReadOnly
from sessiond.fs import FileSystem
from sessiond.journal.record import RecordEntry, RecordKind
from sessiond.journal.replay import replay
from sessiond.journal.segments import Segments
from sessiond.journal.writer import OnDurable
from sessiond.limits import Limits


class InlineJournal:
    def __init__(self, fs: FileSystem, folder: str, limits: Limits) -> None:
        self._segments = Segments(fs, folder, limits, lambda: 0.0)
        contents = self._segments.recover(lambda: b"0123456789abcdef")
        kept = replay(record for _, record in contents.records)
        self.pending = {key: [record.entry.payload for record in records] for key, records in kept.items()}
        self.damage = contents.damage

    def close(self) -> None:
        """A process that runs thousands of tests may not keep the files of each."""
        self._segments.close()

    @property
    def total_bytes(self) -> int:
        return self._segments.total_bytes

    def check(self) -> None:
        self._segments.check()

    def commit(
        self, store: str, session: str, seq: int, payload: bytes, on_durable: OnDurable | None = None
    ) -> Awaitable[int]:
        return self._done(RecordEntry(RecordKind.CHANGES, store, session, seq, payload))

    def note_saved(self, store: str, session: str, seq: int) -> None:
        mark = RecordEntry(RecordKind.SAVED, store, session, seq)
        try:
            self._segments.write([mark], sync=False)
        except ReadOnly:
            self._segments.count_saved([mark])
        except Indeterminate:
            return
        self._segments.trim()

    def note_gone(self, store: str, session: str) -> Awaitable[None]:
        return self._done(RecordEntry(RecordKind.GONE, store, session))

    async def purge(self, store: str, session: str) -> None:
        self._segments.purge(store, session)

    def _done(self, entry: RecordEntry) -> asyncio.Future:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self._segments.write([entry], sync=True))
        except (ReadOnly, Indeterminate) as error:
            future.set_exception(error)
        return future
