"""The index file: its tables, and how it is created, checked and replaced. Synchronous; called on the index's own threads.

    session   one row for each session; `info` is IndexedInfo as JSON, lists filter and sort by the other columns
    tag       its tags
    history   earlier orders of lists: the keys that a session had before the change that came with `epoch`
    doc       one row for each message, note or session name, placed by (session, kind, seq); its key (the id of the message
              or note) and its texts are in a chunk
    usage     what a message reports of used tokens (model/token_usage.py); costs in US dollars
    chunk     compressed texts (chunks.py); `live` documents still point into it, the first of those written with it has the
              id `first`
    vocabulary  the distinct words of fts, one after another, compressed (vocabulary.py); meta names the newest chunk whose
              words are all in it
    fts       the words, no text. Its rowid is the doc's id plus its shelf's and kind's zone

A document's words are in the zone of its session's shelf, so a search over everything that is neither archived nor deleted
is one range of rowids, without reading any other table: that makes exact totals cheap. When a session changes shelves, its
words are moved.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from typing import Literal
from urllib.parse import quote

import msgspec

from sessiond.index import tokens
from sessiond.index.chunks import DamagedChunk, decompress

APPLICATION_ID = 0x53455344  # "SESD"
VERSION = 5
PAGE_BYTES = 4096
"""Chunks and FTS5's own pages of 4 KB fit well into it."""

LOG_PAGES = 4096
"""64 MB; then the writing connection makes the log start again."""

LIVE, ARCHIVED, DELETED, UNKNOWN = range(4)
"""Shelves. UNKNOWN: messages arrived before their session. The words of the last two are not indexed, but their texts are
kept.
"""
MESSAGE, NAME, NOTE = range(3)
"""Kinds of documents."""
ZONE_BITS = 40
"""A doc's id has at most this many bits."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE session (
    no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, store TEXT NOT NULL, shelf INTEGER NOT NULL,
    archived INTEGER NOT NULL, updated INTEGER NOT NULL, created INTEGER NOT NULL, name_key TEXT NOT NULL, count INTEGER NOT NULL,
    name TEXT, model TEXT, cwd TEXT, fingerprint TEXT, info BLOB);
CREATE INDEX session_updated ON session (shelf, updated, no);
CREATE INDEX session_created ON session (shelf, created, no);
CREATE INDEX session_name ON session (shelf, name_key, no);
CREATE INDEX session_count ON session (shelf, count, no);
CREATE TABLE tag (no INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (no, tag)) WITHOUT ROWID;
CREATE INDEX tag_session ON tag (tag, no);
CREATE TABLE history (
    epoch INTEGER NOT NULL, no INTEGER NOT NULL, updated INTEGER NOT NULL, created INTEGER NOT NULL, name_key TEXT NOT NULL,
    count INTEGER NOT NULL, PRIMARY KEY (epoch, no)) WITHOUT ROWID;
CREATE TABLE doc (
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL, kind INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
    role INTEGER NOT NULL, chunk INTEGER NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE INDEX doc_place ON doc (session, kind, seq);
CREATE TABLE usage (
    doc INTEGER PRIMARY KEY, session INTEGER NOT NULL, at INTEGER NOT NULL, input INTEGER NOT NULL, cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL, model TEXT, request TEXT);
CREATE TABLE role (no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY, live INTEGER NOT NULL, first INTEGER NOT NULL, starts BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE vocabulary (no INTEGER PRIMARY KEY AUTOINCREMENT, words BLOB NOT NULL);
CREATE VIRTUAL TABLE fts USING fts5(body, tool, parts, tool_parts, thought, thought_parts, content='', tokenize='ascii');
INSERT INTO fts (fts, rank) VALUES ('hashsize', 4194304), ('automerge', 16), ('crisismerge', 64);
INSERT INTO role VALUES (0, '');
INSERT INTO meta VALUES ('epoch', 0), ('next_doc', 1), ('next_chunk', 1), ('vocabulary', 0);
"""


class IndexUnusable(Exception):
    """The file cannot be used as an index and has to be replaced by a fresh one. The text says why."""


def zone(shelf: int, kind: int) -> int:
    """The offset from a doc's id to the rowid of its words. LIVE or ARCHIVED only."""
    return (shelf * 2 + (kind == NAME)) << ZONE_BITS


def connect(path: str, *, reading: bool) -> sqlite3.Connection:
    """A connection for one thread to an existing file. Raises sqlite3.Error."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    db = sqlite3.connect(
        uri, uri=True, timeout=10.0, isolation_level=None, cached_statements=256, check_same_thread=False
    )
    try:
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.execute("PRAGMA temp_store = MEMORY")
        db.create_function("folder_key", 1, _folder_key, deterministic=True)
        db.create_function("names_model", 2, _names_model, deterministic=True)
        if reading:
            db.execute("PRAGMA cache_size = -32768")
            db.execute("PRAGMA query_only = ON")  # no mmap: truncation of the file would kill the daemon
        else:
            db.execute("PRAGMA cache_size = -16384")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA secure_delete = OFF")  # some systems build SQLite with it; `erase` does more
            db.execute("PRAGMA journal_size_limit = 67108864")
            db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def open_or_make(path: str) -> tuple[sqlite3.Connection, Literal["kept", "unclean", "fresh"]]:
    """The writing connection to an index file of this version; a fresh one if it was anything else.

    `unclean`: it was not closed by `seal`, so `check` should read it. Raises sqlite3.Error or OSError if it cannot be
    created.
    """
    if os.path.exists(path) and _version(path) <= VERSION:
        sealed = _unseal(path)
        if sealed is not False:
            try:
                return _open(path), "kept" if sealed else "unclean"
            except (sqlite3.Error, IndexUnusable) as error:
                if not is_damage(error):
                    raise
    return make(path), "fresh"


def make(path: str) -> sqlite3.Connection:
    """A fresh, empty index at `path`, whatever was there. A file of a newer version is set aside, any other is removed."""
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    if _version(path) > VERSION:
        _set_aside(path)
    remove(path)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
    db = connect(path, reading=False)
    try:
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";\n"):
            if statement.strip():
                db.execute(statement)
        facts = [("tokens", tokens.VERSION), ("instance", secrets.token_hex(8))]
        db.executemany("INSERT INTO meta VALUES (?, ?)", facts)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the version must be in the file itself
    except sqlite3.Error:
        db.close()
        raise
    return db


def _folder_key(cwd: object) -> str | None:
    from sessiond.index.functions import key_of  # few lists are of a folder, and none is at the start

    return key_of(cwd)


def _names_model(model: object, asked: object) -> bool:
    from sessiond.index.functions import is_of_model  # likewise

    return is_of_model(model, asked)


def reopen(path: str) -> sqlite3.Connection:
    """A writing connection to the existing file. Raises Unusable, sqlite3.Error."""
    return _open(path)


def check(db: sqlite3.Connection) -> None:
    """Read the whole file, on a separate connection, and raise Unusable if anything is damaged. Nothing waits for this."""
    try:
        found = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise IndexUnusable(str(found))
        # FTS5's own integrity-check would hold the write lock for the whole time.
        db.execute("PRAGMA query_only = OFF")  # creating even a temporary table needs this
        db.execute("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, fts, row)")
        db.execute("SELECT sum(doc), sum(cnt) FROM temp.vocabulary").fetchone()
        for (data,) in db.execute("SELECT data FROM chunk"):
            decompress(data)
    except (sqlite3.Error, DamagedChunk) as error:
        if is_damage(error):
            raise IndexUnusable(str(error)) from error
        raise


def seal(db: sqlite3.Connection, path: str) -> None:
    """Close the writing connection and record the file's state, so that a later change is noticed at the next start."""
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    found = os.stat(path)
    with open(path + ".seal", "wb") as file:
        file.write(msgspec.json.encode([found.st_size, found.st_mtime_ns, found.st_ino]))


def is_damage(error: BaseException) -> bool:
    """Return whether an error says that the file's content is broken or missing, and not that a disk is full or a lock held."""
    if isinstance(error, (IndexUnusable, DamagedChunk, msgspec.DecodeError)):
        return True
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "decode to UTF-8" in str(error)
    if code in (sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_READONLY_DBMOVED):
        return True
    missing = code == sqlite3.SQLITE_ERROR and "no such" in str(error)
    return missing or code & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
    )


def remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm", ".seal"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue


def _open(path: str) -> sqlite3.Connection:
    db = connect(path, reading=False)
    try:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise IndexUnusable("not an index")
        if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            raise IndexUnusable("another version")
        facts = dict(db.execute("SELECT key, value FROM meta"))
        if facts.get("tokens") != tokens.VERSION:
            raise IndexUnusable("made with other tokens")
        if not all(key in facts for key in ("instance", "epoch", "next_doc", "next_chunk", "vocabulary")):
            raise IndexUnusable("incomplete")
    except BaseException:
        db.close()
        raise
    return db


def _unseal(path: str) -> bool | None:
    """True: closed cleanly and untouched since. None: not closed cleanly. False: another program touched it. Removes the
    seal.
    """
    try:
        with open(path + ".seal", "rb") as file:
            noted = msgspec.json.decode(file.read())
    except FileNotFoundError:
        return None
    except (ValueError, OSError):
        return False
    os.unlink(path + ".seal")
    found = os.stat(path)
    return bool(noted == [found.st_size, found.st_mtime_ns, found.st_ino])


def _version(path: str) -> int:
    """The version of an index file according to its header, -1 if it has none. Does not use SQLite, changes nothing."""
    try:
        with open(path, "rb") as file:
            header = file.read(72)
    except OSError:
        return -1
    if len(header) < 72 or header[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        return -1
    return int.from_bytes(header[60:64], "big")


def _set_aside(path: str) -> None:
    target = f"{path}.v{_version(path)}"
    for suffix in ("", "-wal"):
        if os.path.exists(path + suffix):
            os.replace(path + suffix, target + suffix)
