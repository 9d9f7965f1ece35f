"""Keeps sessions from moving between a store and its trash for a moment, so that a copy of both misses none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class MoveGuard:
    """Deletions, restores, purges and expiries each hold `one`, any number at a time; a backup holds `none` of them.

    A backup begins only when nothing holds `one`. Until then new holders are admitted; otherwise one under way could wait
    for the turn of a session in which another waits for the backup.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._stopped = False
        self._free = asyncio.Event()
        self._free.set()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        while self._stopped:
            await self._free.wait()
        self._under_way += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()

    @contextlib.asynccontextmanager
    async def none(self) -> AsyncIterator[None]:
        while self._stopped or self._under_way:
            await (self._free if self._stopped else self._quiet).wait()
        self._stopped = True
        self._free.clear()
        try:
            yield
        finally:
            self._stopped = False
            self._free.set()
