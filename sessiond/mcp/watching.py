"""Subscriptions: `resources/updated` while a session changes, and `resources/list_changed`.

A session that is hidden says nothing: whether it may be shown is asked before each word about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.changes import Deleted
from sessiond.errors import SessiondError
from sessiond.mcp.memory import Memory
from sessiond.mcp.refusals import Refused
from sessiond.mcp.resources import listed, parse

Tell = Callable[[str], Awaitable[None]]
"""Gets the URI that the client subscribed to."""
MAX_WATCHED = 64
"""Subscriptions of a client. Each has a connection to the daemon."""
PAUSE_S = 0.3
"""At most one word about a session in this time: a reply that streams changes it many times a second."""
_AGAIN_S = 2.0
_LIST_LOOK_S = 2.0


class _Adding(msgspec.Struct, eq=False):
    """A subscription that is about to begin. `gone`: it was taken back meanwhile."""

    uri: str
    gone: bool = False


class Watches:
    """The subscriptions of one client, each with a task."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._adding: list[_Adding] = []

    async def add(self, uri: str, tell: Tell) -> None:
        """From now on. Refused for a session that may not be shown."""
        if uri in self._tasks:
            return
        if len(self._tasks) >= MAX_WATCHED:
            raise Refused(f"There are {MAX_WATCHED} subscriptions already. Unsubscribe from some.")
        session_id, _ = parse(uri)
        adding = _Adding(uri)
        self._adding.append(adding)
        try:
            await self._memory.gate().one(session_id)
            changes = await self._memory.client.session(session_id).changes()
        finally:
            self._adding.remove(adding)
        if adding.gone or uri in self._tasks:  # by another request meanwhile
            changes.close()
            return
        self._tasks[uri] = asyncio.create_task(self._follow(uri, session_id, changes, tell))

    def remove(self, uri: str) -> None:
        for one in self._adding:
            one.gone = one.gone or one.uri == uri
        task = self._tasks.pop(uri, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for uri in {*self._tasks, *(one.uri for one in self._adding)}:
            self.remove(uri)

    async def _follow(self, uri: str, session_id: str, changes: AsyncChanges, tell: Tell) -> None:
        was_shown = True
        async with changes:
            while True:
                change = await _next(changes)
                if change is None:
                    self._tasks.pop(uri, None)
                    return
                change = await _pause(changes, change)
                shown = await self._may_show(session_id)
                # One last word when it goes away, so that a client reads it again and sees that it is gone.
                if shown or (was_shown and isinstance(change, Deleted)):
                    await tell(uri)
                was_shown = shown

    async def _may_show(self, session_id: str) -> bool:
        try:
            await self._memory.gate().one(session_id)
        except (Refused, SessiondError):
            return False
        return True


async def _next(changes: AsyncChanges) -> object | None:
    """The next change, however often the daemon goes away."""
    while True:
        try:
            return await changes.wait(None)
        except SessiondError:
            await asyncio.sleep(_AGAIN_S)


async def _pause(changes: AsyncChanges, change: object) -> object:
    """Take in what comes soon after a change, and return the last of it. More may come all the time, and must be told as well."""
    clock = asyncio.get_running_loop().time
    until = clock() + PAUSE_S
    with suppress(SessiondError):  # the daemon went away; whoever waits for the next one waits for it
        while not isinstance(change, Deleted) and (left := until - clock()) > 0:
            more = await changes.wait(left)
            if more is None:
                break
            change = more
    return change


@asynccontextmanager
async def list_watch(memory: Memory, tell: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Calls `tell` when the first page of resources has other sessions, or other names, than before."""
    changes = await memory.client.changes(look_s=_LIST_LOOK_S)
    before = await _first_page(memory)

    async def follow() -> None:
        nonlocal before
        while (change := await _next(changes)) is not None:
            await _pause(changes, change)
            now = await _first_page(memory)
            if now is not None and now != before:
                before = now
                await tell()

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        changes.close()


async def _first_page(memory: Memory) -> set[tuple[str, str | None]] | None:
    try:
        found, _ = await listed(memory, "")
    except (Refused, SessiondError):
        return None
    return {(one.session_id, one.name) for one in found}
