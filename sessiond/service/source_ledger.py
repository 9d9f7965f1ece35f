"""What the sources of imported sessions said when they were last read: digests, never words.

With it an import tells what the source changed from what was changed here, and what the source has lost from what it never
had. It is a help, not a store: if the file is lost, nothing is marked as compacted until a source has been read again, and a
followed session that was deleted here comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from sessiond.fs import FileSystem, RealFileSystem
from sessiond.service.source_merge import SourceDigest

log = logging.getLogger(__name__)
T = TypeVar("T")
_VERSION = 2
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS session (
        store TEXT NOT NULL, id TEXT NOT NULL, path TEXT NOT NULL, digests BLOB NOT NULL,
        PRIMARY KEY (store, id, path)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS session_path ON session (store, path);
    CREATE TABLE IF NOT EXISTS file (
        store TEXT NOT NULL, path TEXT NOT NULL, tool TEXT NOT NULL, mark TEXT NOT NULL,
        PRIMARY KEY (store, path)
    ) WITHOUT ROWID;
    PRAGMA user_version = {_VERSION};
"""
_WAITING = 500
"""Entries that are written in one transaction."""
_MOST_WAITING = 2000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SourceDigest).decode


class FileRead(msgspec.Struct, frozen=True):
    """A file that was read to its end in the version `mark`, and the sessions (local ids) that it had."""

    path: str
    tool: str
    mark: str
    local_ids: list[str]


class SourceLedger:
    """`path` None: in memory. Every method may be called on the loop; the disk is used on a thread.

    What cannot be written stays in memory and is tried again at the next write, up to `_MOST_WAITING` entries.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._fs: FileSystem = RealFileSystem()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._digests: dict[tuple[str, str, str], SourceDigest] = {}
        """Not written yet."""
        self._files: dict[tuple[str, str], tuple[str, str]] = {}
        self._failing = False
        """The file cannot be used; it was said in the log."""

    async def digest(self, store: str, local_id: str, path: str) -> SourceDigest | None:
        """What `path` said of the session; None if it was not read yet."""
        waiting = self._digests.get((store, local_id, path))
        if waiting is not None:
            return waiting
        return await asyncio.to_thread(self._find, store, local_id, path)

    async def keep(self, store: str, local_id: str, path: str, digest: SourceDigest) -> None:
        """Remember what `path` says of the session, once the session holds it."""
        self._digests[store, local_id, path] = digest
        if len(self._digests) >= _WAITING:
            await self.flush()

    def read_to_end(self, store: str, path: str, tool: str, mark: str) -> None:
        self._files[store, path] = (tool, mark)

    async def files(self, store: str) -> list[FileRead]:
        await self.flush()
        return await asyncio.to_thread(self._all_files, store)

    async def sessions(self, store: str, path: str) -> list[str]:
        """Local ids of the sessions that `path` has or had."""
        await self.flush()
        return await asyncio.to_thread(self._of_path, store, path)

    async def flush(self) -> None:
        digests, files = dict(self._digests), dict(self._files)
        if not digests and not files:
            return
        if not await asyncio.to_thread(self._write, digests, files):
            for key in list(self._digests)[:-_MOST_WAITING]:
                del self._digests[key]
            return
        # An entry stays at hand until it can be found in the file.
        self._digests = {key: one for key, one in self._digests.items() if digests.get(key) is not one}
        self._files = {key: one for key, one in self._files.items() if files.get(key) is not one}

    async def close(self) -> None:
        await self.flush()
        await asyncio.to_thread(self._close)

    # On a thread

    def _write(
        self, digests: dict[tuple[str, str, str], SourceDigest], files: dict[tuple[str, str], tuple[str, str]]
    ) -> bool:
        def write(connection: sqlite3.Connection) -> bool:
            with connection:
                rows = [(*key, _encode(value)) for key, value in digests.items()]
                connection.executemany("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?)", rows)
                connection.executemany(
                    "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)", [(*key, *value) for key, value in files.items()]
                )
            return True

        return self._use(write, False)

    def _find(self, store: str, local_id: str, path: str) -> SourceDigest | None:
        def read(connection: sqlite3.Connection) -> SourceDigest | None:
            sql = "SELECT digests FROM session WHERE store = ? AND id = ? AND path = ?"
            found = connection.execute(sql, (store, local_id, path)).fetchone()
            return None if found is None else _decode(found[0])

        return self._use(read, None)

    def _all_files(self, store: str) -> list[FileRead]:
        def read(connection: sqlite3.Connection) -> list[FileRead]:
            owned: dict[str, list[str]] = {}
            for path, local_id in connection.execute("SELECT path, id FROM session WHERE store = ?", (store,)):
                owned.setdefault(path, []).append(local_id)
            rows = connection.execute("SELECT path, tool, mark FROM file WHERE store = ?", (store,))
            return [FileRead(path, tool, mark, owned.get(path, [])) for path, tool, mark in rows]

        return self._use(read, [])

    def _of_path(self, store: str, path: str) -> list[str]:
        def read(connection: sqlite3.Connection) -> list[str]:
            sql = "SELECT id FROM session WHERE store = ? AND path = ?"
            return [row[0] for row in connection.execute(sql, (store, path))]

        return self._use(read, [])

    def _use(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`work(connection)`; `otherwise` if the file cannot be used. A damaged file is replaced by an empty one."""
        with self._lock:
            for _ in range(2):
                try:
                    if self._connection is None:
                        self._connection = self._opened()
                    done = work(self._connection)
                    self._failing = False
                    return done
                except (OSError, sqlite3.OperationalError) as error:  # the disk is full, or not ours to write
                    if not self._failing:
                        log.warning("%s cannot be used; what sources said is not remembered: %s", self._path, error)
                    self._failing = True
                    return otherwise
                except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
                    log.warning("%s is damaged and is replaced by an empty file: %s", self._path, error)
                    self._discard()
        return otherwise

    def _opened(self) -> sqlite3.Connection:
        if self._path is not None:
            with contextlib.suppress(FileExistsError):
                self._fs.create(self._path, b"", 0o600)
        connection = sqlite3.connect(self._path or ":memory:", check_same_thread=False)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            if connection.execute("PRAGMA user_version").fetchone()[0] not in (0, _VERSION):
                raise sqlite3.DatabaseError("it was written by another version")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for name in _names(self._path):
            with contextlib.suppress(FileNotFoundError):
                self._fs.remove(name)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _names(path: str | None) -> Iterable[str]:
    return () if path is None else (path, path + "-journal")
