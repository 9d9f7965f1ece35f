"""`daemon/follow`: which tools are followed, now and at every start. `session/follow`: what clients want followed while they stay.

Whatever is wanted in the default store is imported by one follower. There is another one for each other store, and for each time
since which a client wants sessions. A follower that nobody wants any more ends.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from sessiond import config as configuration
from sessiond.config import DEFAULT_STORE, Config
from sessiond.daemon.followed_place import ALL
from sessiond.endpoint import Places
from sessiond.errors import ConfigError, InvalidParams, ReadOnly, Unavailable
from sessiond.formats import registry as formats
from sessiond.fs import FOLLOWING, FileSystem, off_loop
from sessiond.schema.daemon import FollowParams, FollowResult
from sessiond.service.open_sessions import check_store
from sessiond.service.sessions import Service
from sessiond.service.transfer import checked_since
from sessiond.shield import through

if TYPE_CHECKING:
    from sessiond.daemon.follow import Follower
    from sessiond.daemon.visits import Visit
    from sessiond.rpc.methods import RemoteClient
    from sessiond.schema.sessions import SessionFollowParams

log = logging.getLogger(__name__)
_Kind: TypeAlias = tuple[str, str | None]
"""What a follower is for: the name of a store, and since when (RFC 3339)."""
_CONFIGURED: _Kind = (DEFAULT_STORE, None)


class Following:
    """`editing`: held by whoever changes `config.toml`."""

    def __init__(self, fs: FileSystem, where: Places, config: Config, service: Service, editing: asyncio.Lock) -> None:
        self._fs = fs
        self._where = where
        self._config = config
        self._service = service
        self._editing = editing
        self._changing = asyncio.Lock()
        """Held while followers are made and ended."""
        self._followers: dict[_Kind, Follower] = {}
        self._closed = False
        self._parting: set[asyncio.Task[None]] = set()
        self._beginning: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow what is configured, as soon as the importers are loaded."""
        self._beginning = asyncio.create_task(self._begin(), name="follow")
        self._beginning.add_done_callback(_said_if_failed)

    async def _begin(self) -> None:
        async with self._editing:
            known: list[str] = await off_loop(_known_tools)
            for name in sorted({one.partition(":")[0] for one in self._config.follow_tools} - {*known, ALL}):
                log.warning("follow.tools: unknown tool %r (one of %s)", name, ", ".join([*known, ALL]))
            await self._follow(self._config.follow_tools)

    async def close(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.wait([self._beginning])
        async with self._changing:
            self._closed = True
            while self._followers:
                await self._followers.popitem()[1].close()
        if self._parting:
            await asyncio.wait(self._parting)

    async def change(self, wanted: FollowParams) -> FollowResult:
        """Follow what is wanted from now on; once begun, this is completed even if it is cancelled. InvalidParams, ReadOnly."""
        return await through(self._change(wanted))

    async def _change(self, params: FollowParams) -> FollowResult:
        known: list[str] = await off_loop(_known_tools)
        _check_names("tools", params.tools or [], known)
        _check_names("add", params.add, known)
        async with (
            self._editing
        ):  # what is added and removed is changed in what is followed now, whoever else changes it
            before = self._config.follow_tools if params.tools is None else params.tools
            wanted = _changed(before, params)
            if tuple(wanted) != self._config.follow_tools:
                try:
                    self._config = await off_loop(
                        configuration.with_names, self._fs, self._where, self._config, "follow.tools", wanted
                    )
                except ConfigError as error:
                    raise InvalidParams(error.message, hint=error.hint, **error.data) from None
                except OSError as error:
                    raise ReadOnly(f"{self._config.file} cannot be written: {error.strerror}") from error
                await self._follow(wanted)
        return await self.status()

    async def _follow(self, tools: list[str] | tuple[str, ...]) -> None:
        async with self._changing:
            if tools:
                await (await self._follower(_CONFIGURED)).follow(tools)
            elif _CONFIGURED in self._followers:
                await self._followers[_CONFIGURED].follow(tools)
                await self._end_if_idle(_CONFIGURED)

    async def _follower(self, kind: _Kind) -> Follower:
        """InvalidParams, Unavailable."""
        if self._closed:
            raise Unavailable("the daemon is stopping")
        found = self._followers.get(kind)
        if found is None:
            from sessiond.daemon.follow import Follower

            store, since = kind
            sources = await self._service.transfer.followed(check_store(self._service.stores, store), since)
            found = Follower(sources, (), os.environ)
            await found.start()
            self._followers[kind] = found
        return found

    async def _end_if_idle(self, kind: _Kind) -> None:
        if self._followers[kind].is_idle:
            await self._followers.pop(kind).close()

    async def visited(self, peer: RemoteClient, wanted: SessionFollowParams) -> None:
        """Follow what a client wants as long as it stays. When this returns, it is watched. InvalidParams."""
        from sessiond.daemon.visits import Visit

        places = [(one.format, one.path) for one in wanted.places]
        known = [*await off_loop(_known_tools), *formats.NAMES]
        for tool, path in places:
            _check_names("places", [f"{tool or known[0]}:{path}"], known)
            if not await FOLLOWING.call(os.path.exists, path):
                raise InvalidParams(f"places: {path} does not exist", field="places")
        kind = (wanted.store or DEFAULT_STORE, checked_since(wanted.since))
        visit = Visit(peer, kind[0], places)
        await FOLLOWING.call(visit.resolve)
        deaf = self._service.transfer.listen(visit.hear)
        try:
            async with self._changing:
                await (await self._follower(kind)).add(visit)
        except BaseException:
            deaf()
            self._part(kind, visit)
            raise
        peer.on_closed(deaf)
        peer.on_closed(lambda: self._part(kind, visit))

    def _part(self, kind: _Kind, visit: Visit) -> None:
        task = asyncio.create_task(self._parted(kind, visit), name="follow")
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    async def _parted(self, kind: _Kind, visit: Visit) -> None:
        async with self._changing:
            if kind in self._followers:  # the daemon goes on
                try:
                    await self._followers[kind].remove(visit)
                finally:
                    await self._end_if_idle(kind)

    @property
    def tools(self) -> Sequence[str]:
        """Those that are followed now; before it has begun, those that are configured."""
        return self._config.follow_tools

    async def status(self) -> FollowResult:
        followers = list(self._followers.values())
        places = await asyncio.gather(*(one.measured() for one in followers))
        behind = sum(one.behind for one in followers)
        return FollowResult(tools=list(self.tools), places=[one for some in places for one in some], behind=behind)


def _check_names(field: str, names: Sequence[str], known: Sequence[str]) -> None:
    for given in names:
        name, colon, path = given.partition(":")
        if colon and not os.path.isabs(path):
            hint = f"name the folder or file from the root on: {name}:/home/..."
            raise InvalidParams(f"{field}: {path!r} is not an absolute path", hint=hint, field=field)
        if colon and name == ALL:
            raise InvalidParams(f"{field}: a place belongs to one tool, not to {ALL!r}", field=field)
        if name not in known and name != ALL:
            close = difflib.get_close_matches(name, [*known, ALL], n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the tools are {', '.join(known)}, or {ALL}"
            raise InvalidParams(f"{field}: unknown tool {name!r}", hint=hint, field=field)


def _changed(before: Sequence[str], params: FollowParams) -> list[str]:
    """The tools to follow, instead of those before. InvalidParams."""
    removed = {*params.remove, *(one for one in before if one.partition(":")[0] in params.remove)}
    for name in params.remove:
        if name in before or any(one.startswith(f"{name}:") for one in before):
            continue
        if ALL in before:
            hint = "follow no tool first, then those that you want"
            raise InvalidParams(f"remove: {name!r} is not followed by itself: all tools are", hint=hint, field="remove")
        hint = f"followed: {', '.join(before) or 'none'}"
        raise InvalidParams(f"remove: {name!r} is not followed", hint=hint, field="remove")
    wanted = dict.fromkeys(name for name in (*before, *params.add) if name not in removed)
    return [name for name in wanted if name == ALL or ":" in name] if ALL in wanted else list(wanted)


def _said_if_failed(beginning: asyncio.Task[None]) -> None:
    if not beginning.cancelled() and (error := beginning.exception()) is not None:
        log.error("no tool is followed: %s", error, exc_info=error)


def _known_tools() -> list[str]:
    """Names of all importers. Loads them."""
    from sessiond.importers.registry import BY_NAME

    return list(BY_NAME)
