"""Tells which sessions of a database have changed since it was read, without reading all of it again.

    at each look    the session's own row, and the last rows of each table: those that are new or changed there tell which
                    sessions to read. What was changed further up, and nowhere else in its session, does not show.
    at leisure      (`is_due`) all rows, one query a table, which reads nearly all of the database.

A new row comes after all others. So it comes after those that were looked at, as long as one of them is still there; if none is,
all rows are looked at.

What tells one version of a row from another is a matter of its table (`row_tables`): a time, or all that the row says. What was
written just now, in a table with times, counts as changed the next time.

A session that changed is read whole, or, if it was read before and only rows near its end changed, from there on (`RowsEnd`).
What is then known of all its rows is what was known before, and the difference that shows at the ends of the tables: so what
changed further up still differs when all rows are looked at.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from sessiond.importers.database import Database
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Importer, Opener, RowsEnd, RowsRead, RowSums, Same, TailRow, digest_of
from sessiond.importers.row_tables import RowTable, Sum
from sessiond.model.values import JsonObject

_AT_REST_S = 2.0
_LEISURE = 100
"""All rows are looked at for one hundredth of the time."""
_ENDS = 64
"""Sessions that are read on."""


@runtime_checkable
class RowImporter(Importer, Protocol):
    """An importer that can tell which sessions of a database have changed."""

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        """Read as `read` does, with `Same` for sessions that are what they were `before`, and a RowsRead if that can be told next time."""


def is_due(rows: RowsRead, now_s: float) -> bool:
    """Return whether it is time to look at all rows: some changes may not have shown, and nothing is being written. `now_s`: monotonic."""
    return rows.partial and now_s >= max(rows.at_s + _AT_REST_S, rows.whole_at_s + _LEISURE * rows.whole_s)


def changed_rows(
    database: Database, path: str, tables: Iterable[RowTable], before: RowsRead | None
) -> ChangedRows | None:
    """None if it cannot be told from these tables: some version of the tool has others."""
    try:
        return ChangedRows(database, path, tables, before)
    except LookupError:
        return None


def changed_only(
    changed: ChangedRows | None, tool: str, path: str, session_id: str, row: JsonObject, events: Iterator[Event]
) -> Iterator[Event]:
    """The `events` of a session, which begin to be made only here; `Same` instead if it is what it was. `row`: its own. `changed`
    None: all are read.
    """
    if changed is None:
        yield from events
    elif changed.is_same(session_id, row):
        yield Same(session_id, SessionDraft(tool, path, session_id).suggested_id)
    else:
        yield from events
        changed.note(session_id, row)


class ChangedRows:
    """`tables`: with the rows of sessions. Raises sqlite3.Error, OSError; `LookupError` if a table is not what it should be."""

    def __init__(self, database: Database, path: str, tables: Iterable[RowTable], before: RowsRead | None) -> None:
        stat = os.stat(path)
        schema = [row["sql"] for row in database.rows("SELECT sql FROM sqlite_master ORDER BY name")]
        self._database = database
        self._tables = list(tables)
        for table in self._tables:
            table.check(database)
        self._file = digest_of([stat.st_dev, stat.st_ino, schema])
        self._newest = before.newest if before is not None else ""
        self._last = before if before is not None and before.file == self._file else None
        self._before = self._last.sessions if self._last is not None else {}
        self._ends_before = self._last.ends if self._last is not None else {}
        self._known_tails = self._last.tails if self._last is not None else {}
        self._sums: dict[str, dict[str, list[int]]] = defaultdict(dict)
        """By session and table, of all rows that were looked at."""
        self._hot: set[str] = set()
        """Sessions with rows whose times do not tell their versions."""
        self._sessions: dict[str, tuple[bytes, RowSums]] = {}
        self._ends: dict[str, RowsEnd] = {}
        self._tails = {table.name: self._tail(table) for table in self._tables}
        self._moved = self._moved_at_ends()
        """The sessions that changed at the ends of the tables. None: all rows are looked at instead."""
        begun = time.monotonic()
        if self._moved is None:
            self._look()
        self._took = time.monotonic() - begun

    def _tail(self, table: RowTable) -> dict[int, TailRow]:
        try:
            return table.tail(self._database, self._known_tails.get(table.name))
        except sqlite3.OperationalError as error:  # a table without row numbers, or without a column
            raise LookupError(table.name) from error

    def _moved_at_ends(self) -> set[str] | None:
        moved: set[str] = set()
        for table in self._tables:
            known = self._known_tails.get(table.name)
            if known is None or (known and not _has_any_of(self._tails[table.name], known)):
                return None
            moved |= {row[1] for _, rows in self._changes(table.name) for row in rows if row is not None}
        return moved

    def _changes(self, table: str) -> Iterator[tuple[int, tuple[TailRow | None, TailRow | None]]]:
        """The places at a table's end with other rows than before: what was there, and what is."""
        known, there = self._known_tails[table], self._tails[table]
        for place in {*known, *there}:
            before, now = known.get(place), there.get(place)
            if before != now:
                yield place, (before, now)

    def _look(self, session_id: str | None = None) -> None:
        """Look at all rows, or at those of one session."""
        for table in self._tables:
            for found in table.sums(self._database, session_id):
                self._sums[found.session_id][table.name] = found.kept
                if not found.settled:
                    self._hot.add(found.session_id)

    def is_same(self, session_id: str, session: JsonObject) -> bool:
        """Return whether the session is what it was when it was last read. `session`: its own row."""
        before = self._before.get(session_id)
        if before is None or before[0] != digest_of(session) or self._has_other_rows(session_id, before[1]):
            return False
        self._sessions[session_id] = before
        if session_id in self._ends_before:
            self._ends[session_id] = self._ends_before[session_id]
        return True

    def _has_other_rows(self, session_id: str, before: RowSums) -> bool:
        if self._moved is not None:
            return session_id in self._moved
        return session_id in self._hot or before != self._sums_of(session_id)

    # Reading on

    @property
    def keeps_ends(self) -> bool:
        """True if sessions that are read now are changing."""
        return self._moved is not None

    def end(self, session_id: str) -> RowsEnd | None:
        """Return where a session may be read on, if nothing further up shows: see `added`."""
        end = self._ends_before.get(session_id)
        if end is None or end.last is None:
            return None
        return end if self._moved is not None or end.sums == self._sums_of(session_id) else None

    def added(self, session_id: str) -> list[tuple[str, object]] | None:
        """Table and id of the session's rows at the ends of the tables that are new or changed. None: one was removed."""
        found: list[tuple[str, object]] = []
        for table in self._tables if self._moved is not None else ():
            for _, (before, now) in self._changes(table.name):
                if before is not None and before[1] == session_id and (now is None or now[:2] != before[:2]):
                    return None
                if now is not None and now[1] == session_id:
                    found.append((table.name, now[0]))
        return found

    def _grown(self, session_id: str, sums: RowSums) -> RowSums | None:
        """The sums with what shows at the ends of the tables. None if that cannot be told."""
        grown: RowSums = []
        for table, kept in zip(self._tables, sums, strict=True):
            count, places, versions = kept
            summed = Sum(session_id, count, places, versions)
            for place, rows in self._changes(table.name) if self._moved is not None else ():
                for row, times in zip(rows, (-1, 1), strict=True):
                    if row is not None and row[1] == session_id:
                        if row[2] is None:
                            return None
                        summed.add(place, row[2], times=times)
            grown.append(summed.kept)
        return grown

    # What was read

    def note(self, session_id: str, session: JsonObject, end: RowsEnd | None = None) -> None:
        """The session was read whole. Keeps what tells next time whether it has changed, unless it is still being written. `end`: where
        it can be read on.
        """
        if self._moved is not None:
            self._look(session_id)
        self._keep(session_id, session, self._sums_of(session_id), end)

    def note_end(self, session_id: str, session: JsonObject, end: RowsEnd) -> None:
        """The same for a session that was read on. `end.sums`: as they were before."""
        sums = self._grown(session_id, end.sums)
        if sums is not None:
            self._keep(session_id, session, sums, end)

    def _keep(self, session_id: str, session: JsonObject, sums: RowSums, end: RowsEnd | None) -> None:
        if session_id not in self._hot and self._rests(session_id):
            self._sessions[session_id] = digest_of(session), sums
        if end is not None:
            end.sums = sums
            self._ends[session_id] = end

    def _rests(self, session_id: str) -> bool:
        """Return whether a session's rows at the ends of the tables tell their versions."""
        return all(
            table.is_settled(row[2])
            for table in self._tables
            for row in self._tails[table.name].values()
            if row[1] == session_id
        )

    def _sums_of(self, session_id: str) -> RowSums:
        found = self._sums.get(session_id, {})
        return [found.get(table.name, [0, 0, 0]) for table in self._tables]

    def read(self) -> RowsRead:
        """For the next time."""
        tails = {table.name: _last(self._tails[table.name], table.tail_rows) for table in self._tables}
        ends = dict(list(self._ends.items())[-_ENDS:])
        now = time.monotonic()
        if self._last is not None and self._moved is not None:
            whole_at, whole = self._last.whole_at_s, self._last.whole_s
        else:
            whole_at, whole = now, self._took
        partial = self._moved is not None
        return RowsRead(self._file, self._sessions, self._newest, tails, partial, now, whole_at, whole, ends)


def _has_any_of(there: dict[int, TailRow], known: dict[int, TailRow]) -> bool:
    return any(place in there and there[place][0] == row[0] for place, row in known.items())


def _last(rows: dict[int, TailRow], count: int) -> dict[int, TailRow]:
    return {place: rows[place] for place in sorted(rows)[-count:]}
