"""Pushes that come while others are under way share the next transaction, as appends share a sync of the journal.

At most HUB_PUSHES_AT_A_TIME transactions are under way, so an idle hub is asked at once, and a slow one gets few large ones. If a shared
one is refused for one of its pushes, each goes alone, so that no session suffers for another's mistake.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from sessiond.eager import EagerFuture
from sessiond.errors import Conflict, Indeterminate, InvalidParams, SessiondError, TooLarge, Unavailable
from sessiond.hub.port import Push, Pushed
from sessiond.limits import (
    HUB_BODY_BYTES,
    HUB_PUSH_BYTES,
    HUB_PUSH_OPERATIONS,
    HUB_PUSHES_AT_A_TIME,
    HUB_WAITING_PUSHES,
)

_OF_ONE = (Conflict, InvalidParams, TooLarge)
"""Errors that one push may have caused."""


class _Waiting(msgspec.Struct, gc=False):
    """`answer` is the caller's, who may cancel it. `done`: the push has ended, and the next one of its session may go."""

    push: Push
    bytes: int
    answer: EagerFuture[Pushed]
    done: asyncio.Future[None]


class Gatherer:
    """`together` carries out pushes of different sessions in one transaction, all or none."""

    def __init__(self, together: Callable[[Sequence[Push]], Awaitable[list[Pushed]]]) -> None:
        self._together = together
        self._waiting: deque[_Waiting] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._closed = False

    async def push(self, push: Push) -> Pushed:
        """Need not be in a task. Cancelling it does not take the push back: the next one of its session waits for it."""
        size = sum(len(one.body) for one in push.operations)
        if size > HUB_BODY_BYTES:
            raise TooLarge("an operation is too large for the hub", limit=HUB_BODY_BYTES)
        while (earlier := self._under_way.get(push.session)) is not None:
            await asyncio.wait([earlier])
        if self._closed:
            raise Unavailable("the hub was closed")
        if len(self._waiting) >= HUB_WAITING_PUSHES:
            raise Unavailable("too much waits for the hub")
        waiting = _Waiting(push, size, EagerFuture(), asyncio.get_running_loop().create_future())
        self._under_way[push.session] = waiting.done
        self._waiting.append(waiting)
        self._start()
        return await waiting.answer

    async def close(self) -> None:
        """End all pushes: what waits gets Unavailable, what was sent Indeterminate."""
        self._closed = True
        self._refuse_waiting()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self) -> None:
        while self._waiting and len(self._running) < HUB_PUSHES_AT_A_TIME:
            task = asyncio.get_running_loop().create_task(self._carry_out(self._next()))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = operations = 0
        while self._waiting:
            first = self._waiting[0]
            size += first.bytes
            operations += len(first.push.operations)
            if batch and (size > HUB_PUSH_BYTES or operations > HUB_PUSH_OPERATIONS):
                break
            batch.append(self._waiting.popleft())
        return batch

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._closed:
            self._refuse_waiting()
        else:
            self._start()

    def _refuse_waiting(self) -> None:
        while self._waiting:
            self._fail([self._waiting.popleft()], Unavailable("the hub was closed"))

    async def _carry_out(self, batch: list[_Waiting]) -> None:
        try:
            results = await self._together([one.push for one in batch])
        except _OF_ONE as error:
            if len(batch) == 1:
                self._fail(batch, error)
                return
            for one in batch:
                await self._carry_out([one])
        except asyncio.CancelledError:
            self._fail(batch, Indeterminate("the hub was closed"))
            raise
        except Exception as error:
            self._fail(batch, error)
        else:
            for one, result in zip(batch, results, strict=True):
                self._end(one)
                if not one.answer.done():
                    one.answer.set_result(result)

    def _end(self, one: _Waiting) -> None:
        if not one.done.done():
            one.done.set_result(None)
            del self._under_way[one.push.session]

    def _fail(self, batch: Sequence[_Waiting], error: Exception) -> None:
        for one in batch:
            self._end(one)
            if not one.answer.done():
                one.answer.set_exception(error.again() if isinstance(error, SessiondError) else error)
                one.answer.exception()  # whoever pushed may have been cancelled, and then nobody asks for it
