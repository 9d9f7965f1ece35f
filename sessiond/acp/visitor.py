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


@contextlib.asynccontextmanager
async def _attached(pid: int, key: str, by: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(_SAY_S):
        reading, writing = await asyncio.open_unix_connection(socket_of(pid))
    try:
        writing.write(said("attach", {"session": key, "client": {"name": by}, "role": "controller"}))
        yield reading, writing
    finally:
        writing.close()


async def say(pid: int, key: str, by: str, message: dict[str, Any]) -> None:
    """A response or a notification, in the agent's session `key`. `pid`: of the process. `by`: who says it. OSError, TimeoutError,
    NoHome: it cannot be reached.
    """
    async with _attached(pid, key, by) as (reading, writing), asyncio.timeout(_SAY_S):
        writing.write(dumped(message))
        writing.write_eof()
        while await reading.read(_PIECE_BYTES):  # until it has read everything, and hangs up
            pass


async def ask(pid: int, key: str, by: str, message: dict[str, Any]) -> dict[str, Any]:
    """The response to a request, however long it takes; empty if the agent ends before it. Errors as for `say`."""
    async with _attached(pid, key, by) as (reading, writing):
        writing.write(dumped({"id": 1, **message}))
        cutter = Cutter()
        while piece := await reading.read(_PIECE_BYTES):
            for line, whole in cutter.feed(piece):
                found = (parsed(line) or {}) if whole else {}
                if "method" not in found and found.get("id") == 1:
                    return found
    return {}
