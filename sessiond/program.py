"""The files of the program, and whether they are still those with which this process began.

Modules are imported when they are first needed. After an update under a running process, those that are imported then are of another
version than those in memory, and do not fit.
"""

from __future__ import annotations

import os

import sessiond

UPDATED = "sessiond was updated since this daemon started"
WHAT_TO_DO = "run `sessiond stop`; the next command starts the new one"


def _look() -> tuple[int, int] | None:
    """Look at one file in place of all: whatever installs a package writes each of its files."""
    try:
        found = os.stat(str(sessiond.__file__))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


_at_start = _look()


def is_replaced() -> bool:
    """Return whether they were updated or removed. False if that cannot be found out now."""
    try:
        return _look() != _at_start
    except OSError:
        return False


def is_newer_than(started_at: str) -> bool:
    """Return whether a daemon that started at that time (RFC 3339) is older than the files of this process."""
    from datetime import datetime

    try:
        return _at_start is not None and datetime.fromisoformat(started_at).timestamp() < _at_start[1] / 1e9
    except ValueError:
        return False
