"""A clock that stops until a test moves it."""

from __future__ import annotations


class ManualClock:
    def __init__(self, start_ms: int = 1_768_141_822_000) -> None:
        self._ms = start_ms
        self._monotonic = 1000.0

    def now_ms(self) -> int:
        return self._ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._ms += int(seconds * 1000)
        self._monotonic += seconds

    def set_wall(self, ms: int) -> None:
        """The wall clock jumps; the monotonic one does not."""
        self._ms = ms
