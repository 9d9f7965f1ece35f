"""The things that the sessions of one folder store share: its files, its trash, the journal, and threads for waiting for the disk."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar, TypeVarTuple, Unpack

from sessiond.clock import Clock
from sessiond.errors import FEWER_FILES, OUT_OF_FILES, BadFile, ReadOnly, SessionNotFound, Unavailable
from sessiond.formats.base import Files, Format, Problem, Write
from sessiond.formats.names import is_local_id
from sessiond.formats.sidecar import decode_sidecar, sidecar_path
from sessiond.fs import DiskFailed, Linked
from sessiond.journal.writer import OnDurable
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.model.values import join_wire_id, timestamp
from sessiond.store.file_state import FileState
from sessiond.store.files import Print, StoreFiles, linked
from sessiond.store.port import StoreProblem
from sessiond.store.trash import Trash, copy_name

log = logging.getLogger(__name__)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Run(Protocol):
    """Runs blocking work off the loop."""

    def __call__(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> Awaitable[T]: ...


"""Calls a function with its arguments on a thread and returns what it returns."""


class Journal(Protocol):
    """The part of the journal that a folder store needs; `journal.writer.JournalWriter` implements it."""

    def check(self) -> None:
        """ReadOnly if the disk failed: nothing may be acknowledged from then on, even what does not need the journal."""

    def commit(
        self, store: str, session: str, seq: int, payload: bytes, on_durable: OnDurable | None = None
    ) -> Awaitable[int]:
        """Resolves with the record's lsn when durable. `on_durable` may be called before that, by another thread. ReadOnly,
        Indeterminate.
        """

    def note_saved(self, store: str, session: str, seq: int) -> None: ...

    def note_gone(self, store: str, session: str) -> Awaitable[None]: ...

    def purge(self, store: str, session: str) -> Awaitable[None]: ...


class StoreContext:
    """`problem`: None, or one whose `kind` is `readOnly`, `unavailable` or `saveFailed`. `run_save`: like `run`, for saves,
    many of which may wait for the disk at once.
    """

    def __init__(
        self,
        *,
        name: str,
        fmt: Format,
        files: StoreFiles,
        trash: Trash,
        journal: Journal,
        clock: Clock,
        limits: Limits,
        run: Run,
        run_save: Run,
    ) -> None:
        self.name = name
        self.format = fmt
        self.files = files
        self.trash = trash
        self.journal = journal
        self.clock = clock
        self.limits = limits
        self.run = run
        self.run_save = run_save
        self.sharing: contextlib.AbstractContextManager[object] = (
            threading.Lock() if files.shared_files() else contextlib.nullcontext()
        )
        """Held on a thread by a save if sessions share a file: otherwise each would take the others' writes for an edit."""
        self.problem: StoreProblem | None = None
        self.doubtful = False
        """A sync failed: what the files show may not be on the disk, and no later sync can prove that it is."""

    def now(self) -> str:
        return timestamp(self.clock.now_ms())

    def path(self, local_id: str) -> str:
        return self.files.path(self.format.main_path(local_id))

    # What may be done

    def check_reachable(self, local_id: str | None = None) -> None:
        if self.problem is not None and self.problem.kind == "unavailable":
            raise Unavailable(
                f"the store {self.name!r} cannot be reached: {self.problem.message}",
                hint=f"make {self.files.root} available again; nothing in it was changed",
            )
        if local_id is not None and not is_local_id(local_id):
            raise self.not_found(local_id)

    def check_writable(self, local_id: str | None = None) -> None:
        self.check_reachable(local_id)
        if self.problem is not None and self.problem.kind == "readOnly":
            raise ReadOnly(
                f"the store {self.name!r} is read-only: {self.problem.message}",
                hint="reading still works; see `sessiond status`",
                reason=self.problem.message,
            )
        self.journal.check()

    # The errors of one session

    def not_found(self, local_id: str) -> SessionNotFound:
        return SessionNotFound(f"no session {local_id!r} in the store {self.name!r}")

    async def no_file(self, local_id: str) -> SessionNotFound:
        """The error for a session without a file, which says so if it is in the trash."""
        if not await self.run(self.trash.holds, local_id):
            return self.not_found(local_id)
        wire_id = join_wire_id(self.name, local_id)
        return SessionNotFound(
            f"no session {local_id!r} in the store {self.name!r}: it is in the trash",
            hint=f"`sessiond restore {wire_id}` brings it back",
        )

    def gone_away(self) -> Unavailable:
        return Unavailable(
            f"{self.files.root} cannot be reached", hint="make the folder available again; nothing in it was changed"
        )

    def restless(self, local_id: str) -> BadFile:
        path = self.path(local_id)
        hint = "stop the program that writes it, then open the session again"
        return BadFile(f"{path} changes faster than it can be read", hint=hint, path=path, line=None)

    def bad_file(self, problem: Problem) -> BadFile:
        path = self.files.path(problem.path)
        where = f"{path}:{problem.line}" if problem.line else path
        hint = "the file is left as it is; repair it or move it away"
        return BadFile(f"{where} {problem.message}", hint=hint, path=path, line=problem.line)

    @contextlib.contextmanager
    def reading(self, local_id: str) -> Iterator[None]:
        """Turns an OSError within into a BadFile."""
        try:
            yield
        except Linked as error:
            raise linked(str(error.filename)) from error
        except OSError as error:
            path = error.filename if isinstance(error.filename, str) else self.path(local_id)
            what = f"{path} cannot be read: {error.strerror}"
            raise BadFile(what, hint="check its mode and owner", path=path, line=None) from error

    @contextlib.contextmanager
    def on_disk(self, what: str) -> Iterator[None]:
        """Turns an OSError within into a ReadOnly that says `what` failed. BadFile if a link is in the way."""
        try:
            yield
        except Linked as error:
            raise linked(str(error.filename)) from error
        except OSError as error:
            reason = error.strerror or str(error)
            advice = FEWER_FILES if error.errno in OUT_OF_FILES else "free some space or repair the disk"
            raise ReadOnly(
                f"{what}: {reason}", hint=f"nothing was lost; {advice}, then try again", reason=reason
            ) from error

    # Writing

    async def perform(self, writes: Sequence[Write], expected: dict[str, Print]) -> dict[str, Print]:
        """Carry out the steps; returns the new versions of the files that were written. OSError, OutsideChange."""
        return await self.run(self.write, writes, expected)

    def write(self, writes: Sequence[Write], expected: dict[str, Print]) -> dict[str, Print]:
        """The same, for callers that are already on a thread."""
        try:
            return self.files.perform(writes, expected)
        except DiskFailed:
            self.doubtful = True
            raise

    def keep_damaged_sidecar(self, local_id: str, files: Files, writes: Sequence[Write]) -> None:
        """A sidecar that cannot be read may have content that is nowhere else: before one of `writes` replaces it, it goes
        into the trash. `files`: their present content. For a thread. OSError.
        """
        path = sidecar_path(local_id)
        if path in files and any(write.path == path for write in writes):
            side, problems = decode_sidecar(path, files[path])
            if side is None and problems:
                aside = self.trash.keep_bytes(copy_name(path), files[path])
                told = "store %s: %s %s; it is in %s"
                log.warning(told, self.name, self.files.path(path), problems[0].message, aside)

    def note_saved(self, known: FileState, seq: int) -> None:
        """Let the journal forget, unless a sync in this folder failed: then the journal must replay everything at the next start."""
        if not self.doubtful:
            self.journal.note_saved(self.name, known.local_id, seq)

    async def take_away(self, known: FileState, seen: Print | None = None, *, permanent: bool = False) -> None:
        """Remove the session from files and journal. `seen`: the version of its main file that we have read; another one is
        kept in the trash, unless `permanent`.
        """
        name = copy_name(self.format.main_path(known.local_id))
        keep = None if permanent else partial(self.trash.keep_bytes, name)
        try:
            await self.run(self.files.remove, known.local_id, seen, keep)
        except DiskFailed:
            self.doubtful = True
            raise
        await self.journal.note_gone(self.name, known.local_id)
        known.forget()

    async def discard(
        self,
        session: Session,
        trash_id: str,
        reason: str,
        files: Files | None = None,
        *,
        told: bool = False,
        own: bytes | None = None,
    ) -> None:
        """Put a copy into the trash. The caller must not let `session` change meanwhile, or passes a snapshot. `told`,
        `own`: as in `Trash.put`.
        """
        at = self.now()

        def put() -> None:
            self.trash.put(trash_id, session, files or {}, at=at, reason=reason, told=told, own=own)

        await self.run(put)
