"""The auto-save timer of all sessions.

Each session whose file is behind has one timer of its own, so that nothing looks through all sessions for one. A change
does not move the timer: when it fires too early, it is set again.

Those whose time has come wait in one queue, and a few hands take from it: however many they are, no turn of the loop does
more than begin one save for each hand. Small sessions are saved many at a time, for they mostly wait for the disk, and
who waits for it at the same time shares its syncs. Large ones are few at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from sessiond.clock import Clock
from sessiond.errors import SessiondError
from sessiond.limits import LARGE_SAVE_BYTES, LARGE_SAVES_AT_A_TIME, SAVES_AT_A_TIME

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession

log = logging.getLogger(__name__)
_RETRY_S = 10.0


class AutoSave:
    """`interval_s`: a session is dirty for so long at the most; `idle_s`: it is saved as soon as it has been quiet for so long.
    0 switches either off. `spawn`: runs a coroutine that nobody waits for.
    """

    def __init__(
        self,
        clock: Clock,
        spawn: Callable[[Coroutine[object, object, object]], None],
        *,
        interval_s: float,
        idle_s: float,
    ) -> None:
        self.interval_s = interval_s
        self.idle_s = idle_s
        self._clock = clock
        self._spawn = spawn
        self._small = asyncio.Semaphore(SAVES_AT_A_TIME)
        self._large = asyncio.Semaphore(LARGE_SAVES_AT_A_TIME)
        self._due: deque[OpenSession] = deque()
        self._hands = 0
        """That take from `_due`."""
        self._timers: dict[OpenSession, asyncio.TimerHandle] = {}

    def changed(self, one: OpenSession, now: float) -> None:
        """Its file is behind: it was changed, or a save left some of it for the next one. `now`: of the monotonic clock."""
        one.changed_at = now
        if one.dirty_since is None:
            one.dirty_since = one.changed_at
        if one not in self._timers:
            self._arm(one)

    def _due_at(self, one: OpenSession) -> float | None:
        """By the monotonic clock."""
        times = []
        if self.idle_s > 0:
            times.append(one.changed_at + self.idle_s)
        if self.interval_s > 0 and one.dirty_since is not None:
            times.append(one.dirty_since + self.interval_s)
        return max(min(times), one.retry_at) if times else None

    def _arm(self, one: OpenSession) -> None:
        due = self._due_at(one)
        if due is not None:
            wait = max(due - self._clock.monotonic(), 0.0)
            self._timers[one] = asyncio.get_running_loop().call_later(wait, self._look, one)

    def _look(self, one: OpenSession) -> None:
        """Its time may have come."""
        del self._timers[one]
        if not one.dirty or one.ended:
            one.dirty_since = None
        elif not one.never_filled:  # a blank one is brought back by its next change, if there ever is one
            due = self._due_at(one)
            if due is not None and due <= self._clock.monotonic() + 0.001:
                self.soon(one)
            else:
                self._arm(one)

    def soon(self, one: OpenSession) -> None:
        """Save it as soon as there is a free hand. Nobody waits for that."""
        self._due.append(one)
        if self._hands < SAVES_AT_A_TIME:
            self._hands += 1
            self._spawn(self._take())

    async def _take(self) -> None:
        try:
            while self._due:
                await self.save(self._due.popleft())
        finally:
            self._hands -= 1

    async def save(self, one: OpenSession) -> None:
        """Save it in its turn. What cannot be saved is tried again later; its words stay in the journal."""
        if one.ended:
            return
        with one.in_use():
            async with self._slots(one):
                try:
                    await self._save(one)
                except SessiondError as error:
                    if one.dirty:  # else it was deleted meanwhile
                        log.warning("session %s is not saved: %s", one.wire_id, error.message)
                        one.retry_at = self._clock.monotonic() + _RETRY_S
                except Exception:  # a fault of ours in one session: the others are saved all the same
                    log.exception("session %s is not saved", one.wire_id)
                    one.retry_at = self._clock.monotonic() + _RETRY_S
            if one.dirty and one not in self._timers:
                self._arm(one)

    def _slots(self, one: OpenSession) -> asyncio.Semaphore:
        """One that is not read yet may be large."""
        small = one.session is not None and one.session.weight < LARGE_SAVE_BYTES
        return self._small if small else self._large

    async def _save(self, one: OpenSession) -> None:
        problem = one.store.problem
        if problem is not None and problem.kind in ("unavailable", "readOnly"):
            one.retry_at = self._clock.monotonic() + _RETRY_S  # it has been said, and nothing is tried there
        else:
            await one.save()

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
