"""One session of another tool on its way into a store: new there, grown there, or only looked at.

A new one is seen by nobody before it is whole. What one that is there already gains is appended in its turn like
anybody's messages, so whoever has it open sees it grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from sessiond.errors import SessiondError, Unavailable
from sessiond.importers.record import SessionStart
from sessiond.index.values import IndexedInfo
from sessiond.limits import MIB
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import Json, join_wire_id, split_wire_id
from sessiond.service.catalog import Catalog, indexed
from sessiond.service.planning import Draft
from sessiond.service.room import Room
from sessiond.service.rooms import Rooms
from sessiond.store.port import Incoming, Store

log = logging.getLogger(__name__)
PART_BYTES = 8 * MIB
"""Of the source. What one session holds in memory before it goes to the disk, about."""
PART_MESSAGES = 4000
_INDEXED_MESSAGES = 60
_INDEXED_CHARS = 60_000
"""What the index is given at a time."""
_SMALL_METADATA = 4096


class Place:
    """Where sessions arrive: a store with what belongs to it. Several may be put at a time; they are indexed one after
    the other.
    """

    def __init__(self, rooms: Rooms, catalog: Catalog, store: Store) -> None:
        self.rooms = rooms
        self.catalog = catalog
        self.store = store
        self._indexing = asyncio.Lock()

    def wire_id(self, local_id: str) -> str:
        return join_wire_id(self.store.name, local_id)

    async def save(self, local_id: str) -> None:
        """What came to a session is in the journal. Where somebody else writes its file all the time, it gets there later."""
        try:
            await self.store.save(local_id)
        except Unavailable as error:
            log.info("%s is not saved yet: %s", self.wire_id(local_id), error.message)

    async def put(self, session: Session) -> dict[str, Json]:
        """A new session as a whole, and out of memory again. SessionInfo on the wire."""
        await self.store.put(session)
        described = self.rooms.describe(self.store, session)
        await self._index(indexed(self.store, session), _parts(session.messages()), session.notes)
        return described

    async def put_large(self, session: Session, incoming: Incoming, count: int) -> dict[str, Json]:
        """One that came in parts. `session`: all but its `count` messages."""
        await incoming.finish(session)
        listed = await self.store.look(session.local_id)
        described = {**self.rooms.describe(self.store, session), "messageCount": count}
        info = msgspec.structs.replace(
            indexed(self.store, session), message_count=count, fingerprint=listed and listed.fingerprint
        )
        await self._index(info, _read_back(incoming), [])
        return described

    async def _index(self, info: IndexedInfo, parts: AsyncIterator[list[Message]], notes: Sequence[Note]) -> None:
        local_id = split_wire_id(info.session_id)[1]
        async with self._indexing:
            try:
                await self.catalog.fill(info, parts, notes)
            except (
                OSError,
                ValueError,
                SessiondError,
            ) as error:  # somebody changed the file at once: his version counts
                log.info("%s is read again for the index: %s", info.session_id, error)
                await self.catalog.recheck(self.store, local_id)
        if not self.catalog.is_open(info.session_id):
            await self.store.release(local_id)


class Arriving:
    """What the three have in common. `added`: messages that are, or would be, new."""

    def __init__(self, place: Place, start: SessionStart) -> None:
        self.place = place
        self.local_id = start.suggested_id
        self.info = dict(start.info)
        self.added = 0
        self.weight = 0
        """Bytes of the source that it holds in memory, about."""
        self.last_time = ""
        """Of the newest message that the source has."""
        parent = self.info.get("parent")
        if parent:
            self.info["parent"] = {**parent, "sessionId": place.wire_id(parent["sessionId"])}

    def learn(self, fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            self.info[key] = {**self.info.get("metadata", {}), **value} if key == "metadata" else value

    async def take(self, wire: dict[str, Json], weight: int) -> None:
        """The next message; one that is there already adds nothing. `weight`: bytes of the source since the last one.
        InvalidParams where it cannot be kept.
        """
        self.last_time = max(self.last_time, wire["timestamp"])

    async def finish(self, mark: str | None) -> dict[str, Json] | None:
        """The source has no more of it. SessionInfo on the wire, or None where it brought nothing new.

        `mark`: the version of the file, where this is the last session in it.
        """
        raise NotImplementedError

    @property
    def latest(self) -> str:
        """When something was last said in it, as the source tells."""
        return max(self.last_time, self.info.get("updatedAt") or "")

    async def abandon(self) -> None:
        """It will not be finished."""


class New(Arriving):
    def __init__(self, place: Place, start: SessionStart, now: str) -> None:
        super().__init__(place, start)
        self._now = now
        self._session: Session | None = None
        """Less its messages."""
        self._ids: set[str] = set()
        self._messages: list[Message] = []
        self._incoming: Incoming | None = None
        self._whole_only = False

    def _shell(self, first_time: str | None) -> Session:
        if self._session is None:
            self._session = Session(self.local_id, self.info.get("createdAt") or first_time or self._now)
        return self._session

    async def take(self, wire: dict[str, Json], weight: int) -> None:
        if wire["id"] in self._ids:
            return
        session = self._session or self._shell(wire["timestamp"])
        session.seq += 1
        message = Message.from_wire({**wire, "seq": session.seq})
        session.touch(message.timestamp)
        self.last_time = max(self.last_time, message.timestamp)
        self._ids.add(message.id)
        self._messages.append(message)
        self.added += 1
        self.weight += weight
        if self.weight > PART_BYTES or len(self._messages) >= PART_MESSAGES:
            await self._spill(session)

    async def _spill(self, session: Session) -> None:
        """What came so far leaves the memory, if the store can take a part of a session."""
        if self._incoming is None and not self._whole_only:
            self._incoming = self.place.store.receive(self.local_id, session.created_at)
            self._whole_only = self._incoming is None
        if self._incoming is not None:
            await self._incoming.add(self._messages)
            self._messages, self.weight = [], 0

    async def finish(self, mark: str | None) -> dict[str, Json]:
        session = self._shell(None)
        if mark is not None:
            _remember_mark(self.info, mark)
        session.update({key: value for key, value in self.info.items() if value is not None})
        session.touch(self.info.get("updatedAt") or session.updated_at)
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


class Grown(Arriving):
    """`room`: the session as it is here. `mine`: nobody else had it in memory before."""

    def __init__(self, place: Place, start: SessionStart, room: Room, *, mine: bool) -> None:
        super().__init__(place, start)
        self._room = room
        self._mine = mine
        self._new: dict[str, dict[str, Json]] = {}

    async def take(self, wire: dict[str, Json], weight: int) -> None:
        self.weight += weight
        await super().take(wire, weight)
        if wire["id"] in self._new or self._room.session.message(wire["id"]) is not None:
            return
        self._new[wire["id"]] = wire
        self.added += 1
        if self.weight > PART_BYTES or len(self._new) >= PART_MESSAGES:
            await self._append({})

    async def finish(self, mark: str | None) -> dict[str, Json] | None:
        try:
            await self._append(self._fresh(mark if self.added else None))
            if self.added:
                await self.place.save(self.local_id)
            return self.place.rooms.info(self._room) if self.added else None
        finally:
            await self.abandon()

    async def _append(self, fields: dict[str, Any]) -> None:
        messages, self._new, self.weight = list(self._new.values()), {}, 0

        def plan(draft: Draft) -> None:
            if messages:
                draft.append(messages, None)
            if fields:
                # What is learned of a session late does not make it newer than its last message.
                last = messages[-1]["timestamp"] if messages else ""
                draft.update(fields, None, at=max(draft.session.updated_at, last))

        if messages or fields:
            await self._room.change(plan)

    def _fresh(self, mark: str | None) -> dict[str, Any]:
        """What the source says of the session and the session does not know yet."""
        session = self._room.session
        fresh = {
            key: self.info[key]
            for key in ("name", "summary", "model")
            if self.info.get(key) and not getattr(session, key)
        }
        metadata = self.info.get("metadata", {})
        learned = {key: value for key, value in metadata.items() if key not in session.metadata}
        # The line that says so repeats all metadata: not worth it where that is much.
        if mark is not None and (learned or len(repr(session.metadata)) < _SMALL_METADATA):
            source = {"metadata": {"source": {**metadata.get("source", {}), **_dict(session.metadata.get("source"))}}}
            _remember_mark(source, mark)
            learned["source"] = source["metadata"]["source"]
        if learned:
            fresh["metadata"] = {**session.metadata, **learned}
        return fresh

    async def abandon(self) -> None:
        if self._mine:
            await self.place.rooms.let_go(self._room)


class Imagined(Arriving):
    """A dry run's. `room`: the session as it is here, if it is. `earlier`: what this run would have brought of it
    before.
    """

    def __init__(
        self, place: Place, start: SessionStart, room: Room | None, earlier: Imagined | None, now: str, *, mine: bool
    ) -> None:
        super().__init__(place, start)
        self._room = room
        self._mine = mine
        self._earlier = earlier
        self._ids: set[str] = set() if earlier is None else earlier._ids
        self._created: str = "" if earlier is None else earlier._created
        self._now = now

    async def take(self, wire: dict[str, Json], weight: int) -> None:
        del weight
        self.last_time = max(self.last_time, wire["timestamp"])
        if wire["id"] in self._ids or (self._room and self._room.session.message(wire["id"]) is not None):
            return
        self._created = self._created or self.info.get("createdAt") or wire["timestamp"]
        self._ids.add(wire["id"])
        self.added += 1

    async def finish(self, mark: str | None) -> dict[str, Json] | None:
        try:
            return self._described()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        room, self._room = self._room, None
        if room is not None and self._mine:
            await self.place.rooms.let_go(room)

    def _described(self) -> dict[str, Json] | None:
        if self._earlier is not None:
            self.info = {**self.info, **self._earlier.info}
            self.last_time = max(self.last_time, self._earlier.last_time)
        if not self.added and (self._room is not None or self._earlier is not None):
            return None
        if self._room is not None:
            described = self.place.rooms.info(self._room)
            latest = max(described["updatedAt"], self.last_time)
            return {**described, "messageCount": len(self._room.session) + len(self._ids), "updatedAt": latest}
        session = Session(self.local_id, self._created or self.info.get("createdAt") or self._now)
        session.update({key: value for key, value in self.info.items() if value is not None})
        session.touch(self.latest)
        session.seq = len(self._ids)
        return {**self.place.rooms.describe(self.place.store, session), "messageCount": len(self._ids)}


class Refused(Arriving):
    """One that could not be taken, for a reason that was told: the rest of it passes by."""

    async def take(self, wire: dict[str, Json], weight: int) -> None:
        del wire, weight

    async def finish(self, mark: str | None) -> None:
        del mark


def _remember_mark(info: dict[str, Any], mark: str) -> None:
    metadata = info.get("metadata", {})
    info["metadata"] = {**metadata, "source": {**_dict(metadata.get("source")), "fingerprint": mark}}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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


async def _read_back(incoming: Incoming) -> AsyncIterator[list[Message]]:
    async for found in incoming.messages():
        async for part in _parts(found):
            yield part
