"""The client for asyncio: what `aconnect` returns. Each method does what `Sessiond`'s method of the same name does."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sessiond.client import requests
from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.aio.link import AsyncLink
from sessiond.client.aio.session import AsyncSession
from sessiond.client.daemon_types import Adopted, BackedUp, Followed, Status
from sessiond.client.dialing import DaemonTarget
from sessiond.client.lookout import Lookout
from sessiond.client.paging import SearchPages
from sessiond.client.requests import Answer, OnProgress, Request
from sessiond.client.types import (
    Hit,
    HitPage,
    Imported,
    NewMessage,
    Parent,
    SavedFile,
    SessionInfo,
)
from sessiond.errors import InvalidParams

if TYPE_CHECKING:
    from sessiond.client.usage import UsageReport

T = TypeVar("T")


class AsyncSessiond:
    """A connection to the daemon that reconnects by itself; an async context manager. Tasks of one event loop may share it.

    Every method raises DaemonUnreachable if no daemon can be reached or started, NoAnswer if it does not respond within
    `timeout_s` (the client's own if None), and what the daemon returns as the SessiondError of its kind.
    """

    def __init__(self, target: DaemonTarget, name: str, timeout_s: float, attempts: float = math.inf) -> None:
        self._link = AsyncLink(target, name, timeout_s, attempts)

    @classmethod
    async def reached(
        cls, target: DaemonTarget, name: str, timeout_s: float, attempts: float = math.inf
    ) -> AsyncSessiond:
        """A client that has a connection. DaemonUnreachable, NoAnswer, Unauthorized."""
        made = cls(target, name, timeout_s, attempts)
        await made._link.reach()
        return made

    async def __aenter__(self) -> AsyncSessiond:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and every iteration over changes. Does not wait for the daemon; what was acknowledged is durable."""
        self._link.close()

    async def new(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        store: str | None = None,
        messages: Iterable[NewMessage] = (),
        parent: Parent | None = None,
        timeout_s: float | None = None,
    ) -> AsyncSession:
        """Make a session, with messages or without. AlreadyExists if the `id` is taken; InvalidParams, TooLarge, ReadOnly.

        Without an `id` the client makes one, and a request that is sent again makes no second session. A session without a name
        that stays empty is forgotten ten minutes after this client let go of it.
        `parent`: the session that it belongs to, as a subagent's belongs to the agent's; it need not be there yet.
        """
        given = None if tags is None else list(tags)
        request = requests.new(
            id, messages, store=store, name=name, model=model, cwd=cwd, tags=given, metadata=metadata,
            parent=requests.wire_parent(parent),
        )  # fmt: skip
        return AsyncSession(self._link, (await self._link.call(request, timeout_s)).session.session_id)

    def session(self, session_id: str) -> AsyncSession:
        """A session that exists, by its id. The daemon is not asked."""
        return AsyncSession(self._link, session_id)

    async def sessions(
        self,
        *,
        sort: str = "-updatedAt",
        store: str | None = None,
        tags: Iterable[str] | None = None,
        archived: bool | None = None,
        deleted: bool | None = None,
        model: str | None = None,
        cwd: str | None = None,
        since: str | None = None,
        until: str | None = None,
        name: str | None = None,
        activity: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[SessionInfo]:
        """All sessions that match every filter given, page by page as you iterate. Archived and deleted ones only if asked for.

        `sort`: `updatedAt`, `createdAt`, `name` or `messageCount`, with `-` for the greatest first. `since` and `until` are
        RFC 3339, on `updated_at`. `name` is a part of the name. `activity`: `working` or `waiting`.
        """
        which = {
            "store": store,
            "tags": None if tags is None else list(tags),
            "archived": archived,
            "deleted": deleted,
            "model": model,
            "cwd": cwd,
            "since": since,
            "until": until,
            "name": name,
            "activity": activity,
        }
        cursor: str | None = None
        while True:
            page = await self._link.call(requests.list_(cursor, None, sort, which), timeout_s)
            for info in page.sessions:
                yield info
            cursor = page.next_cursor
            if cursor is None:
                return

    async def search(
        self,
        query: str,
        *,
        mode: str = "text",
        timeout_s: float | None = None,
        **filter: Any,
    ) -> AsyncIterator[Hit]:
        """Messages, names and notes that match, best first, page by page as you iterate.

        `mode`: `text`, `regex` or `semantic`. `filter`: the filters of `sessions`, and `role` and `session_id`. Cancelled if it
        takes the daemon too long, Unavailable if the mode is not installed.
        """
        pages = SearchPages()
        while not pages.ended:
            try:
                page = await self.search_page(query, mode=mode, cursor=pages.cursor, timeout_s=timeout_s, **filter)
            except InvalidParams as error:
                pages.begin_again(error)
            else:
                for hit in pages.take(page):
                    yield hit

    async def search_page(
        self,
        query: str,
        *,
        mode: str = "text",
        limit: int | None = None,
        cursor: str | None = None,
        timeout_s: float | None = None,
        **filter: Any,
    ) -> HitPage:
        """One page of what `search` finds: at most `limit` hits, and how many there are in all. `cursor`: `next_cursor` of the page
        before it.
        """
        return await self._link.call(requests.search(query, cursor, limit, mode, filter), timeout_s)

    async def usage(
        self,
        by: str = "day",
        *,
        since: str | None = None,
        until: str | None = None,
        tool: str | None = None,
        time_zone: str | None = None,
        limit: int | None = None,
        timeout_s: float | None = None,
        **filter: Any,
    ) -> UsageReport:
        """Return what requests to models used, as `Sessiond.usage` does."""
        asked = requests.usage(by, since=since, until=until, tool=tool, time_zone=time_zone, limit=limit, filter=filter)
        return await self._link.call(asked, timeout_s)

    async def changes(self, *, look_s: float = 1.0) -> AsyncChanges:
        """Live changes of all sessions, new ones included, from this call on. The `session_id` of a change says in which.

        The daemon is asked every `look_s` seconds which sessions changed, and these are opened; the changes before that are not
        missed.
        """
        changes = AsyncChanges(self._link, [], Lookout(look_s))
        try:
            await changes.attend()
        except BaseException:
            changes.close()
            raise
        return changes

    async def restore(self, session_id: str, *, timeout_s: float | None = None) -> AsyncSession:
        """Take a session out of the trash. SessionNotFound, AlreadyExists; AnswerLost if nobody knows whether it was done."""
        return AsyncSession(
            self._link, (await self._link.call(requests.restore(session_id), timeout_s)).session.session_id
        )

    async def import_(
        self,
        path: str,
        *,
        format: str | None = None,
        store: str | None = None,
        since: str | None = None,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        timeout_s: float | None = None,
    ) -> Imported:
        """Import another tool's file or folder (an absolute path). Repeating it adds nothing. Give a `timeout_s` that is long enough.

        `on_progress` is called with a `Progress` up to ten times a second. If it is given, cancelling the task stops the import.
        """
        request = requests.import_(
            path, format=format, store=store, since=since, dry_run=dry_run, on_progress=on_progress
        )
        return await self._link.call(request, timeout_s)

    async def backup(
        self, path: str, *, on_progress: OnProgress | None = None, timeout_s: float | None = None
    ) -> BackedUp:
        """Copy everything into a new folder (an absolute path) while work goes on. `on_progress` as for `import_`.

        AnswerLost if the connection ends: the folder is then complete or not there. AlreadyExists, InvalidParams.
        """
        return await self._link.call(requests.backup(path, on_progress=on_progress), timeout_s)

    async def follow(
        self,
        tools: Sequence[str] | None = None,
        *,
        add: Sequence[str] | None = None,
        remove: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> Followed:
        """Import what these tools write (`["all"]`: all that are known) from now on, in place of those before; or `add` to those
        before, and `remove` from them. Without any: only report. InvalidParams.
        """
        return await self._link.call(requests.follow(tools, add=add, remove=remove), timeout_s)

    async def adopt(
        self, path: str, *, name: str | None = None, format: str | None = None, timeout_s: float | None = None
    ) -> Adopted:
        """Turn a folder of another tool's sessions (an absolute path) into a store, in place. AnswerLost if the connection ends."""
        return await self._link.call(requests.adopt(path, name=name, format=format), timeout_s)

    async def save(self, *, timeout_s: float | None = None) -> list[SavedFile]:
        """Bring the files of all sessions up to date now. Returns those that were written."""
        return (await self._link.call(requests.save(None), timeout_s)).saved

    async def status(self, *, timeout_s: float | None = None) -> Status:
        """The daemon's status: its version, paths, sockets and stores, and what is wrong with them."""
        return await self._link.call(requests.status(), timeout_s)

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        again: bool = False,
        on_progress: OnProgress | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Any method of the protocol: its result as plain values with the names of the wire.

        After a lost connection it is sent again only if `again` says that this does no harm; else AnswerLost. `on_progress` is
        for methods with a `workDoneToken`.
        """
        return await self._link.call(
            requests.any_(method, params or {}, again=again, on_progress=on_progress), timeout_s
        )

    async def answer(self, request: Request[T], *, timeout_s: float | None = None) -> Answer[T]:
        """The result of a request of `sessiond.client.requests` both ways: `value` is typed, and `plain` is what the daemon
        sent, with members that this client does not know.
        """
        return await self._link.answer(request, timeout_s)
