"""Follows the open session and knows whether a daemon is there.

following ── the daemon is gone ──> offline: was it stopped on purpose?
    ^                                   no:  start one at once
    │                                   yes: look for one now and then; a request of ours starts one
    └────────── one is there ────────── reached

What happened meanwhile is not missed: the client's `changes` continue after the last one that was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable

from sessiond.client import AsyncChanges, AsyncSessiond, Change, DaemonUnreachable, SessiondError
from sessiond.client.hubs import OnHub
from sessiond.endpoint import Places, read_endpoint

LOOK_S = 0.5
"""How often to look for a daemon that somebody else may have started."""


class Live:
    """`watching`: a client that starts no daemon. `start`: starts one. `answers`: whether the daemon may ask for answers."""

    def __init__(
        self,
        watching: AsyncSessiond,
        where: Places,
        *,
        start: Callable[[], Awaitable[object]],
        take: Callable[[Change], Awaitable[None]],
        fail: Callable[[SessiondError], None],
        changed: Callable[[], None],
        answers: bool = False,
    ) -> None:
        self.online = True
        self._watching = watching
        self._where = where
        self._start = start
        self._take = take
        self._fail = fail
        self._changed = changed
        self._answers = answers
        self._changes: AsyncChanges | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    async def follow(self, session_id: str, since: int, on_hub: OnHub | None) -> None:
        """Take the changes after `since`. Those of the session that was followed until now end. SessiondError.

        `on_hub`: what hears of the hubs of shared stores, or None.
        """
        changes = await self._watching.session(session_id).changes(since=since, on_hub=on_hub, answers=self._answers)
        await self.leave()
        self._changes = changes
        self._task = asyncio.create_task(self._follow(changes))

    async def leave(self) -> None:
        """Follow nothing any more."""
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def look(self) -> None:
        """There may be a daemon again."""
        self._wanted.set()

    async def _follow(self, changes: AsyncChanges) -> None:
        while True:
            try:
                change = await changes.wait(None)
            except DaemonUnreachable:
                await self._offline()
            except SessiondError as error:
                self._fail(error)
                await asyncio.sleep(LOOK_S)
            else:
                self._is_online(True)
                if change is None:  # the session is gone, or another one is followed
                    return
                await self._take(change)

    async def _offline(self) -> None:
        self._wanted.clear()
        if self._crashed():
            with contextlib.suppress(SessiondError):
                await self._start()
                return
        self._is_online(False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._wanted.wait()

    def _is_online(self, online: bool) -> None:
        if online != self.online:
            self.online = online
            self._changed()

    def _crashed(self) -> bool:
        """Whether the daemon crashed: one that is stopped removes its socket; one that dies leaves it behind."""
        record = read_endpoint(self._where.data)
        return record is not None and os.path.exists(record.socket)
