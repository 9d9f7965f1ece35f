"""Removes every trace of removed content from the index's files. Synchronous, on the writing thread.

A deleted row remains in its page until it is overwritten, a word that no longer occurs remains in the segments of FTS5 until
all of them are merged, a text remains in its chunk until nothing else in that is needed, and all of them remain in the log.
So the words are merged into one segment, unneeded parts of chunks are blanked, the file is rebuilt from its content, and the
log is cut to nothing. That costs as much as writing the whole file: ordinary work does not pay for it, and only permanent
deletes wait.
"""

from __future__ import annotations

import contextlib
import glob
import os
import sqlite3
import time
from itertools import groupby
from os.path import dirname, join
from urllib.parse import quote

from sessiond.index import schema
from sessiond.index.chunks import DamagedChunk, compress, decompress

_PATIENCE_S = 30.0
"""How long to wait for readers of the old log; a search is given up sooner."""


def erase(db: sqlite3.Connection, path: str) -> None:
    """Call this after the removal is committed. OSError, sqlite3.Error: some of it may still be there."""
    db.execute("BEGIN IMMEDIATE")
    try:
        _merge_words(db)
        _blank_texts(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("PRAGMA temp_store = FILE")  # VACUUM needs as much space as the file
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")
    _cut_log(db)
    for aside in glob.glob(glob.escape(path) + ".v*"):  # of a newer version, which will create its own again
        os.unlink(aside)
    vectors = join(dirname(path), "vectors.db")
    if os.path.exists(vectors):
        _erase_vectors(vectors, path)


def _merge_words(db: sqlite3.Connection) -> None:
    """Merge into one segment without what was removed. FTS5 drops that only when it merges segments of more than one level;
    so a row is added and removed.
    """
    db.execute("INSERT INTO fts (rowid, body) VALUES (-1, 'x')")
    db.execute("INSERT INTO fts (fts) VALUES ('optimize')")
    db.execute("INSERT INTO fts (fts, rowid, body) VALUES ('delete', -1, 'x')")
    db.execute("INSERT INTO fts (fts) VALUES ('optimize')")


def _blank_texts(db: sqlite3.Connection) -> None:
    """A chunk remains as long as anything in it is needed: overwrite the rest with zeros."""
    docs = db.execute("SELECT chunk, start, size FROM doc ORDER BY chunk, start")
    needed = ((chunk, [one[1:] for one in some]) for chunk, some in groupby(docs, key=lambda one: one[0]))
    blanked: list[tuple[bytes, int]] = []
    for chunk, places in needed:
        [data] = db.execute("SELECT data FROM chunk WHERE id = ?", (chunk,)).fetchone() or [None]
        if data is None:
            raise DamagedChunk("a chunk is missing")
        whole = decompress(data)
        if sum(size for _, size in places) < len(whole):
            rest = bytearray(len(whole))
            for start, size in places:
                rest[start : start + size] = whole[start : start + size]
            blanked.append((compress(bytes(rest)), chunk))
    db.executemany("UPDATE chunk SET data = ? WHERE id = ?", blanked)


def _cut_log(db: sqlite3.Connection) -> None:
    ends = time.monotonic() + _PATIENCE_S
    while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > ends:
            raise sqlite3.OperationalError("the log is still being read")
        time.sleep(0.01)


def _erase_vectors(path: str, index_path: str) -> None:
    """Remove vectors of documents that are gone: a vector reveals something of its text. The vectors' process notices by itself."""
    uri, index_uri = (f"file:{quote(os.fsencode(one))}?mode=rw" for one in (path, index_path))
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10.0, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("ATTACH ? AS texts", (index_uri,))
        try:
            db.execute("DELETE FROM passage WHERE doc NOT IN (SELECT id FROM texts.doc)")
        except sqlite3.OperationalError as error:
            if schema.is_damage(error):  # it is just being created
                return
            raise
        db.execute("PRAGMA main.wal_checkpoint(TRUNCATE)")
