"""Work that serves everybody who asked for it before it began, such as the sync of a folder: those who ask while it is
under way share the next one. A thread each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from sessiond.fs.port import DiskFailed


class _Round:
    def __init__(self) -> None:
        self.over = threading.Event()
        self.error: BaseException | None = None


class GroupSync:
    """Called with a key and some work, the same for all who have that key, it does the work, or returns when somebody else did
    so who began after the call.

    One that asks is in one of three places: in the round that waits, as its leader or behind it; in the one that is under
    way; or done. A round takes nobody in once it is under way: the disk may have looked at the folder by then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, _Round] = {}
        self._under_way: dict[Hashable, _Round] = {}

    def __call__(self, key: Hashable, work: Callable[[], None]) -> None:
        with self._lock:
            mine, before = self._waiting.get(key), self._under_way.get(key)
            leads = mine is None
            if mine is None:
                mine = self._waiting[key] = _Round()
        if leads:
            self._lead(key, work, mine, before)
        else:
            self._follow(key, work, mine)

    def _lead(self, key: Hashable, work: Callable[[], None], mine: _Round, before: _Round | None) -> None:
        if before is not None:
            before.over.wait()
        with self._lock:
            del self._waiting[key]
            self._under_way[key] = mine
        try:
            work()
        except BaseException as error:
            mine.error = error
            raise
        finally:
            with self._lock:
                del self._under_way[key]
            mine.over.set()

    def _follow(self, key: Hashable, work: Callable[[], None], mine: _Round) -> None:
        mine.over.wait()
        if isinstance(mine.error, DiskFailed):  # the next sync would say that all is well, and it is not
            raise DiskFailed(mine.error.errno, mine.error.strerror, mine.error.filename) from mine.error
        if mine.error is not None:  # that was its own affair
            self(key, work)
