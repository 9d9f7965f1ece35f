"""The two clocks: the wall for what people read, the monotonic one for timers. Tests have their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970 (UTC). May go backwards."""

    def monotonic(self) -> float:
        """Seconds that never go backwards."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
