"""The file of a ledger: its tables, copies of it, and what can be said of a copy without a daemon."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from sessiond.hub.port import NOTHING

VERSION = 1
"""Says only that `SCHEMA` was made. `prepare` adds what came later if it is missing, so that a ledger of any age gets it, and an
older program can still open the file.
"""
# The order of columns counts, because ledger.py does not name them.
SCHEMA = f"""
    CREATE TABLE operation (
        session TEXT NOT NULL, number INTEGER NOT NULL, replica TEXT NOT NULL, idx INTEGER NOT NULL, kind TEXT NOT NULL,
        id TEXT, author TEXT NOT NULL, voucher TEXT, received INTEGER NOT NULL, body BLOB NOT NULL, sealed BLOB,
        digest BLOB NOT NULL,
        PRIMARY KEY (session, number)
    ) WITHOUT ROWID;
    CREATE TABLE lost (
        session TEXT NOT NULL, number INTEGER NOT NULL, replica TEXT NOT NULL, idx INTEGER NOT NULL, kind TEXT NOT NULL,
        id TEXT, author TEXT NOT NULL, voucher TEXT, received INTEGER NOT NULL, body BLOB NOT NULL, sealed BLOB,
        PRIMARY KEY (replica, idx)
    ) WITHOUT ROWID;
    CREATE TABLE head (
        session TEXT PRIMARY KEY, number INTEGER NOT NULL, digest BLOB NOT NULL, trashed INTEGER NOT NULL,
        saved INTEGER NOT NULL DEFAULT {NOTHING}, print TEXT NOT NULL DEFAULT ''
    ) WITHOUT ROWID;
    CREATE TABLE waiting (
        place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, kind TEXT NOT NULL, id TEXT, body BLOB NOT NULL,
        names BLOB NOT NULL
    );
    CREATE INDEX waiting_session ON waiting (session, place);
    CREATE TABLE life (replica TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE cursor (one INTEGER PRIMARY KEY CHECK (one = 1), value BLOB NOT NULL);
    PRAGMA user_version = {VERSION};
"""

_MEMBER = """
    CREATE TABLE IF NOT EXISTS member (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL)
"""
_HUB = """
    CREATE TABLE IF NOT EXISTS hub (one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL)
"""
_AUTHOR = "ALTER TABLE waiting ADD COLUMN author TEXT NOT NULL DEFAULT ''"


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables that are not there yet: all of them, or those that an earlier version did not have."""
    if db.execute("PRAGMA user_version").fetchone()[0] == 0:
        db.executescript("BEGIN;" + SCHEMA + "COMMIT;")
    db.execute(_MEMBER)
    db.execute(_HUB)
    if "author" not in [row[1] for row in db.execute("PRAGMA table_info(waiting)")]:
        db.execute(_AUTHOR)


def copy(source: str, target: str) -> None:
    """Copy what is committed at this moment, through a connection of its own: whoever writes does not wait for it."""
    with contextlib.closing(sqlite3.connect(source, isolation_level=None)) as db:
        db.execute("VACUUM INTO ?", (target,))


def fold_in(path: str) -> None:
    """Bring everything into the one file, so that it can be moved. Nobody else may have it open."""
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error as error:
        raise ValueError(f"cannot be read: {error}") from None


def identity_of(path: str) -> str:
    """Return the identity of the store that a ledger is of; empty: it does not say. Nothing is written."""
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as db:
            return "".join(identity for (identity,) in db.execute("SELECT identity FROM hub"))
    except sqlite3.Error:  # of an earlier version, or damaged: it cannot say
        return ""


def count_now(path: str) -> int:
    """Count the operations that wait in a ledger that a daemon may be using. ValueError: it cannot be read."""
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM waiting").fetchone()[0])
    except sqlite3.Error as error:
        raise ValueError(f"cannot be read: {error}") from None


def count_waiting(path: str) -> int:
    """Count the operations that wait in a copy of a ledger, after a check of the whole file. Nothing is written.

    ValueError: it is damaged, or is not a ledger.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            found = db.execute("PRAGMA integrity_check").fetchone()[0]
            if found != "ok":
                raise ValueError(f"is damaged: {found}")
            return int(db.execute("SELECT count(*) FROM waiting").fetchone()[0])
    except sqlite3.Error as error:
        raise ValueError(f"cannot be read: {error}") from None
