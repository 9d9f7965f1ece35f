"""The daemon's memory: runs Python's search for unreachable cycles at moments when nobody waits for it, and gives back what is free.

Python searches all of memory whenever the number of long-lived objects has grown by a quarter. Everything stops meanwhile,
for 0.2 s with 10,000 open sessions, and nothing is found: what the daemon releases is freed at once, by reference counting.
So normally only young objects are searched, which takes a millisecond or two. All objects are searched when the daemon has
nothing to do.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

YOUNG, MIDDLE = 700, 10
"""Python's defaults: new objects before a search, and such searches before the middle-aged objects are searched as well."""
DUE = 10
"""This many searches of middle-aged objects justify a search of everything, as in Python itself."""
OVERDUE = 2000
"""After this many (14 million objects that lasted for a while) it is done even if clients wait."""
SHORT_S, LONG_LOOKS = 0.02, 12
"""A search that takes longer than this would be noticed: the daemon must have been quiet for that many looks before."""
QUIET = 0.02
"""A daemon that used less than this share of a processor between two looks is quiet."""

_NEVER = 1 << 30
_log = logging.getLogger(__name__)


def leave_the_old_alone() -> None:
    """From now on only `Garbage` searches all of memory. Objects that exist now are never searched again: they are permanent."""
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, _NEVER)
    gc.enable()


class Garbage:
    """`now`, `used`: elapsed seconds, and processor seconds used by this process."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.process_time
    ) -> None:
        self._now = now
        self._used = used
        self._last = (now(), used())
        self._took = float("inf")  # unknown before the first one
        self._quiet_looks = 0

    def look(self, *, alone: bool) -> bool:
        """Search all of memory if it is time and nobody would notice; returns whether it did. `alone`: no client is connected."""
        last, self._last = self._last, (self._now(), self._used())
        quiet = self._last[1] - last[1] <= QUIET * (self._last[0] - last[0])
        self._quiet_looks = self._quiet_looks + 1 if quiet else 0
        searches = gc.get_count()[2]
        unnoticed = quiet and (alone or self._took <= SHORT_S or self._quiet_looks >= LONG_LOOKS)
        if searches < DUE or not (unnoticed or searches >= OVERDUE):
            return False
        began = self._now()
        found = gc.collect()
        self._took = self._now() - began
        self._last = (self._now(), self._used())
        _log.debug("searched all of memory in %.3f s, found %d objects", self._took, found)
        return True


def give_back() -> None:
    """Call this on a thread: it takes some milliseconds for every hundred megabytes. Does nothing if the C library lacks the call."""
    import ctypes  # imported late, so that the first answer does not wait

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
