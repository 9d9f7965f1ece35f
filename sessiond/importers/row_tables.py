"""Tables with the rows of sessions, for `changed_rows`: which rows are at a table's end, and what all of them come to.

`TimedRows`: a row has a time that its tool sets whenever it writes the row. `ContentRows`: it has none that can be trusted, so its
content is its version.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

import msgspec

from sessiond.importers.database import Database
from sessiond.importers.record import TailRow, digest_of

SETTLED_MS = 2000
"""How old a row must be for its time to tell its version: a tool may write the same row twice in one millisecond, the first time
before and the second after it was read.
"""
_PLAUSIBLE_MS = 10**12
"""A smaller time is not in milliseconds."""
_TAIL_ROWS = 256
_CONTENT_ROWS = 32
"""How many rows at a table's end are looked at each time. Of the second kind all that they say is read."""
_FIRST_PLACE = -(2**63)
_NO_LIMIT = -1
"""In SQL: no limit."""


class Sum(msgspec.Struct):
    """All rows of a session in one table. `digest`: of anything that can be encoded. `settled`: it tells their versions."""

    session_id: str
    digest: list[Any]
    settled: bool = True


class RowTable(Protocol):
    """All methods raise sqlite3.Error. Columns and conditions are SQL, and constants."""

    @property
    def name(self) -> str: ...

    @property
    def tail_rows(self) -> int:
        """How many rows at its end are looked at each time."""

    def check(self, database: Database) -> None:
        """LookupError if the table has not the columns that are needed."""

    def tail(self, database: Database, known: Collection[int] | None) -> dict[int, TailRow]:
        """By their numbers, the rows from the first of the `known` ones to the end; the last ones if none is known."""

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        """Of each session with rows, or only of one."""

    def is_settled(self, row: TailRow) -> bool:
        """Whether the row's version tells whether it has changed."""


def _tail_query(columns: str, table: str) -> str:
    return f"SELECT rowid AS place, {columns} FROM {table} WHERE rowid >= ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608  # constants


def _tail_range(known: Collection[int] | None, most: int) -> tuple[int, int]:
    """From which row on, and how many. A table of which all rows are known may be put back as it was earlier."""
    first = min(known) if known is not None and len(known) >= most else _FIRST_PLACE
    return first, most if known is None else _NO_LIMIT


class TimedRows:
    """A table with `id`, `session_id`, and `time_updated` in milliseconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._settled = time.time() * 1000 - SETTLED_MS

    @property
    def tail_rows(self) -> int:
        return _TAIL_ROWS

    def check(self, database: Database) -> None:
        if not {"session_id", "time_updated"} <= database.columns(self.name):
            raise LookupError(self.name)

    def tail(self, database: Database, known: Collection[int] | None) -> dict[int, TailRow]:
        query = _tail_query("id, session_id, time_updated", self.name)
        rows = database.rows(query, *_tail_range(known, _TAIL_ROWS))
        return {row["place"]: (row["id"], str(row["session_id"]), row["time_updated"]) for row in rows}

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        sums = "count(*) AS rows, total(rowid) AS places, max(rowid) AS place, total(time_updated) AS times"
        times = "count(time_updated) AS timed, min(time_updated) AS oldest, max(time_updated) AS newest"
        which = "" if session_id is None else "WHERE session_id = ?"
        query = f"SELECT session_id, {sums}, {times} FROM {self.name} {which} GROUP BY session_id"  # noqa: S608  # constants
        for row in database.rows(query, *([] if session_id is None else [session_id])):
            settled = (
                row["timed"] == row["rows"] and self._is_settled(row["oldest"]) and self._is_settled(row["newest"])
            )
            yield Sum(str(row["session_id"]), [self.name, *row.values()], settled)

    def is_settled(self, row: TailRow) -> bool:
        return self._is_settled(row[2])

    def _is_settled(self, at: Any) -> bool:
        return isinstance(at, int) and _PLAUSIBLE_MS < at < self._settled


class ContentRows:
    """A table whose rows have no time, or one in seconds. `key` and `session`: the id of a row, and of its session, which is NULL for
    a row of none. `content`: what a session's rows say; None for all columns. `of`: a condition for the rows of one session, and its
    values; `among` for those of any.
    """

    def __init__(
        self,
        name: str,
        *,
        key: str = "id",
        session: str = "session_id",
        content: str | None = None,
        of: Callable[[str], tuple[str, list[Any]]] | None = None,
        among: str = "TRUE",
    ) -> None:
        self.name = name
        self._key = key
        self._session = session
        self._content = content
        self._of = of or (lambda session_id: (f"{session} = ?", [session_id]))
        self._among = among

    @property
    def tail_rows(self) -> int:
        return _CONTENT_ROWS

    def check(self, database: Database) -> None:
        columns = database.columns(self.name)
        if not columns:
            raise LookupError(self.name)
        if self._content is None:
            names = (column.replace('"', '""') for column in sorted(columns))
            self._content = ", ".join(f'"{name}"' for name in names)

    def tail(self, database: Database, known: Collection[int] | None) -> dict[int, TailRow]:
        query = _tail_query(f"{self._key}, {self._session}, {self._content}", self.name)
        found: dict[int, TailRow] = {}
        for place, key, session_id, *content in database.tuples(query, *_tail_range(known, _CONTENT_ROWS)):
            found[place] = (key, "" if session_id is None else str(session_id), digest_of(content))
        return found

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        which, values = (self._among, []) if session_id is None else self._of(session_id)
        query = f"SELECT rowid, {self._session}, {self._content} FROM {self.name} WHERE {which}"  # noqa: S608  # constants
        counts: dict[str, int] = defaultdict(int)
        sums: dict[str, int] = defaultdict(int)
        for place, session, *content in database.tuples(query, *values):
            counts[str(session)] += 1
            sums[str(session)] += int.from_bytes(digest_of([place, *content]), "big")
        for one, count in counts.items():
            yield Sum(one, [self.name, count, str(sums[one])])

    def is_settled(self, row: TailRow) -> bool:
        del row
        return True
