"""Live changes for asyncio, over a connection of their own."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar
from weakref import WeakMethod

import msgspec

from sessiond.client import forks, requests
from sessiond.client.aio.connection import AsyncConnection
from sessiond.client.aio.link import AsyncLink
from sessiond.client.changes import Change
from sessiond.client.dialing import LONGEST_PAUSE_S, LOOK_AGAIN_S
from sessiond.client.failures import closed, no_answer
from sessiond.client.feed import SILENCE_S
from sessiond.client.follower import SessionFollower
from sessiond.client.hubs import Hubs, OnHub
from sessiond.client.lookout import Lookout
from sessiond.client.requests import Request, read_notice, strange
from sessiond.client.wire import Incoming
from sessiond.errors import SessiondError, SessionNotFound

T = TypeVar("T")
READY_CHANGES = 10_000
"""More are not kept for a consumer that does not take them: the session is then opened again since the last one that is."""


class AsyncChanges(AsyncIterator[Change]):
    """A `Changes` for asyncio: an asynchronous iterator and an async context manager. One task iterates; others may close it."""

    def __init__(
        self,
        link: AsyncLink,
        followers: Iterable[SessionFollower],
        lookout: Lookout | None = None,
        on_hub: OnHub | None = None,
    ) -> None:
        self._link = link
        self._followers = {one.session_id: one for one in followers}
        self._lookout = lookout
        self._hubs = None if on_hub is None else Hubs(on_hub)
        self._connection: AsyncConnection | None = None
        self._ready: deque[Change] = deque()
        self._news = asyncio.Event()
        self._heard_at = 0.0
        self._closed = False
        link.feeds.add(self)
        forks.keep(self, AsyncChanges._forked)

    def __del__(self) -> None:
        forks.process()
        if self._connection is not None:
            self._connection.abandon()

    async def __aenter__(self) -> AsyncChanges:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncChanges:
        return self

    async def __anext__(self) -> Change:
        """The next change, waited for as long as it takes."""
        change = await self.wait(None)
        if change is None:
            raise StopAsyncIteration
        return change

    async def wait(self, timeout_s: float | None) -> Change | None:
        """The next change; None where none came within `timeout_s`, or where none will come any more."""
        forks.process()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ready:
            if self._over or (until is not None and time.monotonic() >= until):
                return None
            try:
                await self._step(until)
            except SessiondError:
                if self._over:
                    return None
                raise
        return self._ready.popleft()

    async def attend(self) -> None:
        """Connect and open what is followed, so that nothing after this is missed. SessiondError."""
        while not await self._step(0.0):
            pass

    def close(self) -> None:
        """Does not wait for anything."""
        forks.process()
        self._closed = True
        self._lost()
        self._news.set()

    def _forked(self) -> None:
        """Go on over a connection of its own, as `Changes` does."""
        self._news = asyncio.Event()
        self._connection = None
        self._lost()

    @property
    def _over(self) -> bool:
        if self._closed or self._link.closed:
            return True
        return self._lookout is None and not self._ready and not self._followers

    async def _step(self, until: float | None) -> bool:
        """Connect, or wait for something to happen. Whether the connection held."""
        try:
            await self._attend()
            if until != 0.0 and not self._ready and not self._over:
                await self._listen(until)
        except OSError:  # it ended, and nothing of it is of use
            self._lost()
            return False
        except msgspec.MsgspecError as error:
            self._lost()
            raise strange("word of a change", error) from None
        except asyncio.CancelledError:
            if any(one.more_since is not None for one in self._followers.values()):
                self._lost()  # in the middle of a long page: begin again where it was
            raise
        return True

    async def _attend(self) -> None:
        """Have a connection on which everything is open and nothing is left to read."""
        if self._connection is None:
            self._connection = await self._connected()
            self._connection.told_of_end = self._news.set
        ended = self._connection.ended
        if isinstance(ended, (OSError, msgspec.MsgspecError)):
            raise ended
        if self._hubs is not None and self._hubs.due:
            self._hubs.asking()
            self._hubs.answered(await self._ask(requests.status()))
        if self._lookout is not None:
            await self._look(self._lookout)
        for follower in list(self._followers.values()):
            await self._catch_up(follower)
            if follower.gone:
                self._forget(follower)
        if self._lookout is not None:
            await self._let_go(self._lookout)

    async def _catch_up(self, follower: SessionFollower) -> None:
        while follower.stale:
            try:
                result = await self._ask(requests.open_(follower.opening()))
            except SessionNotFound:
                if follower.known is None:
                    raise
                self._ready.append(follower.deleted(missed=True))
                return
            self._ready.extend(follower.opened(result))
            while follower.more_since is not None:
                page = requests.read(follower.session_id, since=follower.more_since, limit=requests.PAGE_MESSAGES)
                self._ready.extend(follower.page(await self._ask(page)))

    async def _look(self, lookout: Lookout) -> None:
        while (request := lookout.due(time.monotonic())) is not None:
            try:
                page = await self._ask(request)
            except SessiondError as error:
                if not lookout.refused(error):
                    raise
                continue
            for session_id, since, created_at in lookout.listed(page, time.monotonic()):
                self._followers.setdefault(session_id, SessionFollower(session_id, since, created_at))

    async def _let_go(self, lookout: Lookout) -> None:
        """Stop following sessions in which nothing happened for a while. What happens in one meanwhile shows in the next list."""
        for session_id in lookout.quiet(time.monotonic()):
            follower = self._followers.pop(session_id, None)
            if follower is None:
                lookout.gone(session_id)
                continue
            lookout.left(session_id, follower.known or 0, follower.created_at)
            if not follower.gone:
                await self._ask(requests.close(session_id))

    async def _connected(self) -> AsyncConnection:
        """Connect, as often as it takes, until the deadline. Closed, DaemonUnreachable, NoAnswer, Unauthorized."""
        patience = self._link.timeout_s
        own = WeakMethod(self._hear)  # else the loop would keep changes that nobody iterates over any more

        def hear(incoming: Incoming) -> None:
            if (method := own()) is not None:
                method(incoming)

        try:
            async with asyncio.timeout(patience):
                pause = LOOK_AGAIN_S
                while True:
                    if self._closed or self._link.closed:
                        raise closed()
                    try:
                        return await AsyncConnection.to(self._link.target, self._link.name, patience, hear)
                    except TimeoutError:
                        raise
                    except OSError:
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, LONGEST_PAUSE_S)
        except TimeoutError:
            raise no_answer("initialize", patience) from None

    async def _ask(self, request: Request[T]) -> T:
        """OSError where the connection ended; NoAnswer."""
        connection = self._connection
        if connection is None:
            raise closed() if self._closed else ConnectionResetError("the connection ended")
        try:
            async with asyncio.timeout(self._link.timeout_s):
                return (await connection.ask(request)).value
        except TimeoutError:
            self._lost()
            raise no_answer(request.method, self._link.timeout_s) from None

    async def _listen(self, until: float | None) -> None:
        """Until something happened. After a silence the daemon is asked whether it is there."""
        now = time.monotonic()
        look = self._lookout.next_look if self._lookout is not None else now + SILENCE_S
        wake = min(one for one in (until, now + SILENCE_S, look) if one is not None)
        connection = self._connection
        if connection is None:
            return
        self._news.clear()
        if connection.ended is not None:
            return
        try:
            async with asyncio.timeout(max(0.0, wake - now)):
                await self._news.wait()
        except TimeoutError:
            if time.monotonic() - self._heard_at >= SILENCE_S and wake == now + SILENCE_S:
                await self._ask(requests.hello())

    def _hear(self, incoming: Incoming) -> None:
        self._heard_at = time.monotonic()
        self._news.set()
        if incoming.method == "store/hubChanged" and self._hubs is not None:
            self._hubs.heard(incoming.params)
        if incoming.method is None or not incoming.method.startswith("session/"):
            return
        notice = read_notice(incoming.params)
        follower = self._followers.get(notice.about)
        if follower is None:
            return
        if len(self._ready) > READY_CHANGES and incoming.method != "session/deleted":
            follower.stale = True
            return
        before = len(self._ready)
        self._ready.extend(follower.told(incoming.method, notice))
        if self._lookout is not None and len(self._ready) > before:
            self._lookout.heard(follower.session_id, time.monotonic())
        if follower.gone:
            self._forget(follower)

    def _forget(self, follower: SessionFollower) -> None:
        self._followers.pop(follower.session_id, None)
        if self._lookout is not None:
            self._lookout.gone(follower.session_id)

    def _lost(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._hubs is not None:
            self._hubs.due = True
        if self._lookout is not None:
            self._lookout.lost()
        for follower in list(self._followers.values()):
            follower.lost()
