"""The store that keeps sessions in a folder, behind the journal. Implements `port.Store`.

The life of a change: `commit` hands it to the journal and waits until it is durable there; then it is applied to the
session and is pending; a save brings it into the session's file; then the journal may forget it. A crash anywhere in
between is repaired at the next start from the journal, whose changes are replayed on top of what the file holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from sessiond.clock import Clock
from sessiond.errors import AlreadyExists, BadFile, Conflict, ReadOnly, SessiondError, SessionNotFound, Unavailable
from sessiond.formats.base import Format
from sessiond.formats.names import is_local_id
from sessiond.fs import DiskFailed
from sessiond.limits import Limits
from sessiond.model.changes import Change, decode_changes, encode_changes
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from sessiond.store.around import Journal, Run
from sessiond.store.files import Snapshot, StoreFiles
from sessiond.store.glances import lacks
from sessiond.store.making import make
from sessiond.store.moves import Moves
from sessiond.store.port import Appeared, Event, HealthChanged, Listed, Loaded, Saved, Trashed, WasSaved
from sessiond.store.receiving import Incoming, Receiving
from sessiond.store.schedule import Schedule
from sessiond.store.sync import Sync
from sessiond.store.tracked import Tracked
from sessiond.store.trash import Trash
from sessiond.unbroken import unbroken

log = logging.getLogger(__name__)
_SCAN_BATCH = 500


class FolderStore:
    def __init__(
        self, *, name: str, fmt: Format, files: StoreFiles, trash: Trash, journal: Journal, clock: Clock, limits: Limits, run: Run,
        autosave_interval_s: float, autosave_idle_s: float, moves: Moves | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.format = fmt.name
        self.path = files.root
        self._schedule = Schedule(autosave_interval_s, autosave_idle_s)
        self._fmt = fmt
        self._files = files
        self._trash = trash
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._run = run
        self._tracked: dict[str, Tracked] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._problem: HealthChanged | None = None
        self._saves = asyncio.Semaphore(4)
        self._moves = moves or Moves()
        self._sync = Sync(
            store=name, fmt=fmt, files=files, trash=trash, marks=journal, clock=clock, limits=limits, run=run, emit=self._emit
        )  # fmt: skip

    # Life

    async def open(self, pending: dict[str, list[bytes]]) -> None:
        """Take over what the journal holds for this store: encoded change batches by session, in order."""
        for local_id, batches in pending.items():
            tracked = self._track(local_id)
            for batch in batches:
                tracked.pending += decode_changes(batch)
            tracked.recovered = True
            tracked.changed(self._clock.monotonic())
        await self._run(self._files.clean)

    async def close(self) -> None:
        """Save everything. What cannot be saved stays in the journal."""
        for tracked in list(self._tracked.values()):
            if tracked.dirty:
                await self._try_save(tracked)

    @property
    def problem(self) -> HealthChanged | None:
        return self._problem

    def set_problem(self, problem: HealthChanged | None) -> None:
        if problem != self._problem:
            self._problem = problem
            self._emit(problem or HealthChanged(None, None))

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def _emit(self, event: Event) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, event)

    def _track(self, local_id: str) -> Tracked:
        return self._tracked.setdefault(local_id, Tracked(local_id))

    def _forget(self, tracked: Tracked, *, mine: bool = False) -> None:
        """`mine`: the caller holds io himself."""
        needed = tracked.session is not None or tracked.dirty or (tracked.io.locked() and not mine)
        if not needed and self._tracked.get(tracked.local_id) is tracked:
            del self._tracked[tracked.local_id]

    @contextlib.asynccontextmanager
    async def _alone(self, local_id: str) -> AsyncIterator[Tracked]:
        """Holds io. Who had it before may have forgotten what he tracked: what is tracked now counts."""
        while True:
            tracked = self._track(local_id)
            async with tracked.io:
                if self._tracked.get(local_id) is tracked:
                    yield tracked
                    return

    def _reachable(self, local_id: str | None = None) -> None:
        if self._problem is not None and self._problem.kind == "unavailable":
            raise Unavailable(
                f"the store {self.name!r} is out of reach: {self._problem.problem}",
                hint=f"bring {self.path} back; nothing of it was changed",
            )
        if local_id is not None and not is_local_id(local_id):
            raise SessionNotFound(f"no session {local_id!r} in the store {self.name!r}")

    def _writable(self) -> None:
        self._reachable()
        if self._problem is not None and self._problem.kind == "readOnly":
            raise ReadOnly(
                f"the store {self.name!r} is read-only: {self._problem.problem}",
                hint="reading still works; see `sessiond status`",
                reason=self._problem.problem,
            )
        self._journal.check()

    # Reading

    async def scan(self) -> AsyncIterator[list[Listed]]:
        self._reachable()
        if not await self._run(self._files.reachable):
            raise Unavailable(f"{self.path} is out of reach", hint="bring the folder back; nothing of it was changed")
        found: dict[str, str] = await self._run(self._files.find)
        ids = list(found)
        for start in range(0, len(ids), _SCAN_BATCH):
            batch: list[Listed] = await self._run(self._look, ids[start : start + _SCAN_BATCH])
            yield batch
        unsaved = [one for one in list(self._tracked.values()) if one.local_id not in found and one.dirty]
        yield [Listed(one.local_id, self.file_path(one.local_id), "") for one in unsaved]

    def _look(self, ids: list[str]) -> list[Listed]:
        listed = []
        for local_id in ids:
            try:
                fingerprint = _fingerprint(self._files.prints(local_id))
            except BadFile:
                fingerprint = "bad"
            listed.append(Listed(local_id, self.file_path(local_id), fingerprint))
        return listed

    async def load(self, local_id: str, *, whole: bool = True) -> Loaded:
        self._reachable(local_id)
        async with self._alone(local_id) as tracked:
            try:
                await self._sync.bring(tracked, whole=whole)
            except OSError as error:
                raise self._os_error(local_id, error) from error
            finally:
                session = tracked.session
                self._forget(tracked, mine=True)
        if session is None:
            raise SessionNotFound(f"no session {local_id!r} in the store {self.name!r}")
        return Loaded(session, self._sync.warnings(tracked))

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        return await lacks(self._files, self._run, self._tracked.get(session.local_id), session, message_ids)

    def _os_error(self, local_id: str, error: OSError) -> BadFile:
        path = error.filename if isinstance(error.filename, str) else self.file_path(local_id)
        what = f"{path} cannot be read: {error.strerror}"
        return BadFile(what, hint="check its mode and owner", path=path, line=None)

    async def exists(self, local_id: str) -> bool:
        self._reachable(local_id)
        tracked = self._tracked.get(local_id)
        if tracked is not None and (tracked.session is not None or tracked.dirty):
            return True
        main = self._fmt.main_path(local_id)
        try:
            return await self._run(self._files.print_of, main) is not None
        except BadFile:
            return True

    async def look(self, local_id: str) -> Listed | None:
        if not await self.exists(local_id):
            return None
        listed: list[Listed] = await self._run(self._look, [local_id])
        return listed[0]

    def file_path(self, local_id: str) -> str:
        return self._files.path(self._fmt.main_path(local_id))

    def fingerprint(self, local_id: str) -> str | None:
        tracked = self._tracked.get(local_id)
        if tracked is None or tracked.session is None or tracked.dirty:
            return None
        return _fingerprint(tracked.prints)

    # Changing

    async def begin(self, local_id: str, created_at: str) -> Session:
        self._writable()
        # A load of it that is under way must not take the new session for what it read.
        async with self._alone(local_id) as tracked:
            if await self.exists(local_id):
                raise AlreadyExists(f"there is a session {local_id!r} in the store {self.name!r} already")
            tracked.prints = await self._run(self._files.own_prints, local_id)
            session = tracked.session = Session(local_id, created_at)
            return session

    async def commit(self, session: Session, changes: Sequence[Change]) -> None:
        self._writable()
        tracked = self._tracked.get(session.local_id)
        if tracked is None or tracked.session is not session:
            raise Conflict("the session was changed by somebody else", hint="open it again", seq=session.seq)
        async with tracked.gate:
            if tracked.session is not session:
                raise Conflict("the session was changed by somebody else", hint="open it again", seq=session.seq)
            batch = list(changes)
            session.check(batch)
            await self._journal.commit(self.name, session.local_id, batch[-1].seq, encode_changes(batch))
            # From here on it is durable. No await until session and pending say so.
            for change in batch:
                session.apply(change)
            tracked.pending += batch
            tracked.changed(self._clock.monotonic())

    async def put(self, session: Session) -> Saved:
        self._writable()
        return await unbroken(self._put(session))

    async def _put(self, session: Session) -> Saved:
        local_id = session.local_id
        async with self._alone(local_id) as tracked:
            if await self.exists(local_id):
                raise AlreadyExists(f"there is a session {local_id!r} in the store {self.name!r} already")
            tracked.session = session
            try:
                prints = await make(session, self._fmt, self._files, self._run, self._limits)
            except OSError as error:
                tracked.session = None
                self._sync.doubtful = self._sync.doubtful or isinstance(error, DiskFailed)
                raise ReadOnly(
                    f"{self.file_path(local_id)} cannot be written: {error.strerror}",
                    hint="make room and try again",
                    reason=str(error),
                ) from error
            except BaseException:
                tracked.session = None
                raise
            return self._sync.saved(tracked, session, [], prints)

    def receive(self, local_id: str, created_at: str) -> Incoming | None:
        self._writable()
        parts = getattr(self._fmt, "InParts", None)
        if parts is None:
            return None
        receiving = Receiving(self._files, local_id, parts(local_id, created_at), self._limits.glanced_file_bytes)
        return Incoming(receiving, self._run, self._on_disk, self._take)

    async def _take(self, receiving: Receiving, session: Session) -> Saved:
        local_id = session.local_id
        async with self._alone(local_id) as tracked:
            if await self.exists(local_id):
                raise AlreadyExists(f"there is a session {local_id!r} in the store {self.name!r} already")
            await self._run(self._files.clear_leftovers, local_id)
            size = await self._run(receiving.finish, session)
        self._forget(tracked)
        self._journal.note_saved(self.name, local_id, session.seq)
        return Saved(local_id, receiving.path, size, timestamp(self._clock.now_ms()))

    @contextlib.asynccontextmanager
    async def still(self, local_id: str) -> AsyncIterator[None]:
        """No save and no merge of this session's files meanwhile."""
        async with self._alone(local_id) as tracked:
            try:
                yield
            finally:
                self._forget(tracked, mine=True)

    async def release(self, local_id: str) -> None:
        tracked = self._tracked.get(local_id)
        if tracked is None or tracked.dirty or tracked.io.locked() or tracked.gate.locked():
            return
        tracked.session = None
        self._forget(tracked)

    # Saving

    def dirty(self, local_id: str) -> bool:
        tracked = self._tracked.get(local_id)
        return tracked is not None and tracked.dirty

    def dirty_count(self) -> int:
        return len(self.dirty_ids())

    def dirty_ids(self) -> list[str]:
        return [tracked.local_id for tracked in self._tracked.values() if tracked.dirty]

    async def save(self, local_id: str) -> Saved | None:
        self._reachable(local_id)
        tracked = self._tracked.get(local_id)
        if tracked is None or not tracked.dirty:
            return None
        return await unbroken(self._save(tracked))

    async def save_even_blank(self, local_id: str) -> Saved | None:
        """As `save`, and one with nothing in it gets a file too, so that the journal need not be kept for it."""
        tracked = self._tracked.get(local_id)
        if tracked is not None and tracked.dirty and self._is_blank(tracked):
            tracked.rewrite = True
        return await self.save(local_id)

    async def _save(self, tracked: Tracked) -> Saved | None:
        local_id = tracked.local_id
        async with tracked.io:
            try:
                saved = await self._sync.save(tracked)
            except OSError as error:
                self._save_failed(tracked, error)
                raise ReadOnly(
                    f"{self.file_path(local_id)} cannot be saved: {error.strerror}",
                    hint="everything acknowledged is safe in the journal; make room or mend the disk",
                    reason=error.strerror or str(error),
                ) from error
        if saved is not None:
            self._saved_again()
            self._emit(WasSaved(saved))
        return saved

    async def _try_save(self, tracked: Tracked) -> None:
        async with self._saves:
            try:
                await self.save(tracked.local_id)
            except (ReadOnly, Unavailable, BadFile, SessionNotFound) as error:
                tracked.retry_at = self._clock.monotonic() + 10.0
                log.warning("store %s: %s is not saved: %s", self.name, tracked.local_id, error.message)
                if isinstance(error, SessionNotFound):
                    await self._orphaned(tracked)
            except Exception:
                # A fault of ours in one session: the others are saved all the same, its words stay in the journal.
                tracked.retry_at = self._clock.monotonic() + 10.0
                log.exception("store %s: %s is not saved", self.name, tracked.local_id)

    async def _orphaned(self, tracked: Tracked) -> None:
        """The journal has changes for a session whose file is gone: it was deleted while no daemon ran."""
        if tracked.session is None:
            tracked.pending = []
            tracked.current()
            await self._journal.note_gone(self.name, tracked.local_id)
            self._forget(tracked)

    def _save_failed(self, tracked: Tracked, error: OSError) -> None:
        tracked.retry_at = self._clock.monotonic() + 10.0
        # A failed sync may never be tried again: what the file holds is unknown. A failed write left nothing and may work later.
        kind = "readOnly" if isinstance(error, DiskFailed) else "saveFailed"
        self.set_problem(HealthChanged(kind, f"{tracked.local_id}: {error.strerror or error}"))

    def _saved_again(self) -> None:
        if self._problem is not None and self._problem.kind == "saveFailed":
            self.set_problem(None)

    async def save_due(self) -> float | None:
        """Save what the auto-save rules say; answers in how many seconds to look again, None where nothing is dirty."""
        dirty = (tracked for tracked in self._tracked.values() if tracked.dirty and not self._is_blank(tracked))
        due, soonest = self._schedule.due(dirty, self._clock.monotonic())
        if due and not (self._problem and self._problem.kind in ("unavailable", "readOnly")):
            await asyncio.gather(*(self._try_save(tracked) for tracked in due))
        return soonest

    def _is_blank(self, tracked: Tracked) -> bool:
        return tracked.session is not None and tracked.session.is_blank and not tracked.prints

    # Outside changes

    async def look_at(self, local_id: str) -> None:
        """Somebody may have written this session's files (a watch's hint, or a round)."""
        tracked = self._tracked.get(local_id)
        if tracked is None or (tracked.session is None and not tracked.dirty):
            self._emit(Appeared(local_id))
            return
        async with tracked.io:
            try:
                await self._sync.compare(tracked)
            except OSError as error:
                log.warning("store %s: %s cannot be compared with its file: %s", self.name, local_id, error)
            except SessiondError as error:
                tracked.retry_at = self._clock.monotonic() + 10.0
                log.warning("store %s: %s", self.name, error.message)

    async def look_at_all(self) -> None:
        """After the folder was out of reach: compare everything that is known."""
        for local_id, tracked in list(self._tracked.items()):
            if tracked.prints:
                await self.look_at(local_id)

    def ids_of(self, paths: Sequence[str]) -> set[str]:
        """Which sessions absolute paths belong to."""
        prefix = self.path.rstrip("/") + "/"
        names = [path[len(prefix) :] for path in paths if path.startswith(prefix)]
        found = set(self._fmt.find(names))
        if set(self._files.shared_files()).intersection(names):
            found.update(local_id for local_id, tracked in self._tracked.items() if tracked.session is not None)
        return found

    # Trash

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        self._writable()
        with self._on_disk(f"{session.local_id} cannot be put into the trash"):
            await self._sync.discard(session.snapshot(), trash_id, reason)

    @contextlib.contextmanager
    def _on_disk(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise ReadOnly(
                f"{what}: {reason}", hint="nothing was lost; make room or mend the disk, then try again", reason=reason
            ) from error

    async def delete(self, local_id: str, *, permanent: bool) -> None:
        self._writable()
        self._reachable(local_id)
        async with self._moves.one():
            with self._on_disk(f"{local_id} cannot be deleted"):
                await unbroken(self._delete(local_id, permanent))

    async def _delete(self, local_id: str, permanent: bool) -> None:
        async with self._alone(local_id) as tracked:
            try:
                if tracked.session is None or tracked.session.absent:
                    await self._sync.merge(tracked)
            except BadFile:
                await self._discard_unreadable(local_id)
            except SessionNotFound:
                self._forget(tracked, mine=True)
                raise
            async with tracked.gate:
                kept = None if permanent else tracked.session
                if kept is not None and (kept.seq or not kept.is_blank):
                    files = await self._originals(tracked)
                    await self._sync.discard(kept, local_id, "deleted", files)
                await self._sync.delete(tracked)
            self._forget(tracked, mine=True)
        if permanent:
            await self._run(self._trash.remove, local_id)
            await self._journal.purge(self.name, local_id)

    async def _originals(self, tracked: Tracked) -> dict[str, bytes]:
        """The files byte for byte, where they say all that the session holds."""
        if tracked.dirty:
            return {}
        snapshot: Snapshot = await self._run(self._files.read, tracked.local_id)
        return {path: content for path, content in snapshot.files.items() if path not in self._files.shared_files()}

    async def _discard_unreadable(self, local_id: str) -> None:
        snapshot: Snapshot = await self._run(self._files.read, local_id)
        now = timestamp(self._clock.now_ms())
        await self._sync.discard(Session(local_id, now), local_id, "deleted", snapshot.files)

    async def trash(self) -> list[Trashed]:
        return await self._run(self._trash.list)  # type: ignore[no-any-return]

    async def restore(self, trash_id: str, new_id: str) -> Loaded:
        self._writable()
        if not is_local_id(trash_id):
            raise SessionNotFound(f"no session {trash_id!r} in the trash")
        async with self._moves.one():
            with self._on_disk(f"{trash_id} cannot be restored"):
                return await unbroken(self._restore(trash_id, new_id))

    async def _restore(self, trash_id: str, new_id: str) -> Loaded:
        mark = await self._run(self._trash.mark, trash_id)
        session, files, reason, was_id = await self._run(self._trash.get, trash_id)
        if await self.exists(new_id):
            raise AlreadyExists(f"there is a session {new_id!r} already", hint="rename or delete that one first")
        if files and new_id == was_id:
            async with self._alone(new_id):
                await self._run(self._files.put_back, new_id, files)
            await self._run(self._trash.remove, trash_id, mark)
            return await self.load(new_id)
        fresh = _under_new_id(session, new_id)
        if reason != "deleted":
            fresh.parent = {
                "sessionId": was_id if self.name == "default" else f"{self.name}/{was_id}",
                "seq": session.seq,
            }
        await self.put(fresh)
        await self._run(self._trash.remove, trash_id, mark)
        return await self.load(new_id)

    async def purge(self, trash_id: str) -> None:
        async with self._moves.one():
            await self._run(self._trash.remove, trash_id)


def _under_new_id(session: Session, new_id: str) -> Session:
    fresh = session.snapshot()
    fresh.local_id = new_id
    return fresh


def _fingerprint(prints: dict[str, tuple[int, int, int]]) -> str:
    return ";".join(f"{ino}-{size}-{mtime}" for ino, size, mtime in (prints[path] for path in sorted(prints)))
