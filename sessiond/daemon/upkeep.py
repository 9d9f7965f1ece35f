"""Keeps the journal from growing without end: saves the changes that its oldest segment is kept for, moves them to a held
file if they cannot be saved, and removes segments that nothing needs. While its disk is full, it looks for room.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from sessiond.daemon.periodic import PeriodicTask
from sessiond.errors import ReadOnly, SessiondError
from sessiond.journal.segments import ReadOnlyState
from sessiond.limits import KIB, Limits
from sessiond.service.open_sessions import OpenSessions

log = logging.getLogger(__name__)
_ROUND_S = 0.5
_TIDY_BYTES = 256 * KIB
"""A journal that is not needed and is smaller than this is left as it is."""

_PATIENCE_S = 30.0
"""For one save; its disk may hang, and what is not saved by then is held back."""


class GrowingJournal(Protocol):
    @property
    def total_bytes(self) -> int: ...

    @property
    def read_only(self) -> ReadOnlyState | None: ...

    def oldest_pending(self) -> list[tuple[str, str]]: ...

    async def rotate_and_trim(self) -> None: ...

    async def try_again(self) -> None: ...

    async def hold_back(self) -> bool: ...


class Upkeep(PeriodicTask):
    name = "journal upkeep"

    def __init__(self, journal: GrowingJournal, open_sessions: OpenSessions, limits: Limits) -> None:
        super().__init__()
        self._journal = journal
        self._open_sessions = open_sessions
        self._limits = limits
        self._saving: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_S)
            try:
                await self._round()
            except SessiondError as error:
                log.warning("the journal was not trimmed: %s", error.message)
            except Exception:  # in any case the next round tries again
                log.exception("the journal was not trimmed")

    async def _round(self) -> None:
        read_only = self._journal.read_only
        if read_only is not None:
            if not read_only.final:
                with suppress(ReadOnly):  # it said so when that began
                    await self._journal.try_again()
            return
        if self._journal.total_bytes > self._limits.journal_bytes:
            await self._shorten()
        elif self._journal.total_bytes > _TIDY_BYTES and not self._open_sessions.dirty:
            await self._journal.rotate_and_trim()

    async def _shorten(self) -> None:
        """If a segment is still needed after everything possible was saved, its changes belong to a store that cannot be
        reached, to a file that cannot be written, ...
        """
        shorter = True
        while shorter and self._journal.total_bytes > self._limits.journal_bytes:
            for store, local_id in self._journal.oldest_pending():
                await self._relieve(store, local_id)
            shorter = await self._journal.hold_back()

    async def _relieve(self, store: str, local_id: str) -> None:
        key = store, local_id
        if key not in self._saving:
            self._saving[key] = asyncio.create_task(self._open_sessions.relieve(store, local_id), name="relieve")
            await asyncio.wait({self._saving[key]}, timeout=_PATIENCE_S)
        if self._saving[key].done():
            self._saving.pop(key).result()
