"""The vectors of all passages: a SQLite file next to the index, derived, versioned, disposable; and the search for the
nearest. Only the worker process uses this.

Every passage is first compared by one bit for each dimension (32 bytes, in memory); the nearest are then compared by their
vectors (256 bytes, on disk). On real text that finds the same as a comparison with all vectors
(tests/bench/bench_semantic.py), in a twentieth of the time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from sessiond.index.embedding import DIMENSIONS, NAME, Vectors

APPLICATION_ID = 0x53455656  # "SEVV"
VERSION = 1
CANDIDATES = 1000
"""How many passages are compared by their vectors."""
_WORDS = DIMENSIONS // 64
_FAR = DIMENSIONS + 1
_GROW = 4096

_Codes: TypeAlias = npt.NDArray[np.uint64]
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE passage (
    id INTEGER PRIMARY KEY, doc INTEGER NOT NULL, chunk INTEGER NOT NULL, text INTEGER NOT NULL, start INTEGER NOT NULL,
    stop INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE INDEX passage_doc ON passage (doc);
"""


class Row(NamedTuple):
    """A passage of a document, as it was when the document was in `chunk`: text number and code points."""

    doc: int
    chunk: int
    text: int
    start: int
    stop: int


class Near(NamedTuple):
    """A passage and how near it is: the cosine, 1 for the same, 0 for nothing in common."""

    row: Row
    cosine: float


class VectorStore:
    """`instance`: that of the index to which the documents' ids belong; vectors of another one are discarded."""

    def __init__(self, path: str, instance: str) -> None:
        self.path = path
        try:
            self._db = _open(path, instance)
        except (sqlite3.DatabaseError, _OfAnother):
            _remove(path)
            self._db = _open(path, instance)
        facts = dict(self._db.execute("SELECT key, value FROM meta"))
        self.chunk: int = facts["chunk"]
        """All documents in chunks up to this one have their vectors."""
        self._next: int = facts["next"]
        self._load()

    def __len__(self) -> int:
        """Return how many passages there are."""
        return int(self._alive[: self._count].sum())

    def docs_beside(self, present: Iterable[int]) -> list[int]:
        """The documents that have vectors and are not among these, in order."""
        known = self._docs[: self._count][self._alive[: self._count]]
        gone: list[int] = np.setdiff1d(known, np.fromiter(present, np.int64)).tolist()
        return gone

    def close(self) -> None:
        self._db.close()

    # Changing

    def put(self, docs: Iterable[int], rows: Sequence[Row], vectors: Vectors, chunk: int) -> None:
        """Replace the passages of some documents; everything up to `chunk` is then complete. One transaction."""
        docs = list(docs)
        ids = range(self._next, self._next + len(rows))
        with self._transaction():
            self._forget(docs)
            self._db.executemany(
                "INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(n, *row, vector.tobytes()) for n, row, vector in zip(ids, rows, vectors, strict=True)],
            )
            facts = (("chunk", max(chunk, self.chunk)), ("next", ids.stop))
            self._db.executemany("UPDATE meta SET value = ? WHERE key = ?", [(value, key) for key, value in facts])
        self.chunk, self._next = max(chunk, self.chunk), ids.stop
        self._drop_from_memory(docs)
        self._append(np.fromiter(ids, np.int64, len(ids)), np.array([row.doc for row in rows], np.int64), vectors)

    def drop(self, docs: Iterable[int]) -> None:
        """Remove the passages of these documents."""
        docs = list(docs)
        if docs:
            with self._transaction():
                self._forget(docs)
            self._drop_from_memory(docs)

    # Asking

    def nearest(self, vector: Vectors, only: Iterable[int] | None = None) -> list[Near]:
        """The passages nearest to a vector, best first, from the documents in `only`. At most CANDIDATES."""
        count = self._count
        if not count or not vector.any():
            return []
        different = np.bitwise_count(self._codes[:count] ^ _code(vector[np.newaxis])).sum(axis=1, dtype=np.int32)
        different[~self._alive[:count]] = _FAR
        if only is not None:
            different[~np.isin(self._docs[:count], np.fromiter(only, np.int64))] = _FAR
        places = np.flatnonzero(different < _FAR)
        if len(places) > CANDIDATES:
            places = np.argpartition(different, CANDIDATES)[:CANDIDATES]
        return self._by_vector(self._ids[places].tolist(), vector)

    def _by_vector(self, ids: list[int], vector: Vectors) -> list[Near]:
        sql = "SELECT doc, chunk, text, start, stop, vector FROM passage WHERE id IN (SELECT value FROM json_each(?))"
        found = self._db.execute(sql, (json.dumps(ids),)).fetchall()
        if not found:
            return []
        matrix = np.frombuffer(b"".join(row[5] for row in found), np.int8).reshape(-1, DIMENSIONS).astype(np.float32)
        asked = vector.astype(np.float32)
        lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(asked)
        cosines = np.divide(matrix @ asked, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return [Near(Row(*found[n][:5]), float(cosines[n])) for n in np.argsort(-cosines, kind="stable").tolist()]

    # Within

    def _load(self) -> None:
        self._count = 0
        self._ids = np.empty(_GROW, np.int64)
        self._docs = np.empty(_GROW, np.int64)
        self._codes: _Codes = np.empty((_GROW, _WORDS), np.uint64)
        self._alive = np.empty(_GROW, np.bool_)
        cursor = self._db.execute("SELECT id, doc, vector FROM passage ORDER BY id")
        while rows := cursor.fetchmany(_GROW):
            vectors = np.frombuffer(b"".join(row[2] for row in rows), np.int8).reshape(-1, DIMENSIONS)
            self._append(
                np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64), vectors
            )

    def _append(self, ids: npt.NDArray[np.int64], docs: npt.NDArray[np.int64], vectors: Vectors) -> None:
        start, stop = self._count, self._count + len(ids)
        if stop > len(self._ids):
            size = max(stop, 2 * len(self._ids))
            self._ids = np.resize(self._ids, size)
            self._docs = np.resize(self._docs, size)
            self._codes = np.resize(self._codes, (size, _WORDS))
            self._alive = np.resize(self._alive, size)
        self._ids[start:stop], self._docs[start:stop], self._alive[start:stop] = ids, docs, True
        if stop > start:
            self._codes[start:stop] = _code(vectors)
        self._count = stop

    def _forget(self, docs: list[int]) -> None:
        self._db.execute("DELETE FROM passage WHERE doc IN (SELECT value FROM json_each(?))", (json.dumps(docs),))

    def _drop_from_memory(self, docs: list[int]) -> None:
        self._alive[: self._count] &= ~np.isin(self._docs[: self._count], np.array(docs, np.int64))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


class _OfAnother(Exception):
    """A file of another version, model or index."""


def _code(vectors: Vectors) -> _Codes:
    return np.packbits(vectors > 0, axis=1).view(np.uint64)


def _open(path: str, instance: str) -> sqlite3.Connection:
    fresh = not os.path.exists(path)
    if fresh:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    db = sqlite3.connect(uri, uri=True, timeout=10.0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -16384")
        db.execute("PRAGMA secure_delete = ON")  # a vector reveals something of its text
        if fresh:
            _make(db, instance)
        wanted = (db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0])
        if wanted != (APPLICATION_ID, VERSION):
            raise _OfAnother
        facts = dict(db.execute("SELECT key, value FROM meta"))
        if (facts.get("model"), facts.get("instance")) != (NAME, instance):
            raise _OfAnother
    except BaseException:
        db.close()
        raise
    return db


def _make(db: sqlite3.Connection, instance: str) -> None:
    db.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            db.execute(statement)
    facts = {"model": NAME, "instance": instance, "chunk": 0, "next": 1}
    db.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")
    db.execute("COMMIT")


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)
