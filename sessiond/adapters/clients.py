"""Connections that all adapters of a process share: one for blocking calls, and one for each event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncGenerator

from sessiond.client import AsyncSessiond, Sessiond, aconnect, connect

Place = tuple[str | None, str | None]
"""Whose daemon: the `home` that was given, and SESSIOND_HOME."""
NAME = "python-sdk"

_blocking: dict[Place, Sessiond] = {}
_lock = threading.Lock()


class _OfLoop:
    """The clients of one event loop. `dialing`: two tasks must not make two clients."""

    def __init__(self) -> None:
        self.clients: dict[Place, AsyncSessiond] = {}
        self.lifetimes: list[AsyncGenerator[None, None]] = []
        self.dialing = asyncio.Lock()


_of_loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
"""Until the loop shuts down its asynchronous generators, or is found closed."""


def _place(home: str | None) -> Place:
    return home, os.environ.get("SESSIOND_HOME")


def client(home: str | None = None) -> Sessiond:
    """The process' blocking client of the daemon of `home` (None: this user's). Threads may share it. It reconnects by itself,
    and is closed when the process ends. DaemonUnreachable, NoAnswer.
    """
    place = _place(home)
    with _lock:
        found = _blocking.get(place)
        if found is None:
            found = _blocking[place] = connect(home=home, name=NAME)
        return found


async def aclient(home: str | None = None) -> AsyncSessiond:
    """The running loop's client of the daemon of `home` (None: this user's). It reconnects by itself, and is closed with the
    loop's asynchronous generators, which `asyncio.run` does at its end; where a program only closes its loops, when the next
    loop asks for a client. DaemonUnreachable, NoAnswer.
    """
    place = _place(home)
    of_loop = _of(asyncio.get_running_loop())
    if (found := of_loop.clients.get(place)) is not None:
        return found
    async with of_loop.dialing:
        if (found := of_loop.clients.get(place)) is None:
            found = of_loop.clients[place] = await aconnect(home=home, name=NAME)
            lifetime = _lifetime(found)
            await anext(lifetime)
            of_loop.lifetimes.append(lifetime)
        return found


def _of(loop: asyncio.AbstractEventLoop) -> _OfLoop:
    """Return the clients of a loop. Where it is a new one, the clients of loops that were closed are closed, too."""
    left: list[_OfLoop] = []
    with _lock:
        found = _of_loops.get(loop)
        if found is None:
            left = [_of_loops.pop(one) for one in list(_of_loops) if one.is_closed()]
            found = _of_loops[loop] = _OfLoop()
    for of_loop in left:
        for one in of_loop.clients.values():
            one.close()
    return found


async def _lifetime(client: AsyncSessiond) -> AsyncGenerator[None, None]:
    """Open until the loop shuts down its asynchronous generators: that is how a library learns of a loop's end."""
    try:
        yield
    finally:
        client.close()
        _of_loops.pop(asyncio.get_running_loop(), None)


def close() -> None:
    """Close the process' blocking clients now. The next call of an adapter connects again."""
    with _lock:
        clients = list(_blocking.values())
        _blocking.clear()
    for one in clients:
        one.close()


def _forked() -> None:
    """A child must not speak over its parent's connections."""
    global _lock  # noqa: PLW0603  (the parent may have held it)
    _lock = threading.Lock()
    _blocking.clear()
    _of_loops.clear()


atexit.register(close)
os.register_at_fork(after_in_child=_forked)
