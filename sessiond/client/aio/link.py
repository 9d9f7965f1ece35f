"""A connection for asyncio that comes back: requests are sent again over the next one where that does no harm."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from sessiond.client import forks
from sessiond.client.aio.connection import AsyncConnection
from sessiond.client.dialing import LONGEST_PAUSE_S, LOOK_AGAIN_S, DaemonTarget
from sessiond.client.failures import answer_lost, closed, error_of, no_answer
from sessiond.client.requests import Answer, Request
from sessiond.client.tape import Tape

T = TypeVar("T")
_HANGS_S = 10.0
"""A connection over which a request got no response in time, and nothing else for so long either, is given up."""


class AsyncClosable(Protocol):
    """Something that ends with the link that it belongs to."""

    def close(self) -> None: ...


class AsyncLink:
    """Requests of several tasks go side by side. `timeout_s`: unless a call says otherwise. `attempts`: how many connections a
    request may go over.
    """

    def __init__(self, target: DaemonTarget, name: str, timeout_s: float, attempts: float = math.inf) -> None:
        self.target = target
        self.name = name
        self.timeout_s = timeout_s
        self.attempts = attempts
        self.closed = False
        self._connection: AsyncConnection | None = None
        self._made = 0
        self._dialing = asyncio.Lock()
        self.feeds: WeakSet[AsyncClosable] = WeakSet()
        self._going_on: set[asyncio.Task[None]] = set()
        forks.keep(self, AsyncLink._forked)

    def __del__(self) -> None:
        forks.process()
        if self._connection is not None:
            self._connection.abandon()

    @property
    def number(self) -> int:
        """The number of the current connection, from 1; after its end, that of the next one."""
        return self._made + (self._connection is None or self._connection.ended is not None)

    async def reach(self) -> None:
        """Connect now. DaemonUnreachable, Unauthorized."""

        async def nothing(connection: AsyncConnection) -> None:
            return None

        await self._over("initialize", None, nothing, again=True)

    async def call(self, request: Request[T], timeout_s: float | None = None) -> T:
        """The result. The SessiondError that the daemon returned; DaemonUnreachable, NoAnswer, AnswerLost, Closed."""
        return (await self.answer(request, timeout_s)).value

    async def answer(self, request: Request[T], timeout_s: float | None = None) -> Answer[T]:
        """Do the same as `call`, but return the result also as the daemon sent it."""
        sendings = 0

        async def ask(connection: AsyncConnection) -> Answer[T]:
            nonlocal sendings
            sendings += 1
            return await connection.ask(request, resent=sendings > 1)

        return await self._over(request.method, timeout_s, ask, again=request.again)

    async def play(self, tape: Tape, timeout_s: float | None, *, to_end: bool) -> None:
        """Send what a tape holds. With `to_end` until all of it is durable, else only until little enough is in flight.

        As `call`.
        """

        async def send(connection: AsyncConnection) -> None:
            tape.over(connection)
            while True:
                while not tape.full and (params := tape.next()) is not None:
                    tape.sent(await connection.send("session/extend", params))
                oldest = tape.oldest
                if oldest is None:
                    return
                if not oldest.done() and not (to_end or tape.full):
                    return
                # A task that is cancelled here does not cancel what the tape looks at when the reply is finished.
                answer = await asyncio.shield(oldest)
                if answer.error is not None:
                    tape.refused(answer)
                    raise error_of(answer.error)
                tape.acknowledged()

        if tape.refusal is not None:
            raise error_of(tape.refusal.error)
        await self._over("session/extend", timeout_s, send, again=True)

    def go_on(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do it in a task of its own, which is kept until it has ended. What it sends comes after what was sent already."""
        task = asyncio.get_running_loop().create_task(work)
        self._going_on.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._going_on.discard)
        return task

    def _forked(self) -> None:
        self._dialing = asyncio.Lock()
        self._connection = None

    def close(self) -> None:
        """End the connection and all feeds; whoever waits gets Closed. Does not wait for anything."""
        forks.process()
        self.closed = True
        self._drop(self._connection)
        for feed in list(self.feeds):
            feed.close()

    async def _over(
        self, method: str, timeout_s: float | None, work: Callable[[AsyncConnection], Awaitable[T]], *, again: bool
    ) -> T:
        """Return what `work` returns, over one connection or, where that ends and `again` says so, over the next."""
        forks.process()
        patience = self.timeout_s if timeout_s is None else timeout_s
        connection: AsyncConnection | None = None
        begun = time.monotonic()
        attempt = 0
        try:
            async with asyncio.timeout(None if patience == math.inf else patience):
                pause = LOOK_AGAIN_S
                while True:
                    connection = None
                    attempt += 1
                    try:
                        connection = await self._connected(patience)
                        return await work(connection)
                    except TimeoutError:
                        raise
                    except OSError:
                        self._drop(connection)
                        if self.closed:
                            raise closed() from None
                        if (connection is not None and not again) or attempt >= self.attempts:
                            raise answer_lost(method) from None
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_S)
        except TimeoutError:
            # Other tasks wait for their responses over it; the one that comes too late is not listened to.
            if connection is not None and connection.silent_s(begun) >= min(self.timeout_s, _HANGS_S):
                self._drop(connection)
            raise no_answer(method, patience) from None

    async def _connected(self, patience: float) -> AsyncConnection:
        async with self._dialing:
            if self.closed:
                raise closed()
            if self._connection is None or self._connection.ended is not None:
                made = await AsyncConnection.to(self.target, self.name, patience)
                self._connection = made
                self._made += 1
                if self.closed:  # by another task meanwhile
                    self._drop(made)
                    raise closed()
            return self._connection

    def _drop(self, connection: AsyncConnection | None) -> None:
        if connection is not None:
            connection.close()
            if self._connection is connection:
                self._connection = None
