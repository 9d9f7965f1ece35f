"""One session of another tool on its way into a store: created there, or only examined. (`grown_session`: extended there.)

Nobody sees a new session before it is complete.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack

import msgspec

from sessiond.errors import AlreadyExists, SessiondError, SessionNotFound, Unavailable
from sessiond.fs import FOLLOWING, IMPORTING
from sessiond.importers.record import SessionStart, digest_of, digest_of_version_1
from sessiond.importers.source_file import mapped
from sessiond.index.values import IndexedInfo
from sessiond.limits import MIB
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import JsonObject, WireObject, join_wire_id, split_wire_id
from sessiond.schema.types import SessionInfo
from sessiond.service.catalog import Catalog
from sessiond.service.indexed import indexed
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.source_ledger import SourceLedger
from sessiond.service.source_merge import SourceDigest, digests
from sessiond.store.port import IncomingSession, SavedSession, Store

log = logging.getLogger(__name__)
PART_BYTES = 8 * MIB
"""Bytes of the source: about how much of one session is kept in memory before it goes to the disk."""
PART_MESSAGES = 4000
_INDEXED_MESSAGES = 60
_INDEXED_CHARS = 60_000
"""Characters that go to the index at a time."""
GONE = "gone"
"""In `metadata.source` of a session, and the mark of a removed file in the ledger."""
SAID_FIELDS = ("name", "summary", "model", "cwd", "parent", "tags", "archived")
"""Fields that a source may learn late."""


class SourceKnowledge(msgspec.Struct, frozen=True):
    """The facts that are known of a session that a file has. `before`: what the file said of it when it was last read. `moved_from`: the
    file's path then, if that has changed. `removed`: a person removed the session. `removed_messages`: digests of the ids of
    messages that a person removed. `inherited`: as in Recalled. `has_arrived`: it was here, from this file or another one.
    """

    before: SourceDigest | None = None
    moved_from: str | None = None
    removed: bool = False
    removed_messages: frozenset[bytes] = frozenset()
    inherited: frozenset[bytes] | None = None
    has_arrived: bool = False

    def lost(self, message_id: str) -> bool:
        """Return whether the session, which lacks this message, once had it, so that a person removed it here."""
        key = digest_of(message_id)
        if (self.before is not None and key in self.before.messages) or key in self.removed_messages:
            return True
        return self.inherited is not None and digest_of_version_1(message_id) in self.inherited


class ImportTarget:
    """The place where sessions arrive: a store and what belongs to it. Several may be put at a time; they are indexed one after
    another. `home`: the store that the sources are imported into, if somebody moved a session from it to `store`.
    """

    def __init__(
        self,
        open_sessions: OpenSessions,
        catalog: Catalog,
        store: Store,
        ledger: SourceLedger,
        home: Store | None = None,
    ) -> None:
        self.open_sessions = open_sessions
        self.catalog = catalog
        self.store = store
        self.ledger = ledger
        self._home = home or store
        self._indexing = asyncio.Lock()

    def wire_id(self, local_id: str) -> str:
        return join_wire_id(self.store.name, local_id)

    def parent_id(self, local_id: str) -> str:
        """Return the wire id of a session that another one continues: it is where sources are imported."""
        return join_wire_id(self._home.name, local_id)

    async def where(self, local_id: str) -> ImportTarget:
        """Return the place that has the session: this one, or the one that somebody moved it to. Unavailable."""
        if await self.has(local_id):
            return self
        moved_to = (await self.ledger.recall(self.store.name, local_id)).moved_to
        store = None if moved_to is None else self.open_sessions.stores.get(moved_to)
        if store is None:
            return self
        there = ImportTarget(self.open_sessions, self.catalog, store, self.ledger, self.store)
        return there if await there.has(local_id) else self

    async def known(self, local_id: str, path: str, *, followed: bool) -> SourceKnowledge:
        """Unavailable if that cannot be found out now."""
        found = await self.ledger.recall(self.store.name, local_id)
        before, moved_from = found.by_path.get(path), None
        if before is None and found.by_path:  # the file is new here; if it has left a path we know, it was moved
            threads = FOLLOWING if followed else IMPORTING
            gone = await threads.call(_missing, list(found.by_path))
            moved_from = max(gone, key=lambda one: len(found.by_path[one].messages), default=None)
            before = None if moved_from is None else found.by_path[moved_from]
        has_arrived = found.inherited is not None or any(one.arrived for one in found.by_path.values())
        return SourceKnowledge(before, moved_from, found.removed, found.removed_messages, found.inherited, has_arrived)

    async def has(self, local_id: str) -> bool:
        """Return whether the session exists, as far as that is known without reading it."""
        return (
            self.open_sessions.peek(self.wire_id(local_id)) is not None or await self.store.look(local_id) is not None
        )

    async def held(self, local_id: str, *, whole: bool = True) -> PinnedSession | None:
        """The session of that id; None if it does not exist. BadFile. `whole`: with all messages in memory; otherwise at least their
        ids are known.
        """
        held = PinnedSession(self.open_sessions, self.open_sessions.of(self.store, local_id))
        try:
            await held.one.look(lambda session: session.message(""), whole=whole)
        except BaseException as error:
            held.let_go()
            if isinstance(error, SessionNotFound):
                return None
            raise
        return held

    async def save(self, one: OpenSession) -> None:
        """Save a session whose new messages are in the journal. If another program keeps writing its file, it is saved
        later.
        """
        try:
            await one.save()
        except Unavailable as error:
            log.info("%s is not saved yet: %s", one.wire_id, error.message)

    async def put(self, session: Session) -> SessionInfo:
        """Store a new session as a whole, and release its memory."""
        messages = session.messages()
        return await self._arrived(session, _parts(messages), lambda one: one.stored.put(session))

    async def put_large(self, session: Session, incoming: IncomingSession, count: int) -> SessionInfo:
        """Store one that came in parts. `session`: everything except its `count` messages."""
        described = await self._arrived(session, _read_back(incoming), lambda _: incoming.finish(session), count)
        return msgspec.structs.replace(described, message_count=count)

    async def _arrived(
        self,
        session: Session,
        parts: AsyncIterator[list[Message]],
        put: Callable[[OpenSession], Awaitable[SavedSession]],
        count: int | None = None,
    ) -> SessionInfo:
        one = self.open_sessions.of(self.store, session.local_id)

        async def arrive() -> IndexedInfo:
            if one.session is not None:
                raise AlreadyExists(f"the session {one.wire_id!r} already exists")
            await put(one)
            listed = await self.store.look(session.local_id)
            info = indexed(self.store, session, None if listed is None else listed.fingerprint)
            return info if count is None else msgspec.structs.replace(info, message_count=count)

        info = await one.alone(arrive)
        await self._index(info, parts, session.notes)
        return self.open_sessions.describe(self.store, session)

    async def _index(self, info: IndexedInfo, parts: AsyncIterator[list[Message]], notes: Sequence[Note]) -> None:
        local_id = split_wire_id(info.session_id)[1]
        async with self._indexing:
            try:
                await self.catalog.fill(info, parts, notes)
            except (
                OSError,
                ValueError,
                SessiondError,
            ) as error:  # the file was changed meanwhile: that version counts
                log.info("%s is read again for the index: %s", info.session_id, error)
                await self.catalog.recheck(self.store, local_id)


class PinnedSession:
    """A session that an import reads or extends: it remains in memory until `let_go`, or, if it `stays`, as long as one that a
    client has used.
    """

    def __init__(self, open_sessions: OpenSessions, one: OpenSession, *, stays: bool = False) -> None:
        self.one = one
        self._open_sessions = open_sessions
        self._mine = not stays and open_sessions.peek(one.wire_id) is None
        self._use = ExitStack()
        self._use.enter_context(one.in_use())

    @property
    def session(self) -> Session:
        """SessionNotFound if it was deleted meanwhile."""
        return self.one.there

    def let_go(self) -> None:
        """Release its memory, unless it was in memory before the import."""
        self._use.close()
        if self._mine:
            self._open_sessions.let_go(self.one)


class ImportedSession:
    """The part that all kinds of imported sessions have in common. `known`: what is known of it from before. `followed`: nobody asked for this.
    `added`: how many messages are, or would be, new. `ended`: the source was read to its end.
    """

    def __init__(
        self,
        place: ImportTarget,
        start: SessionStart,
        known: SourceKnowledge | None = None,
        *,
        followed: bool = False,
    ) -> None:
        self.place = place
        self._known = known or SourceKnowledge()
        self.local_id = start.suggested_id
        self.info = dict(start.info)
        self.path = str(mapped(mapped(self.info.get("metadata")).get("source")).get("path", ""))
        self.added = 0
        self.ended = False
        self._before = self._known.before or SourceDigest()
        self._followed = followed
        self.weight = 0
        """About how many bytes of the source it has in memory."""
        self.last_time = ""
        """The timestamp of the newest message in the source."""
        self.said: dict[bytes, bytes] = {}
        """What the source says, as in `SourceDigest.messages`."""
        parent = self.info.get("parent")
        if parent:
            self.info["parent"] = {**parent, "sessionId": place.parent_id(parent["sessionId"])}

    def learn(self, fields: WireObject) -> None:
        learn(self.info, fields)

    def take(self, wire: WireObject, digest: bytes, weight: int) -> Awaitable[None] | None:
        """Take the next message; one that is there already adds nothing. Returns what must be waited for before the next one is
        taken: usually nothing, which saves a coroutine for each message.

        `weight`: bytes of the source since the last one. InvalidParams if it cannot be stored, now or from what it returns.
        """
        self.last_time = max(self.last_time, wire["timestamp"])
        self.said[digest_of(wire["id"])] = digest
        return None

    async def finish(self, mark: str | None) -> SessionInfo | None:
        """The source has no more of it. Returns SessionInfo as on the wire, or None if there was nothing new.

        `mark`: the version of the file, if this is the last session in it.
        """
        raise NotImplementedError

    @property
    def latest(self) -> str:
        """The time of its last message, according to the source."""
        return max(self.last_time, self.info.get("updatedAt") or "")

    async def announce(self) -> None:
        """Record what the session is about to be given, so that after a crash it is known as the source's. An import that
        somebody asked for does without: it is far more, and is asked for again.
        """
        if self._followed:
            ahead = self._before.ahead(self.said, fields_said(self.info))
            if ahead != self._before:
                self._before = ahead
                await self._keep(ahead)
                await self.place.ledger.flush()

    async def remember(self) -> None:
        """Record that the session has what the source said."""
        await self._keep(self._before.now(self.said, fields_said(self.info)), self._known.moved_from)
        known = self._known
        if not self._followed and (known.removed or known.removed_messages or known.inherited is not None):
            await self.place.ledger.came_back(self.place.store.name, self.local_id)

    async def _keep(self, digest: SourceDigest, moved_from: str | None = None) -> None:
        await self.place.ledger.keep(self.place.store.name, self.local_id, self.path, digest, moved_from)

    async def abandon(self) -> None:
        """Give it up: it will not be finished."""


class New(ImportedSession):
    def __init__(
        self, place: ImportTarget, start: SessionStart, now: str, known: SourceKnowledge, *, followed: bool = False
    ) -> None:
        fresh = msgspec.structs.replace(known, before=SourceDigest(arrived=False))
        super().__init__(place, start, fresh, followed=followed)
        self._now = now
        self._session: Session | None = None
        """Without its messages."""
        self._ids: set[str] = set()
        self._messages: list[Message] = []
        self._incoming: IncomingSession | None = None
        self._whole_only = False

    def _shell(self, first_time: str | None) -> Session:
        if self._session is None:
            self._session = Session(self.local_id, self.info.get("createdAt") or first_time or self._now)
        return self._session

    @property
    def is_empty(self) -> bool:
        """True if nothing was said in it: tools begin a file for every window that is opened."""
        return not self.added

    def take(self, wire: WireObject, digest: bytes, weight: int) -> Awaitable[None] | None:
        if wire["id"] in self._ids:
            return None
        self.said[digest_of(wire["id"])] = digest
        session = self._session or self._shell(wire["timestamp"])
        session.seq += 1
        message = Message.from_wire(wire, session.seq)
        self.last_time = max(self.last_time, message.timestamp)
        self._ids.add(message.id)
        self._messages.append(message)
        self.added += 1
        self.weight += weight
        if self.weight > PART_BYTES or len(self._messages) >= PART_MESSAGES:
            return self._spill(session)
        return None

    async def _spill(self, session: Session) -> None:
        """Write what came so far and release its memory, if the store can take a part of a session."""
        if self._incoming is None and not self._whole_only:
            self._incoming = self.place.store.receive(self.local_id, session.created_at)
            self._whole_only = self._incoming is None
        if self._incoming is not None:
            await self._incoming.add(self._messages)
            self._messages, self.weight = [], 0

    async def finish(self, mark: str | None) -> SessionInfo:
        await self.announce()
        described = await self._finish(mark)
        await self.remember()
        return described

    async def _finish(self, mark: str | None) -> SessionInfo:
        session = self._shell(None)
        if mark is not None:
            remember_mark(self.info, mark)
        session.update({key: value for key, value in self.info.items() if value is not None})
        session.touch(self.latest)
        if self._incoming is not None:
            if self._messages:
                await self._incoming.add(self._messages)
            described = await self.place.put_large(session, self._incoming, self.added)
            self._incoming = None
            return described
        for message in self._messages:
            session.add_message(message)
        return await self.place.put(session)

    async def abandon(self) -> None:
        if self._incoming is not None:
            await self._incoming.abandon()


class Imagined(ImportedSession):
    """The session of a dry run. `held`: the session if it exists here. `earlier`: what this run would already have imported
    of it.
    """

    def __init__(
        self, place: ImportTarget, start: SessionStart, held: PinnedSession | None, earlier: Imagined | None, now: str
    ) -> None:
        super().__init__(place, start)
        self._held = held
        self._earlier = earlier
        self._ids: set[str] = set() if earlier is None else earlier._ids
        self._created: str = "" if earlier is None else earlier._created
        self._now = now

    def take(self, wire: WireObject, digest: bytes, weight: int) -> None:
        del digest, weight
        self.last_time = max(self.last_time, wire["timestamp"])
        if wire["id"] in self._ids or (self._held and self._held.session.message(wire["id"]) is not None):
            return
        self._created = self._created or self.info.get("createdAt") or wire["timestamp"]
        self._ids.add(wire["id"])
        self.added += 1

    async def finish(self, mark: str | None) -> SessionInfo | None:
        try:
            return self._described()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.let_go()

    def _described(self) -> SessionInfo | None:
        if self._earlier is not None:
            self.info = {**self.info, **self._earlier.info}
            self.last_time = max(self.last_time, self._earlier.last_time)
        if not self.added and (self._held is not None or self._earlier is not None):
            return None
        if self._held is not None:
            described = self.place.open_sessions.info(self._held.one)
            count, latest = len(self._held.session) + len(self._ids), max(described.updated_at, self.last_time)
            return msgspec.structs.replace(described, message_count=count, updated_at=latest)
        session = Session(self.local_id, self._created or self.info.get("createdAt") or self._now)
        session.update({key: value for key, value in self.info.items() if value is not None})
        session.touch(self.latest)
        session.seq = len(self._ids)
        described = self.place.open_sessions.describe(self.place.store, session)
        return msgspec.structs.replace(described, message_count=len(self._ids))


class SkippedSession(ImportedSession):
    """One that was refused, for a reason that was reported: the rest of it is ignored."""

    def take(self, wire: WireObject, digest: bytes, weight: int) -> None:
        del wire, digest, weight

    async def finish(self, mark: str | None) -> None:
        del mark


def learn(info: WireObject, fields: WireObject) -> None:
    """Take the fields of an InfoUpdate."""
    for key, value in fields.items():
        info[key] = {**info.get("metadata", {}), **value} if key == "metadata" else value


def fields_said(info: JsonObject) -> dict[str, bytes]:
    """Return what the source says of the session, as in `SourceDigest.fields`."""
    metadata = {key: value for key, value in mapped(info.get("metadata")).items() if key != "source"}
    return digests({key: info.get(key) for key in (*SAID_FIELDS, "updatedAt")}) | digests(metadata, "metadata.")


def _missing(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if not os.path.lexists(path)]


def remember_mark(info: WireObject, mark: str) -> None:
    """Record in the session's metadata that its file was read to its end in the version `mark`."""
    metadata = info.get("metadata", {})
    info["metadata"] = {**metadata, "source": {**mapped(metadata.get("source")), "fingerprint": mark}}


async def _parts(messages: Sequence[Message]) -> AsyncIterator[list[Message]]:
    part: list[Message] = []
    size = 0
    for message in messages:
        part.append(message)
        size += len(message.content) if isinstance(message.content, str) else 1000 * len(message.content)
        if len(part) >= _INDEXED_MESSAGES or size > _INDEXED_CHARS:
            yield part
            part, size = [], 0
    if part:
        yield part


async def _read_back(incoming: IncomingSession) -> AsyncIterator[list[Message]]:
    async for found in incoming.messages():
        async for part in _parts(found):
            yield part
