"""`synced`: a file that a running journal leaves for the next start, so that damage can be told from what a crash may leave."""

from __future__ import annotations

import contextlib
import posixpath

from sessiond.fs import DiskFailed, FileSystem, Hint
from sessiond.journal.record import Synced, encode_synced
from sessiond.journal.recovery import synced_path


class SyncedHint:
    """Used on the journal's thread."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._path = synced_path(folder)
        self._hint: Hint | None = None

    def give(self, known: Synced) -> None:
        """If it cannot be given, damage to the last batch is taken for a torn end."""
        with contextlib.suppress(OSError):
            self._put(known)

    def give_for_certain(self, known: Synced) -> None:
        """Called before a segment is removed that an older hint names, or after a crash it would count as a loss. OSError."""
        if self._hint is None and self._fs.stat(self._path) is None:
            return
        try:
            self._put(known).sync()
        except DiskFailed:
            raise
        except OSError:  # no space, not even for that
            self.close()
            with contextlib.suppress(FileNotFoundError):
                self._fs.remove(self._path)
            self._fs.sync_dir(posixpath.dirname(self._path))

    def _put(self, known: Synced) -> Hint:
        if self._hint is None:
            self._hint = self._fs.open_hint(self._path)
        self._hint.put(encode_synced(known))
        return self._hint

    def close(self) -> None:
        if self._hint is not None:
            self._hint.close()
            self._hint = None
