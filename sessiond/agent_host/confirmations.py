"""The changes that windows make, until they know that these are durable.

A window shows at once what it asks for, and takes it back unless an action with its name comes. That action is the one that tells
all windows of the change, so it comes by the way of all changes: made durable, heard of, turned into actions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from sessiond.agent_host.shapes import Action, State

_REACH_S = 10.0
"""How long a change may take from its answer to the windows."""


class Confirmation:
    """`awaited`: the actions that confirm the change, by type and the id that they name. `origin`: the window."""

    def __init__(self, origin: State, *awaited: tuple[str, str | None]) -> None:
        self.origin = origin
        self.awaited = awaited
        self.given = False


class Confirmations:
    """The confirmations that windows of one session wait for."""

    def __init__(self) -> None:
        self._open: list[Confirmation] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @contextlib.contextmanager
    def expecting(self, confirmation: Confirmation) -> Iterator[None]:
        self._open.append(confirmation)
        try:
            yield
        finally:
            self._open.remove(confirmation)

    def origin_of(self, action: Action) -> State | None:
        """The window's that made the change which the action tells, if one waits for that."""
        told = action["type"], action.get("turnId", action.get("id", action.get("requestId")))
        for one in self._open:
            if not one.given and told in one.awaited:
                one.given = True
                return one.origin
        return None

    async def reached(self, seq: int) -> None:
        """Returns when windows have been told of changes up to this seq. TimeoutError, and what `close` is given."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, waiter))
        async with asyncio.timeout(_REACH_S):
            await waiter

    def told(self, seq: int) -> None:
        """Windows know the session up to here."""
        for wanted, waiter in self._waiting:
            if wanted <= seq and not waiter.done():
                waiter.set_result(None)
        self._waiting = [one for one in self._waiting if not one[1].done()]

    def close(self, why: Exception) -> None:
        for _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(why)
        self._waiting.clear()
