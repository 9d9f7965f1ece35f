"""How much time a trash has seen pass. Synchronous.

A clock that leapt tells nothing of how long anything lay in the trash, and one reading of it does not show that it leapt.
So time is counted as it is seen to pass: at each look what has passed since the last one, but no more than a day, and
nothing where the clock went back. While a daemon runs and looks more often than that, the count is exact. A leap of any
size counts as one day, and so does the time that no daemon ran: what lies in the trash then stays longer.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

import msgspec

from sessiond.fs import FileSystem, atomic_write
from sessiond.ready import ready

MOST_MS = 24 * 3600 * 1000
"""What one look adds at most."""


class _Seen(msgspec.Struct):
    seen_ms: int
    """Milliseconds since 1970, as the clock said at the last look."""
    lived_ms: int
    """All that was counted up to then."""


ready(_Seen)


class Ageing:
    """Of one trash. What was counted lies in its folder, in `.age.json`."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._path = posixpath.join(folder, ".age.json")

    def now(self, now_ms: int, least: Callable[[], int]) -> int:
        """What a look would count now, in milliseconds; `least()` where it is not known what was counted. OSError."""
        last = self._last()
        return least() if last is None else _counted(last, now_ms)

    def look(self, now_ms: int, least: Callable[[], int]) -> int:
        """Count what has passed; durable when this returns. All that was counted, as `now`. OSError."""
        lived = self.now(now_ms, least)
        atomic_write(self._fs, self._path, msgspec.json.encode(_Seen(now_ms, lived)), follow=False)
        return lived

    def _last(self) -> _Seen | None:
        """None where nothing was counted yet, or where that cannot be understood."""
        if self._fs.stat(self._path) is None:
            return None
        try:
            return msgspec.json.decode(self._fs.read(self._path), type=_Seen)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


def _counted(last: _Seen, now_ms: int) -> int:
    return last.lived_ms + min(max(now_ms - last.seen_ms, 0), MOST_MS)
