"""The auto-save timer of all sessions.

Each session whose file is behind has its own timer, so nothing has to search all sessions. A change does not move the timer:
if it fires too early, it is set again.

Sessions that are due wait in a queue for each store, and a few workers take from it: however many are due, a turn of the
loop only begins one save for each worker, and a disk that hangs keeps only the workers of its own store. Many small sessions
are saved at a time, because they mostly wait for the disk, and saves that wait at the same time share its syncs. Only a few
large ones are saved at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from sessiond.clock import Clock
from sessiond.errors import SessiondError
from sessiond.limits import LARGE_SAVE_BYTES, LARGE_SAVES_AT_A_TIME, SAVES_AT_A_TIME

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession

log = logging.getLogger(__name__)
_RETRY_S = 10.0


class _Queue:
    """The queue of one store."""

    def __init__(self) -> None:
        self.small = asyncio.Semaphore(SAVES_AT_A_TIME)
        self.large = asyncio.Semaphore(LARGE_SAVES_AT_A_TIME)
        self.due: deque[OpenSession] = deque()
        self.hands = 0
        """How many workers take from `due`."""


class AutoSave:
    """`interval_s`: how long a session may be dirty; `idle_s`: it is saved as soon as nothing has changed it for this long.
    0 switches either off. `spawn` runs a coroutine that nothing waits for.
    """

    def __init__(
        self,
        clock: Clock,
        spawn: Callable[[Coroutine[object, object, object]], object],
        *,
        interval_s: float,
        idle_s: float,
    ) -> None:
        self.interval_s = interval_s
        self.idle_s = idle_s
        self._clock = clock
        self._spawn = spawn
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)
        """By the store's name."""
        self._timers: dict[OpenSession, asyncio.TimerHandle] = {}

    def changed(self, one: OpenSession, now: float) -> None:
        """Its file is behind: it was changed, or a save left some of it for the next one. `now`: the time of the monotonic
        clock.
        """
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
        """Save it if it is due."""
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
        """Save it as soon as a worker is free. The caller does not wait."""
        queue = self._queues[one.store.name]
        queue.due.append(one)
        if queue.hands < SAVES_AT_A_TIME:
            queue.hands += 1
            self._spawn(self._take(queue))

    async def _take(self, queue: _Queue) -> None:
        try:
            while queue.due:
                await self.save(queue.due.popleft())
        finally:
            queue.hands -= 1

    async def save(self, one: OpenSession) -> None:
        """Save it in its turn. If that fails it is tried again later; the changes remain in the journal."""
        if one.ended:
            return
        with one.in_use():
            async with self._slots(one):
                try:
                    await self._save(one)
                except SessiondError as error:
                    if one.dirty:  # else it was deleted meanwhile
                        log.warning("session %s was not saved: %s", one.wire_id, error.message)
                        one.retry_at = self._clock.monotonic() + _RETRY_S
                except Exception:  # a bug of ours in one session: the others are still saved
                    log.exception("session %s was not saved", one.wire_id)
                    one.retry_at = self._clock.monotonic() + _RETRY_S
            if one.dirty and one not in self._timers:
                self._arm(one)

    def _slots(self, one: OpenSession) -> asyncio.Semaphore:
        """A session that is not read yet may be large."""
        small = one.session is not None and one.session.weight < LARGE_SAVE_BYTES
        queue = self._queues[one.store.name]
        return queue.small if small else queue.large

    async def _save(self, one: OpenSession) -> None:
        problem = one.store.problem
        if problem is not None and problem.kind in ("unavailable", "readOnly"):
            one.retry_at = self._clock.monotonic() + _RETRY_S  # already reported, and nothing is tried there
        else:
            await one.save()

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
