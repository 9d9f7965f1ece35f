"""Whether the data folder is still ours.

Its lock is held on a file, not on a path. If somebody renames or removes the folder while the daemon runs, and another folder comes
to be at the path, a second daemon can take the lock there. From then on the first one would write files of the second: everything
of a store is written by path.
"""

from __future__ import annotations

from sessiond.fs import FileSystem


class Ownership:
    """`path`: of a file or folder that is ours now, such as the lock file. Its methods block."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._identity = self._look()

    def is_lost(self) -> bool:
        """Return whether the path leads to something else, or to nothing. False if that cannot be found out now."""
        try:
            return self._look() != self._identity
        except OSError:
            return False

    def _look(self) -> tuple[int, int] | None:
        found = self._fs.look(self._path)
        return None if found is None else (found.dev, found.ino)
