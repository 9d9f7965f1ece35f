"""The contents of the queue of an open session: jobs, and places that are reserved."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial

from sessiond.eager import EagerFuture
from sessiond.model.session import Session
from sessiond.service.planning import Draft
from sessiond.service.subscribers import EarlyReply, Peer, Subscribers
from sessiond.store.port import OnDurable

Guard = Callable[[], AbstractAsyncContextManager[None]]


class Job:
    """One of `plan`, `look`, `save` and `alone` says what it is; `OpenSession` says what that means.

    `whole`: a look that needs all messages in memory. `apart`: a change that depends on the result of those before it.
    `then`: is called right after the job, and its result is the answer. `early`: may be answered as soon as the record is
    durable. `guard`: entered before a job that runs alone. `streams`: the message to which the change only adds text.
    """

    __slots__ = (
        "alone",
        "answer",
        "apart",
        "begun",
        "early",
        "end",
        "error",
        "guard",
        "look",
        "origin",
        "plan",
        "result",
        "save",
        "streams",
        "then",
        "whole",
    )

    def __init__(
        self,
        *,
        plan: Callable[[Draft], object] | None = None,
        look: Callable[[Session], object] | None = None,
        alone: Callable[[], Awaitable[object]] | None = None,
        save: bool = False,
        origin: Peer | None = None,
        guard: Guard | None = None,
        whole: bool = False,
        apart: bool = False,
        then: Callable[[], object] | None = None,
        early: EarlyReply | None = None,
        streams: str | None = None,
    ) -> None:
        self.plan = plan
        self.look = look
        self.alone = alone
        self.save = save
        self.origin = origin
        self.guard = guard
        self.whole = whole
        self.apart = apart
        self.then = then
        self.early = early
        self.streams = streams
        self.begun = False
        self.end = 0
        """How many changes its draft had after it was planned."""
        self.result: object = None
        self.error: Exception | None = None
        """The outcome of planning: result or error. The caller gets either only when the record is durable."""
        self.answer: EagerFuture[object] = EagerFuture()

    def done(self, result: object) -> None:
        if self.answer.cancelled():
            self._renew()
        if not self.answer.done():
            self.answer.set_result(result)

    def failed(self, error: Exception) -> None:
        self._renew()
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # mark it as seen: there may be no waiter left

    def put_back(self) -> None:
        """It has not begun after all, and can be cancelled again."""
        self.begun = False

    def abandoned(self) -> None:
        """The runner was stopped in the middle of it: nothing may wait for it any longer."""
        self.begun = False
        if not self.answer.get_loop().is_closed():  # it was dropped together with its loop and all waiters
            self.answer.cancel()

    def _renew(self) -> None:
        """A caller that cancelled it after it had begun may learn only later that it still gets the answer."""
        if self.begun and self.answer.cancelled():
            self.answer = EagerFuture()

    async def outcome(self) -> object:
        """The answer. Cancelling this also cancels the job, unless it has begun."""
        while True:
            try:
                return await self.answer
            except asyncio.CancelledError:
                if not self.begun:
                    self.answer.cancel()
                    raise
                self._renew()


def on_durable(taken: list[Job], waiting: Collection[Job], audience: Subscribers) -> OnDurable | None:
    """A function that sends the answer of the only job in this record, from any thread. Answers of several jobs are sent by
    the loop, in order: each client hears of the others' changes first. `waiting`: the jobs behind it in the queue by then.
    """
    if len(taken) > 1:
        return None
    job = taken[0]
    if job.early is None or job.error is not None or job.then is not None:
        return None
    send = job.early.when_durable(job.result)
    return None if send is None else partial(_send, send, waiting, audience.beside(job.origin))


def _send(send: Callable[[], bool], waiting: Collection[Job], heard: bool) -> bool:
    """`heard`: other clients wait to hear of the change."""
    return send() and not heard and not waiting


class Lane:
    """A lock in which a place can be taken without waiting: first come, first served."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def locked(self) -> bool:
        return self._held

    def ask(self) -> asyncio.Future[None] | None:
        """None: the caller has the lock. Otherwise it will have it when the future is done."""
        if not self._held:
            self._held = True
            return None
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        return place

    async def come(self, place: asyncio.Future[None] | None) -> None:
        """Wait for what `ask` returned. A caller that is cancelled meanwhile gives up its place."""
        try:
            if place is not None:
                await place
        except asyncio.CancelledError:
            if place is not None and place.done() and not place.cancelled():
                self.release()
            raise

    def release(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._held = False

    async def __aenter__(self) -> None:
        await self.come(self.ask())

    async def __aexit__(self, *_: object) -> None:
        self.release()


class SessionTurn:
    """From the turn on, nothing else happens to the session until this is over."""

    def __init__(self) -> None:
        self._come = asyncio.Event()
        self._over = asyncio.Event()

    async def hold(self) -> None:
        self._come.set()
        await self._over.wait()

    async def __aenter__(self) -> None:
        await self._come.wait()

    async def __aexit__(self, *_: object) -> None:
        self.give_up()

    def give_up(self) -> None:
        """End it, whether the turn has come or not."""
        self._over.set()


def stream_together(one: Job, other: Job) -> bool:
    """Both add text to the same message for the same client, or neither adds text."""
    return one.streams == other.streams and (one.streams is None or one.origin is other.origin)
