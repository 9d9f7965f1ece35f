"""Whether the data folder is still ours.

Its lock is held on a file, not on a path. If somebody renames or removes the folder while the daemon runs, and another folder comes
to be at the path, a second daemon can take the lock there. From then on the first one would write files of the second: everything
of a store is written by path.
"""

from __future__ import annotations

from sessiond.fs import FileSystem


class Ownership:
    """`lock_file`: of which this process holds the lock now. Its methods block."""

    def __init__(self, fs: FileSystem, lock_file: str) -> None:
        self._fs = fs
        self._lock_file = lock_file
        self._identity = self._look()

    def is_lost(self) -> bool:
        """Return whether the path leads to another lock file, or to none. False if that cannot be found out now."""
        try:
            return self._look() != self._identity
        except OSError:
            return False

    def _look(self) -> tuple[int, int] | None:
        found = self._fs.look(self._lock_file)
        return None if found is None else (found.dev, found.ino)
