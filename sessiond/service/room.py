"""One open session: its one writer, and those who listen.

Requests that change the session stand in one queue. The writer takes all that wait, plans them one after the other on a
draft, has the store make the draft durable as a whole, then tells the others and answers. What cannot share a batch
(clear, truncate, delete) runs alone in its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from sessiond.errors import Conflict, SessiondError, SessionNotFound, TooLarge
from sessiond.model.changes import Appended, Change, Extended, Finished, Updated, wire_change
from sessiond.model.session import Absent, Session
from sessiond.model.values import Json
from sessiond.service.live import Audience, Peer
from sessiond.service.planning import Draft
from sessiond.store.port import FileWarning, Store

log = logging.getLogger(__name__)
T = TypeVar("T")
Plan = Callable[[Draft], T]
_MAX_BATCH = 512
_RETRIES = 8


class _Waiting:
    __slots__ = ("alone", "answer", "origin", "plan", "started")

    def __init__(self, plan: Plan[Any] | None, alone: Callable[[], Awaitable[Any]] | None, origin: Peer | None) -> None:
        self.plan = plan
        self.alone = alone
        self.origin = origin
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.started = False


class Room:
    """`told(room, changes)` is called after each durable batch (index, counters)."""

    def __init__(
        self, wire_id: str, store: Store, session: Session, warnings: list[FileWarning], *, now: Callable[[], str], new_id: Callable[[], str],
        told: Callable[[Room, list[Change]], None], info: Callable[[Room], dict[str, Json]],
    ) -> None:  # fmt: skip
        self.wire_id = wire_id
        self.store = store
        self.session = session
        self.warnings = warnings
        self.audience = Audience(wire_id)
        self.writers: dict[str, int] = {}
        """Streamed message -> the connection that writes it."""
        self.gone = False
        self.told: Session | None = None
        """The merged session that the audience was last told to read again."""
        self.last_used = 0.0
        self.spare = False
        """Nobody has it open and there are too many such: it goes a moment after its last use."""
        self._now = now
        self._new_id = new_id
        self._told = told
        self._info = info
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._users = 0
        self._batch = _MAX_BATCH
        """How many may share a record; fewer after they were too large for one."""

    @property
    def busy(self) -> bool:
        return self._writer is not None or self._users > 0

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """It is busy meanwhile."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def change(self, plan: Plan[T], origin: Peer | None = None) -> T:
        """Queue a change; returns what `plan` answered, once it is durable."""
        return await self._enqueue(_Waiting(plan, None, origin))  # type: ignore[no-any-return]

    async def alone(self, action: Callable[[], Awaitable[T]]) -> T:
        """Run `action` in its turn, with no other change under way."""
        return await self._enqueue(_Waiting(None, action, None))  # type: ignore[no-any-return]

    async def _enqueue(self, waiting: _Waiting) -> Any:
        self._queue.append(waiting)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name=f"writer {self.wire_id}")
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            if not waiting.started:
                waiting.answer.cancel()
                raise
            # On its way to the disk: too late to take back, so the answer counts. (No shield: it costs every append a round of the loop.)
            _renew(waiting)
            return await waiting.answer

    async def _write(self) -> None:
        try:
            while self._queue:
                first = self._queue[0]
                if first.alone is not None:
                    self._queue.popleft()
                    await self._run_alone(first)
                else:
                    await self._write_batch()
        finally:
            self._writer = None

    async def _run_alone(self, waiting: _Waiting) -> None:
        if waiting.answer.cancelled() or waiting.alone is None:
            return
        if self.gone:
            _fail(waiting, self.no_more())
            return
        waiting.started = True
        try:
            result = await waiting.alone()
        except Exception as error:  # handed to the one who asked, whatever it is
            _fail(waiting, error)
        else:
            _answer(waiting, result)

    async def _write_batch(self) -> None:
        """Take what can share a batch, make it durable, tell, answer. Once more, on the new session, if somebody else
        came first.
        """
        taken = self._take_batch()
        for attempt in range(1, _RETRIES + 1):
            planned: list[tuple[_Waiting, Any, int]] = [(waiting, None, 0) for waiting in taken]
            try:
                planned, draft = await self._planned(taken)
                if not draft.changes or await self._commit(draft, last=attempt == _RETRIES):
                    return self._finish(planned, draft)
            except TooLarge as error:
                return self._put_back(planned) if len(planned) > 1 else _fail_all(planned, error)
            except SessiondError as error:
                return _fail_all(planned, error)
            except Exception as error:  # nobody may wait for ever because of a fault of ours
                log.exception("session %s: a change could not be committed", self.wire_id)
                return _fail_all(planned, error)
            taken = [waiting for waiting, _, _ in planned]
        return None

    def _take_batch(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        while self._queue and self._queue[0].alone is None and len(taken) < self._batch:
            waiting = self._queue.popleft()
            if not waiting.answer.cancelled():
                waiting.started = True
                taken.append(waiting)
        return taken

    async def _commit(self, draft: Draft, *, last: bool) -> bool:
        """Make a draft durable. False: the session was replaced meanwhile by what somebody else wrote; plan again."""
        if self.gone:
            raise self.no_more()
        try:
            await self.store.commit(self.session, draft.changes)
        except Conflict:
            if self.gone or last or not await self._refresh(draft.session):
                raise
            return False
        return True

    def _finish(self, planned: list[tuple[_Waiting, Any, int]], draft: Draft) -> None:
        self._batch = min(_MAX_BATCH, self._batch * 2)
        self._tell(planned, draft)
        for waiting, result, _ in planned:
            _answer(waiting, result)
        if draft.changes:
            self._told(self, draft.changes)

    def _put_back(self, planned: list[tuple[_Waiting, Any, int]]) -> None:
        """Too much for one record, though each may be small enough: again, by halves."""
        self._queue.extendleft(waiting for waiting, _, _ in reversed(planned))
        self._batch = len(planned) // 2

    async def _planned(self, taken: list[_Waiting]) -> tuple[list[tuple[_Waiting, Any, int]], Draft]:
        """All of `taken` on a draft. If one of them needs to know of a message that is not in memory yet, that is found out first."""
        while True:
            draft = Draft(self.session, self._now(), self._new_id)
            try:
                return self._plan(taken, draft), draft
            except Absent as absent:
                if not absent.message_ids or not await self.store.lacks(self.session, absent.message_ids):
                    await self._refresh(self.session)
            # Less those that have failed. One that was cancelled on its way counts all the same.
            taken = [waiting for waiting in taken if waiting.answer.cancelled() or not waiting.answer.done()]

    def _plan(self, taken: list[_Waiting], draft: Draft) -> list[tuple[_Waiting, Any, int]]:
        planned = []
        for waiting in taken:
            assert waiting.plan is not None
            try:
                result = waiting.plan(draft)
            except Absent:
                raise
            except Exception as error:  # handed to the one who asked
                _fail(waiting, error)
            else:
                planned.append((waiting, result, len(draft.changes)))
        return planned

    def no_more(self) -> SessionNotFound:
        return SessionNotFound(
            f"no session {self.wire_id!r} any more: it was deleted while this waited for its turn",
            hint="`sessiond list --deleted` shows what can be restored",
        )

    async def _refresh(self, stale: Session) -> bool:
        """The store has a newer session than the one that was planned on. False if not, which no retry would mend."""
        loaded = await self.store.load(self.session.local_id)
        self.session, self.warnings = loaded.session, loaded.warnings
        return self.session is not stale

    def _tell(self, planned: list[tuple[_Waiting, Any, int]], draft: Draft) -> None:
        start = 0
        for waiting, _, end in planned:
            if end > start:
                self.publish(draft.changes[start:end], waiting.origin)
            start = end

    def publish(self, changes: list[Change], origin: Peer | None) -> None:
        for change in changes:
            self._note_writer(change, origin)
        if len(self.audience) > (1 if origin is not None and origin in self.audience else 0):
            self.audience.changed(changes[-1].seq, self.wires(changes), origin)

    def wires(self, changes: list[Change]) -> list[dict[str, Json]]:
        """Changes as the wire has them."""
        wires = []
        for change in changes:
            wire = wire_change(change)
            if isinstance(change, Updated):
                wire["session"] = self._info(self)
            wires.append(wire)
        return wires

    def _note_writer(self, change: Change, origin: Peer | None) -> None:
        if isinstance(change, Finished):
            self.writers.pop(change.message_id, None)
        elif origin is None:
            return
        elif isinstance(change, Appended):
            for wire in change.messages:
                if wire.get("status") == "streaming":
                    self.writers[wire["id"]] = origin.id
        elif isinstance(change, Extended):
            self.writers[change.message_id] = origin.id

    def streams_of(self, peer: Peer) -> list[str]:
        return [message_id for message_id, writer in self.writers.items() if writer == peer.id]


def _renew(waiting: _Waiting) -> None:
    """Have an answer that can be given. Whoever comes first does this: the one who was cancelled may learn of that only after the
    answer is there.
    """
    if waiting.answer.cancelled():
        waiting.answer = asyncio.get_running_loop().create_future()


def _answer(waiting: _Waiting, result: Any) -> None:
    _renew(waiting)
    if not waiting.answer.done():
        waiting.answer.set_result(result)


def _fail(waiting: _Waiting, error: Exception) -> None:
    _renew(waiting)
    if not waiting.answer.done():
        waiting.answer.set_exception(error)
        waiting.answer.exception()  # whoever waits sees it; if nobody does any more, it is no news


def _fail_all(planned: list[tuple[_Waiting, Any, int]], error: Exception) -> None:
    for waiting, _, _ in planned:
        _fail(waiting, error)
