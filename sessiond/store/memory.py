"""A store without a disk, for tests of the service. Durable means: applied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from sessiond.errors import AlreadyExists, Conflict, SessionNotFound
from sessiond.model.changes import Change
from sessiond.model.session import Session
from sessiond.store.port import Event, HealthChanged, Listed, Loaded, Saved, Trashed, WasSaved


class MemoryStore:
    """`before_commit` is awaited in every commit, so that a test can hold it up or let it fail."""

    format = "jsonl"
    path = "/memory"

    def __init__(self, name: str = "default") -> None:
        self.name = name
        self.sessions: dict[str, Session] = {}
        self.commits: list[list[Change]] = []
        self.before_commit: Callable[[], object] | None = None
        self._listeners: list[Callable[[Event], None]] = []
        self._dirty: set[str] = set()
        self._trash: dict[str, tuple[Session, str]] = {}

    @property
    def problem(self) -> HealthChanged | None:
        return None

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    async def scan(self) -> AsyncIterator[list[Listed]]:
        yield [Listed(local_id, self.file_path(local_id), "") for local_id in self.sessions]

    async def load(self, local_id: str, *, whole: bool = True) -> Loaded:
        if local_id not in self.sessions:
            raise SessionNotFound(f"no session {local_id!r}")
        return Loaded(self.sessions[local_id], [])

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        return True  # no message is absent

    async def exists(self, local_id: str) -> bool:
        return local_id in self.sessions

    async def begin(self, local_id: str, created_at: str) -> Session:
        if local_id in self.sessions:
            raise AlreadyExists(f"there is a session {local_id!r} already")
        self.sessions[local_id] = Session(local_id, created_at)
        return self.sessions[local_id]

    async def commit(self, session: Session, changes: Sequence[Change]) -> None:
        if self.before_commit is not None:
            waited = self.before_commit()
            if hasattr(waited, "__await__"):
                await waited
        if self.sessions.get(session.local_id) is not session:
            raise Conflict("the session was changed by somebody else", seq=session.seq)
        for change in changes:
            session.apply(change)
        self.commits.append(list(changes))
        self._dirty.add(session.local_id)

    async def put(self, session: Session) -> Saved:
        if session.local_id in self.sessions:
            raise AlreadyExists(f"there is a session {session.local_id!r} already")
        self.sessions[session.local_id] = session
        return self._saved(session.local_id)

    def receive(self, local_id: str, created_at: str) -> None:
        """Memory takes sessions as a whole."""

    async def look(self, local_id: str) -> Listed | None:
        return Listed(local_id, self.file_path(local_id), "") if local_id in self.sessions else None

    def _saved(self, local_id: str) -> Saved:
        return Saved(local_id, self.file_path(local_id), 0, self.sessions[local_id].updated_at)

    def dirty(self, local_id: str) -> bool:
        return local_id in self._dirty

    def dirty_count(self) -> int:
        return len(self._dirty)

    def dirty_ids(self) -> list[str]:
        return list(self._dirty)

    def file_path(self, local_id: str) -> str:
        return f"{self.path}/{local_id}.jsonl"

    def fingerprint(self, local_id: str) -> str | None:
        return None

    async def save(self, local_id: str) -> Saved | None:
        if local_id not in self._dirty:
            return None
        self._dirty.discard(local_id)
        saved = self._saved(local_id)
        self.emit(WasSaved(saved))
        return saved

    async def release(self, local_id: str) -> None:
        """Nothing to let go of."""

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        self._trash[trash_id] = (session.snapshot(), reason)

    async def delete(self, local_id: str, *, permanent: bool) -> None:
        if local_id not in self.sessions:
            raise SessionNotFound(f"no session {local_id!r}")
        session = self.sessions.pop(local_id)
        self._dirty.discard(local_id)
        if not permanent:
            self._trash[local_id] = (session, "deleted")

    async def trash(self) -> list[Trashed]:
        return [Trashed(key, s.updated_at, s.info(key), reason) for key, (s, reason) in self._trash.items()]

    async def restore(self, trash_id: str, new_id: str) -> Loaded:
        if trash_id not in self._trash:
            raise SessionNotFound(f"no session {trash_id!r} in the trash")
        session = self._trash[trash_id][0].snapshot()
        session.local_id = new_id
        await self.put(session)
        del self._trash[trash_id]
        return Loaded(session, [])

    async def purge(self, trash_id: str) -> None:
        self._trash.pop(trash_id, None)

    async def close(self) -> None:
        """Nothing to save."""
