"""A visitor of the process that has an agent: it attaches to a session, says something, and leaves (door.py)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from sessiond.acp.acts import dumped, parsed
from sessiond.acp.cutter import Cutter
from sessiond.acp.door import said, socket_of

_SAY_S = 10.0
_PIECE_BYTES = 65536


class Visitor:
    """Attached to a session. What it says is read in the order in which it says it."""

    def __init__(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        self._reading = reading
        self._writing = writing
        self._cutter = Cutter()
        self._heard: list[dict[str, object]] = []

    def say(self, message: dict[str, Any]) -> None:
        """A response or a notification."""
        self._writing.write(dumped(message))

    async def ask(self, message: dict[str, object]) -> dict[str, object]:
        """The response to a request, however long it takes; empty if the agent ends before it. OSError."""
        self.say({"id": 1, **message})
        while (found := await self._next()) is not None:
            if "method" not in found and found.get("id") == 1:
                return found
        return {}

    async def attached(self) -> None:
        """Returns when it is. ConnectionError: too many are there, the agent has ended, or the session does not live there."""
        found = await self._next()
        if found is None or found.get("sessiond") != "attached":
            raise ConnectionRefusedError("the agent's process takes no other visitor, or it ends")

    async def leave(self) -> None:
        """Returns when everything that it said was read."""
        self._writing.write_eof()
        while await self._next() is not None:
            pass

    async def _next(self) -> dict[str, object] | None:
        """None: it has hung up."""
        while not self._heard:
            piece = await self._reading.read(_PIECE_BYTES)
            if not piece:
                return None
            self._heard += [parsed(line) or {} for line, whole in self._cutter.feed(piece) if whole]
        return self._heard.pop(0)


@contextlib.asynccontextmanager
async def visiting(pid: int, key: str, by: str) -> AsyncIterator[Visitor]:
    """In the agent's session `key`. `pid`: of the process. `by`: who says something. OSError, TimeoutError, NoHome: it cannot be
    reached.
    """
    async with asyncio.timeout(_SAY_S):
        reading, writing = await asyncio.open_unix_connection(socket_of(pid))
    try:
        visitor = Visitor(reading, writing)
        writing.write(said("attach", {"session": key, "client": {"name": by}, "role": "controller"}))
        async with asyncio.timeout(_SAY_S):
            await visitor.attached()
        yield visitor
    finally:
        writing.close()


async def say(pid: int, key: str, by: str, message: dict[str, Any]) -> None:
    """A response or a notification. Errors as for `visiting`."""
    async with visiting(pid, key, by) as visitor, asyncio.timeout(_SAY_S):
        visitor.say(message)
        await visitor.leave()
