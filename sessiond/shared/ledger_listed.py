"""The part of a ledger that knows sessions of which only the hub's listing is here."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from sessiond.hub.port import NOTHING

_TABLE = """
    CREATE TABLE IF NOT EXISTS listed (session TEXT PRIMARY KEY, number INTEGER NOT NULL, listing BLOB NOT NULL) WITHOUT ROWID
"""


class ListedSessions(ABC):
    _db: sqlite3.Connection

    def __init__(self) -> None:
        super().__init__()
        self.listed: dict[str, tuple[int, bytes]] = {}
        """Session -> number of its head and listing on the hub, in the order in which they changed."""
        self.listed_operations = 0
        """How many operations they have on the hub."""

    @abstractmethod
    def _write_later(self, session: str, work: Callable[[], None]) -> None: ...

    def note_listed(self, news: Sequence[tuple[str, int, bytes]]) -> None:
        """Note sessions that the ledger has nothing of: (session, number of its head, listing)."""
        for session, number, listing in news:
            self._count_listed(self.listed.get(session), -1)
            self.listed[session] = number, listing
            self._count_listed(self.listed[session], 1)
        self._change_listed("INSERT OR REPLACE INTO listed VALUES (?, ?, ?)", news)

    def unlist(self, sessions: Iterable[str]) -> None:
        """The ledger has their operations now, or the hub does not have them any more."""
        gone = []
        for session in sessions:
            known = self.listed.pop(session, None)
            if known is not None:
                self._count_listed(known, -1)
                gone.append((session,))
        self._change_listed("DELETE FROM listed WHERE session = ?", gone)

    def _count_listed(self, known: tuple[int, bytes] | None, sign: int) -> None:
        if known is not None:
            self.listed_operations += sign * (known[0] - NOTHING)

    def _change_listed(self, statement: str, rows: Sequence[tuple[str | int | bytes, ...]]) -> None:
        def change() -> None:
            with self._db:
                self._db.executemany(statement, rows)

        if rows:
            self._write_later("", change)

    def _read_listed(self, db: sqlite3.Connection) -> None:
        """On the thread of the ledger."""
        db.execute(_TABLE)
        rows = db.execute("SELECT session, number, listing FROM listed")
        self.listed = {session: (number, listing) for session, number, listing in rows}
        self.listed_operations = sum(number - NOTHING for number, _ in self.listed.values())
