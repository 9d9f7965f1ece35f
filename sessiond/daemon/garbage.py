"""Python's search for cycles that nobody holds any more, at moments when nobody waits for it.

Python looks through all of memory whenever the objects that last have become a quarter more. Everything stands still
meanwhile, for 0.2 s where 10,000 sessions are open, and nothing is found: what the daemon lets go of is freed at once,
because nobody holds it. So only young objects are looked through as they come, which takes a millisecond or two. All of
them are when the daemon has nothing to do.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

YOUNG, MIDDLE = 700, 10
"""Python's own: objects that are new, and searches among those till the middle-aged ones are searched as well."""
DUE = 10
"""So many searches among the middle-aged are worth a search of everything; so Python itself has it."""
OVERDUE = 2000
"""After so many (14 million objects that lasted for a while) it is done, whoever waits."""
SHORT_S, LONG_LOOKS = 0.02, 12
"""A search that takes longer than this would be noticed: the daemon must have been quiet for so many looks before."""
QUIET = 0.02
"""A daemon that used less of a processor than this share between two looks is quiet."""

_NEVER = 1 << 30
_log = logging.getLogger(__name__)


def leave_the_old_alone() -> None:
    """From now on nothing but `Garbage` searches all of memory. What is there now is never searched again: it stays."""
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, _NEVER)
    gc.enable()


class Garbage:
    """`now`, `used`: seconds that have passed, and seconds of processor that were used by this process."""

    def __init__(
        self, now: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.process_time
    ) -> None:
        self._now = now
        self._used = used
        self._last = (now(), used())
        self._took = float("inf")  # how long the first one takes is not known
        self._quiet_looks = 0

    def look(self, *, alone: bool) -> bool:
        """Search all of memory if it is time and nobody would notice; whether it was done. `alone`: nobody is connected."""
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
