"""The store that keeps sessions in a folder, behind the journal. Implements `port.Store`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from sessiond.clock import Clock
from sessiond.errors import AlreadyExists, BadFile
from sessiond.formats.base import Format
from sessiond.formats.names import is_local_id
from sessiond.fs import DiskFailed
from sessiond.limits import Limits
from sessiond.misfits import Misfits
from sessiond.model.changes import Change, decode_changes
from sessiond.model.session import Session, SessionInfo
from sessiond.store.context import Journal, Run, StoreContext
from sessiond.store.files import StoreFiles
from sessiond.store.port import (
    Event,
    HealthChanged,
    Listed,
    Recovered,
    SavedSession,
    StoreOfThisMachine,
    StoreProblem,
    Touched,
    Trashed,
    WatchChanged,
)
from sessiond.store.stored import StoredSession, fingerprint
from sessiond.store.summaries import heads_of
from sessiond.store.trash import Trash

if TYPE_CHECKING:
    from sessiond.store.bulk_write import BulkWrite, Receiving

log = logging.getLogger(__name__)
_SCAN_BATCH = 500
_failed = Misfits(log, "could not be compared")


class FolderStore(StoreOfThisMachine):
    """`run`, `run_save`: threads for the folder's disk; `run_ours`: for the trash, which is ours wherever the folder is."""

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
        run_save: Run | None = None,
        run_ours: Run | None = None,
    ) -> None:
        self.name = name
        self.format = fmt.name
        self.taken_state_keys = fmt.abilities.state_keys
        self.path = files.root
        self._around = StoreContext(
            name=name,
            fmt=fmt,
            files=files,
            trash=trash,
            journal=journal,
            clock=clock,
            limits=limits,
            run=run,
            run_save=run_save or run,
        )
        self._files = files
        self.run = self._run = run
        self._run_ours = run_ours or run
        self._recovered: dict[str, list[bytes]] = {}
        self._expected: list[str] = []
        self._opened = False
        self._twice: set[str] = set()
        """Sessions that may be in the trash as well: a crash interrupted a delete or a restore."""
        self._listeners: list[Callable[[Event], None]] = []

    # Life

    def expect(self, pending: dict[str, list[bytes]]) -> None:
        """Take what the journal holds for this store: encoded change batches by session, in order. Known from the beginning,
        even if the folder cannot be reached: sessions must not seem to lack these changes meanwhile.
        """
        self._recovered |= pending
        self._expected += pending

    async def open(self) -> None:
        """The folder is available: what `expect` took can be saved."""
        await self._run(self._files.clean)
        self._twice = await self._run(self._settle_trash)
        self._opened = True
        if self._expected or self._twice:
            self._emit(Recovered(list({*self._expected, *self._twice})))

    def _settle_trash(self) -> set[str]:
        """Finish what a crash interrupted there. Returns ids of sessions that have an entry, and also a file or changes in the journal."""
        trash, main = self._around.trash, self._around.format.main_path
        try:
            trash.clean()
            if self.problem is not None:
                return set()
            names = filter(is_local_id, trash.names())
            return {one for one in names if one in self._recovered or self._files.print_of(main(one)) is not None}
        except (OSError, BadFile) as error:
            log.warning("the trash of store %s cannot be settled: %s", self.name, error)
            return set()

    @property
    def problem(self) -> StoreProblem | None:
        return self._around.problem

    def set_problem(self, problem: StoreProblem | None) -> None:
        if problem != self._around.problem:
            self._around.problem = problem
            self._emit(HealthChanged(problem))

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def _emit(self, event: Event) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, event)

    # Sessions

    def recovered(self) -> list[str]:
        if not self._opened:
            return []
        return [*self._recovered, *(self._twice - self._recovered.keys())]

    def session(self, local_id: str) -> StoredSession:
        pending: list[Change] = []
        for batch in self._recovered.pop(local_id, ()):
            pending += decode_changes(batch)
        twice = local_id in self._twice
        self._twice.discard(local_id)
        return StoredSession(
            self._around, local_id, pending, twice=twice, failed=self._save_failed, worked=self._save_worked
        )

    def _save_failed(self, local_id: str, error: OSError) -> None:
        # A failed sync must never be tried again: the file's content is unknown. A failed write left nothing and may work
        # later.
        kind: Literal["readOnly", "saveFailed"] = "readOnly" if isinstance(error, DiskFailed) else "saveFailed"
        self.set_problem(StoreProblem(kind, f"{local_id}: {error.strerror or error}"))

    def _save_worked(self) -> None:
        if self._around.problem is not None and self._around.problem.kind == "saveFailed":
            self.set_problem(None)

    def check_writable(self, local_id: str) -> None:
        """SessionNotFound (no session can have this id), Unavailable, ReadOnly."""
        self._around.check_writable(local_id)

    def file_path(self, local_id: str) -> str:
        return self._around.path(local_id)

    async def scan(self) -> AsyncIterator[list[Listed]]:
        self._around.check_reachable()
        if not await self._run(self._files.reachable):
            raise self._around.gone_away()
        try:
            ids = list(await self._run(self._files.find))
        except OSError as error:  # it has gone or become unreadable since the check
            raise self._around.gone_away() from error
        for start in range(0, len(ids), _SCAN_BATCH):
            batch: list[Listed] = await self._run(self._look, ids[start : start + _SCAN_BATCH])
            yield batch

    async def look(self, local_id: str) -> Listed | None:
        self._around.check_reachable(local_id)
        listed: Listed = (await self._run(self._look, [local_id]))[0]
        return listed if listed.fingerprint else None

    def _look(self, ids: Sequence[str]) -> list[Listed]:
        listed = []
        for local_id in ids:
            try:
                there = self._files.print_of(self._around.format.main_path(local_id)) is not None
                found = fingerprint(self._files.prints(local_id)) if there else ""
            except BadFile:
                found = "bad"
            except Exception as error:  # a bug of ours: the other sessions are compared
                _failed.note(self.file_path(local_id), error)
                found = "bad"
            listed.append(Listed(local_id, self.file_path(local_id), found))
        return listed

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        self._around.check_reachable()
        return await self._run(heads_of, self._files, self._around.limits, local_ids)

    # From outside

    def not_ours(self, paths: Sequence[str]) -> list[str]:
        """Those of the absolute paths whose content is not what we wrote there last. All sessions that share a file must
        hear of its changes, whoever made them. Examines files: for a thread.
        """
        prefix, shared = self.path.rstrip("/") + "/", self._files.shared_files()
        names = ((path, path.removeprefix(prefix)) for path in paths)
        return [path for path, name in names if name in shared or not self._is_ours(name)]

    def _is_ours(self, name: str) -> bool:
        try:
            return self._files.own.is_own(name, self._files.print_of)
        except BadFile:
            return False

    def touched(self, paths: Sequence[str]) -> None:
        """Another program may have written at these absolute paths."""
        prefix = self.path.rstrip("/") + "/"
        names = [path[len(prefix) :] for path in paths if path.startswith(prefix)]
        found = set(self._around.format.find(names))
        everything = False
        for name in names:
            under = self._files.sessions_under(name)
            if under is None:
                everything = True
            else:  # if it is a folder, it appeared, disappeared or was renamed, and its sessions with it
                found.update(under)
        shared = bool(set(self._files.shared_files()).intersection(names))
        if found or shared or everything:
            self._emit(Touched(frozenset(found), all_open=shared or everything, everything=everything))

    def holds_sessions(self, folder: str) -> bool:
        """Return whether files of sessions may be in a folder (relative), or in one that is in it."""
        return self._files.sessions_under(folder) != []

    def watch_changed(self, problem: str | None) -> None:
        self._emit(WatchChanged(problem))

    def touched_all(self) -> None:
        """Called after the folder could not be reached or watched: every open session may have been written."""
        self._emit(Touched(frozenset(), all_open=True))

    # New sessions in parts

    def receive(self, local_id: str, created_at: str) -> BulkWrite | None:
        from sessiond.store.bulk_write import BulkWrite, Receiving  # see `load_the_rest`

        self._around.check_writable()
        in_parts = self._around.format.abilities.in_parts
        if in_parts is None:
            return None
        most = self._around.limits.glanced_file_bytes
        receiving = Receiving(self._files, local_id, in_parts(local_id, created_at), most)
        return BulkWrite(receiving, self._run, self._around.on_disk, self._take)

    async def _take(self, receiving: Receiving, session: Session) -> SavedSession:
        local_id = session.local_id
        if await self.look(local_id) is not None:
            raise AlreadyExists(f"the session {local_id!r} already exists in the store {self.name!r}")
        await self._run(self._files.clear_leftovers, local_id)
        size = await self._run(receiving.finish, session)
        self._around.journal.note_saved(self.name, local_id, session.seq)
        return SavedSession(local_id, receiving.path, size, self._around.now())

    # Trash

    async def trash(self) -> list[Trashed]:
        return await self._run_ours(self._around.trash.list)
