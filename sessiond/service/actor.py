"""The queue of one session, and the one runner that takes jobs from it. `OpenSession` says what the jobs do to the session."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, cast

from sessiond.eager import EagerTask, spawn
from sessiond.errors import SessiondError
from sessiond.model.session import Absent, Session
from sessiond.service.jobs import Guard, Job, Lane, SessionTurn
from sessiond.service.planning import Draft
from sessiond.service.subscribers import EarlyReply, Peer

log = logging.getLogger(__name__)
T = TypeVar("T")


class Actor(ABC):
    """`session`: None until it is loaded, and after it is gone."""

    def __init__(self, wire_id: str) -> None:
        self.wire_id = wire_id
        self.session: Session | None = None
        self.files = Lane()
        """Held while the session's files are read or written."""
        self.ended = False
        """It has left the registry: another owner may have the session now."""
        self._queue: deque[Job] = deque()
        self._runner: EagerTask | None = None
        self._users = 0

    # What the owner adds. `need` and `_complete` run with the lane held; no commit is under way during any of them.

    @abstractmethod
    async def need(self, *, whole: bool = False) -> Session:
        """The session, loaded if need be. SessionNotFound, BadFile, Unavailable."""

    @abstractmethod
    async def _check(self) -> bool:
        """Have all of a large file checked without keeping it. False if that cannot be, or was done before."""

    @abstractmethod
    async def _complete(self) -> None:
        """Have all messages in memory."""

    @abstractmethod
    async def _write_changes(self, session: Session) -> None:
        """Take the changes at the front of the queue that can share a record, and carry them out."""

    @abstractmethod
    async def _begin_save(self, job: Job, session: Session) -> None: ...

    @property
    @abstractmethod
    def gathering(self) -> bool:
        """Text was acknowledged and is not a part of the session yet: `_share` comes before anything that may notice."""

    @abstractmethod
    def _joins(self, job: Job) -> bool:
        """Return whether a job only adds to that text."""

    @abstractmethod
    async def _share(self) -> None:
        """Make that text a part of the session."""

    @abstractmethod
    def _idle(self) -> None:
        """Nothing is left to do."""

    @property
    def busy(self) -> bool:
        return self._runner is not None or self._users > 0 or self.files.locked() or self.gathering

    @property
    def is_used(self) -> bool:
        """Somebody keeps it across an await, and may rely on what it has in memory."""
        return self._users > 0

    @property
    def _goes_on_at_once(self) -> bool:
        """True if the runner continues as soon as what it awaits is settled. After a load it is a task, which continues one
        round of the loop later: other code may have looked by then.
        """
        return self._runner is not None and self._runner.is_eager

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """It counts as busy meanwhile, and remains the owner of its session."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self.busy:
                self._idle()

    # The queue

    def change(
        self,
        plan: Callable[[Draft], T],
        origin: Peer | None = None,
        early: EarlyReply | None = None,
        streams: str | None = None,
    ) -> Awaitable[T]:
        """Queue a change; returns the result of `plan` once the change is durable. `plan` may be called more than once.
        `early` may get the result of `plan` before this returns. `streams`: as in `Job`.
        """
        return cast("Awaitable[T]", self._put(Job(plan=plan, origin=origin, early=early, streams=streams)).outcome())

    def change_and_look(
        self, plan: Callable[[Draft], object], look: Callable[[], T], origin: Peer | None = None
    ) -> Awaitable[T]:
        """Like `change`, but returns what `look` returns right after the change."""
        return cast("Awaitable[T]", self._put(Job(plan=plan, origin=origin, then=look)).outcome())

    async def look(self, look: Callable[[Session], T], *, whole: bool = False) -> T:
        """The result of `look(session)`, called in its turn. `whole`: with all messages in memory."""
        session = self.session
        if self._runner is None and session is not None and not (whole and session.absent) and not self.gathering:
            try:
                return look(session)
            except Absent:
                pass
        return cast("T", await self._put(Job(look=look, whole=whole)).outcome())

    def turn(self) -> SessionTurn:
        """A place in the queue, for callers that need the turns of two sessions at once: taken now, held by `async with`."""
        turn = SessionTurn()
        self._put(Job(alone=turn.hold))
        return turn

    def alone(self, action: Callable[[], Awaitable[T]], guard: Guard | None = None) -> Awaitable[T]:
        """Run `action` in its turn, while no other job and no work on the files is under way. It runs to its end even if the
        caller is cancelled. `guard` is entered before it, while the files may still be read and written.
        """
        return cast("Awaitable[T]", self._put(Job(alone=action, guard=guard)).outcome())

    def _put(self, job: Job) -> Job:
        assert not self.ended, "used after its end, without `in_use`"
        self._queue.append(job)
        if self._runner is None:
            self._runner = spawn(self._run(), f"session {self.wire_id}")
        return job

    async def _run(self) -> None:
        try:
            while self._queue:
                job = self._queue[0]
                if job.answer.cancelled():
                    self._queue.popleft()
                elif self.gathering and not self._joins(job):
                    await self._share_for(job)
                elif job.alone is not None:
                    await self._run_alone(self._queue.popleft())
                elif self.session is None:
                    await self._load()
                elif job.look is not None:
                    await self._run_look(job, job.look, self.session)
                elif job.save:
                    await self._begin_save(self._queue.popleft(), self.session)
                else:
                    await self._write_changes(self.session)
        except BaseException:  # the loop is going down
            for job in self._queue:
                job.abandoned()
            self._queue.clear()
            raise
        finally:
            self._runner = None
        if not self.busy:
            self._idle()

    async def _share_for(self, job: Job) -> None:
        """`job`, which is first in the queue, may notice what was gathered."""
        try:
            await self._share()
        except Exception as error:
            self._queue.popleft()
            job.failed(told(error, self.wire_id))

    # Looks

    async def _run_look(self, job: Job, look: Callable[[Session], object], session: Session) -> None:
        try:
            if job.whole and session.absent:
                raise Absent
            result = look(session)
        except Absent as absent:
            await self._find_for(job, whole=not absent.message_ids)
            return
        except Exception as error:  # raised for the caller
            job.failed(error)
        else:
            job.done(result)
        self._queue.popleft()

    async def _find_for(self, job: Job, *, whole: bool) -> None:
        """`job`, which is first in the queue, needs all messages, or (`whole` False) to know whether an id is among them."""
        try:
            async with self.files:
                if whole or not await self._check():
                    await self._complete()
        except Exception as error:
            if not job.answer.cancelled():
                job.failed(told(error, self.wire_id))
            self._queue.popleft()

    # Jobs that run alone

    async def _run_alone(self, job: Job) -> None:
        assert job.alone is not None
        job.begun = True
        try:
            async with contextlib.nullcontext() if job.guard is None else job.guard(), self.files:
                result = await job.alone()
        except Exception as error:  # raised for the caller, whatever it is
            job.failed(error)
        except BaseException:
            job.abandoned()
            raise
        else:
            job.done(result)

    async def _load(self) -> None:
        """Load the session for the jobs that need it, up to the first one that does not."""
        waiting = 0
        for job in self._queue:
            if job.alone is not None:
                break
            waiting += 1
        try:
            async with self.files:
                await self.need()
        except Exception as error:
            reason = told(error, self.wire_id)
            for _ in range(waiting):
                job = self._queue.popleft()
                if not job.answer.cancelled():
                    job.failed(reason.again())


def told(error: Exception, wire_id: str) -> SessiondError:
    """The error that waiting callers get for a failure. A bug of ours must not make anyone wait for ever."""
    if isinstance(error, SessiondError):
        return error
    log.error("session %s: a job failed", wire_id, exc_info=error)
    return SessiondError(f"{type(error).__name__}: {error}", hint="please report this with `sessiond doctor`")
