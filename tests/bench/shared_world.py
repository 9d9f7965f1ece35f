"""A hub, daemons and fast clients for the benchmark of shared stores."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.home import Home
from tests.hub.figures import BARE
from tests.hub.postgres import Server
from tests.hub.proxy import Proxy
from tests.hub.stores import Team

LENGTH = 400
A_SESSION = 1000
_databases = itertools.count(1)


class Scale(msgspec.Struct, frozen=True):
    """`turns` of `each` appends for the median, `many` appends of each of 16 clients, `reach` changes, `messages` for growth.

    `delays`: of the network, there and back, in ms.
    """

    turns: int = 20
    each: int = 25
    many: int = 300
    reach: int = 100
    messages: int = 1_000_000
    opens: int = 20
    delays: tuple[int, ...] = (0, 20, 100)

    def with_delay(self, ms: int) -> Scale:
        """Fewer where each takes long."""
        return (
            self
            if not ms
            else msgspec.structs.replace(
                self, turns=2, each=min(self.each, 10), many=min(self.many, 40), reach=min(self.reach, 20)
            )
        )


SMOKE = Scale(turns=1, each=3, many=3, reach=3, messages=4000, opens=3, delays=(0,))
Row = tuple[str, str, str]
"""What was measured, how much, and the aim."""


class Peer:
    """A client of a daemon, as fast as can be: newline-delimited JSON."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ids = itertools.count(1)
        self.told: list[dict[str, Any]] = []

    @classmethod
    async def of(cls, home: Home) -> Peer:
        return cls(*await asyncio.open_unix_connection(str(home.socket_path), limit=1 << 26))

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._writer.write(
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"
        )
        while True:
            message = await self._read()
            if message.get("id") == number:
                return message["result"]
            self.told.append(message)

    async def changed(self) -> dict[str, Any]:
        """The next `session/changed`."""
        while True:
            message = self.told.pop(0) if self.told else await self._read()
            if message.get("method") == "session/changed":
                return dict(message["params"])

    async def _read(self) -> dict[str, Any]:
        line = await self._reader.readline()
        if not line:
            raise ConnectionError("the daemon closed the connection")
        return dict(json.loads(line))

    async def say(self, session: str, words: str) -> None:
        await self.call("session/append", sessionId=session, messages=[{"role": "user", "content": words}])

    def close(self) -> None:
        self._writer.close()


class World:
    """A hub of its own database, and daemons that share a store on it."""

    def __init__(self, server: Server, folder: Path, delay_ms: int) -> None:
        self.server = server
        self.database = f"bench_{next(_databases)}"
        self.port = server.port
        self._folder, self._delay_ms = folder, delay_ms
        self._proxy: Proxy | None = None
        self.homes: list[Home] = []

    async def begin(self) -> None:
        self.team = await Team.make(self.server, self.database)
        self.server.sql(BARE, self.database)
        if self._delay_ms:
            self._proxy = await Proxy(self.server.port).start()
            self._proxy.delay_s = self._delay_ms / 2000
            self.port = self._proxy.port

    def url(self, role: str) -> str:
        return self.server.url(role, self.database, tcp=True, port=self.port)

    async def daemon(self, more: str = "") -> Home:
        """`more`: lines for the store in its configuration."""
        number = len(self.homes)
        folder = self._folder / f"{self.database}-{number}"
        folder.mkdir()
        home = Home(folder, f'[stores.team]\nurl = "{self.url(("ada", "bob")[number % 2])}"\n{more}')
        self.homes.append(home)
        await asyncio.to_thread(home.start)
        peer = await Peer.of(home)
        while (await self.hub_of(peer))["state"] != "online":
            await asyncio.sleep(0.05)
        peer.close()
        return home

    @staticmethod
    async def hub_of(peer: Peer) -> dict[str, Any]:
        stores = (await peer.call("daemon/status"))["stores"]
        return dict(next(one["hub"] for one in stores if one["name"] == "team"))

    async def close(self) -> None:
        for home in self.homes:
            await asyncio.to_thread(home.stop)
        await self.team.close()
        if self._proxy is not None:
            await self._proxy.close()


@contextlib.asynccontextmanager
async def world(server: Server, delay_ms: int = 0) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        made = World(server, Path(folder), delay_ms)
        await made.begin()
        try:
            yield made
        finally:
            await made.close()


async def begun(peer: Peer, store: str = "team") -> str:
    return str((await peer.call("session/new", store=store, name="bench"))["session"]["sessionId"])


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """In ms."""
    begin = time.perf_counter()
    await work()
    return (time.perf_counter() - begin) * 1000
