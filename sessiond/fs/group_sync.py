"""Shares work that serves every caller that asked before it began, such as the sync of a folder: callers that ask while it
is under way share the next round. Each caller has its own thread.
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
    """Called with a key and some work, the same for all callers with that key, it does the work, or returns when another
    caller did so that began after the call.

    A caller is in one of three places: in the waiting round, as its leader or a follower; in the round under way; or done. A
    round does not admit callers once it is under way: the disk may already have read the folder by then.
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
        if isinstance(mine.error, DiskFailed):  # the next sync would succeed, and mean nothing
            raise DiskFailed(mine.error.errno, mine.error.strerror, mine.error.filename) from mine.error
        if mine.error is not None:  # another error concerns only that caller
            self(key, work)
