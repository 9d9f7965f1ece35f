"""Counts how long a trash has existed. Synchronous.

A clock that jumped does not show how long anything was in the trash, and a single reading does not show that it jumped. So
time is counted as it passes: at each look the time since the last one, but at most a day, and nothing if the clock went
back. While a daemon runs and looks more often than that, the count is exact. A jump of any size counts as one day, and so
does the time without a daemon: the trash then keeps its entries longer.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import msgspec

from sessiond.fs import FileSystem, atomic_write
from sessiond.ready import ready

MOST_MS = 24 * 3600 * 1000
"""The most that one look adds."""


class _Seen(msgspec.Struct):
    seen_ms: int
    """Milliseconds since 1970, by the clock at the last look."""
    lived_ms: int
    """Everything that was counted up to then."""


ready(_Seen)


class Ageing:
    """The age of one trash. The count is in its folder, in `.age.json`."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._path = posixpath.join(folder, ".age.json")

    def now(self, now_ms: int, least: Callable[[], int]) -> int:
        """Return what a look would count now, in milliseconds; `least()` if the earlier count is unknown. OSError."""
        last = self._last()
        return least() if last is None else _counted(last, now_ms)

    def look(self, now_ms: int, least: Callable[[], int]) -> int:
        """Count the time that has passed; durable when this returns. Returns the total, as `now` does. OSError."""
        lived = self.now(now_ms, least)
        atomic_write(self._fs, self._path, msgspec.json.encode(_Seen(now_ms, lived)), follow=False)
        return lived

    def _last(self) -> _Seen | None:
        """None if nothing was counted yet, or if the file cannot be understood."""
        if self._fs.stat(self._path) is None:
            return None
        try:
            return msgspec.json.decode(self._fs.read(self._path), type=_Seen)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _counted(last: _Seen, now_ms: int) -> int:
    return last.lived_ms + min(max(now_ms - last.seen_ms, 0), MOST_MS)
