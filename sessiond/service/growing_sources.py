"""Gives a session what its source says since it was read to its end, without reading the rest of either again.

Whatever does not fit gives it up (another file in its place, a session that was deleted here, a message that comes again): then
the source is read whole, and the merge of all of it decides. Here the same merge (`grown_session`) sees only the end of the
session, from the first message on that the source's former end let it say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import NamedTuple

import msgspec

from sessiond.errors import AlreadyExists, BadFile, SessionNotFound
from sessiond.fs import FOLLOWING
from sessiond.importers.record import Ending, Event, InfoUpdate, MessageRecord, SessionStart, SkippedLine, digest_of
from sessiond.model.session import Absent, Session
from sessiond.model.values import WireObject
from sessiond.schema.types import SessionInfo
from sessiond.service.grown_session import Grown
from sessiond.service.import_file import ImportFile
from sessiond.service.imported_session import (
    ImportedSession,
    ImportTarget,
    PinnedSession,
    SkippedSession,
    SourceKnowledge,
    fields_said,
    learn,
)
from sessiond.service.kept_sources import KeptSource
from sessiond.service.source_merge import SourceDigest, SourceGrowth
from sessiond.service.sources import Sources, beside_of, mark_of


class ReadOn(NamedTuple):
    """The outcome of reading a source on: the session if it has changed, the time of the newest message that is new (or ""), and lines that
    could not be understood.
    """

    sessions: list[SessionInfo]
    newest: str
    skipped: list[SkippedLine]


class _Said(msgspec.Struct):
    """The things that a source has said since. `info`, `last`, `fields`: as in KeptSource. `known`: the session's info, with what the end says."""

    messages: list[MessageRecord]
    info: WireObject
    last: dict[str, bytes]
    known: WireObject
    fields: dict[str, bytes]
    skipped: list[SkippedLine]


def _said(events: list[Event], kept: KeptSource) -> _Said | None:
    """None if it says anything new of another session."""
    messages: list[MessageRecord] = []
    names: list[InfoUpdate] = []
    skipped: list[SkippedLine] = []
    info, before, begun = dict(kept.info), dict(kept.info), 0
    for event in events:
        match event:
            case MessageRecord():
                messages.append(event)
            case InfoUpdate() if event.source_id == kept.start.source_id:
                learn(info, event.fields)
            case InfoUpdate():
                names.append(event)
            case SessionStart():
                return None
            case Ending():
                before, begun = dict(info), len(messages)
            case SkippedLine():
                skipped.append(event)
            case _:
                pass
    if names != kept.names:
        return None
    last = {str(one.message["id"]): one.digest for one in messages[begun:]}
    return _Said(messages, before, last, info, fields_said(info), skipped)


async def read_on(place: ImportTarget, sources: Sources, path: str, tool: str) -> ReadOn | None:
    """None: the source must be read whole, as it must after an error."""
    kept = sources.kept.take(path)
    if kept is None or kept.tool != tool:
        return None
    mark = await FOLLOWING.call(mark_of, path)
    if beside_of(mark) != kept.beside:
        return None
    events = await FOLLOWING.run(kept.growth.read_on)
    said = None if events is None else _said(events, kept)
    if said is None:
        return None
    local_id = kept.start.suggested_id
    home, place = place, await place.where(local_id)
    if not await place.has(local_id):
        return None
    whole = mark if kept.growth.at_end else None
    told: list[SessionInfo] = []
    if {one.message["id"]: one.digest for one in said.messages} != kept.last or said.fields != kept.fields:
        described = await _give(place, kept, said, whole)
        if described is None:
            return None
        told = described
    kept.info, kept.last, kept.fields = said.info, said.last, said.fields
    sources.kept.put(kept)
    if whole is not None:
        sources.remember(path, tool, whole, [local_id])
        home.ledger.read_to_end(home.store.name, path, tool, whole)
    newest = max((one.message["timestamp"] for one in said.messages), default="")
    return ReadOn(told, newest, said.skipped)


async def _give(place: ImportTarget, kept: KeptSource, said: _Said, mark: str | None) -> list[SessionInfo] | None:
    one = place.open_sessions.of(place.store, kept.start.suggested_id)
    held = PinnedSession(place.open_sessions, one, stays=True)
    end = GrownEnd(place, kept.start, held, kept.last, kept.fields)
    end.info = said.known
    try:
        ids = [str(record.message["id"]) for record in said.messages]
        here = await one.look(lambda session: {one for one in ids if session.message(one) is not None})
        if here - kept.last.keys():
            return None
        for record in said.messages:
            going_on = end.take(record.message, record.digest, 0)
            if going_on is not None:
                await going_on
        end.ended = True
        described: SessionInfo | None = await end.finish(mark)
    finally:
        await end.abandon()
    return [] if described is None else [described]


async def continued(place: ImportTarget, start: SessionStart, file: ImportFile) -> ImportedSession:
    """A session of a database that is read on from where it was read to. One that cannot be loaded is left to the next reading."""
    end = file.ends_before[start.source_id]
    assert end.last is not None, "only a session that has all of it is read on"
    one = place.open_sessions.of(place.store, start.suggested_id)
    held = PinnedSession(place.open_sessions, one, stays=True)
    try:
        await one.look(lambda _: None)
    except (SessionNotFound, BadFile) as error:  # somebody deleted it here, or damaged it
        held.let_go()
        file.whole &= isinstance(error, SessionNotFound)
        return SkippedSession(place, start)
    except BaseException:
        held.let_go()
        raise
    return Continuing(place, start, held, end.last, end.fields)


class GrownEnd(Grown):
    """A session, and what its source says since it was last read. `last`, `fields`: what it said then at its end, and of the session's
    fields, as in KeptSource.
    """

    def __init__(
        self,
        place: ImportTarget,
        start: SessionStart,
        held: PinnedSession,
        last: Mapping[str, bytes],
        fields: dict[str, bytes],
    ) -> None:
        before = SourceDigest({digest_of(one): digest for one, digest in last.items()}, {}, fields)
        super().__init__(place, start, held, SourceKnowledge(before=before), followed=True)
        self._last = list(last)
        self._announced: SourceGrowth | None = None

    @property
    def _fields(self) -> dict[str, bytes] | None:
        fields = fields_said(self.info)
        return fields if fields != self._before.fields else None

    def _passes(self, message_id: str, digest: bytes) -> bool:
        return False  # the source is not said from its beginning

    def _said_from(self, start: int) -> list[str]:
        return self._order

    def _from(self, session: Session) -> int:
        there = (session.message(one) for one in self._last)
        return min((session.position_after(one.seq) - 1 for one in there if one is not None), default=len(session))

    async def announce(self) -> None:
        new = {key: digest for key, digest in self.said.items() if self._before.messages.get(key) != digest}
        growth = SourceGrowth(new, [], self._fields, announced=True)
        if growth != self._announced:
            self._announced = growth
            self.place.ledger.grow(self.place.store.name, self.local_id, self.path, growth)
            await self.place.ledger.flush()

    async def remember(self) -> None:
        gone = [key for key in self._before.messages if key not in self.said]
        growth = SourceGrowth(self.said, gone, self._fields)
        self.place.ledger.grow(self.place.store.name, self.local_id, self.path, growth)

    async def _save(self) -> None:
        """Left to the timer: what it was given is in the journal, and it will be given more."""


class Continuing(GrownEnd):
    """The same for one of the sessions of a database, while it is read. AlreadyExists if it has a message already that is new at its
    source: the source must be read whole.
    """

    def take(self, wire: WireObject, digest: bytes, weight: int) -> Awaitable[None] | None:
        key = digest_of(wire["id"])
        is_new = key not in self._before.messages and key not in self.said
        try:
            if is_new and self._held.session.message(wire["id"]) is not None:
                raise AlreadyExists(f"{wire['id']} is in the session {self._held.one.wire_id!r} already")
        except Absent:
            return self._take_known(wire, digest, weight)
        return super().take(wire, digest, weight)

    async def finish(self, mark: str | None) -> SessionInfo | None:
        if self.said == self._before.messages and self._fields is None:
            await self.abandon()
            return None
        return await super().finish(mark)
