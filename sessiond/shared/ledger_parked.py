"""The part of a ledger that keeps what waited for a session when another machine deleted it.

    waiting ──the session is deleted──> parked ──it is restored──> waiting
                                               ──it is erased, or the trash here is emptied──> gone

The trash has these words with the rest of the session, but the hub does not have them: whoever restores the session gets what the
hub has. So they wait again then, behind everything that is there.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from sessiond.shared.waiting import Name, Waiting

T = TypeVar("T")
_TABLE = """
    CREATE TABLE IF NOT EXISTS parked (
        place INTEGER PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, id TEXT, body BLOB NOT NULL, names BLOB NOT NULL,
        author TEXT NOT NULL
    )
"""
_BACK = """
    INSERT INTO waiting (session, kind, id, body, names, author) SELECT session, kind, id, body, ?1, author FROM parked
"""


class _Head(Protocol):
    @property
    def trashed(self) -> bool: ...


class ParkedOperations(ABC):
    _db: sqlite3.Connection

    def __init__(self) -> None:
        super().__init__()
        self.parked: dict[str, int] = {}
        """How many operations of a session are parked."""

    @abstractmethod
    def name(self) -> Name: ...

    @abstractmethod
    def head(self, session: str) -> _Head: ...

    @abstractmethod
    def _count(self, session: str, more: int) -> None: ...

    @abstractmethod
    def _write_later(self, session: str, work: Callable[[], None]) -> None: ...

    @abstractmethod
    async def _write(self, work: Callable[[], T]) -> T: ...

    async def park(self, session: str, waiting: Sequence[Waiting]) -> None:
        """Let operations of a session that is in the trash wait no longer. ReadOnly, Indeterminate, Unavailable."""
        if not self.head(session).trashed:
            return  # it was restored while its files were moved, so they go on waiting
        places = [(one.place,) for one in waiting]
        self.parked[session] = self.parked.get(session, 0) + len(places)
        self._count(session, -len(places))

        def park() -> None:
            with self._db:
                self._db.executemany(
                    "INSERT OR REPLACE INTO parked SELECT place, session, kind, id, body, names, author FROM waiting"
                    " WHERE place = ?",
                    places,
                )
                self._db.executemany("DELETE FROM waiting WHERE place = ?", places)

        self._write_later(session, park)
        await self._write(lambda: None)

    def _names_again(self, session: str) -> list[Name]:
        """Let what is parked wait again from now on, and return the names under which it waits as well. `_unpark` has to follow."""
        count = self.parked.pop(session, 0)
        if count:
            self._count(session, count)
        return [self.name() for _ in range(count)]

    async def forget_parked(self, session: str) -> None:
        """Somebody empties the trash. Errors as in `park`: then they are still parked."""
        count = self.parked.pop(session, 0)
        if not count:
            return
        try:
            await self._write(lambda: self._delete_parked(session))
        except BaseException:
            self.parked[session] = self.parked.get(session, 0) + count
            raise

    # On the thread of the ledger

    def _unpark(self, session: str, names: Sequence[Name]) -> None:
        """Within a transaction. A second time, after a failure whose outcome is not known, it does nothing."""
        query = "SELECT place, names FROM parked WHERE session = ? ORDER BY place LIMIT ?"
        rows = list(self._db.execute(query, (session, len(names)))) if names else []
        for (place, given), name in zip(rows, names, strict=False):
            every = msgspec.json.encode([*msgspec.json.decode(given), name])
            self._db.execute(f"{_BACK} WHERE place = ?2", (every, place))
            self._db.execute("DELETE FROM parked WHERE place = ?", (place,))

    def _delete_parked(self, session: str) -> None:
        with self._db:
            self._db.execute("DELETE FROM parked WHERE session = ?", (session,))

    def _read_parked(self, db: sqlite3.Connection) -> None:
        """Within a transaction, before those that wait get names of this life. A version of this program that parks nothing may
        have heard that a session was restored.
        """
        db.execute(_TABLE)
        there = "session NOT IN (SELECT session FROM head WHERE trashed)"
        db.execute(f"{_BACK.replace('?1', 'names')} WHERE {there} ORDER BY place")
        db.execute(f"DELETE FROM parked WHERE {there}")  # noqa: S608
        self.parked = dict(db.execute("SELECT session, count(*) FROM parked GROUP BY session"))
