"""Which sessions of a database have changed since it was read: by the numbers and times of their rows, one query a table.

A time tells of a change only if the tool did not write the same row twice in one millisecond, the first time before and the second
after it was read. So what was written just now counts as changed the next time.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from sessiond.importers.database import Database
from sessiond.importers.record import Event, Importer, Opener, RowsRead, digest_of
from sessiond.model.values import JsonObject

SETTLED_MS = 2000
"""How old a row must be for its time to tell its version."""
_PLAUSIBLE_MS = 10**12
"""A smaller time is not in milliseconds."""


@runtime_checkable
class RowImporter(Importer, Protocol):
    """An importer that can tell which sessions of a database have changed."""

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        """As `read`, with `Same` for sessions that are what they were `before`, and a RowsRead if that can be told next time."""


class ChangedRows:
    """`tables` have the rows of sessions, each with a `session_id` and a `time_updated` in milliseconds. Raises sqlite3.Error, OSError;
    `LookupError` if that is not so.
    """

    def __init__(self, database: Database, path: str, tables: Iterable[str], before: RowsRead | None) -> None:
        stat = os.stat(path)
        schema = [row["sql"] for row in database.rows("SELECT sql FROM sqlite_master ORDER BY name")]
        self._file = digest_of([stat.st_dev, stat.st_ino, schema])
        self._newest = before.newest if before is not None else ""
        self._before = before.sessions if before is not None and before.file == self._file else {}
        self._rows: dict[str, list[Any]] = defaultdict(list)
        self._hot: set[str] = set()
        self._sessions: dict[str, bytes] = {}
        settled = time.time() * 1000 - SETTLED_MS
        for table in tables:
            if not {"session_id", "time_updated"} <= database.columns(table):
                raise LookupError(table)
            self._look(database, table, settled)

    def _look(self, database: Database, table: str, settled: float) -> None:
        sums = "count(*) AS rows, total(rowid) AS places, max(rowid) AS place, total(time_updated) AS times"
        times = "count(time_updated) AS timed, min(time_updated) AS oldest, max(time_updated) AS newest"
        query = f"SELECT session_id, {sums}, {times} FROM {table} GROUP BY session_id"  # noqa: S608  # constants
        try:
            for row in database.rows(query):
                session_id = str(row["session_id"])
                self._rows[session_id].append([table, *row.values()])
                oldest, newest = row["oldest"], row["newest"]
                timed = row["timed"] == row["rows"] and isinstance(oldest, int) and isinstance(newest, int)
                if not timed or not _PLAUSIBLE_MS < oldest <= newest < settled:
                    self._hot.add(session_id)
        except sqlite3.OperationalError as error:  # a table without row numbers
            raise LookupError(table) from error

    def is_same(self, session_id: str, session: JsonObject) -> bool:
        """Whether the session is what it was when it was last read. `session`: its own row."""
        before = self._before.get(session_id)
        same = before is not None and session_id not in self._hot and before == self._digest(session_id, session)
        if same:
            self._sessions[session_id] = self._digest(session_id, session)
        return same

    def note(self, session_id: str, session: JsonObject) -> None:
        """The session was read."""
        if session_id not in self._hot:
            self._sessions[session_id] = self._digest(session_id, session)

    def _digest(self, session_id: str, session: JsonObject) -> bytes:
        return digest_of([session, self._rows.get(session_id, [])])

    def read(self) -> RowsRead:
        """For the next time."""
        return RowsRead(self._file, self._sessions, self._newest)
