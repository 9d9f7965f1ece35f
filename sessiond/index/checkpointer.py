"""Copies what was committed from SQLite's log into the file, on a thread of its own: that waits for the disk, and whoever
waits for a change to be listed shall not. When nothing more comes, a long log is cut, and where
somebody reads it just then, a little later.

The writing connection copies by itself once the log holds `schema.LOG_PAGES`; by then there is little left to do.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading

from sessiond.index import schema

EVERY_PAGES = 250
COMMIT_PAGES = 8
"""What even a small transaction adds to the log, about."""
_PAGE_WEIGHT = 4096
"""So many bytes of what was fed become a page of the log, about."""
IDLE_S = 1.0
KEPT_BYTES = 4 * 1024 * 1024
"""A log that is no longer than this stays as it is."""

_log = logging.getLogger(__name__)


class Checkpointer:
    def __init__(self, path: str) -> None:
        self._path = path
        self._pages = 0
        self._changed = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="index-checkpoint", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def logged(self, weight: int) -> None:
        """A transaction of that weight, in bytes fed, was committed."""
        self._pages += COMMIT_PAGES + weight // _PAGE_WEIGHT
        self._changed.set()

    def close(self) -> None:
        """Blocks while the file is written."""
        self._closing = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        tidy = True
        while True:
            came = self._changed.wait(None if tidy else IDLE_S)
            self._changed.clear()
            if self._closing:
                return
            tidy = not came
            try:
                if tidy and os.stat(self._path + "-wal").st_size > KEPT_BYTES:
                    tidy = self._checkpoint("TRUNCATE")  # False: somebody reads just now
                elif self._pages >= EVERY_PAGES:
                    self._pages = 0
                    self._checkpoint("PASSIVE")
            except (OSError, sqlite3.Error) as error:
                # The disk is full, or the file was replaced: the writing thread meets it too.
                _log.debug("the index's log was not copied into its file: %s", error)

    def _checkpoint(self, mode: str) -> bool:
        """False: it could not be done, or not all of it, for somebody reads or writes."""
        # A connection for each, so that none is left to a file that is replaced.
        db = schema.connect(self._path, reading=True)
        try:
            db.execute("PRAGMA busy_timeout = 0")  # who reads or writes just now is not waited for, nor kept waiting
            busy: int = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
        finally:
            db.close()
        return not busy
