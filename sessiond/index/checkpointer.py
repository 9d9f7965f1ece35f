"""Copies what was committed from SQLite's log into the file, on a thread of its own: that waits for the disk, and whoever
waits for a change to be listed shall not.

The writing connection does the same by itself once the log holds `schema.LOG_PAGES`; by then there is little left to do.
"""

from __future__ import annotations

import logging
import sqlite3
import threading

from sessiond.index import schema

EVERY_PAGES = 250
COMMIT_PAGES = 8
"""What even a small transaction adds to the log, about."""
_PAGE_WEIGHT = 4096
"""So many bytes of what was fed become a page of the log, about."""

_log = logging.getLogger(__name__)


class Checkpointer:
    def __init__(self, path: str) -> None:
        self._path = path
        self._pages = 0
        self._due = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="index-checkpoint", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def logged(self, weight: int) -> None:
        """A transaction of that weight, in bytes fed, was committed."""
        self._pages += COMMIT_PAGES + weight // _PAGE_WEIGHT
        if self._pages >= EVERY_PAGES:
            self._pages = 0
            self._due.set()

    def close(self) -> None:
        """Blocks while one is under way."""
        self._closing = True
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closing:
                return
            try:
                self._checkpoint()
            except (
                sqlite3.Error
            ) as error:  # the disk is full, or the file was replaced: the writing thread meets it too
                _log.debug("the index's log was not copied into its file: %s", error)

    def _checkpoint(self) -> None:
        # A connection for each, so that none is left to a file that is replaced.
        db = schema.connect(self._path, reading=True)
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            db.close()
