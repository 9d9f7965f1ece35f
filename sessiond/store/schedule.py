"""When a session that changed is saved by itself. Pure: the times come in."""

from __future__ import annotations

from collections.abc import Iterable

from sessiond.store.tracked import Tracked


class Schedule:
    """`interval_s`: dirty for so long at the most; `idle_s`: as soon as it has been quiet for so long. 0 switches either off."""

    def __init__(self, interval_s: float, idle_s: float) -> None:
        self.interval_s = interval_s
        self.idle_s = idle_s

    def due(self, candidates: Iterable[Tracked], now: float) -> tuple[list[Tracked], float | None]:
        """Which are to be saved now, and in how many seconds the next one is; None where there is none."""
        due: list[Tracked] = []
        soonest: float | None = None
        for tracked in candidates:
            at = self._at(tracked)
            if at is None:
                continue
            wait = max(at, tracked.retry_at) - now
            if wait <= 0:
                due.append(tracked)
            else:
                soonest = wait if soonest is None else min(soonest, wait)
        return due, soonest

    def _at(self, tracked: Tracked) -> float | None:
        times = []
        if self.idle_s > 0:
            times.append(tracked.changed_at + self.idle_s)
        if self.interval_s > 0 and tracked.dirty_since is not None:
            times.append(tracked.dirty_since + self.interval_s)
        return min(times, default=None)
