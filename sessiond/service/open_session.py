"""One open session: the sole owner of a session, from the moment a request names it until it is released.

Theory of operation
-------------------
Every request to a session puts a job into the queue of its `OpenSession`, in the turn of the loop in which the request was
read off the wire. The queue exists before the session is loaded. One runner takes the jobs in order. There are four kinds:

    change   plans on a draft. All adjacent changes share one record of the journal. They are applied, published and
             answered only when that record is durable.
    look     a function of the session in memory. It does not wait for anything.
    save     takes a snapshot, and writes it while the queue continues.
    alone    a coroutine, with no other job and no work on the files under way (clear, delete, restore, merge, ...).

    unread ──the first job that needs it──> loaded <──> loaded, with the oldest messages absent
       ^                                      │
       └── deleted, moved, vanished, released ┘

Loading is part of the first job that needs the session. If it fails, that job and those behind it in the queue fail; jobs
that arrive meanwhile try again. So `append, restore, append` to a session in the trash fails, works, works.

Next to the queue there is one lane for the files; only its holder reads or writes them. A save takes its place there in its
turn; looks for outside edits and backups have no place in the queue; so appends continue meanwhile. A job that runs alone
takes the lane as well. A holder of the lane must not wait for the queue: a save that meets an outside edit releases the
lane, queues the merge, and begins again.

What must never happen:
- a change is told to anyone before it is durable, or a refusal names a seq of a draft that was given up;
- a job that has begun is cancelled: a caller that cancels it then still gets its answer;
- a session has two owners: code that keeps one across an await uses `in_use`, and one that is not in use, idle and saved
  leaves the registry in a single turn of the loop;
- an await between "durable" and "applied", or between "the session is gone" and "everyone was told".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Protocol, TypeVar

from sessiond.errors import BadFile, SessiondError, SessionNotFound, TooLarge, Unavailable
from sessiond.formats.names import id_in_trash
from sessiond.limits import HUB_GATHER_CHARS, HUB_GATHER_S, Limits
from sessiond.model.changes import Appended, Change, Extended, Finished, Updated, wire_change
from sessiond.model.session import Absent, Session
from sessiond.model.values import join_wire_id, without_records
from sessiond.schema.types import SessionInfo, ShownChange
from sessiond.service.actor import told
from sessiond.service.jobs import Job, on_durable, stream_together
from sessiond.service.planning import Draft
from sessiond.service.session_files import SessionFiles
from sessiond.service.size_limits import SizeLimits
from sessiond.service.subscribers import Peer, Subscribers
from sessiond.store.port import OutsideChange, SavedSession, Store, Stored

log = logging.getLogger(__name__)
T = TypeVar("T")
_MAX_BATCH = 512
_MOST_UNANSWERED = 100
_OVERTAKEN = 64
"""How many plans in a row others may overtake before the caller is told."""


class Neighbours(Protocol):
    """The things that an open session needs from its surroundings, and what it tells them."""

    limits: Limits

    def now(self) -> str: ...
    def new_id(self) -> str: ...
    def info(self, one: OpenSession) -> SessionInfo: ...
    def loaded(self, one: OpenSession) -> None: ...
    def changed(self, one: OpenSession, changes: list[Change]) -> None: ...
    def saved(self, one: OpenSession, saved: SavedSession) -> None: ...
    def gone(self, one: OpenSession) -> None: ...
    def attached(self, one: OpenSession, peer: Peer) -> None: ...
    def detached(self, one: OpenSession, peer: Peer) -> None: ...
    def note_dirty(self, one: OpenSession) -> None:
        """Its file is behind, or no longer behind."""

    def replaced(self, one: OpenSession, *, begun: bool = False) -> None:
        """Its session is another object now: everything known about it must be read again. `begun`: it was not there before."""

    def edited(self, one: OpenSession, old: Session, now: Session | None) -> None:
        """Another program changed or (None) removed its file, or more of it was read."""

    def gathers(self, one: OpenSession) -> None:
        """Text was acknowledged that is not a part of its session yet."""

    def idle(self, one: OpenSession) -> None:
        """The runner has nothing left to do."""

    def drop(self, old: Session) -> None:
        """Release a session's memory off the loop: freeing 100,000 messages takes as long as reading them."""


class OpenSession(SessionFiles):
    """`around`: what it needs from outside, and tells of its changes."""

    def __init__(self, wire_id: str, store: Store, stored: Stored, around: Neighbours) -> None:
        super().__init__(wire_id, store, stored)
        self.audience = Subscribers(wire_id)
        self.writers: dict[str, Peer] = {}
        """Streamed message -> the connection that writes it, whether it has the session open or not."""
        self.last_used = 0.0
        self.retry_at = 0.0
        self.spare = False
        """No client has it open and there are too many such sessions: it is released a moment after its last use."""
        self._around = around
        self.room = SizeLimits(around.limits)
        self._batch = _MAX_BATCH
        """How many changes may share a record; fewer after they were too large for one."""
        self._overtaken = 0
        """How many plans in a row others have overtaken."""
        self._streamer: Peer | None = None
        """Whose text is gathered."""
        self._share_timer: asyncio.TimerHandle | None = None

    @property
    def attended(self) -> bool:
        """A client has it open, or is streaming into it."""
        return len(self.audience) > 0 or bool(self.writers)

    def _idle(self) -> None:
        self._around.idle(self)

    # Loading. The methods from here to `merge` hold the lane, and no commit is under way.

    async def need(self, *, whole: bool = False) -> Session:
        """The session, loaded if need be. SessionNotFound, BadFile, Unavailable."""
        if self.session is None:
            session = self._own(await self.stored.read(whole=whole))
            self._around.loaded(self)
            if self.stored.fetched:
                self._around.replaced(self)
            await self.interrupt(await self.stored.orphans(session))
        if whole and self.there.absent:
            await self._complete()
        return self.there

    def _own(self, session: Session) -> Session:
        session.retain(self._around.limits.retained_changes)
        self.session = session
        return session

    async def _check(self) -> bool:
        return await self.stored.check(self.there)

    async def _complete(self) -> None:
        session = self.there
        if session.absent:
            complete = await self.stored.read_rest(session)
            self._became(session, await complete())

    async def interrupt(self, message_ids: list[str]) -> None:
        """Finish streamed messages that nobody writes: who did was gone before the session was loaded, or before it came back."""
        if not message_ids:
            return
        draft = Draft(self.there, self._around.now(), self._around.new_id, self.room)
        for message_id in message_ids:
            draft.finish(message_id, "interrupted", None, None)
        try:
            await self.stored.commit(self.there, draft.changes)
        except SessiondError as error:
            log.info("session %s: streamed messages remain open: %s", self.wire_id, error.message)
        else:
            self._around.changed(self, draft.changes)

    async def merge(self) -> None:
        """Take in what another program wrote or removed."""
        session = self.session
        if session is not None:
            now: Session | None = session
            try:
                now = await self.stored.merge(session)
            finally:  # what a merge that failed later has applied is told before any later change
                told = self.stored.told()
                if told and now is session:
                    self.publish(told, None)
                    self._around.changed(self, told)
            self._became(session, now)

    async def compare(self) -> None:
        """Load it, or see whether another program wrote it meanwhile. SessionNotFound if it turns out to be gone."""
        if self.session is None:
            await self.need()
        elif await self.stored.changed():
            await self.merge()
        else:
            self._around.note_dirty(self)  # what is stored next to the file may have to be rewritten
        if self.session is None:
            await self.need()

    async def notice_removal(self) -> None:
        """Call this before its id is reused: if its file was removed, what we have of it goes into the trash, and so do
        changes that only the journal has since the last start.
        """
        with contextlib.suppress(
            BadFile, SessionNotFound
        ):  # either something else is in its place, so the id is not free; or it is free now
            if self.session is None and self.dirty:
                await self.need()
            elif self.session is not None and await self.stored.changed():
                await self.merge()

    def _became(self, old: Session, now: Session | None) -> None:
        moved_to = self.stored.moved_to if now is None else None
        if moved_to is not None:
            self.vanished(join_wire_id(self.store.name, moved_to))
            return
        self._around.edited(self, old, now)
        if now is None:
            self.vanished()
        elif now is not old:
            self._own(now)
            self.writers = {key: peer for key, peer in self.writers.items() if now.message(key) is not None}
            self._around.replaced(self)
            self.audience.reloaded(self._around.info(self), "synced" if self.store.shared else "externalEdit")
            self._around.drop(old)
        else:
            self._around.note_dirty(self)

    def vanished(self, moved_to: str | None = None) -> None:
        """The session is gone, or has another id: everyone is told, and it is not open for anyone."""
        old, self.session = self.session, None
        for peer in (*self.audience.end(moved_to), *self.writers.values()):
            self._around.detached(self, peer)
        self.writers.clear()
        self._around.gone(self)
        if old is not None:
            self._around.drop(old)

    def begun(self, session: Session) -> None:
        """It is new, and durable."""
        self._own(session)
        self._around.loaded(self)

    def became_there(self, session: Session, *, begun: bool) -> None:
        """It was created or moved here as a whole (`begun`), or restored."""
        self._own(session)
        self._around.loaded(self)
        self._around.replaced(self, begun=begun)

    async def cut(self, changes: list[Change], reason: str | None, origin: Peer | None) -> None:
        """Make changes that remove messages. The trash has them first, unless (`reason` None) the changes bring them back."""
        session = self.there
        if reason is not None:
            await self.stored.discard(session, id_in_trash(session.local_id, session.seq), reason)
        after = self._own(await self.stored.cut(session, changes))
        self.writers = {key: writer for key, writer in self.writers.items() if after.message(key) is not None}
        self.publish(changes, origin)
        self._around.changed(self, changes)
        self._around.drop(session)

    async def settled(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run `action`, for a job that runs alone, until nobody else was first."""
        for _ in range(_OVERTAKEN):
            try:
                return await action()
            except OutsideChange:
                await self.merge()
        raise Unavailable(f"{self.wire_id} is constantly being changed elsewhere", hint="try again")

    # Changes

    async def _write_changes(self, session: Session) -> None:
        """Take the changes that can share a record, make them durable, publish and answer."""
        taken = self._taken()
        try:
            draft = await self._draft(taken, session)
            if draft is None:
                return
            changes = draft.changes
            if changes and self._may_gather(taken):
                await self._gather(changes, taken[0].origin)
                changes = []
            elif changes:
                early = on_durable(taken, self._queue, self.audience) if self._goes_on_at_once else None
                await self.stored.commit(session, changes, early, agreed=draft.agreed)
        except TooLarge as error:
            self._divide(taken, error)
        except OutsideChange:
            await self._plan_again(taken)
        except Exception as error:
            self._refuse(taken, told(error, self.wire_id))
        except BaseException:
            for job in taken:
                job.abandoned()
            raise
        else:
            try:
                self._finish(taken, changes)
            except Exception as error:  # the change is durable; callers without an answer get the error
                reason = told(error, self.wire_id)
                for job in taken:
                    job.failed(reason.again())

    async def _draft(self, taken: list[Job], session: Session) -> Draft | None:
        """A plan for all of `taken`. None: they were put back."""
        draft = self._planned(taken, session)
        while draft is None:
            await self._find_out(taken, session)
            if self.session is not session:
                self._put_back(taken)
                return None
            draft = self._planned(taken, session)
        if draft.agreed and len(taken) > 1 and self.store.shared:
            # One of them depends on the session's seq. If it is refused, the others are not.
            self._put_back(taken)
            self._batch = 1
            return None
        if draft.agreed:
            await self.stored.agree()
        return draft

    def _taken(self) -> list[Job]:
        taken: list[Job] = []
        queue = self._queue
        while queue and queue[0].plan is not None and len(taken) < self._batch:
            if queue[0].apart and taken:
                break
            if self.stored.gathers and taken and not stream_together(taken[-1], queue[0]):
                break
            job = queue.popleft()
            if not job.answer.cancelled():
                job.begun = True
                taken.append(job)
                if job.then is not None:
                    break
        return taken

    def _planned(self, taken: list[Job], session: Session) -> Draft | None:
        """Plan all of `taken` on a draft. None if one of them needs an absent message."""
        shared, gathered = self.store.shared, self.stored.gathered
        draft = Draft(session, self._around.now(), self._around.new_id, self.room, shared=shared)
        if gathered is not None:
            draft.origin = taken[0].origin
            draft.extend(gathered.message_id, gathered.text, gathered.offset)
        for job in taken:
            job.error = None
            draft.origin = job.origin
            try:
                job.result = job.plan(draft) if job.plan is not None else None
            except Absent as absent:
                job.error = absent
                return None
            except Exception as error:  # raised for the caller
                job.error = error
            job.end = len(draft.changes)
        return draft

    async def _find_out(self, taken: list[Job], session: Session) -> None:
        """Find out whether the session has the absent messages that a plan asked for."""
        absent = next(job.error for job in taken if isinstance(job.error, Absent))
        async with self.files:
            if absent.message_ids and (await self.stored.lacks(session, absent.message_ids) or await self._check()):
                return
            await self._complete()

    def _divide(self, taken: list[Job], error: TooLarge) -> None:
        """Too large for one record, though each may be small enough: try again with half of them."""
        if len(taken) > 1:
            self._put_back(taken)
            self._batch = len(taken) // 2
        else:
            taken[0].failed(error)

    async def _plan_again(self, taken: list[Job]) -> None:
        """Others were first: take in what they did, and plan on top of it."""
        self._overtaken += 1
        try:
            if self._overtaken > _OVERTAKEN:
                raise Unavailable(f"{self.wire_id} is constantly being changed elsewhere", hint="try again")
            async with self.files:
                await self.merge()
        except Exception as error:
            self._overtaken = 0
            reason = told(error, self.wire_id)
            for job in taken:
                job.failed(reason.again())
        else:
            self._put_back(taken)

    def _refuse(self, taken: list[Job], error: SessiondError) -> None:
        """The record is not durable. Jobs that added nothing to it are planned again: their answers named a dropped draft."""
        before = 0
        again: list[Job] = []
        for job in taken:
            if job.end > before or isinstance(job.error, Absent):
                job.failed(error.again())
            else:
                again.append(job)
            before = job.end
        self._put_back(again)

    def _put_back(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.put_back()
        self._queue.extendleft(reversed(jobs))

    def _finish(self, taken: list[Job], changes: list[Change]) -> None:
        """`changes`: what the session has got by them."""
        self._batch = min(_MAX_BATCH, self._batch * 2)
        self._overtaken = 0
        if changes:
            self._around.changed(self, changes)
        start = 0
        for job in taken:
            if job.end > start and changes:
                self.publish(changes[start : job.end], job.origin)
                start = job.end
        for job in taken:
            if job.error is not None:
                job.failed(job.error)
            else:
                job.done(job.result if job.then is None else job.then())

    # Text that streams in

    @property
    def gathering(self) -> bool:
        return self.stored.gathered is not None

    def _joins(self, job: Job) -> bool:
        gathered = self.stored.gathered
        return gathered is not None and job.streams == gathered.message_id and job.origin is self._streamer

    def _may_gather(self, taken: list[Job]) -> bool:
        """Not if somebody waits for what comes after it anyway."""
        if taken[0].streams is None or not self.stored.gathers:
            return False
        return self.gathering or not self._queue

    async def _gather(self, changes: list[Change], origin: Peer | None) -> None:
        [change] = changes
        assert isinstance(change, Extended)
        if change.text != getattr(self.stored.gathered, "text", None):
            await self.stored.gather(change)
        self._streamer = origin
        self._around.gathers(self)
        self._note_writer(change, origin)
        if self._share_timer is None:
            self._share_timer = asyncio.get_running_loop().call_later(HUB_GATHER_S, self._share_soon)
        if len(change.text) > HUB_GATHER_CHARS:
            await self._share()

    def _share_soon(self) -> None:
        """Any job that adds no text does it."""
        if self.gathering:
            self._put(Job(look=lambda _: None))

    async def _share(self) -> None:
        session = self.there
        for attempt in range(_OVERTAKEN + 1):
            try:
                change = await self.stored.share(session, later=attempt == _OVERTAKEN)
                break
            except OutsideChange:
                async with self.files:
                    await self.merge()
                if self.session is None or not self.gathering:
                    return  # it is in the trash, or with what waits
                session = self.session
        if self._share_timer is not None:
            self._share_timer.cancel()
        origin, self._streamer, self._share_timer = self._streamer, None, None
        self._around.changed(self, [change])
        self.publish([change], origin)

    # What its files report

    def _was_saved(self, saved: SavedSession) -> None:
        self.audience.saved(saved)
        self._around.saved(self, saved)

    def _compared(self) -> None:
        self._around.note_dirty(self)

    # Who has it open

    def attach(self, peer: Peer, *, answers: bool = False) -> None:
        """The peer hears of every later change. `answers`: and is asked for what one that left was asked for."""
        self.audience.attach(peer, self.there.seq, answers=answers)
        if answers:
            self.audience.ask_again(self._unanswered())
        self._around.attached(self, peer)

    def _unanswered(self) -> list[str]:
        """Ids of what users said at its end."""
        try:
            newest = self.there.messages(max(0, len(self.there) - _MOST_UNANSWERED))
        except Absent:  # it is longer than what was read of it so far
            return []
        return [one.id for one in takewhile(lambda one: one.role == "user", reversed(newest))][::-1]

    def detach(self, peer: Peer) -> bool:
        was = self.audience.detach(peer)
        self._around.detached(self, peer)
        return was

    async def leave(self, peer: Peer) -> None:
        """The peer closes the session, and its streamed messages are interrupted. SessionNotFound, BadFile, ReadOnly, ..."""

        def plan(draft: Draft) -> None:
            self.detach(peer)
            for message_id in [one for one, writer in self.writers.items() if writer is peer]:
                with contextlib.suppress(SessiondError):  # it was finished or removed meanwhile
                    draft.finish(message_id, "interrupted", None, None)

        await self._put(Job(plan=plan, origin=peer, apart=True)).outcome()

    # Telling

    def publish(self, changes: list[Change], origin: Peer | None) -> None:
        for change in changes:
            self._note_writer(change, origin)
        if self.audience.beside(origin):
            self.audience.changed(changes[-1].seq, self.wires(changes), origin)

    def wires(self, changes: list[Change]) -> list[ShownChange]:
        """Changes as the wire has them."""
        wires = []
        for change in changes:
            wire = wire_change(change)
            if isinstance(change, Updated):
                wire["session"] = self._around.info(self)
                metadata = change.fields.get("metadata")
                if isinstance(metadata, dict):
                    wire["fields"] = {**change.fields, "metadata": without_records(metadata)}
            wires.append(wire)
        return wires

    def _note_writer(self, change: Change, origin: Peer | None) -> None:
        if isinstance(change, Finished):
            writer = self.writers.pop(change.message_id, None)
            if writer is not None and writer not in self.audience and writer not in self.writers.values():
                self._around.detached(self, writer)
        elif origin is None:
            return
        elif isinstance(change, Appended):
            for wire in change.messages:
                if wire.get("status") == "streaming":
                    self._written_by(wire["id"], origin)
        elif isinstance(change, Extended):
            self._written_by(change.message_id, origin)

    def _written_by(self, message_id: str, peer: Peer) -> None:
        self.writers[message_id] = peer
        self._around.attached(self, peer)
