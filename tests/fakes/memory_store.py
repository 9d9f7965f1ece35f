"""A store without a disk, for tests of the service. Durable means: applied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from sessiond.errors import AlreadyExists, SessionNotFound
from sessiond.journal.writer import OnDurable
from sessiond.model.changes import Change
from sessiond.model.session import Session, SessionInfo
from sessiond.store.port import (
    Complete,
    Event,
    Listed,
    OfThisMachine,
    OutsideChange,
    SavedSession,
    StoreOfThisMachine,
    StoreProblem,
    Touched,
    Trashed,
)


class MemoryStore(StoreOfThisMachine):
    """`before_commit`, `before_read` and `before_save` are awaited in each of these, so that a test can hold it up or let it
    fail. `sessions` is what the files are of a real store; an edit from outside puts another session there (`edit`).
    """

    format = "jsonl"
    taken_state_keys: frozenset[str] = frozenset()
    path = "/memory"

    def __init__(self, name: str = "default") -> None:
        self.name = name
        self.sessions: dict[str, Session] = {}
        self.commits: list[list[Change]] = []
        self.before_commit: Callable[[], object] | None = None
        self.before_read: Callable[[], object] | None = None
        self.before_save: Callable[[], object] | None = None
        self.reads = 0
        self.unsaved: set[str] = set()
        self._edits: dict[str, int] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._trash: dict[str, tuple[Session, str]] = {}

    @property
    def problem(self) -> StoreProblem | None:
        return None

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    def edit(self, local_id: str, session: Session | None) -> None:
        """Another program writes the file, or removes it."""
        self._edits[local_id] = self._edits.get(local_id, 0) + 1
        if session is None:
            del self.sessions[local_id]
        else:
            self.sessions[local_id] = session
        self.emit(Touched(frozenset({local_id})))

    def fingerprint(self, local_id: str) -> str:
        return str(1 + self._edits.get(local_id, 0))

    def recovered(self) -> list[str]:
        return []

    def session(self, local_id: str) -> StoredInMemory:
        return StoredInMemory(self, local_id)

    async def scan(self) -> AsyncIterator[list[Listed]]:
        yield [self._listed(local_id) for local_id in self.sessions]

    async def look(self, local_id: str) -> Listed | None:
        return self._listed(local_id) if local_id in self.sessions else None

    def _listed(self, local_id: str) -> Listed:
        return Listed(local_id, self.file_path(local_id), self.fingerprint(local_id))

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        return [self.sessions[one].info() for one in local_ids if one in self.sessions]

    def file_path(self, local_id: str) -> str:
        return f"{self.path}/{local_id}.jsonl"

    def receive(self, local_id: str, created_at: str) -> None:
        """Memory takes sessions as a whole."""

    async def trash(self) -> list[Trashed]:
        return [Trashed(key, s.updated_at, s.info(key), reason) for key, (s, reason) in self._trash.items()]

    def erase(self, trash_id: str) -> set[str]:
        return {trash_id} if self._trash.pop(trash_id, None) is not None else set()

    def put_into_trash(self, trash_id: str, session: Session, reason: str) -> None:
        self._trash[trash_id] = (session, reason)

    def take_from_trash(self, trash_id: str) -> Session:
        if trash_id not in self._trash:
            raise SessionNotFound(f"no session {trash_id!r} in the trash")
        return self._trash.pop(trash_id)[0]


class StoredInMemory(OfThisMachine):
    def __init__(self, store: MemoryStore, local_id: str) -> None:
        self._store = store
        self.local_id = local_id
        self._mine: Session | None = None
        """The version that the owner has."""

    @property
    def dirty(self) -> bool:
        return self.local_id in self._store.unsaved

    @property
    def size(self) -> int:
        return 0

    @property
    def fingerprint(self) -> str | None:
        return None if self.dirty else self._store.fingerprint(self.local_id)

    def warnings(self) -> list:
        return []

    async def exists(self) -> bool:
        return self.local_id in self._store.sessions

    async def read(self, *, whole: bool) -> Session:
        self._store.reads += 1
        await _maybe(self._store.before_read)
        if self.local_id not in self._store.sessions:
            raise SessionNotFound(f"no session {self.local_id!r}")
        self._mine = self._store.sessions[self.local_id]
        return self._mine

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        return True  # no message is absent

    async def read_rest(self, session: Session) -> Complete:
        async def complete() -> Session | None:
            return session

        return complete

    async def changed(self) -> bool:
        return self._mine is not None and self._store.sessions.get(self.local_id) is not self._mine

    async def merge(self, session: Session) -> Session | None:
        self._mine = self._store.sessions.get(self.local_id)
        if self._mine is None:
            self._store.unsaved.discard(self.local_id)
        return self._mine

    async def commit(
        self, session: Session, changes: list[Change], on_durable: OnDurable | None = None, *, agreed: bool = False
    ) -> None:
        await _maybe(self._store.before_commit)
        for change in changes:
            session.apply(change)
        self._durable(session, changes)

    async def cut(self, session: Session, changes: list[Change]) -> Session:
        await _maybe(self._store.before_commit)
        after = session.after(changes)
        self._durable(after, changes)
        return after

    def _durable(self, session: Session, changes: list[Change]) -> None:
        self._store.sessions[self.local_id] = self._mine = session
        self._store.commits.append(list(changes))
        self._store.unsaved.add(self.local_id)

    async def begin(self) -> None:
        if self.local_id in self._store.sessions:
            raise AlreadyExists(f"there is a session {self.local_id!r} already")

    async def put(self, session: Session) -> SavedSession:
        await self.begin()
        self._store.sessions[self.local_id] = self._mine = session
        return self._saved(session)

    def _saved(self, session: Session) -> SavedSession:
        return SavedSession(self.local_id, self._store.file_path(self.local_id), 0, session.updated_at)

    async def save(self, session: Session) -> SavedSession | None:
        if not self.dirty:
            return None
        if await self.changed():
            raise OutsideChange(self.local_id)
        seq = session.seq
        await _maybe(self._store.before_save)
        if session.seq == seq:  # what was committed meanwhile waits for the next save
            self._store.unsaved.discard(self.local_id)
        return self._saved(session)

    def save_even_blank(self) -> None:
        self._store.unsaved.add(self.local_id)

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        self._store.put_into_trash(trash_id, session.snapshot(), reason)

    async def erase(self) -> set[str]:
        return self._store.erase(self.local_id)

    async def strike_out(self) -> None:
        return None

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        if not permanent and session is not None:
            self._store.put_into_trash(self.local_id, session, "deleted")
        await self.remove()

    async def remove(self) -> None:
        self._store.sessions.pop(self.local_id, None)
        self._store.unsaved.discard(self.local_id)
        self._mine = None

    async def restore(self) -> Session:
        await self.begin()
        session = self._store.take_from_trash(self.local_id)
        session.local_id = self.local_id
        await self.put(session)
        return session


async def _maybe(hook: Callable[[], object] | None) -> None:
    if hook is not None:
        waited = hook()
        if hasattr(waited, "__await__"):
            await waited
