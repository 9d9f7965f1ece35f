"""A session that was imported before, and whose source was read again.

New messages at its end are appended through its queue, like those of any client, so clients that have it open see it grow. If the
source has completed, inserted or dropped messages since, the session is written again from the first of them on: one record of
the journal takes the old end away and appends the new one, so a crash leaves the session as it was or as it is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable

from sessiond.errors import TooLarge
from sessiond.fs import FOLLOWING, IMPORTING
from sessiond.importers.record import SessionStart, digest_of
from sessiond.importers.source_file import mapped
from sessiond.model.changes import Appended, Change, Truncated
from sessiond.model.message import Message
from sessiond.model.session import Absent, Session, in_order
from sessiond.model.values import Json, WireObject
from sessiond.schema.types import SessionInfo
from sessiond.service.imported_session import (
    GONE,
    PART_BYTES,
    PART_MESSAGES,
    SAID_FIELDS,
    ImportedSession,
    ImportTarget,
    PinnedSession,
    SkippedSession,
    SourceKnowledge,
    fields_said,
    remember_mark,
)
from sessiond.service.later_form import Later, compare, earlier_form, earlier_id, shortened
from sessiond.service.planning import Draft
from sessiond.service.source_merge import (
    is_marked,
    learned,
    marked,
    merged_order,
    replaced,
    said,
    supersedes,
    unmarked,
)

log = logging.getLogger(__name__)
_SMALL_METADATA = 4096


class Grown(ImportedSession):
    """`held`: the session as it exists here. Messages that were removed here come back, unless it is `followed`."""

    def __init__(
        self,
        place: ImportTarget,
        start: SessionStart,
        held: PinnedSession,
        known: SourceKnowledge,
        *,
        followed: bool = False,
    ) -> None:
        super().__init__(place, start, known, followed=followed)
        self._held = held
        self._order: list[str] = []
        """Ids as the source has them."""
        self._new: dict[str, WireObject] = {}
        """Messages that are not here yet."""
        self._later: dict[str, WireObject] = {}
        """Later forms of messages that are here."""
        self._earlier: dict[str, WireObject] = {}
        """By the ids of such messages: what they were, if that has words that the later form lacks."""
        self._revised = False
        self._passed, self._passed_order = 0, 0
        """How many absent messages the source said first, unchanged and in which order: if these are all, they stay as they are."""

    def take(self, wire: WireObject, digest: bytes, weight: int) -> Awaitable[None] | None:
        message_id = wire["id"]
        known = digest_of(message_id) in self.said
        try:
            ours = None if known else self._held.session.message(message_id)
        except Absent:
            if not self._passes(message_id, digest):
                return self._take_known(wire, digest, weight)
            super().take(wire, digest, weight)
            return None
        super().take(wire, digest, weight)
        if known:
            return None
        before = self._before.of(message_id)
        if ours is None and self._followed and self._known.lost(message_id):
            return None  # a person removed it here
        self._order.append(message_id)
        if ours is None:
            self._new[message_id] = wire
            self.added += 1
            self.weight += weight
            if self.weight > PART_BYTES or len(self._new) >= PART_MESSAGES:
                return self._append()
        elif self._before.settled(message_id, digest) and not is_marked(ours.rest):
            pass
        elif supersedes(wire, digest, self._said(ours), before):
            self._take_later(wire, self._said(ours))
        return None

    def _passes(self, message_id: str, digest: bytes) -> bool:
        """Pass over a message that is absent here, if the source says it as before, and only such ones before it."""
        unchanged = self._held.session.is_checked and self._before.settled(message_id, digest)
        if not unchanged or len(self._order) > self._passed:
            return False
        self._order.append(message_id)
        self._passed, self._passed_order = self._passed + 1, in_order(self._passed_order, message_id)
        return True

    async def _take_known(self, wire: WireObject, digest: bytes, weight: int) -> None:
        await self._held.one.look(lambda session: session.message(wire["id"]))
        going_on = self.take(wire, digest, weight)
        if going_on is not None:
            await going_on

    def _take_later(self, wire: WireObject, ours: WireObject) -> None:
        plain = unmarked(ours)
        match compare(wire, plain):
            case Later.ALL:
                self._later[wire["id"]] = wire
            case Later.LESS:
                if ours != (less := shortened(plain)):
                    self._later[wire["id"]] = less
            case Later.OTHER:
                self._later[wire["id"]] = wire
                self._earlier[wire["id"]] = earlier_form(plain)

    async def finish(self, mark: str | None) -> SessionInfo | None:
        try:
            try:
                must_revise = self._must_revise(self._held.session)
            except Absent:
                await self._held.one.look(lambda _: None, whole=True)
                must_revise = self._must_revise(self._held.session)
            if must_revise:
                await self.announce()
                await self._revise()
            await self._append()
            await self._learn(mark)
            if self.added or self._revised:
                await self._save()
            await self.remember()
            return self.place.open_sessions.info(self._held.one) if self.added or self._revised else None
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        self._held.let_go()

    async def _save(self) -> None:
        await self.place.save(self._held.one)

    # Messages

    def _from(self, session: Session) -> int:
        """Return where the messages begin that the source may have changed: their position in the session. Absent if that is not
        known.
        """
        if session.absent and not session.lacks_just(self._passed, self._passed_order):
            raise Absent
        return session.absent

    async def _append(self) -> None:
        messages, self._new, self.weight = list(self._new.values()), {}, 0
        if messages:
            await self.announce()
            await self._held.one.change(lambda draft: draft.append(messages, None))

    def _must_revise(self, session: Session) -> bool:
        here = session.messages(start := self._from(session))
        position, _ = self._wanted(here, start)
        return position < len(here)

    async def _revise(self) -> None:
        """Write the session again from the first message that differs, in a turn of its own."""
        try:
            await self._held.one.alone(self._write_again)
        except TooLarge as error:
            # Nothing is lost: existing messages stay, and new ones are appended at the end. The next reading tries again.
            for message_id in self._later:
                self.said.pop(digest_of(message_id), None)
            log.info("%s does not follow its source in everything: %s", self._held.one.wire_id, error.message)

    async def _write_again(self) -> None:
        session = await self._held.one.need(whole=True)
        start = self._from(session)
        here = session.messages(start)
        position, wires = self._wanted(here, start)
        if position == len(here):
            return  # another import of the same source was quicker
        seq = session.seq + 1
        before = session.messages(start + position - 1, start + position)
        after = before[0].seq if before else 0
        changes: list[Change] = [Truncated(seq=seq, at=session.updated_at, after_seq=after)]
        messages = [{**wire, "seq": seq + nth} for nth, wire in enumerate(wires, 1)]
        if messages:
            changes.append(Appended(seq=seq + len(messages), at=session.updated_at, messages=messages))
        await self._held.one.cut(changes, None, None)
        self._new, self.weight, self._revised = {}, 0, True

    def _wanted(self, here: list[Message], start: int) -> tuple[int, list[WireObject]]:
        """Return how many of the session's messages remain as they are, and what follows them. `start`: the position of the first
        of them.
        """
        ids = [message.id for message in here]
        order = merged_order(ids, self._said_from(start))
        lost, marks = self._lost(here)
        if lost or marks:
            words = {one.id: self._said(one) for one in here if one.id in lost or one.id in marks}
            source = set(self._said_from(start))
            kept: dict[str, Json] = {one.id: one.role for one in here if one.id in source}
            earlier = replaced(
                order, {one: words[one] for one in lost}, {one: words[one] for one in marks}, self._new, kept
            )
            order = [one for one in order if one not in earlier]
        order = self._with_earlier_forms(order)
        position = 0
        for ours, wanted in zip(ids, order, strict=False):
            if ours != wanted or ours in self._later or ours in lost:
                break
            position += 1
        there = {message.id: message for message in here[position:]}
        forms = {wire["id"]: wire for wire in self._earlier.values()}
        wires: list[WireObject] = []
        for one in order[position:]:
            wire = self._later.get(one) or self._new.get(one) or forms.get(one)
            if wire is None and one in there:
                wire = self._said(there[one])
            if wire is not None:  # otherwise it was removed here in the meantime
                wires.append(marked(wire) if one in lost else wire)
        return position, wires

    def _said_from(self, start: int) -> list[str]:
        """Return the ids that the source has for messages at this position of the session and behind it."""
        return self._order[start:]

    def _with_earlier_forms(self, order: list[str]) -> list[str]:
        """`order` with each earlier form before its later one, and without those that are what the message says again."""
        again = {earlier_id(wire) for wire in self._later.values()}
        forms = {wire["id"] for wire in self._earlier.values()}
        found: list[str] = []
        for one in order:
            if one in self._earlier:
                found.append(self._earlier[one]["id"])
            if one not in again and one not in forms:
                found.append(one)
        return found

    def _said(self, message: Message) -> WireObject:
        return said(message, signed=self.place.store.shared)

    def _lost(self, here: list[Message]) -> tuple[set[str], set[str]]:
        """Messages that the source had when it was last read, and no longer has; if it has new ones, also those that it had before
        that, and that are marked.
        """
        if not self.ended:
            return set(), set()
        gone = self._before.known() - self.said.keys()
        if not gone:
            return set(), set()
        ids = {one.id: is_marked(one.rest) for one in here if digest_of(one.id) in gone}
        lost = {one for one, marked in ids.items() if not marked}
        return lost, ids.keys() - lost if self._new else set()

    # Its fields

    async def _learn(self, mark: str | None) -> None:
        """Take over the fields that the source gives the session, except those that were changed here."""
        session = self._held.session
        ours: WireObject = {key: getattr(session, key) for key in SAID_FIELDS if getattr(session, key) is not None}
        for key in ("tags", "archived"):  # nobody changed here what is empty and never came from the source
            if not ours[key] and not self._before.field(key):
                del ours[key]
        theirs = {key: self.info.get(key) for key in SAID_FIELDS}
        fields = {key: value for key, value in learned(ours, theirs, self._before).items() if value is not None}
        here = mapped(session.metadata.get("source"))
        back = (bool(here.get(GONE)) and here.get("path") == self.path) or await self._has_moved(here)
        metadata = self._metadata(session, mark if self.added or self._revised else None, back=back)
        if metadata is not None:
            fields["metadata"] = metadata
        if not fields and self.latest <= session.updated_at:
            return
        await self.announce()
        self._revised = self._revised or bool(fields)

        def plan(draft: Draft) -> None:
            # Information that arrives late does not make a session newer than its last message.
            draft.learn(fields, max(draft.session.updated_at, self.latest))

        await self._held.one.change(plan)

    async def _has_moved(self, here: WireObject) -> bool:
        """Return whether the session's `metadata.source` names a path that its source has left."""
        path = here.get("path")
        if not isinstance(path, str) or path == self.path:
            return False
        if self.place.store.shared:  # it may still be there on another machine
            return False
        threads = FOLLOWING if self._followed else IMPORTING
        return path == self._known.moved_from or not await threads.call(os.path.lexists, path)

    def _metadata(self, session: Session, mark: str | None, *, back: bool) -> WireObject | None:
        """`back`: the source has been away, and is at this path now."""
        theirs = {key: value for key, value in self.info.get("metadata", {}).items() if key != "source"}
        fresh = learned(session.metadata, theirs, self._before, "metadata.")
        # The line that records a mark repeats all metadata: not worth it if there is much.
        if mark is not None and (fresh or len(repr(session.metadata)) < _SMALL_METADATA):
            source = {**self.info.get("metadata", {}).get("source", {}), **mapped(session.metadata.get("source"))}
            holder: WireObject = {"metadata": {"source": source}}
            remember_mark(holder, mark)
            fresh["source"] = holder["metadata"]["source"]
        if back:
            source = mapped(fresh.get("source", session.metadata.get("source")))
            fresh["source"] = {key: value for key, value in source.items() if key != GONE} | {"path": self.path}
        if not fresh:
            return None
        merged = {**session.metadata, **fresh}
        keys = [*self.info.get("metadata", {}), *merged]  # as one import of the whole has them
        return {key: merged[key] for key in keys if merged.get(key) is not None}


class FollowedSession(ImportedSession):
    """A session whose source is followed: the session is read from its own file only if the source says something new. A
    database holds all the sessions of a tool, and usually only one of them has changed.
    """

    def __init__(self, place: ImportTarget, start: SessionStart, known: SourceKnowledge) -> None:
        super().__init__(place, start, known, followed=True)
        self._start = start
        self._waiting: list[tuple[WireObject, bytes, int]] = []
        """What it has taken while nothing in it was new."""
        self._inner: ImportedSession | None = None

    def take(self, wire: WireObject, digest: bytes, weight: int) -> Awaitable[None] | None:
        if self._inner is not None:
            return self._pass_on(self._inner, [(wire, digest, weight)])
        super().take(wire, digest, weight)
        self._waiting.append((wire, digest, weight))
        self.weight += weight
        if self._before.settled(wire["id"], digest) and self.weight <= PART_BYTES:
            return None
        return self._open()

    async def _pass_on(self, inner: ImportedSession, taken: list[tuple[WireObject, bytes, int]]) -> None:
        for wire, digest, weight in taken:
            going_on = inner.take(wire, digest, weight)
            if going_on is not None:
                await going_on
        self.added, self.weight = inner.added, inner.weight

    async def _open(self) -> None:
        held = await self.place.held(self.local_id, whole=False)
        self._inner = SkippedSession(self.place, self._start)
        if held is not None:  # otherwise it was deleted in the meantime
            self._inner = Grown(self.place, self._start, held, self._known, followed=True)
        waiting, self._waiting = self._waiting, []
        await self._pass_on(self._inner, waiting)

    async def finish(self, mark: str | None) -> SessionInfo | None:
        same = (self.said, fields_said(self.info)) == (self._before.messages, self._before.fields)
        if self._inner is None and (same or not self.ended):
            return None
        if self._inner is None:
            await self._open()
        assert self._inner is not None
        self._inner.info, self._inner.ended = self.info, self.ended
        described = await self._inner.finish(mark)
        self.added = self._inner.added
        return described

    async def abandon(self) -> None:
        if self._inner is not None:
            await self._inner.abandon()
