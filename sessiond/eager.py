"""Eager tasks: coroutines that start and continue in the same turn of the loop as soon as they can.

Theory of operation
-------------------
asyncio puts a round of the loop between a result and the coroutine that awaits it: a task is woken by `call_soon`. A durable
append has several such steps, and each round costs as much as the work in it. An eager task is a coroutine that is driven
without these rounds, as long as it awaits only `EagerFuture`s:

    ready ──> running ──awaits an EagerFuture──> waiting ──it is settled──> ready
                 │
                 └──awaits anything else──> an asyncio task goes on with it, for the rest of its life

Tasks never run inside one another: settling a future only makes its waiter ready. Ready tasks run at the end of the
outermost `turn`, in the order in which they became ready; without a turn, in the next round of the loop. So a coroutine that
settles ten futures continues to its own next await before the first of the ten moves.

Cancellation works as with asyncio's tasks: what the task awaits is cancelled, and the error is raised where the coroutine
waits.

Until an asyncio task takes over, the coroutine does not belong to a task: it must neither ask for the current task nor use
`asyncio.timeout`.

What must never happen: a coroutine is resumed while it runs; a ready one is forgotten; one is resumed before what it awaits
is settled.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")
_STEPS_A_TURN = 1024
"""After this many the loop runs everything else first."""


class EagerFuture(asyncio.Future[T]):
    """A future like any other, except that an eager task that awaits it continues in the turn in which it is settled. Not
    for other threads.
    """

    waiter: EagerTask | None = None
    """The eager task that continues when it is settled; others wait for it as for any future."""

    def set_result(self, result: T) -> None:
        super().set_result(result)
        if self.waiter is not None:
            turn.add(self.waiter)

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        if self.waiter is not None:
            turn.add(self.waiter)

    def cancel(self, msg: object | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.waiter is not None:
            turn.add(self.waiter)
        return cancelled


class EagerTask:
    """A coroutine that continues as soon as it can. It never raises: an unhandled error goes to the loop's handler."""

    __slots__ = ("_awaits", "_context", "_must_cancel", "_name", "_task", "_work")

    def __init__(self, work: Coroutine[object, object, None], name: str | None) -> None:
        self._work: Coroutine[object, object, None] | None = work
        self._name = name
        self._context = copy_context()
        self._awaits: EagerFuture[object] | None = None
        self._must_cancel = False
        self._task: asyncio.Task[None] | None = None
        """The asyncio task that has taken over."""

    @property
    def is_eager(self) -> bool:
        """True if it still runs eagerly: an asyncio task has not taken over."""
        return self._task is None

    def done(self) -> bool:
        return self._work is None if self._task is None else self._task.done()

    def cancel(self) -> bool:
        """Cancel it like a task. Return False if it is done."""
        if self._task is not None:
            return self._task.cancel()
        if self._work is None:
            return False
        if self._awaits is None or self._awaits.done() or not self._awaits.cancel():
            self._must_cancel = True
        return True

    def close(self) -> None:
        """It never continues: its loop is gone."""
        if self._work is not None:
            self._work.close()
            self._work = None

    def step(self) -> None:
        """Run up to the next thing that it has to wait for."""
        work, self._awaits = self._work, None
        if work is None:
            return
        try:
            if self._must_cancel:
                self._must_cancel = False
                awaits = self._context.run(work.throw, asyncio.CancelledError())
            else:
                awaits = self._context.run(work.send, None)
        except (StopIteration, asyncio.CancelledError):
            self._work = None
        except (KeyboardInterrupt, SystemExit):
            self._work = None
            raise
        except BaseException as error:
            self._work = None
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"an eager task failed: {self._name or work}", "exception": error}
            )
        else:
            if type(awaits) is EagerFuture and awaits.waiter is None:
                awaits._asyncio_future_blocking = False  # as a task does to accept the future
                awaits.waiter = self
                self._awaits = awaits
                if self._must_cancel and awaits.cancel():
                    self._must_cancel = False
            else:
                self._hand_over(work, awaits)

    def _hand_over(self, work: Coroutine[object, object, None], awaits: object) -> None:
        """Let an asyncio task continue."""
        self._task = asyncio.get_running_loop().create_task(_GoOn(work, awaits), name=self._name, context=self._context)
        if self._must_cancel:
            self._task.cancel()


class _GoOn(Coroutine[Any, Any, None]):
    """Represents `work` from that wait on. Not a generator: one that is cancelled before its first step never runs, and
    `work`, which has begun, would never learn of it.
    """

    def __init__(self, work: Coroutine[object, object, None], awaits: object) -> None:
        self._work = work
        self._first = [awaits]
        self._mark(awaits, False)  # until the task exists, other code may wait for it

    def send(self, value: object) -> object:
        if not self._first:
            return self._work.send(value)
        awaits = self._first.pop()
        self._mark(awaits, True)
        return awaits

    @staticmethod
    def _mark(awaits: Any, blocking: bool) -> None:
        """Mark a future as its `__await__` and a task do it together. None is a bare `yield`."""
        if awaits is not None:
            awaits._asyncio_future_blocking = blocking

    def throw(self, *error: Any) -> object:
        self._first.clear()
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[object, object, None]:
        raise TypeError("only a task can continue this")


class LoopTurn(threading.local):
    """The ready tasks of this thread's loop, and whether they will be run. `with turn:` tasks that become ready inside
    continue when the outermost one ends, in this turn of the loop.
    """

    def __init__(self) -> None:
        self.ready: deque[EagerTask] = deque()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.depth = 0

    def add(self, task: EagerTask) -> None:
        if not self.depth:
            self._forget_other_loops()
            if not self.ready:
                asyncio.get_running_loop().call_soon(self.run)
        self.ready.append(task)

    def _forget_other_loops(self) -> None:
        """Close tasks of an earlier loop of this thread: they can never continue."""
        loop = asyncio.get_running_loop()
        if self.loop is not loop:
            self.loop = loop
            while self.ready:
                self.ready.popleft().close()

    def run(self) -> None:
        self.depth += 1
        ready = self.ready
        try:
            for _ in range(_STEPS_A_TURN):
                if not ready:
                    break
                ready.popleft().step()
        finally:
            self.depth -= 1
            if ready:
                asyncio.get_running_loop().call_soon(self.run)

    def finish(self) -> None:
        """Run everything that is ready, and what becomes ready by that."""
        while self.ready:
            self.run()

    def __enter__(self) -> None:
        if not self.depth:
            self._forget_other_loops()
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth and self.ready:
            self.run()


turn = LoopTurn()


def begin(work: Coroutine[object, object, None], name: str | None = None) -> EagerTask:
    """Run `work` up to its first wait, now."""
    task = EagerTask(work, name)
    task.step()
    return task


def spawn(work: Coroutine[object, object, None], name: str | None = None) -> EagerTask:
    """Run `work` at the end of the turn, or in the next round of the loop."""
    task = EagerTask(work, name)
    turn.add(task)
    return task
