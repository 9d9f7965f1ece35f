"""Allocates room in the last segment ahead of its records.

A sync that has to record a new file length takes half as long again. So the file is extended for some hundred records at
once, with zeros, and these are synced. Only the last segment may end in zeros: they are cut off before the next one begins.
"""

from __future__ import annotations

from sessiond.fs import DiskFailed, LogFile
from sessiond.limits import Limits


class Room:
    """The room in one segment's file."""

    def __init__(self, limits: Limits) -> None:
        self._step = limits.segment_step_bytes
        self._most = limits.segment_bytes
        self._end = 0
        """The file is at least this long."""
        self._refused = False

    def begin(self, log: LogFile) -> None:
        """Start with another file, which ends where its records end."""
        self._end, self._refused = log.size, False

    def take(self, log: LogFile, needed: int) -> None:
        """Make room for this many more bytes. DiskFailed. A full disk is not an error: the file then grows with each record,
        and if there is no space even for that, the write fails.
        """
        end, step = log.size + needed, self._step
        if end <= self._end or needed >= step or self._refused:
            return
        size = min(-(-end // step) * step, self._most)
        if size <= end:
            return
        try:
            log.reserve(size)
        except DiskFailed:
            self._refused = True
            raise
        except OSError:
            self._refused = True
        else:
            self._end = size

    def cut(self, log: LogFile) -> bool:
        """Let the file end where its records end; returns whether that must still be synced. OSError."""
        if self._end <= log.size and not self._refused:
            return False
        log.truncate(log.size)
        self.begin(log)
        return True
