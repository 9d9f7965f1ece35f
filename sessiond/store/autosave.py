"""The auto-save timer: one task for all folder stores. Also keeps the journal from growing without end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from sessiond.errors import SessiondError
from sessiond.limits import KIB, Limits
from sessiond.store.folder import FolderStore

log = logging.getLogger(__name__)
_ROUND_S = 0.5
_TIDY_BYTES = 256 * KIB
"""A journal that nobody needs and that is smaller than this is left as it is."""


class GrowingJournal(Protocol):
    @property
    def total_bytes(self) -> int: ...

    def oldest_pending(self) -> list[tuple[str, str]]: ...

    async def rotate_and_trim(self) -> None: ...


class AutoSave:
    def __init__(
        self, stores: Callable[[], Mapping[str, FolderStore]], journal: GrowingJournal, limits: Limits
    ) -> None:
        self._stores = stores
        self._journal = journal
        self._limits = limits
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="auto-save")

    async def stop(self) -> None:
        """Returns when no save of the timer's is under way any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            soonest = _ROUND_S
            for store in list(self._stores().values()):
                try:
                    due = await store.save_due()
                except SessiondError as error:
                    log.warning("store %s: %s", store.name, error.message)
                except Exception:  # whatever it is: the timer goes on, for the other stores and the next round
                    log.exception("store %s: auto-save failed", store.name)
                else:
                    soonest = min(soonest, due) if due is not None else soonest
            if self._journal.total_bytes > self._limits.journal_bytes:
                await self._relieve()
            elif self._journal.total_bytes > _TIDY_BYTES and not any(s.dirty_count() for s in self._stores().values()):
                await self._tidy()
            await asyncio.sleep(max(soonest, 0.01))

    async def _tidy(self) -> None:
        """Everything is in its file: the journal need not keep a copy of it."""
        try:
            await self._journal.rotate_and_trim()
        except SessiondError as error:
            log.warning("the journal is not trimmed: %s", error.message)

    async def _relieve(self) -> None:
        """The journal is large: save the sessions that its oldest segment is kept for."""
        stores = self._stores()
        for name, local_id in self._journal.oldest_pending():
            if name in stores:
                try:
                    await stores[name].save_even_blank(local_id)
                except SessiondError as error:
                    log.warning("store %s: %s is not saved: %s", name, local_id, error.message)
