"""A connection that reconnects.

connected ── ended ──> was the daemon stopped on purpose?
    ^                      no:  start one at once
    │                      yes: look for one now and then; start one as soon as there is a request for it
    └── attach (open the session again, catch up) ── reached
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from sessiond.endpoint import Places, read_endpoint
from sessiond.errors import DaemonUnreachable, SessiondError
from sessiond.reach import PATIENCE_S, Unreachable, reach
from sessiond_repl.connection import Connection, Heard

LOOK_S = 0.5
"""How often to look for a daemon that somebody else may have started."""
AGAIN_S = 0.05
ATTEMPTS = 5
"""A request is given up after its connection ended this many times."""
ONCE_ONLY = {"session/fork", "session/clear", "session/truncate", "session/new"}
"""Repeating these after a lost answer would do them twice."""
CLIENT_INFO = {"processId": os.getpid(), "clientInfo": {"name": "repl"}, "capabilities": {}}


class Link:
    """On every connection but the first, `attach` is awaited before any other request uses it."""

    def __init__(
        self,
        where: Places,
        heard: Heard,
        attach: Callable[[Connection], Awaitable[None]],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._where = where
        self._heard = heard
        self._attach = attach
        self._changed = changed
        self._connection: Connection | None = None
        self._waiting: list[asyncio.Future[Connection]] = []
        self._wanted = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def online(self) -> bool:
        return self._connection is not None

    async def start(self) -> None:
        """Make the first connection. Starts a daemon if none is running. Unreachable."""
        self._connection = await self._dial(start=True)
        self._keeper = asyncio.create_task(self._keep())

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request, which is sent again over the next connection if the daemon went away before answering.

        Raises the daemon's error as a SessiondError; DaemonUnreachable.
        """
        for _ in range(ATTEMPTS):
            connection = self._connection or await self._next()
            try:
                return await connection.call(method, params)
            except ConnectionError:
                if self._connection is connection:
                    self._connection = None  # `_keep` is about to notice that too
                if method in ONCE_ONLY:
                    raise DaemonUnreachable(
                        "the daemon went away before it answered", hint="check whether it was done, then try again"
                    ) from None
        raise DaemonUnreachable(f"the daemon went away {ATTEMPTS} times before it answered")

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    async def _next(self) -> Connection:
        waiting: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._wanted.set()
        return await waiting

    async def _keep(self) -> None:
        connection = self._connection
        assert connection is not None
        while True:
            await connection.ended.wait()
            self._connection = None
            self._changed()
            connection = self._connection = await self._again()
            self._changed()
            for waiting in self._take_waiting():
                waiting.set_result(connection)

    def _take_waiting(self) -> list[asyncio.Future[Connection]]:
        waiting, self._waiting = self._waiting, []
        self._wanted.clear()
        return [one for one in waiting if not one.done()]

    async def _again(self) -> Connection:
        while True:
            try:
                connection = await self._dial(start=bool(self._waiting) or self._crashed())
            except Unreachable as error:
                for waiting in self._take_waiting():
                    waiting.set_exception(DaemonUnreachable(str(error)))
            else:
                with contextlib.suppress(ConnectionError, SessiondError):
                    await self._attach(connection)
                    return connection
                await connection.close()
                await asyncio.sleep(AGAIN_S)
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), LOOK_S)

    def _crashed(self) -> bool:
        """Whether the daemon crashed: one that is stopped removes its socket; one that dies leaves it behind."""
        record = read_endpoint(self._where.data)
        return record is not None and os.path.exists(record.socket)

    async def _dial(self, start: bool) -> Connection:
        raw = await _in_thread(lambda: reach(self._where, start=start, patience_s=PATIENCE_S if start else 0))
        connection = await Connection.over(socket.socket(fileno=raw.detach()), self._heard)
        # Tells others who share a session who we are. Nothing here needs the answer, so nothing waits for it.
        introduced = asyncio.get_running_loop().create_future()
        introduced.add_done_callback(lambda done: done.cancelled() or done.exception())
        with contextlib.suppress(ConnectionError):
            connection.send("initialize", CLIENT_INFO, introduced)
        return connection


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Like asyncio.to_thread, but nothing waits for the thread when we leave: reaching a daemon may take long."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def give(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody needs the result any more
            loop.call_soon_threadsafe(give, result, error)

    threading.Thread(target=run, daemon=True, name="reach").start()
    return await done
