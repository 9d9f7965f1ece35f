"""Cursors that a client gets. They name a place in this process's memory: the daemon's own cursors contain what they were made from,
which may be the name of a session that must not be shown.
"""

from __future__ import annotations

import os
from collections import OrderedDict

from sessiond.mcp.refusals import stale_cursor

MAX_KEPT = 1000
"""Places kept; the oldest are forgotten first."""


class Cursors:
    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[object, str]] = OrderedDict()

    def give(self, call: object, place: str | None) -> str | None:
        """A cursor for a place in the daemon's results of a call; None for None."""
        if place is None:
            return None
        made = os.urandom(9).hex()
        self._kept[made] = (call, place)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return made

    def place(self, call: object, cursor: str) -> str | None:
        """Return where the call goes on. Refused unless the cursor was given for an equal call."""
        if not cursor:
            return None
        made_for, place = self._kept.get(cursor, (None, ""))
        if made_for != call:
            raise stale_cursor()
        return place
