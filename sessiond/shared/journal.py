"""A stand-in that the folder of a shared store takes for the journal: the ledger has everything already, so there is nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from sessiond.journal.writer import OnDurable


class NoJournal:
    """Implements `store.context.Journal`."""

    def check(self) -> None:
        pass

    def commit(
        self, store: str, session: str, seq: int, payload: bytes, on_durable: OnDurable | None = None
    ) -> Awaitable[int]:
        raise AssertionError("a shared session commits to the hub")

    def note_saved(self, store: str, session: str, seq: int) -> None:
        pass

    def note_gone(self, store: str, session: str) -> Awaitable[None]:
        return self._nothing()

    def purge(self, store: str, session: str) -> Awaitable[None]:
        return self._nothing()

    def _nothing(self) -> Awaitable[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done
