"""Decides which sessions may be shown. Every result goes through here after it was read, so that a tag that was set before a request counts for it.

A session is hidden if it is tagged `private`, or if the one that it was forked from, or whose subagent it is, is hidden for that reason:
a fork has the same words, and a subagent was told them. What no longer exists hides nothing. What cannot be asked is hidden.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.types import SessionInfo
from sessiond.endpoint import user_home
from sessiond.errors import DaemonUnreachable, SessiondError, SessionNotFound
from sessiond.folders import folder_key, is_windows
from sessiond.mcp.refusals import Refused, no_session

PRIVATE = "private"
_DEEPEST = 64
"""Forks of forks of ... Beyond this a session is hidden."""
_AT_A_TIME = 16
_OWN = "sessiond"
"""The tool of sessions that were not imported, as `sessiond stats` calls it."""


class Scope:
    """The folder to which everything is limited; None: no limit."""

    def __init__(self, folder: str | None) -> None:
        self.folder = None if folder is None else os.path.abspath(folder)
        self._roots = () if self.folder is None else tuple({self.folder, os.path.realpath(self.folder)})

    def has(self, cwd: str | None) -> bool:
        return not self._roots or any(is_in(cwd, root) for root in self._roots)

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots


def is_in(cwd: str | None, root: str) -> bool:
    """Return whether a folder is `root` or in it, by their names."""
    if not cwd or not (os.path.isabs(cwd) or is_windows(cwd)):
        return False
    path = os.path.normpath(folder_key(cwd))
    return f"{path.rstrip('/')}/".startswith(f"{folder_key(root).rstrip('/')}/")


def folder_of(given: str) -> str:
    """An absolute path that a model gave. Refused for a relative one."""
    if given == "~" or given.startswith("~/"):
        given = user_home(os.environ) + given[1:]
    if is_windows(given) and "\0" not in given:
        return given
    if not os.path.isabs(given) or "\0" in given:
        raise Refused("`project` must be an absolute path, or begin with ~/. Call again with such a path.")
    return os.path.normpath(given)


def tool_of(info: SessionInfo) -> str:
    """The program whose session it is."""
    source = info.metadata.get("source")
    tool = source.get("tool") if isinstance(source, dict) else None
    return tool if isinstance(tool, str) and tool else _OWN


class ScopeGate:
    """Decides for one request. What it was told about a session is kept for that request only."""

    def __init__(self, client: AsyncSessiond, scope: Scope) -> None:
        self._client = client
        self._scope = scope
        self._known: dict[str, SessionInfo | None] = {}
        """None: it does not exist."""
        self._unknown: set[str] = set()
        """The daemon does not say what they are."""
        self._slots = asyncio.Semaphore(_AT_A_TIME)

    async def of(self, ids: Iterable[str]) -> dict[str, SessionInfo]:
        """Those of the sessions that may be shown, as they are now."""
        wanted = list(dict.fromkeys(ids))
        await self._learn(wanted)
        return await self._shown([info for one in wanted if (info := self._known.get(one)) is not None])

    async def among(self, infos: Iterable[SessionInfo]) -> dict[str, SessionInfo]:
        """Those of the sessions that may be shown. The infos are from this very request."""
        listed = list(infos)
        self._known.update((one.session_id, one) for one in listed)
        return await self._shown(listed)

    async def one(self, session_id: str) -> SessionInfo:
        """A session that may be shown; Refused for any other."""
        found = (await self.of([session_id])).get(session_id)
        if found is None:
            raise no_session(session_id)
        return found

    def parent_of(self, info: SessionInfo) -> str | None:
        """The session that a session comes from, if that may be named."""
        parent = None if info.parent is None else self._known.get(info.parent.session_id)
        return parent.session_id if parent is not None and self._scope.has(parent.cwd) else None

    async def _shown(self, infos: list[SessionInfo]) -> dict[str, SessionInfo]:
        wanted = [one for one in infos if not _is_private(one) and self._scope.has(one.cwd)]
        level = wanted
        for _ in range(_DEEPEST):
            parents = {one.parent.session_id for one in level if one.parent is not None}
            await self._learn(parents)
            level = [info for one in parents if (info := self._known.get(one)) is not None]
            if not level:
                break
        return {one.session_id: one for one in wanted if self._is_open(one)}

    def _is_open(self, info: SessionInfo) -> bool:
        """Return whether neither a session nor anything that it comes from is private."""
        for _ in range(_DEEPEST):
            if _is_private(info):
                return False
            if info.parent is None:
                return True
            if info.parent.session_id in self._unknown:
                return False
            parent = self._known.get(info.parent.session_id)
            if parent is None:
                return True
            info = parent
        return False

    async def _learn(self, ids: Iterable[str]) -> None:
        new = [one for one in ids if one not in self._known and one not in self._unknown]
        await asyncio.gather(*map(self._ask, new))

    async def _ask(self, session_id: str) -> None:
        async with self._slots:
            try:
                self._known[session_id] = await self._client.session(session_id).info()
            except SessionNotFound:
                self._known[session_id] = None
            except DaemonUnreachable:
                raise
            except SessiondError:
                self._unknown.add(session_id)


def _is_private(info: SessionInfo) -> bool:
    # Tags that are too long for a response could have it among them; a parent that is left out could be private.
    return not {"tags", "parent"}.isdisjoint(info.cut) or any(tag.strip().casefold() == PRIVATE for tag in info.tags)
