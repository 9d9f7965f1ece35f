"""Subscriptions of `sessiond mcp`: moments that a client's pace decides."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sessiond.mcp.watching import Watches

URI = "sessiond://session/chat"


class Changes:
    """A reply that never ends."""

    def __init__(self) -> None:
        self.closed = False

    async def wait(self, timeout_s: float | None) -> object | None:
        await asyncio.sleep(0.001)
        return object()

    def close(self) -> None:
        self.closed = True

    async def __aenter__(self) -> Changes:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class Daemon:
    """What `Watches` needs of a memory: a gate, which opens when the test says so, and a session."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.made = Changes()
        self.client = self

    def gate(self) -> Daemon:
        return self

    async def one(self, session_id: str) -> None:
        await self.opened.wait()

    def session(self, session_id: str) -> Daemon:
        return self

    async def changes(self) -> Changes:
        return self.made


@pytest.fixture
def daemon() -> Any:
    return Daemon()


async def test_a_session_that_changes_all_the_time_is_told(daemon: Any) -> None:
    daemon.opened.set()
    told: asyncio.Queue[str] = asyncio.Queue()
    watches = Watches(daemon)
    await watches.add(URI, told.put)
    async with asyncio.timeout(20):
        assert [await told.get(), await told.get()] == [URI, URI]
    watches.close()


async def test_what_is_unsubscribed_before_it_has_begun_does_not_begin(daemon: Any) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    watches = Watches(daemon)
    adding = asyncio.create_task(watches.add(URI, told.put))
    await asyncio.sleep(0)
    watches.remove(URI)
    daemon.opened.set()
    await adding
    assert daemon.made.closed and told.empty()
    await watches.add(URI, told.put)
    async with asyncio.timeout(20):
        assert await told.get() == URI
    watches.close()
