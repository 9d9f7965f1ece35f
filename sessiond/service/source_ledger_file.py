"""The file of the source ledger: its tables, what is read from them and written to them. Everything here blocks.

Version 1 had no table of removals: what a session had of its source once and lacks now was removed. Its digests were made with
another hash, so they cannot be compared with ours. They stay in the table `inherited` until the source has been read again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from sessiond.fs import FileSystem, RealFileSystem
from sessiond.service.source_merge import SourceDigest, SourceGrowth

log = logging.getLogger(__name__)
T = TypeVar("T")
DigestKey: TypeAlias = tuple[str, str, str]
"""Store, local id, path of the source."""
Removal: TypeAlias = tuple[str, str, bytes]
"""Store, local id, digest of a message's id or `WHOLE`."""
WHOLE = b""
"""The whole session."""
_VERSION = 2
_FROM_VERSION_1 = """
    BEGIN IMMEDIATE;
    CREATE TABLE inherited (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, digests BLOB NOT NULL,
        PRIMARY KEY (store, id, path)
    ) WITHOUT ROWID;
    INSERT INTO inherited SELECT store, id, path, digests FROM session;
    DELETE FROM session;
    DELETE FROM file;
    PRAGMA user_version = 2;
    COMMIT;
"""
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS session (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, digests BLOB NOT NULL,
        PRIMARY KEY (store, id, path)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS session_path ON session (store, path);
    CREATE TABLE IF NOT EXISTS grown (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, nth INTEGER NOT NULL, said BLOB NOT NULL,
        PRIMARY KEY (store, id, path, nth)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS file (
        store TEXT NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL, mark TEXT NOT NULL,
        PRIMARY KEY (store, path)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS removed (
        store TEXT NOT NULL, id TEXT NOT NULL, message BLOB NOT NULL,
        PRIMARY KEY (store, id, message)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS moved (
        store TEXT NOT NULL, id TEXT NOT NULL, to_store TEXT NOT NULL,
        PRIMARY KEY (store, id)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS inherited (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, digests BLOB NOT NULL,
        PRIMARY KEY (store, id, path)
    ) WITHOUT ROWID;
    PRAGMA user_version = {_VERSION};
"""
_PATIENCE_S = 5.0
"""How long another program may have the file to itself before that is said."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SourceDigest).decode
_decode_growth = msgspec.msgpack.Decoder(SourceGrowth).decode
_MOST_GROWN = 2000
"""What a source said at its end since its digest was written, in pieces. More are put into the digest."""


class FileRead(msgspec.Struct, frozen=True):
    """A file that was read to its end in the version `mark`, and the sessions (local ids) that it had."""

    path: str
    tool: str
    mark: str
    local_ids: list[str]


class Recalled(msgspec.Struct, frozen=True):
    """The facts that are known of a session. `by_path`: what each file said of it. `removed`: a person removed it here.
    `removed_messages`: digests of the ids of messages that a person removed. `moved_to`: the store that a person moved it to.
    """

    by_path: dict[str, SourceDigest] = {}
    removed: bool = False
    removed_messages: frozenset[bytes] = frozenset()
    inherited: frozenset[bytes] | None = None
    """Digests, by `digest_of_version_1`, of the ids of all messages that the session once had, if it came with version 1 of this
    file and its source was not read since.
    """
    moved_to: str | None = None


class Entries(msgspec.Struct):
    """The entries that are to be written in one transaction. A digest None: to be forgotten. What it says since is in `grown`."""

    digests: Mapping[DigestKey, SourceDigest | None] = {}
    grown: Mapping[DigestKey, Sequence[SourceGrowth]] = {}
    files: Mapping[tuple[str, str], tuple[str, str]] = {}
    """Store and path -> tool and mark."""
    removed: Iterable[Removal] = ()


class NewerVersion(Exception):
    """The file was written by a newer sessiond."""


class Unusable(Exception):
    """The file cannot be used now. `locked`: another program has it. `is_there`: so there may be knowledge in it."""

    def __init__(self, error: Exception, *, locked: bool, is_there: bool) -> None:
        super().__init__(str(error))
        self.locked = locked
        self.is_there = is_there


class LedgerFile:
    """`path` None: in memory. One thread at a time. A damaged file is replaced by an empty one.

    Every method raises Unusable.
    """

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._fs: FileSystem = RealFileSystem()
        self._connection: sqlite3.Connection | None = None
        self._failing = False
        """That the file cannot be used was said in the log."""

    def write(self, entries: Entries) -> None:
        self._use(lambda connection: _write(connection, entries))

    def write_durably(self, entries: Entries) -> None:
        """Not even a power failure undoes it."""
        self._use_durably(lambda connection: _write(connection, entries))

    def move(self, store: str, local_id: str, to_store: str) -> None:
        """All that is known of a session is known of it in `to_store` too, and it is removed from `store`. Durable."""
        self._use_durably(lambda connection: _move(connection, store, local_id, to_store))

    def recall(self, store: str, local_id: str) -> Recalled:
        return self._use(lambda connection: _recall(connection, store, local_id))

    def files(self, store: str) -> list[FileRead]:
        def read(connection: sqlite3.Connection) -> list[FileRead]:
            owned: dict[str, list[str]] = {}
            for kept, local_id in connection.execute("SELECT path, id FROM session WHERE store = ?", (store,)):
                owned.setdefault(_path(kept), []).append(local_id)
            rows = connection.execute("SELECT path, tool, mark FROM file WHERE store = ?", (store,))
            return [FileRead(_path(kept), tool, mark, owned.get(_path(kept), [])) for kept, tool, mark in rows]

        return self._use(read)

    def sessions(self, store: str, path: str) -> list[str]:
        sql = "SELECT id FROM session WHERE store = ? AND path = ?"
        return self._use(lambda connection: [row[0] for row in connection.execute(sql, (store, _kept(path)))])

    def cut(self, store: str) -> set[str]:
        """Return the local ids of sessions of which messages were removed, or may have been."""
        sql = "SELECT id FROM removed WHERE store = ? AND message <> ? UNION SELECT id FROM inherited WHERE store = ?"
        return self._use(lambda connection: {row[0] for row in connection.execute(sql, (store, WHOLE, store))})

    def forget_removed(self, store: str, local_id: str) -> None:
        def forget(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("DELETE FROM removed WHERE store = ? AND id = ?", (store, local_id))
                connection.execute("DELETE FROM inherited WHERE store = ? AND id = ?", (store, local_id))

        self._use(forget)

    def copy_to(self, path: str) -> None:
        self._use(lambda connection: connection.execute("VACUUM INTO ?", (path,)).close())

    def copy_removed_to(self, path: str) -> None:
        def copy(connection: sqlite3.Connection) -> None:
            connection.execute("ATTACH ? AS copy", (path,))
            try:
                with connection:
                    connection.execute("INSERT OR IGNORE INTO copy.removed SELECT * FROM main.removed")
            finally:
                connection.execute("DETACH copy")

        self._use(copy)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        damaged = False
        while True:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                done = work(self._connection)
            # The disk is full, or it is not ours to write, or locked, or a newer sessiond was here.
            except (OSError, sqlite3.OperationalError, NewerVersion) as error:
                if not self._failing:
                    log.warning("%s cannot be used; what sources said is not remembered: %s", self.path, error)
                self._failing = True
                locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
                raise Unusable(error, locked=locked, is_there=self.path is None or os.path.exists(self.path)) from error
            except (sqlite3.ProgrammingError, sqlite3.DataError):  # a mistake of ours says nothing of the file
                raise
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a message about damage may be damaged itself
                if damaged or self.path is None or not os.path.exists(self.path):
                    raise Unusable(error, locked=False, is_there=False) from error
                damaged = True
                log.warning("%s is damaged and is replaced by an empty file: %s", self.path, error)
                self._discard()
            else:
                self._failing = False
                return done

    def _use_durably(self, write: Callable[[sqlite3.Connection], None]) -> None:
        def durably(connection: sqlite3.Connection) -> None:
            connection.execute("PRAGMA synchronous = EXTRA")
            try:
                write(connection)
            finally:
                connection.execute("PRAGMA synchronous = NORMAL")

        self._use(durably)

    def _opened(self) -> sqlite3.Connection:
        if self.path is not None:
            with contextlib.suppress(FileExistsError):
                self._fs.create(self.path, b"", 0o600)
        connection = sqlite3.connect(self.path or ":memory:", _PATIENCE_S, check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise NewerVersion("it was written by a newer version of sessiond")
            if version == 1:
                connection.executescript(_FROM_VERSION_1)
            connection.executescript(_SCHEMA)
        except (sqlite3.Error, NewerVersion):
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        self.close()
        for name in (self.path, f"{self.path}-journal"):
            with contextlib.suppress(FileNotFoundError):
                self._fs.remove(str(name))


def _kept(path: str) -> str | bytes:
    """Return a path as the tables have it: as bytes if it is not UTF-8, which no text of SQLite can hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _path(kept: str | bytes) -> str:
    return kept if isinstance(kept, str) else os.fsdecode(kept)


def _row(key: DigestKey) -> tuple[str, str, str | bytes]:
    store, local_id, path = key
    return store, local_id, _kept(path)


def _write(connection: sqlite3.Connection, entries: Entries) -> None:
    with connection:
        rows = [(*_row(key), _encode(value)) for key, value in entries.digests.items() if value is not None]
        connection.executemany("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", rows)
        # As long as something is only about to be given to the session, a crash may still leave it without that.
        read = [_row(key) for key, value in entries.digests.items() if value is not None and value.is_settled]
        connection.executemany("DELETE FROM inherited WHERE store = ? AND id = ? AND path = ?", read)
        gone = [_row(key) for key, value in entries.digests.items() if value is None]
        connection.executemany("DELETE FROM session WHERE store = ? AND id = ? AND path = ?", gone)
        connection.executemany("DELETE FROM grown WHERE store = ? AND id = ? AND path = ?", map(_row, entries.digests))
        for key, growths in entries.grown.items():
            _append(connection, key, growths)
        files = [(store, _kept(path), *value) for (store, path), value in entries.files.items()]
        connection.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)", files)
        connection.executemany("INSERT OR IGNORE INTO removed VALUES (?, ?, ?)", list(entries.removed))


def _move(connection: sqlite3.Connection, store: str, local_id: str, to_store: str) -> None:
    with connection:
        for sql in (
            "DELETE FROM session WHERE store = ? AND id = ?",
            "DELETE FROM grown WHERE store = ? AND id = ?",
            "DELETE FROM removed WHERE store = ? AND id = ?",
            "DELETE FROM inherited WHERE store = ? AND id = ?",
        ):
            connection.execute(sql, (to_store, local_id))
        for sql in (
            "INSERT INTO session SELECT ?, id, path, digests FROM session WHERE store = ? AND id = ?",
            "INSERT INTO grown SELECT ?, id, path, nth, said FROM grown WHERE store = ? AND id = ?",
            "INSERT INTO removed SELECT ?, id, message FROM removed WHERE store = ? AND id = ?",
            "INSERT INTO inherited SELECT ?, id, path, digests FROM inherited WHERE store = ? AND id = ?",
        ):
            connection.execute(sql, (to_store, store, local_id))
        sql = "DELETE FROM removed WHERE store = ? AND id = ? AND message = ?"
        connection.execute(sql, (to_store, local_id, WHOLE))  # what was removed here once is there now
        connection.execute("INSERT OR IGNORE INTO removed VALUES (?, ?, ?)", (store, local_id, WHOLE))
        connection.execute("DELETE FROM moved WHERE store = ? AND id = ?", (to_store, local_id))
        sql = "UPDATE moved SET to_store = ? WHERE to_store = ? AND id = ?"
        connection.execute(sql, (to_store, store, local_id))
        connection.execute("INSERT OR REPLACE INTO moved VALUES (?, ?, ?)", (store, local_id, to_store))


def _append(connection: sqlite3.Connection, key: DigestKey, growths: Sequence[SourceGrowth]) -> None:
    sql = "SELECT COALESCE(MAX(nth), 0) FROM grown WHERE store = ? AND id = ? AND path = ?"
    row = _row(key)
    (last,) = connection.execute(sql, row).fetchone()
    rows = [(*row, nth, _encode(one)) for nth, one in enumerate(growths, last + 1)]
    connection.executemany("INSERT INTO grown VALUES (?, ?, ?, ?, ?)", rows)
    if last + len(rows) > _MOST_GROWN:
        store, local_id, path = key
        whole = _recall(connection, store, local_id).by_path.get(path)
        if whole is not None:
            connection.execute("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", (*row, _encode(whole)))
        connection.execute("DELETE FROM grown WHERE store = ? AND id = ? AND path = ?", row)


def _recall(connection: sqlite3.Connection, store: str, local_id: str) -> Recalled:
    by_path: dict[str, SourceDigest] = {}
    sql = "SELECT path, digests FROM session WHERE store = ? AND id = ?"
    since: dict[str, list[bytes]] = {}
    sql_since = "SELECT path, said FROM grown WHERE store = ? AND id = ? ORDER BY nth"
    for kept, said in connection.execute(sql_since, (store, local_id)):
        since.setdefault(_path(kept), []).append(said)
    for kept, digests in connection.execute(sql, (store, local_id)):
        path = _path(kept)
        try:
            digest = _decode(digests)
            by_path[path] = digest.grown(map(_decode_growth, since[path])) if path in since else digest
        except msgspec.MsgspecError as error:  # one row that cannot be read costs what it says
            log.warning("what %s said of %s cannot be read: %s", path, local_id, error)
    rows = connection.execute("SELECT message FROM removed WHERE store = ? AND id = ?", (store, local_id))
    removed = frozenset(row[0] for row in rows)
    sql_moved = "SELECT to_store FROM moved WHERE store = ? AND id = ?"
    moved = connection.execute(sql_moved, (store, local_id)).fetchone()
    inherited = _inherited(connection, store, local_id)
    return Recalled(by_path, WHOLE in removed, removed - {WHOLE}, inherited, moved[0] if moved else None)


def _inherited(connection: sqlite3.Connection, store: str, local_id: str) -> frozenset[bytes] | None:
    sql = "SELECT digests FROM inherited WHERE store = ? AND id = ?"
    found: set[bytes] | None = None
    for (digests,) in connection.execute(sql, (store, local_id)):
        try:
            digest = _decode(digests)
        except msgspec.MsgspecError as error:
            log.warning("what a source said of %s cannot be read: %s", local_id, error)
            found = found or set()  # it was here at least
        else:
            if digest.arrived:
                found = (found or set()) | digest.messages.keys()
    return None if found is None else frozenset(found)
