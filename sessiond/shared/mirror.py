"""Fetches the sessions of a shared store that are only listed here, all of them, while the daemon does other things.

They come in small pages, those that changed last first, and at most two at a time. Their owners take them in one after the other,
which costs more than to fetch them; after each, the daemon is left to others for as long as that took. So a request finds it free
half of the time, and what is fetched does not pile up. What is still to be fetched is in the ledger: after a restart, or when the
hub is back, it goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from sessiond.errors import ReadOnly, SessiondError, Unavailable
from sessiond.limits import HUB_MIRROR_PAGE_BYTES, HUB_MIRRORS_AT_A_TIME
from sessiond.shared.store import SharedStore

log = logging.getLogger(__name__)


class Mirror:
    """`slots`: of all that is fetched of this store; a part of them is always left for what others write now."""

    def __init__(self, store: SharedStore, slots: asyncio.Semaphore) -> None:
        self._store = store
        self._slots = slots
        self._taking_in = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def go_on(self) -> None:
        """Some sessions are only listed, and the hub can be reached."""
        if self._store.unfetched and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._fetch_all(), name=f"mirror of {self._store.name}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _fetch_all(self) -> None:
        listed = self._store.link.ledger.listed
        failed: set[str] = set()
        while found := [one for one in reversed(listed) if one not in failed]:
            waiting = iter(found)
            some = (self._fetch_some(waiting, failed) for _ in range(HUB_MIRRORS_AT_A_TIME))
            ended = await asyncio.gather(*some, return_exceptions=True)
            errors = [one for one in ended if one is not None]
            for error in errors:
                if isinstance(error, SessiondError):
                    log.info("store %s: sessions are fetched later: %s", self._store.name, error.message)
                else:  # a bug of ours: the next look at the hub tries again
                    log.error("store %s: sessions were not fetched", self._store.name, exc_info=error)
            if errors:
                return

    async def _fetch_some(self, waiting: Iterator[str], failed: set[str]) -> None:
        for local_id in waiting:
            try:
                await self._fetch(local_id)
            except (Unavailable, ReadOnly):
                raise
            except SessiondError as error:  # the others need not wait for it
                log.error("store %s: %s was not fetched: %s", self._store.name, local_id, error.message)
                failed.add(local_id)

    async def _fetch(self, local_id: str) -> None:
        ledger = self._store.link.ledger
        if local_id not in ledger.listed:  # somebody opened it
            return
        async with self._slots:
            await self._store.link.pull(local_id, HUB_MIRROR_PAGE_BYTES)
        if local_id in ledger.listed:
            self._store.vanished([local_id])
            return
        async with self._taking_in:
            clock = asyncio.get_running_loop().time
            begun = clock()
            await self._store.taken_in(local_id)
            await asyncio.sleep(clock() - begun)
