"""Copies committed data from SQLite's log into the file, on a separate thread: this waits for the disk, and a client that
waits for a change to be listed must not. When nothing more arrives, a long log is cut; if it is being read just then, a
little later.

The writing connection copies by itself once the log has `schema.LOG_PAGES`; by then little is left to do.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading

from sessiond.index import schema

EVERY_PAGES = 250
COMMIT_PAGES = 8
"""About how many pages even a small transaction adds to the log."""
_PAGE_WEIGHT = 4096
"""About how many fed bytes become a page of the log."""
IDLE_S = 1.0
KEPT_BYTES = 4 * 1024 * 1024
"""A log up to this length is left as it is."""

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
                    tidy = self._checkpoint("TRUNCATE")  # False: it is being read just now
                elif self._pages >= EVERY_PAGES:
                    self._pages = 0
                    self._checkpoint("PASSIVE")
            except (OSError, sqlite3.Error) as error:
                # The disk is full, or the file was replaced: the writing thread gets the same error.
                _log.debug("the index's log was not copied into its file: %s", error)

    def _checkpoint(self, mode: str) -> bool:
        """False: not done, or only in part, because another connection is reading or writing."""
        # A new connection each time, so that none remains open to a file that is replaced.
        db = schema.connect(self._path, reading=True)
        try:
            db.execute("PRAGMA busy_timeout = 0")  # neither wait for a present reader or writer, nor make it wait
            busy: int = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()[0]
        finally:
            db.close()
        return not busy
