"""Linux reports what is done in a folder: the three calls of inotify(7), for which Python has no module.

The calls are those of the C library that Python itself uses. Creating an `Inotify` loads ctypes, and `add` waits for the
disk: neither belongs on the event loop.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, UNMOUNT, OVERFLOW, IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
ONLY_DIR, DONT_FOLLOW, MASK_ADD, IS_DIR = 0x1000000, 0x2000000, 0x20000000, 0x40000000

_HEAD = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class Noticed(NamedTuple):
    """`watch` is what `add` returned, -1 for an overflow. `name` is that of an entry of the folder, "" for the folder itself."""

    watch: int
    mask: int
    name: str


class Inotify:
    """OSError: ENOSYS if the system lacks it, EMFILE if the user has too many."""

    def __init__(self) -> None:
        import ctypes  # imported late, so that the first answer does not wait

        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._libc = libc
        self._errno = ctypes.get_errno
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise self._error("inotify")

    def _error(self, path: str) -> OSError:
        number = self._errno()
        return OSError(number, os.strerror(number), path)

    def fileno(self) -> int:
        return self._fd

    def add(self, path: str, mask: int) -> int:
        """Watch a folder from now on. OSError; ENOSPC if the user watches too many folders."""
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
        if watch < 0:
            raise self._error(path)
        return watch

    def drop(self, watch: int) -> None:
        """Stop watching. A watch that ended by itself, with its folder, is already dropped."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[Noticed]:
        """The waiting events, at most 64 KiB of them; empty if there are none."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            found.append(Noticed(watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))))
            at += length
        return found

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
