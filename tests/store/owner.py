"""The simplest owner that a store can have: it does one thing after another. Tests of the store use it, so that a crash in
the middle of anything reaches them directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sessiond.errors import AlreadyExists, BadFile, SessionNotFound, Unavailable
from sessiond.model.changes import Change
from sessiond.model.session import Session
from sessiond.store.folder import FolderStore
from sessiond.store.port import FileWarning, OutsideChange, SavedSession
from sessiond.store.stored import StoredSession

_ATTEMPTS = 16


@dataclass
class Loaded:
    session: Session
    warnings: list[FileWarning]


@dataclass
class Reloaded:
    """Somebody else's edit was merged."""

    session: Session
    warnings: list[FileWarning]


@dataclass
class Vanished:
    local_id: str


@dataclass
class WasSaved:
    saved: SavedSession


class Owner:
    """Everything that is not here is the store's own."""

    def __init__(self, store: FolderStore, tell: Callable[[Any], None] = lambda _: None) -> None:
        self.store = store
        self.stored: dict[str, StoredSession] = {}
        self.sessions: dict[str, Session] = {}
        self._tell = tell
        self._lanes: dict[str, asyncio.Lock] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def of(self, local_id: str) -> StoredSession:
        if local_id not in self.stored:
            self.stored[local_id] = self.store.session(local_id)
        return self.stored[local_id]

    def lane(self, local_id: str) -> asyncio.Lock:
        return self._lanes.setdefault(local_id, asyncio.Lock())

    # Reading

    async def load(self, local_id: str, *, whole: bool = True) -> Loaded:
        async with self.lane(local_id):
            return await self._load(local_id, whole)

    async def _load(self, local_id: str, whole: bool) -> Loaded:
        stored, session = self.of(local_id), self.sessions.get(local_id)
        if session is None:
            session = self.sessions[local_id] = await stored.read(whole=whole)
        elif await stored.changed():
            session = await self._merge(local_id)
        if session is not None and whole and session.absent:
            session = self._became(local_id, await (await stored.read_rest(session))())
        if session is None:
            raise SessionNotFound(local_id)
        return Loaded(session, stored.warnings())

    async def _merge(self, local_id: str) -> Session | None:
        return self._became(local_id, await self.of(local_id).merge(self.sessions[local_id]))

    def _became(self, local_id: str, session: Session | None) -> Session | None:
        old = self.sessions.pop(local_id)
        if session is None:
            self._tell(Vanished(local_id))
            return None
        self.sessions[local_id] = session
        if session is not old:
            self._tell(Reloaded(session, self.of(local_id).warnings()))
        return session

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        if self.sessions.get(session.local_id) is not session:
            return False
        return not session.absent or await self.of(session.local_id).lacks(session, message_ids)

    async def look_at(self, local_id: str) -> None:
        async with self.lane(local_id):
            if local_id in self.sessions and await self.of(local_id).changed():
                await self._merge(local_id)

    async def exists(self, local_id: str) -> bool:
        return local_id in self.sessions or await self.of(local_id).exists()

    def dirty(self, local_id: str) -> bool:
        return self.of(local_id).dirty

    def dirty_ids(self) -> list[str]:
        return [local_id for local_id in [*self.stored, *self.store.recovered()] if self.of(local_id).dirty]

    def dirty_count(self) -> int:
        return len(self.dirty_ids())

    def fingerprint(self, local_id: str) -> str | None:
        return self.of(local_id).fingerprint if local_id in self.sessions else None

    # Changing

    async def begin(self, local_id: str, created_at: str) -> Session:
        if local_id in self.sessions:
            raise AlreadyExists(local_id)
        await self.of(local_id).begin()
        session = self.sessions[local_id] = Session(local_id, created_at)
        return session

    async def commit(self, session: Session, changes: Sequence[Change]) -> None:
        assert self.sessions.get(session.local_id) is session, "it was replaced"
        await self.of(session.local_id).commit(session, list(changes))

    async def put(self, session: Session) -> SavedSession:
        if session.local_id in self.sessions:
            raise AlreadyExists(session.local_id)
        return await self.of(session.local_id).put(session)

    async def release(self, local_id: str) -> None:
        if not self.dirty(local_id):
            self.sessions.pop(local_id, None)
            self.stored.pop(local_id, None)

    async def save(self, local_id: str) -> SavedSession | None:
        async with self.lane(local_id):
            return await self._save(local_id)

    async def _save(self, local_id: str) -> SavedSession | None:
        stored = self.of(local_id)
        for _ in range(_ATTEMPTS):
            if not stored.dirty:
                return None
            session = (await self._load(local_id, True)).session if self._unread(local_id) else self.sessions[local_id]
            try:
                saved = await stored.save(session)
            except OutsideChange:
                await stored.changed()
                if await self._merge(local_id) is None:
                    return None
                continue
            if saved is not None:
                self._tell(WasSaved(saved))
            return saved
        raise Unavailable("somebody else writes it all the time")

    def _unread(self, local_id: str) -> bool:
        session = self.sessions.get(local_id)
        return session is None or bool(session.absent)

    async def close(self) -> None:
        for local_id in self.dirty_ids():
            await self.save(local_id)

    # Taking away

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        await self.of(session.local_id).discard(session, trash_id, reason)

    async def delete(self, local_id: str, *, permanent: bool) -> None:
        async with self.lane(local_id):
            try:
                session = (
                    (await self._load(local_id, True)).session if self._unread(local_id) else self.sessions[local_id]
                )
            except BadFile:
                session = None
            await self.of(local_id).delete(session, permanent=permanent)
            if permanent:
                await self.of(local_id).erase()
            self.sessions.pop(local_id, None)

    async def restore(self, trash_id: str, new_id: str) -> Loaded:
        assert trash_id == new_id, "what comes out of the trash keeps its id there"
        session = self.sessions[new_id] = await self.of(new_id).restore()
        return Loaded(session, self.of(new_id).warnings())
