"""The reading threads: every request is a job on one of them, in its own transaction, and may be given up at any time."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sessiond.errors import Cancelled
from sessiond.index import schema
from sessiond.index.writer import Writer

_T = TypeVar("_T")
_STEPS = 10_000
"""SQLite's steps between two checks whether the job is still wanted."""


class Ticket:
    """Says whether a job is still wanted: for `seconds` from now on, or until `give_up`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        self._given_up = False

    def give_up(self) -> None:
        self._given_up = True

    @property
    def left_s(self) -> float:
        return 0.0 if self._given_up else self._ends - time.monotonic()

    def over(self) -> bool:
        return self.left_s <= 0

    @property
    def ended_by_time(self) -> bool:
        """It is over, but was not given up."""
        return not self._given_up and self.over()

    def ended(self) -> Cancelled:
        return Cancelled(
            f"it took longer than {self.seconds:g} s", hint="Narrow the search: more words, a filter, a shorter period."
        )


class Readers:
    """A connection to a file that the writer has replaced since is closed and opened again."""

    def __init__(self, path: str, threads: int, name: str, writer: Writer) -> None:
        self._path = path
        self._writer = writer
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    async def run(self, job: Callable[[sqlite3.Connection], _T], ticket: Ticket) -> _T:
        """The job's result. Raises what the job raises, sqlite3.Error, IndexUnusable, and Cancelled when its time is over."""
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._work, job, ticket)
        try:
            return await future
        except asyncio.CancelledError:
            ticket.give_up()
            raise

    def close(self) -> None:
        """Blocks until the jobs have ended."""
        self._pool.shutdown(wait=True)
        for db in self._open:
            db.close()

    def _work(self, job: Callable[[sqlite3.Connection], _T], ticket: Ticket) -> _T:
        if ticket.over():
            raise ticket.ended()
        # SQLite goes on reading a file that was deleted or replaced. The error makes the writer begin a fresh one.
        if not self._writer.intact():
            raise schema.IndexUnusable("the file is gone")
        db = self._connection()
        db.set_progress_handler(ticket.over, _STEPS)
        try:
            db.execute("BEGIN")
            return job(db)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise ticket.ended() from error
            raise
        finally:
            db.set_progress_handler(None, 0)
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        # Read before the file is opened. The writer raises it after the new file is in place, so at worst a new file is held under
        # the old number, and opened once more. An old file is never held under the new number.
        current = self._writer.generation
        held: tuple[int, sqlite3.Connection] | None = getattr(self._local, "held", None)
        if held is not None and held[0] == current:
            return held[1]
        with self._lock:
            if held is not None:
                self._open.remove(held[1])
                held[1].close()
                self._local.held = None
            db = schema.connect(self._path, reading=True)
            self._open.append(db)
        self._local.held = (current, db)
        return db
