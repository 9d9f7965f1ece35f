"""`daemon/follow`: which tools are followed, now and at every start."""

from __future__ import annotations

import asyncio
import difflib
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sessiond import config as configuration
from sessiond.config import DEFAULT_STORE, Config
from sessiond.endpoint import Places
from sessiond.errors import ConfigError, InvalidParams, ReadOnly
from sessiond.fs import FileSystem, off_loop
from sessiond.schema.daemon import FollowParams, FollowResult
from sessiond.service.sessions import Service
from sessiond.shield import through

if TYPE_CHECKING:
    from sessiond.daemon.follow import Follower

log = logging.getLogger(__name__)
ALL = "all"


class Following:
    """`editing`: held by whoever changes `config.toml`."""

    def __init__(self, fs: FileSystem, where: Places, config: Config, service: Service, editing: asyncio.Lock) -> None:
        self._fs = fs
        self._where = where
        self._config = config
        self._service = service
        self._editing = editing
        self._follower: Follower | None = None
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
        if self._follower is not None:
            await self._follower.close()

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
        before, self._follower = self._follower, None
        if before is not None:
            await before.close()
        if tools:
            from sessiond.daemon.follow import Follower

            store = self._service.stores[DEFAULT_STORE]
            self._follower = Follower(await self._service.transfer.followed(store), tools, os.environ)
            await self._follower.start()

    @property
    def tools(self) -> Sequence[str]:
        """Those that are followed now; before it has begun, those that are configured."""
        return self._config.follow_tools if self._follower is None else self._follower.tools

    async def status(self) -> FollowResult:
        follower = self._follower
        if follower is None:
            return FollowResult(tools=list(self._config.follow_tools), places=[], behind=0)
        return FollowResult(tools=list(follower.tools), places=await follower.measured(), behind=follower.behind)


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
