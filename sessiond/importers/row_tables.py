"""Tables with the rows of sessions, for `changed_rows`: which rows are at a table's end, and what all of them come to.

`TimedRows`: a row has a time that its tool sets whenever it writes the row. `ContentRows`: it has none that can be trusted, so its
content is its version.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Protocol

import msgspec

from sessiond.importers.database import Database
from sessiond.importers.record import TailRow, digest_of
from sessiond.model.values import WireObject

SETTLED_MS = 2000
"""How old a row must be for its time to tell its version: a tool may write the same row twice in one millisecond, the first time
before and the second after it was read.
"""
_PLAUSIBLE_MS = 10**12
"""A smaller time is not in milliseconds."""
_TAIL_ROWS = 64
_CONTENT_ROWS = 32
"""How many rows at a table's end are looked at each time. Of the second kind all that they say is read."""
_FIRST_PLACE = -(2**63)
_NO_LIMIT = -1
"""In SQL: no limit."""


_MASK = 2**40 - 1
"""Of what is summed: the sums of eight million rows are integers of SQLite."""


class Sum(msgspec.Struct):
    """All rows of a session in one table. `settled`: their versions tell whether they have changed."""

    session_id: str
    count: int = 0
    places: int = 0
    versions: int = 0
    settled: bool = True

    def add(self, place: int, version: int, *, times: int = 1) -> None:
        """A row. `times` -1: it is removed."""
        self.count += times
        self.places += times * (place & _MASK)
        self.versions += times * (version & _MASK)

    @property
    def kept(self) -> list[int]:
        return [self.count, self.places, self.versions]


class RowTable(Protocol):
    """All methods raise sqlite3.Error. Columns and conditions are SQL, and constants."""

    @property
    def name(self) -> str: ...

    @property
    def tail_rows(self) -> int:
        """The number of rows at its end that are looked at each time."""

    def check(self, database: Database) -> None:
        """LookupError if the table has not the columns that are needed."""

    def tail(self, database: Database, known: Collection[int] | None) -> dict[int, TailRow]:
        """By their numbers, the rows from the first of the `known` ones to the end; the last ones if none is known."""

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        """Yield the sums of each session with rows, or only of one."""

    def is_settled(self, version: object) -> bool:
        """Return whether a row's version tells whether it has changed."""


def _tail_query(columns: str, table: str) -> str:
    return f"SELECT rowid AS place, {columns} FROM {table} WHERE rowid >= ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608  # constants


def _tail_range(known: Collection[int] | None, most: int) -> tuple[int, int]:
    """From which row on, and how many. A table of which all rows are known may be put back as it was earlier."""
    first = min(known) if known is not None and len(known) >= most else _FIRST_PLACE
    return first, most if known is None else _NO_LIMIT


class TimedRows:
    """A table with `id`, `session_id`, and `time_updated` in milliseconds. `clock`: the time when it is read, in the same."""

    def __init__(self, name: str, clock: float) -> None:
        self.name = name
        self._clock = clock

    @property
    def tail_rows(self) -> int:
        return _TAIL_ROWS

    def check(self, database: Database) -> None:
        if not {"session_id", "time_updated"} <= database.columns(self.name):
            raise LookupError(self.name)

    def tail(self, database: Database, known: Collection[int] | None) -> dict[int, TailRow]:
        query = _tail_query("id, session_id, time_updated", self.name)
        rows: Iterator[WireObject] = database.rows(query, *_tail_range(known, _TAIL_ROWS))
        return {row["place"]: (row["id"], str(row["session_id"]), _whole(row["time_updated"])) for row in rows}

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        sums = f"count(*) AS rows, sum(rowid & {_MASK}) AS places, sum(time_updated & {_MASK}) AS times"
        times = "count(time_updated) AS timed, min(time_updated) AS oldest, max(time_updated) AS newest"
        which = "" if session_id is None else "WHERE session_id = ?"
        query = f"SELECT session_id, {sums}, {times} FROM {self.name} {which} GROUP BY session_id"  # noqa: S608  # constants
        rows: Iterator[WireObject] = database.rows(query, *([] if session_id is None else [session_id]))
        for row in rows:
            summed = Sum(str(row["session_id"]), row["rows"], row["places"], row["times"] or 0)
            summed.settled = row["timed"] == row["rows"] and all(map(self.is_settled, (row["oldest"], row["newest"])))
            yield summed

    def is_settled(self, version: object) -> bool:
        return is_settled(version, self._clock)


def is_settled(time: object, clock: float) -> bool:
    """Return whether a row's time tells its version. Both in milliseconds since 1970."""
    return isinstance(time, int) and _PLAUSIBLE_MS < time < clock - SETTLED_MS


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


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
        of: Callable[[str], tuple[str, list[object]]] | None = None,
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
            found[place] = (key, "" if session_id is None else str(session_id), _version(place, content))
        return found

    def sums(self, database: Database, session_id: str | None) -> Iterator[Sum]:
        which, values = (self._among, []) if session_id is None else self._of(session_id)
        query = f"SELECT rowid, {self._session}, {self._content} FROM {self.name} WHERE {which}"  # noqa: S608  # constants
        sums: dict[str, Sum] = {}
        for place, session, *content in database.tuples(query, *values):
            key = str(session)
            summed = sums.get(key) or sums.setdefault(key, Sum(key))
            summed.add(place, _version(place, content))
        yield from sums.values()

    def is_settled(self, version: object) -> bool:
        del version
        return True


def _version(place: int, content: list[object]) -> int:
    return int.from_bytes(digest_of([place, *content]), "big") & _MASK
