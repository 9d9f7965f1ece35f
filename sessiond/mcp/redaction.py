"""`--redact`: everything that leaves goes through the redaction of `sessiond export --redact`.

That learns user names from a whole session before it blanks anything, so a session is read once before the first word of it leaves,
and what was added to it since is read before the next.
"""

from __future__ import annotations

import getpass
from collections import OrderedDict
from typing import Any

from sessiond.client import requests
from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.types import SessionInfo
from sessiond.exporters.redact import Redactor

_PAGE = 200
_MAX_SESSIONS = 256
"""Sessions whose names are remembered; those that were not used for longest are read again."""


class Blanks:
    """Blanks the values of sessions. Without `on` it gives everything back as it is."""

    def __init__(self, client: AsyncSessiond, *, on: bool) -> None:
        self.on = on
        self._client = client
        self._learned: OrderedDict[str, tuple[int, Redactor]] = OrderedDict()
        self._common = Redactor(_users())

    def value(self, value: object) -> Any:
        """A JSON value that belongs to no session that was read, such as an error."""
        return self._common.value(value) if self.on else value

    async def of(self, info: SessionInfo) -> Redactor | None:
        """Return what blanks this session's values; None if nothing is to be blanked."""
        if not self.on:
            return None
        since, redactor = self._learned.pop(info.session_id, (0, Redactor(_users())))
        redactor.learn([info.name, info.cwd, info.summary, info.tags, info.metadata])
        more = since < info.seq
        while more:
            asked = requests.read(info.session_id, since=since, limit=_PAGE)
            page: dict[str, Any] = (await self._client.answer(asked)).plain
            redactor.learn(page["messages"])
            more = page["hasMore"] and bool(page["messages"])
            since = page["messages"][-1]["seq"] if page["messages"] else since
        for note in await self._client.session(info.session_id).notes():
            redactor.learn([note.heading, note.content])
        self._learned[info.session_id] = (since, redactor)
        if len(self._learned) > _MAX_SESSIONS:
            self._learned.popitem(last=False)
        return redactor


def strings_of(value: object) -> str:
    """All strings in a JSON value, keys left out, each on lines of its own."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(strings_of, inner)))


def around(text: str, place: int, chars: int = 240) -> str:
    """A part of a text around a place."""
    begin = max(0, place - chars // 3)
    part = text[begin : begin + chars]
    return ("…" if begin else "") + part + ("…" if begin + chars < len(text) else "")


def _users() -> list[str]:
    try:
        return [getpass.getuser()]
    except (KeyError, OSError):
        return []
