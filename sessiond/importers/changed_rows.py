"""Which sessions of a database have changed since it was read, without reading all of it again.

    at each look    the session's own row, and the last rows of each table: those that are new or changed there tell which
                    sessions to read. What was changed further up, and nowhere else in its session, does not show.
    at leisure      (`is_due`) the numbers and times of all rows, one query a table, which reads nearly all of the database.

A new row comes after all others, as long as the last one is still there; if it is not, all rows are looked at.

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
from sessiond.importers.record import Event, Importer, Opener, RowsRead, TailRow, digest_of
from sessiond.model.values import JsonObject

SETTLED_MS = 2000
"""How old a row must be for its time to tell its version."""
_PLAUSIBLE_MS = 10**12
"""A smaller time is not in milliseconds."""
_TAIL_ROWS = 256
"""How many rows at a table's end are looked at each time."""
_AT_REST_S = 2.0
_LEISURE = 100
"""All rows are looked at for one hundredth of the time."""
_FIRST_PLACE = -(2**63)
_NO_LIMIT = -1
"""In SQL: no limit."""


@runtime_checkable
class RowImporter(Importer, Protocol):
    """An importer that can tell which sessions of a database have changed."""

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        """As `read`, with `Same` for sessions that are what they were `before`, and a RowsRead if that can be told next time."""


def is_due(rows: RowsRead, now_s: float) -> bool:
    """Whether it is time to look at all rows: some changes may not have shown, and nothing is being written. `now_s`: monotonic."""
    return rows.partial and now_s >= max(rows.at_s + _AT_REST_S, rows.whole_at_s + _LEISURE * rows.whole_s)


class ChangedRows:
    """`tables` have the rows of sessions, each with an `id`, a `session_id` and a `time_updated` in milliseconds. Raises sqlite3.Error,
    OSError; `LookupError` if that is not so.
    """

    def __init__(self, database: Database, path: str, tables: Iterable[str], before: RowsRead | None) -> None:
        stat = os.stat(path)
        schema = [row["sql"] for row in database.rows("SELECT sql FROM sqlite_master ORDER BY name")]
        self._database = database
        self._tables = list(tables)
        for table in self._tables:
            if not {"session_id", "time_updated"} <= database.columns(table):
                raise LookupError(table)
        self._file = digest_of([stat.st_dev, stat.st_ino, schema])
        self._newest = before.newest if before is not None else ""
        self._last = before if before is not None and before.file == self._file else None
        self._before = self._last.sessions if self._last is not None else {}
        self._known_tails = self._last.tails if self._last is not None else {}
        self._rows: dict[str, list[Any]] = defaultdict(list)
        self._hot: set[str] = set()
        """Sessions with rows whose times do not tell their versions."""
        self._sessions: dict[str, tuple[bytes, bytes]] = {}
        self._settled = time.time() * 1000 - SETTLED_MS
        self._tails = {table: self._tail(table) for table in self._tables}
        self._moved = self._moved_at_ends()
        """The sessions that changed at the ends of the tables. None: all rows are looked at instead."""
        begun = time.monotonic()
        if self._moved is None:
            self._look()
        self._took = time.monotonic() - begun

    def _tail(self, table: str) -> dict[int, TailRow]:
        """The rows from the first one that was looked at last time to the end, or the last `_TAIL_ROWS` if none was."""
        known = self._known_tails.get(table)
        first = min(known or (), default=_FIRST_PLACE)
        most = _TAIL_ROWS if known is None else _NO_LIMIT
        query = f"SELECT rowid AS place, id, session_id, time_updated FROM {table} WHERE rowid >= ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608  # constants
        try:
            rows = self._database.rows(query, first, most)
            return {row["place"]: (row["id"], str(row["session_id"]), row["time_updated"]) for row in rows}
        except sqlite3.OperationalError as error:  # a table without row numbers
            raise LookupError(table) from error

    def _moved_at_ends(self) -> set[str] | None:
        moved: set[str] = set()
        for table, there in self._tails.items():
            known = self._known_tails.get(table)
            if known is None:
                return None
            last = max(known, default=None)
            if last is not None and (last not in there or there[last][0] != known[last][0]):
                return None
            changed = [place for place in {*known, *there} if known.get(place) != there.get(place)]
            moved |= {row[1] for place in changed for row in (known.get(place), there.get(place)) if row is not None}
        return moved

    def _look(self, session_id: str | None = None) -> None:
        """Look at all rows, or at those of one session."""
        sums = "count(*) AS rows, total(rowid) AS places, max(rowid) AS place, total(time_updated) AS times"
        times = "count(time_updated) AS timed, min(time_updated) AS oldest, max(time_updated) AS newest"
        which = "" if session_id is None else "WHERE session_id = ?"
        for table in self._tables:
            query = f"SELECT session_id, {sums}, {times} FROM {table} {which} GROUP BY session_id"  # noqa: S608  # constants
            for row in self._database.rows(query, *([] if session_id is None else [session_id])):
                self._rows[str(row["session_id"])].append([table, *row.values()])
                oldest, newest = row["oldest"], row["newest"]
                if row["timed"] != row["rows"] or not (self._is_settled(oldest) and self._is_settled(newest)):
                    self._hot.add(str(row["session_id"]))

    def _is_settled(self, at: Any) -> bool:
        return isinstance(at, int) and _PLAUSIBLE_MS < at < self._settled

    def is_same(self, session_id: str, session: JsonObject) -> bool:
        """Whether the session is what it was when it was last read. `session`: its own row."""
        before = self._before.get(session_id)
        if before is None or before[0] != digest_of(session) or self._has_other_rows(session_id, before[1]):
            return False
        self._sessions[session_id] = before
        return True

    def _has_other_rows(self, session_id: str, before: bytes) -> bool:
        if self._moved is not None:
            return session_id in self._moved
        return session_id in self._hot or before != self._digest(session_id)

    def note(self, session_id: str, session: JsonObject) -> None:
        """The session was read. Keeps what tells next time whether it has changed, unless it is still being written."""
        if self._moved is not None:
            if not all(
                self._is_settled(row[2])
                for rows in self._tails.values()
                for row in rows.values()
                if row[1] == session_id
            ):
                return
            self._look(session_id)
        if session_id not in self._hot:
            self._sessions[session_id] = digest_of(session), self._digest(session_id)

    def _digest(self, session_id: str) -> bytes:
        return digest_of(self._rows.get(session_id, []))

    def read(self) -> RowsRead:
        """For the next time."""
        tails = {
            table: {place: rows[place] for place in sorted(rows)[-_TAIL_ROWS:]} for table, rows in self._tails.items()
        }
        now = time.monotonic()
        if self._last is not None and self._moved is not None:
            whole_at, whole = self._last.whole_at_s, self._last.whole_s
        else:
            whole_at, whole = now, self._took
        return RowsRead(self._file, self._sessions, self._newest, tails, self._moved is not None, now, whole_at, whole)
