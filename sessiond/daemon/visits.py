"""The places that clients want followed while they stay, and what the clients are told (docs/decisions/0076)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from sessiond.daemon.followed_place import is_below
from sessiond.formats import registry as formats
from sessiond.model.values import source_path, tool_of
from sessiond.schema.notifications import Imported

if TYPE_CHECKING:
    from sessiond.rpc.methods import RemoteClient
    from sessiond.schema.sessions import ImportResult
    from sessiond.schema.types import SessionInfo
    from sessiond.store.port import FileWarning

_AGAIN_S = 0.2
"""How long to wait before a client is told again that was not reading."""
_WARNINGS = 1000
"""How many of them are kept for a client that does not read."""


class Visit:
    """The places that one client wants in one request. It is told of whatever comes from there, whoever imports it: the follower for
    this client, another one that reads the same file first, a request.
    """

    def __init__(self, peer: RemoteClient, store: str, places: Sequence[tuple[str | None, str]]) -> None:
        """`places`: whose files (None: those of any tool), and the folder or file."""
        self.places = tuple(dict.fromkeys((tool, os.path.normpath(path)) for tool, path in places))
        self._store = store
        self._peer = peer
        self._aliases: tuple[tuple[str | None, str], ...] = ()
        self._sessions: dict[str, SessionInfo] = {}
        self._warnings: dict[FileWarning, None] = {}
        self._again: asyncio.TimerHandle | None = None

    def resolve(self) -> None:
        """Look where links lead: others may follow the same files by another name. Blocks."""
        self._aliases = tuple((tool, os.path.realpath(path)) for tool, path in self.places)

    def covers(self, path: str, tool: object = None) -> bool:
        """Return whether a file belongs to it. `tool`: whose it is, if that is known. Files of our own formats may have sessions of any tool."""
        return any(
            (path == place or is_below(place, path)) and (tool is None or whose in (None, tool, *formats.NAMES))
            for whose, place in (*self.places, *self._aliases)
        )

    def hear(self, store: str, path: str, result: ImportResult, real: Mapping[str, str]) -> None:
        """An import of `path` into a store has ended. `real`: where the links in its paths lead."""
        if store != self._store:
            return
        for info in result.sessions:
            names = [one for one in (source_path(info.metadata), path) if one is not None]
            tool = tool_of(info.metadata)
            if any(self.covers(one, tool) for one in (*names, *map(real.get, names)) if one is not None):
                self._sessions.pop(info.session_id, None)
                self._sessions[info.session_id] = info
        for warning in result.warnings:
            if self.covers(warning.path) or self.covers(real.get(warning.path, warning.path)):
                self._note(warning)
        if self._again is None:
            self._tell()

    def warn(self, warning: FileWarning) -> None:
        if self.covers(warning.path):
            self._note(warning)
            if self._again is None:
                self._tell()

    def _note(self, warning: FileWarning) -> None:
        if len(self._warnings) < _WARNINGS:
            self._warnings[warning] = None

    def _tell(self) -> None:
        """Tell the client of sessions. What it does not read yet waits, each session once, as it was last."""
        self._again = None
        if self._peer.closed or not (self._sessions or self._warnings):
            return
        told = Imported(sessions=list(self._sessions.values()), warnings=list(self._warnings))
        if self._peer.notify("session/imported", msgspec.json.encode(told)):
            self._sessions, self._warnings = {}, {}
        else:
            self._again = asyncio.get_running_loop().call_later(_AGAIN_S, self._tell)
