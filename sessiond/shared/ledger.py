"""The ledger of what a machine knows of a shared store: every operation that the hub has ordered, and those that wait for it. In SQLite.

The files of the sessions are a rendering of the ledger: a file that is missing, cut short or edited is written again from here.
What waits is the only copy of something that was acknowledged, so it is synced before `queue` returns. All else is on the hub
too, and is not synced for itself.

The name of the replica is new in each life of the ledger. So a copy of the folder on another disk, or a backup that was
restored, never gives a name to two operations. An operation that waits keeps the names that it had in earlier lives: it may be
on the hub under any of them.

All work is done by one thread, in the order of the calls.

If it cannot be written (a full or failed disk, damage), `problem` says so, and nothing is accepted. What the hub has confirmed
meanwhile is kept in memory and written before anything else once that is possible: `try_again`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from sessiond.errors import Indeterminate, ReadOnly, SessiondError, Unavailable
from sessiond.fs import off_loop
from sessiond.hub.port import NOTHING, HubCursor, Ordered, chain, seed
from sessiond.ready import ready
from sessiond.shared.fold import displaced
from sessiond.shared.ledger_file import VERSION, copy, prepare
from sessiond.shared.ledger_listed import ListedSessions
from sessiond.shared.ledger_parked import ParkedOperations
from sessiond.shared.waiting import Name, Waiting, begins
from sessiond.shield import shielded
from sessiond.store.port import StoreProblem

log = logging.getLogger(__name__)
T = TypeVar("T")
ready(HubCursor)
_ENDS = ("trashed", "erased")
_FINAL = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB")
"""Errors after which it is not known what is on the disk, and trying again proves nothing."""
_NOT_NOW = "what is acknowledged is safe, and reading works; free some space or repair the disk"
_ASIDE = (
    "the sessions are on the hub as well, but not what waits; put a backup of the file into its place, or move it away"
)


class KnownHead(msgspec.Struct, frozen=True):
    """The newest operation of a session that the ledger has. `saved`: the last one that the file holds, if its fingerprint is
    `print`.
    """

    number: int
    digest: bytes
    trashed: bool = False
    saved: int = NOTHING
    print: str = ""


class Ledger(ListedSessions, ParkedOperations):
    """`open` first, `close` last. `heads` and `waits` are always current; the disk may be behind for a moment."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.replica = secrets.token_hex(16)
        self.lives: set[str] = set()
        """The names that the replica had, and has."""
        self.heads: dict[str, KnownHead] = {}
        self.waits: dict[str, int] = {}
        """How many operations of a session wait."""
        self.on_waits: Callable[[], None] = lambda: None
        """Called on the loop when `waits` may have changed."""
        self.cuts: dict[str, int] = {}
        """How often the ledger has given up operations of a session in this life: what was made of them has to be made again."""
        self.moved: dict[str, tuple[int, int]] = {}
        """Session -> as in `Session.moved`, in this life."""
        self.cursor: HubCursor | None = None
        self.member = ""
        """The name of this machine's member, as the hub said it last; empty: it never did."""
        self.identity = ""
        """The store's on the hub (`HubWelcome.identity`); empty: the hub never said it."""
        self.problem: StoreProblem | None = None
        """Why it cannot be written, or (`unavailable`) not even be read. Nothing may be acknowledged meanwhile."""
        self.on_problem: Callable[[], None] = lambda: None
        """`problem` is another one, or none."""
        self.path = path
        self._index = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._db: sqlite3.Connection
        self._opened = False
        self._final = False
        """The disk failed: what is on it is not known until the ledger is opened again."""
        self._late: deque[tuple[str, Callable[[], None]]] = deque()
        """Only on the thread: writes that are still to be carried out, in their order, and the sessions that they change."""

    def name(self) -> Name:
        """A name for one more operation."""
        self._index += 1
        return self.replica, self._index

    def head(self, session: str) -> KnownHead:
        return self.heads.get(session) or KnownHead(NOTHING, seed(session))

    async def open(self) -> None:
        """If it cannot be opened, `problem` says why, and `try_again` tries again."""
        try:
            await self._call(self._open)
        except sqlite3.Error as error:
            if self.problem is None:
                log.error("%s cannot be opened", self.path, exc_info=error)
            self._set_problem(StoreProblem("unavailable", f"{self.path} cannot be opened: {error}"))
        else:
            self._set_problem(None)
            self.on_waits()

    async def close(self) -> None:
        await self._call(self._close)
        self._thread.shutdown()

    # What goes wrong

    def check(self) -> None:
        """Unavailable, ReadOnly: nothing may be acknowledged now."""
        self.check_open()
        if self.problem is not None:
            raise ReadOnly(self.problem.message, hint=_NOT_NOW, reason=self.problem.message)

    def check_open(self) -> None:
        """Unavailable: it cannot even be read."""
        if self.problem is not None and self.problem.kind == "unavailable":
            raise Unavailable(self.problem.message, hint=_ASIDE)

    async def try_again(self) -> None:
        """Find out whether it can be written again."""
        if self.problem is None or self._final:
            return
        if self.problem.kind == "unavailable":
            await self.open()
            return
        with contextlib.suppress(SessiondError):  # `problem` says so
            await self._write(lambda: self._db.execute(f"PRAGMA user_version = {VERSION}"))

    def _set_problem(self, problem: StoreProblem | None) -> None:
        if problem != self.problem:
            self.problem = problem
            self.on_problem()

    def _failed(self, error: sqlite3.Error) -> SessiondError:
        """The error of a write that failed."""
        name = getattr(error, "sqlite_errorname", "")
        if self.problem is None:
            log.error("%s cannot be written", self.path, exc_info=error)
        self._final = self._final or name.startswith(_FINAL)
        message = f"{self.path} cannot be written: {error}"
        self._set_problem(StoreProblem("readOnly", message))
        if name.startswith("SQLITE_IOERR"):
            return Indeterminate(message, hint="it may or may not be stored; repair the disk, then restart the daemon")
        return ReadOnly(message, hint=_NOT_NOW, reason=str(error))

    def _call(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _write(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread, after what is late. ReadOnly, Indeterminate, Unavailable."""
        self.check_open()

        def write() -> T:
            self._catch_up()
            return work()

        try:
            done = await self._call(write)
        except sqlite3.Error as error:
            raise self._failed(error) from error
        if not self._final:
            self._set_problem(None)
        return done

    def _write_later(self, session: str, work: Callable[[], None]) -> None:
        """Do the same as `_write`, but nobody waits for it; it is carried out even if others must be carried out before it."""

        def write() -> None:
            self._late.append((session, work))
            self._catch_up()

        def written(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, sqlite3.Error):
                self._failed(error)
            elif error is not None:
                log.error("%s: a bug of ours", self.path, exc_info=error)

        self._call(write).add_done_callback(written)

    async def _read(self, session: str, work: Callable[[], T]) -> T:
        """Run `work`, which reads what the ledger has of a session. Unavailable."""
        self.check_open()

        def read() -> T:
            if any(one == session for one, _ in self._late):
                self._catch_up()
            return work()

        try:
            return await self._call(read)
        except sqlite3.Error as error:
            self._failed(error)
            raise Unavailable(f"{self.path} cannot be used: {error}", hint=_ASIDE) from error

    def _catch_up(self) -> None:
        while self._late:
            self._late[0][1]()
            self._late.popleft()

    # What the hub has ordered

    def confirm(self, session: str, rows: Sequence[Ordered], landed: Iterable[Waiting] = ()) -> None:
        """Note consecutive operations as the hub has them; those that are known already are skipped. `landed` no longer wait.
        `heads` has them at once, and every later call too. ValueError: there is a gap.
        """
        known = self.head(session)
        number, digest, trashed = known.number, known.digest, known.trashed
        fresh: list[tuple[Ordered, bytes]] = []
        for row in rows:
            if row.number <= number:
                continue
            if row.number != number + 1:
                raise ValueError(f"operation {row.number} of {session} came after {number}")
            number, digest = row.number, chain(digest, row)
            trashed = row.kind in _ENDS or (trashed and row.kind != "restored")
            fresh.append((row, digest))
        if fresh:
            self.heads[session] = msgspec.structs.replace(known, number=number, digest=digest, trashed=trashed)
            self.unlist([session])
        again = [] if trashed else self._names_again(session)
        places = [one.place for one in landed if one.place]
        if places:
            self._count(session, -len(places))
        if fresh or places or again:
            self._write_later(session, lambda: self._confirm(session, fresh, places, trashed, again))

    def _confirm(
        self, session: str, fresh: list[tuple[Ordered, bytes]], places: list[int], trashed: bool, again: list[Name]
    ) -> None:
        with self._db:
            self._insert(session, fresh)
            if fresh:
                self._set_head(session, fresh[-1][0].number, fresh[-1][1], trashed)
            self._db.executemany("DELETE FROM waiting WHERE place = ?", [(place,) for place in places])
            self._unpark(session, again)

    def _insert(self, session: str, rows: list[tuple[Ordered, bytes]]) -> None:
        # Or replace: it may be tried again after a failure whose outcome is not known.
        self._db.executemany(
            "INSERT OR REPLACE INTO operation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(session, *msgspec.structs.astuple(row), digest) for row, digest in rows],
        )

    def _set_head(self, session: str, number: int, digest: bytes, trashed: bool) -> None:
        self._db.execute(
            "INSERT INTO head (session, number, digest, trashed) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (session) DO UPDATE SET number = excluded.number, digest = excluded.digest,"
            " trashed = excluded.trashed",
            (session, number, digest, trashed),
        )

    async def operations(self, session: str, after: int) -> list[Ordered]:
        """Return what the hub has ordered after a number. Unavailable."""
        return await self._read(session, lambda: self._rows("operation", session, after))

    def _rows(self, table: str, session: str, after: int) -> list[Ordered]:
        columns = "number, replica, idx, kind, id, author, voucher, received, body, sealed"
        query = f"SELECT {columns} FROM {table} WHERE session = ? AND number > ? ORDER BY number"  # noqa: S608
        return [Ordered(*row) for row in self._db.execute(query, (session, after))]

    async def digest_at(self, session: str, number: int) -> bytes | None:
        """The digest of the operations up to a number. None: the ledger does not have that one, or only what came after it was
        erased. Unavailable.
        """
        if number == NOTHING:
            return seed(session)
        query = "SELECT digest FROM operation WHERE session = ? AND number = ?"
        found = await self._read(session, lambda: self._db.execute(query, (session, number)).fetchone())
        return None if found is None else bytes(found[0])

    async def cut(self, session: str, after: int) -> None:
        """The hub has others in the place of the operations after a number that the ledger has: keep these as lost."""
        self.check()
        digest = await self.digest_at(session, after)
        assert digest is not None
        kinds = [row.kind for row in await self.operations(session, NOTHING) if row.number <= after]
        ends = [kind for kind in kinds if kind in _ENDS or kind == "restored"]
        trashed = bool(ends) and ends[-1] != "restored"
        self.heads[session] = KnownHead(after, digest, trashed)
        self.cuts[session] = self.cuts.get(session, 0) + 1
        again = [] if trashed else self._names_again(session)

        def cut() -> None:
            with self._db:
                self._db.executemany(
                    "INSERT OR IGNORE INTO lost VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    [
                        (session, *msgspec.structs.astuple(row))
                        for row in displaced(self._rows("operation", session, after))
                    ],
                )
                self._db.execute("DELETE FROM operation WHERE session = ? AND number > ?", (session, after))
                self._set_head(session, after, digest, trashed)
                self._db.execute("UPDATE head SET saved = ?, print = '' WHERE session = ?", (NOTHING, session))
                self._unpark(session, again)

        self._write_later(session, cut)

    async def lost(self, session: str) -> list[Ordered]:
        """Operations that the hub had once and has not yet got back, in their old order."""

        def lost() -> list[Ordered]:
            with self._db:
                self._db.execute(
                    "DELETE FROM lost WHERE session = ?1 AND (replica, idx) IN"
                    " (SELECT replica, idx FROM operation WHERE session = ?1)",
                    (session,),
                )
                # Somebody used an id again meanwhile, so the hub does not take it. The same content is there already; another
                # content gets another id, as what waited does.
                self._db.execute(
                    "DELETE FROM lost WHERE session = ?1 AND (id, body) IN"
                    " (SELECT id, body FROM operation WHERE session = ?1)",
                    (session,),
                )
                self._db.execute(
                    "UPDATE lost SET id = id || '-' || substr(replica, 1, 8), sealed = NULL WHERE session = ?1 AND id IN"
                    " (SELECT id FROM operation WHERE session = ?1)",
                    (session,),
                )
            return self._rows("lost", session, NOTHING)

        return await self._write(lost)

    async def erased(self, session: str, last: Ordered, digest: bytes) -> None:
        """The hub has nothing of the session but that it was erased, with the operation `last`. What waits to begin another session
        under its id goes on waiting.
        """
        waiting = await self.waiting(session)
        gone = ("operation", "lost", "parked", *(() if begins(waiting) else ("waiting",)))
        self.unlist([session])
        self.heads[session] = KnownHead(last.number, digest, True)
        self.cuts[session] = self.cuts.get(session, 0) + 1
        if "waiting" in gone:
            self.waits.pop(session, None)
        self.parked.pop(session, None)
        self.on_waits()

        def erase() -> None:
            self._db.execute("PRAGMA secure_delete = ON")
            with self._db:
                for table in gone:
                    self._db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608
                self._insert(session, [(last, digest)])
                self._set_head(session, last.number, digest, True)
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        self._write_later(session, erase)
        await self._write(lambda: None)

    def saved(self, session: str, number: int, mark: str) -> None:
        """The file holds everything up to a number, in the version `mark`."""
        known = self.heads.get(session)
        if known is not None:
            self.heads[session] = msgspec.structs.replace(known, saved=number, print=mark)
            self._write_later(session, lambda: self._saved(session, number, mark))

    def _saved(self, session: str, number: int, mark: str) -> None:
        with self._db:
            self._db.execute("UPDATE head SET saved = ?, print = ? WHERE session = ?", (number, mark, session))

    def keep_cursor(self, cursor: HubCursor, *, in_life: bool = False) -> None:
        """`in_life`: the next life of the ledger goes on from the one before."""
        self.cursor = cursor
        if in_life:
            return
        value = msgspec.json.encode(cursor)

        def keep() -> None:
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO cursor VALUES (1, ?)", (value,))

        self._write_later("", keep)

    def keep_member(self, name: str) -> None:
        if name != self.member:
            self.member = name

            def keep() -> None:
                with self._db:
                    self._db.execute("INSERT OR REPLACE INTO member VALUES (1, ?)", (name,))

            self._write_later("", keep)

    async def keep_identity(self, identity: str) -> None:
        """On the disk when this returns: what is said from now on is for this store. ReadOnly, Indeterminate."""

        def keep() -> None:
            with self._synced():
                self._db.execute("INSERT OR REPLACE INTO hub VALUES (1, ?)", (identity,))

        await shielded(self._write(keep))
        self.identity = identity

    # What waits

    async def queue(self, session: str, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Durable when this returns them with their places. ReadOnly (nothing is stored), Indeterminate."""
        queued: list[Waiting] = await shielded(self._write(lambda: self._queue(session, waiting)))
        self._count(session, len(queued))
        return queued

    def _queue(self, session: str, waiting: Sequence[Waiting]) -> list[Waiting]:
        queued = []
        with self._synced():
            for one in waiting:
                names = msgspec.json.encode(one.names)
                row = (session, one.kind, one.id, one.body, names, one.author)
                cursor = self._db.execute(
                    "INSERT INTO waiting (session, kind, id, body, names, author) VALUES (?, ?, ?, ?, ?, ?)", row
                )
                queued.append(msgspec.structs.replace(one, place=cursor.lastrowid or 0))
        return queued

    @contextlib.contextmanager
    def _synced(self) -> Iterator[None]:
        """A transaction that is on the disk at its end."""
        self._db.execute("PRAGMA synchronous = FULL")
        try:
            with self._db:
                yield
        finally:
            self._db.execute("PRAGMA synchronous = NORMAL")

    async def rewrite(self, one: Waiting) -> None:
        """Give one that waits another body, durable when this returns. It must never have been pushed. Errors as in `queue`."""
        await shielded(self._write(lambda: self._rewrite(one)))

    def _rewrite(self, one: Waiting) -> None:
        with self._synced():
            self._db.execute("UPDATE waiting SET body = ? WHERE place = ?", (one.body, one.place))

    async def waiting(self, session: str) -> list[Waiting]:
        """In the order in which they were acknowledged; all that `head`, after this, does not have. Unavailable."""
        while self.waits.get(session):
            before = self.heads.get(session)
            waiting, landed = await self._read(session, lambda: self._waiting(session))
            if landed:
                self.confirm(session, [], landed)
            if self.heads.get(session) == before:
                return waiting
        return []

    def _waiting(self, session: str) -> tuple[list[Waiting], list[Waiting]]:
        """Those that still wait, and those that came from the hub while nobody had the session."""
        query = "SELECT kind, id, body, names, place, author FROM waiting WHERE session = ? ORDER BY place"
        decode = msgspec.json.Decoder(list[Name]).decode
        there = set(self._db.execute("SELECT replica, idx FROM operation WHERE session = ?", (session,)))
        waiting: list[Waiting] = []
        landed: list[Waiting] = []
        for kind, message_id, body, names, place, author in self._db.execute(query, (session,)):
            one = Waiting(kind, message_id, body, decode(names), place, author)
            (landed if there.intersection(one.names) else waiting).append(one)
        return waiting, landed

    async def change_waiting(self, session: str, changed: Sequence[Waiting], dropped: Sequence[Waiting]) -> None:
        """Give those that wait another id or body, or let them wait no longer."""

        def change() -> None:
            with self._db:
                for one in changed:
                    self._db.execute(
                        "UPDATE waiting SET id = ?, body = ? WHERE place = ?", (one.id, one.body, one.place)
                    )
                self._db.executemany("DELETE FROM waiting WHERE place = ?", [(one.place,) for one in dropped])

        await shielded(self._write(change))
        self._count(session, -len(dropped))

    async def rename_waiting(self, session: str, name: str) -> None:
        """Let what waits for a session wait for another one. Errors as in `queue`."""

        def rename() -> None:
            with self._synced():
                self._db.execute("UPDATE waiting SET session = ? WHERE session = ?", (name, session))

        await shielded(self._write(rename))
        self._count(name, self.waits.pop(session, 0))

    def _count(self, session: str, more: int) -> None:
        count = self.waits.get(session, 0) + more
        if count > 0:
            self.waits[session] = count
        else:
            self.waits.pop(session, None)
        self.on_waits()

    # Copies

    async def copy_to(self, path: str) -> None:
        """A copy of everything that is durable now; other calls do not wait for it. OSError, sqlite3.Error."""
        await off_loop(copy, self.path, path)

    # On the thread

    def _open(self) -> None:
        db = sqlite3.connect(self.path, check_same_thread=False)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._db, self._opened = db, True

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        prepare(db)
        self._read_listed(db)
        with db:
            db.execute("INSERT OR IGNORE INTO life VALUES (?)", (self.replica,))
            self.lives = {one for (one,) in db.execute("SELECT replica FROM life")}
            self._read_parked(db)
            self._rename(db)
        self.heads = {
            session: KnownHead(number, digest, bool(trashed), saved, mark)
            for session, number, digest, trashed, saved, mark in db.execute("SELECT * FROM head")
        }
        self.waits = dict(db.execute("SELECT session, count(*) FROM waiting GROUP BY session"))
        found = db.execute("SELECT value FROM cursor").fetchone()
        self.cursor = None if found is None else msgspec.json.decode(found[0], type=HubCursor)
        self.member = "".join(name for (name,) in db.execute("SELECT name FROM member"))
        self.identity = "".join(identity for (identity,) in db.execute("SELECT identity FROM hub"))

    def _rename(self, db: sqlite3.Connection) -> None:
        """Give what waits since an earlier life a name of this one too."""
        for place, names in list(db.execute("SELECT place, names FROM waiting ORDER BY place")):
            given = [*msgspec.json.decode(names), self.name()]
            db.execute("UPDATE waiting SET names = ? WHERE place = ?", (msgspec.json.encode(given), place))

    def _close(self) -> None:
        if self._opened:
            self._db.close()
