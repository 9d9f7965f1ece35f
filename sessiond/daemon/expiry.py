"""The only thing that expires by itself: entries that were in the trash for `limits.trash_days`, as counted by `store/trash_age.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from sessiond.clock import Clock
from sessiond.daemon.periodic import PeriodicTask
from sessiond.fs import off_loop
from sessiond.limits import Limits
from sessiond.store.move_guard import MoveGuard
from sessiond.store.trash import Trash

log = logging.getLogger(__name__)
_ROUND_S = 3600.0
_DAY_MS = 24 * 3600 * 1000


class Expiry(PeriodicTask):
    """Checks every trash at start and once an hour. `trashes()` returns the present ones by the store's name."""

    name = "trash expiry"

    def __init__(
        self, trashes: Callable[[], Mapping[str, Trash]], clock: Clock, limits: Limits, moves: MoveGuard | None = None
    ) -> None:
        super().__init__()
        self._trashes = trashes
        self._clock = clock
        self._limits = limits
        self._moves = moves or MoveGuard()

    def start(self) -> None:
        """If `trash_days` is 0, the trash is kept for ever."""
        if self._limits.trash_days:
            super().start()

    async def _run(self) -> None:
        while True:
            await self.round()
            await asyncio.sleep(_ROUND_S)

    async def round(self) -> None:
        """Remove expired entries. What cannot be removed now is tried again next time."""
        after_ms = int(self._limits.trash_days * _DAY_MS)
        for name, trash in self._trashes().items():
            try:
                async with self._moves.one():
                    gone = await off_loop(trash.expire, self._clock.now_ms(), after_ms)
            except OSError as error:
                log.warning("the trash of store %s cannot be cleaned up: %s", name, error)
            except Exception:  # in any case check the other stores' trash, and this one next time
                log.exception("the trash of store %s cannot be cleaned up", name)
            else:
                for trash_id in gone:
                    log.info("store %s: %s left the trash after %g days", name, trash_id, self._limits.trash_days)
