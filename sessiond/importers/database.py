"""Reads other tools' SQLite files without leaving a trace on them.

    a file without companions           is opened `immutable`: no lock is taken, and no `-wal` or `-shm` file is created
    one with a log and its index        is read where it is, in one read transaction (`database_in_use`)
    one with anything else beside it    is copied with it to a private temporary folder and read there, because SQLite would
                                        otherwise write next to the original

The other tool is never kept from writing, and its own lock does not stop the import.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from sessiond.fs.scratch import scratch_folder
from sessiond.importers.database_in_use import DatabaseSnapshot, NotInPlace, Told, prepared
from sessiond.importers.draft import moment
from sessiond.importers.freshness import days_after
from sessiond.importers.jsontext import NotJson, decode, fit
from sessiond.importers.record import Copied, Event, MessageRecord, Opener, RowsRead, SkippedLine, Unknown
from sessiond.model.values import JsonObject

MAGIC = b"SQLite format 3\0"
_SIDES = ("-wal", "-journal")
_ATTEMPTS = 3
_TIMES = ("time_created", "created_at", "timestamp", "created", "time", "datetime_utc", "time_updated", "updated_at")
"""Columns with the time of a row, the best first."""
_SPEAKS = re.compile(r"session|message|conversation|chat|thread|turn|transcript", re.IGNORECASE)
"""In the name of a table or of a column: it may be about conversations."""


def recognised(path: str, head: bytes, *, name: str, words: tuple[bytes, ...]) -> int:
    """Return how likely it is that a file belongs to a tool: a database with `words` in its schema, or one with the tool's file name. The
    latter may have an unknown schema or not be a database at all, which reading it then reports.
    """
    if head.startswith(MAGIC) and all(word in head for word in words):
        return 90
    return 60 if os.path.basename(path) == name else 0


class UnknownSchema(Exception):
    """The tables are not those that the importer knows. The message names what is missing."""


class Database:
    """Rows of one file, as dictionaries."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._read: set[str] = set()
        self._failed: list[str] = []
        """Errors of ours with single rows that nobody has been told of."""
        connection.set_authorizer(self._authorise)

    def _authorise(self, action: int, table: str | None, *_: object) -> int:
        """Notes which tables are read; forbids nothing."""
        if action == sqlite3.SQLITE_READ and table is not None:
            self._read.add(table)
        return sqlite3.SQLITE_OK

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; empty if the table does not exist."""
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return frozenset(str(row[0]) for row in rows)

    def require(self, table: str, *columns: str) -> frozenset[str]:
        """The columns of a table, which must include these. Raises UnknownSchema."""
        found = self.columns(table)
        missing = [column for column in columns if column not in found]
        if missing:
            where = f"table {table!r} lacks {', '.join(missing)}" if found else f"there is no table {table!r}"
            raise UnknownSchema(where)
        return found

    def unread(self, since: str) -> Iterator[tuple[str, int]]:
        """Tables that look as if they held conversations, that nobody has read so far, and that have rows of after `since`
        (RFC 3339), with the number of these.
        """
        read = frozenset(self._read)
        tables = [
            str(row["name"]) for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        for table in tables:
            columns = self.columns(table)
            times = [column for column in _TIMES if column in columns]
            if table in read or not times or not (_SPEAKS.search(table) or any(map(_SPEAKS.search, columns))):
                continue
            name = table.replace('"', '""')
            query = f'SELECT "{times[0]}" AS at FROM "{name}"'  # noqa: S608  # a constant, and a name that is quoted
            newer = sum((moment(row["at"]) or "") > since for row in self.rows(query))
            if newer:
                yield table, newer

    def rows(self, sql: str, *values: object) -> Iterator[JsonObject]:
        """Rows, one at a time. Blobs and invalid UTF-8 become text. A row that cannot be turned into that is left out, and `failed`
        tells of it.
        """
        cursor = self._connection.execute(sql, values)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            try:
                plain = {name: _plain(value) for name, value in zip(names, row, strict=True)}
            except Exception as error:  # a bug of ours, with what somebody wrote into this row
                self._failed.append(f"the importer failed on a row of `{sql}`: {error!r}")
                continue
            yield plain

    def tuples(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows as SQLite has them, which is quicker: for what is compared, and not kept."""
        return self._connection.execute(sql, values)

    def failed(self, path: str) -> Iterator[SkippedLine]:
        """Reports of the rows that were left out since it was last asked."""
        failed, self._failed = self._failed, []
        return (SkippedLine(path, None, reason, failed=True) for reason in failed)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return fit(value)


def from_json(text: object) -> Any:
    """The value of a JSON column, or the text itself if it is not JSON."""
    if not isinstance(text, str) or not text:
        return text
    try:
        return decode(text.encode("utf-8", "replace"))[0]
    except NotJson:
        return text


@contextmanager
def _opened(path: str, open_: Opener) -> Iterator[sqlite3.Connection]:
    """A connection to the file, or to a copy if it has a companion. Raises OSError, sqlite3.Error."""
    if _has_companion(path):
        with scratch_folder() as folder:
            copy = _copied(path, folder, open_)
            with closing(sqlite3.connect(copy, check_same_thread=False)) as connection:
                yield prepared(connection)
        return
    uri = f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
        yield prepared(connection)


def _has_companion(path: str) -> bool:
    return any(_size(path + side) for side in _SIDES)


def _copied(path: str, folder: str, open_: Opener) -> str:
    """A copy of the file and its log, consistent as far as their sizes and times show."""
    target = os.path.join(folder, "copy.db")
    for _ in range(_ATTEMPTS):
        before = _state(path)
        for side in ("", *_SIDES):
            if os.path.exists(path + side):
                with open_(path + side) as source, open(target + side, "wb") as out:
                    shutil.copyfileobj(source, out, 1 << 20)
            elif os.path.exists(target + side):
                os.unlink(target + side)
        if _state(path) == before:
            break
    return target


def _state(path: str) -> list[tuple[int, int] | None]:
    states: list[tuple[int, int] | None] = []
    for side in ("", *_SIDES):
        try:
            stat = os.stat(path + side)
            states.append((stat.st_size, stat.st_mtime_ns))
        except OSError:
            states.append(None)
    return states


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def guarded(path: str, open_: Opener, read: Callable[[Database], Iterable[Event]]) -> Iterator[Event]:
    """Run `read(database)`. If SQLite rejects the file, a SkippedLine follows what was read before."""
    try:
        yield from _read(
            path, os.path.realpath(path), open_, lambda connection: _told(path, Database(connection), read)
        )
    except UnknownSchema as error:
        yield SkippedLine(path, None, f"a database with an unknown schema: {error}")
    except sqlite3.Error as error:
        yield SkippedLine(path, None, f"the database cannot be read: {error}")


def _read(path: str, file: str, open_: Opener, told: Told) -> Iterator[Event]:
    """`file`: where it is, which is where its log is."""
    before = _state(file)
    why = "its tool was writing, or stopped in the middle (-journal)"
    if os.path.exists(file + "-wal"):
        try:
            snapshot = DatabaseSnapshot(file)
        except NotInPlace as error:
            why = str(error)
        else:
            yield from snapshot.events(told)
            return
    if _has_companion(file):
        yield Copied(path, why)
    with _opened(file, open_) as connection:
        yield from told(connection)
    if _state(file) != before:
        yield SkippedLine(path, None, "the file changed while it was being read; import it again", taken=True)


def _told(path: str, database: Database, read: Callable[[Database], Iterable[Event]]) -> Iterator[Event]:
    newest = ""
    for event in read(database):
        if isinstance(event, MessageRecord):
            newest = max(newest, event.message["timestamp"])
        elif isinstance(event, RowsRead):
            newest = max(newest, event.newest)
            event = msgspec.structs.replace(event, newest=newest)  # noqa: PLW2901
        yield event
        yield from database.failed(path)
    # Rows of the same days may be the tool's notes on what was said.
    for table, count in database.unread(days_after(newest) if newest else ""):
        yield Unknown(path, f"table {table}", count)
    yield from database.failed(path)
