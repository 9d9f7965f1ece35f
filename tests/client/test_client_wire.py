"""The wire transcripts, replayed over the Python client's connection."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
import pytest

from sessiond.client.aio.connection import AsyncConnection
from sessiond.client.wire import Incoming
from tests.home import Home
from tests.wire.test_wire import FILES, Replay


class PythonClient:
    """What Replay needs from a client, with a separate loop for each."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._heard: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(self._over(connected))
        self._asked: list[asyncio.Task[Incoming]] = []

    async def _over(self, connected: socket.socket) -> AsyncConnection:
        connection = AsyncConnection(self._hear)
        await connection.use(connected)
        return connection

    async def _ask(self, method: str, params: Any) -> Incoming:
        return await (await self._connection.send(method, params))

    def _hear(self, incoming: Incoming) -> None:
        assert incoming.method is not None
        self._heard.put_nowait((incoming.method, msgspec.json.decode(incoming.params)))

    def send(self, method: str, params: Any) -> int:
        self._asked.append(self._runner.get_loop().create_task(self._ask(method, params)))
        return len(self._asked) - 1

    def answer(self, number: int) -> dict[str, Any]:
        answer = self._runner.run(_done(self._asked[number]))
        return {"result": msgspec.json.decode(answer.result)} if answer.error is None else {"error": answer.error}

    def notification(self, method: str) -> dict[str, Any]:
        while True:
            name, params = self._runner.run(asyncio.wait_for(self._heard.get(), 20))
            if name == method:
                return params

    def close(self) -> None:
        self._connection.close()
        self._runner.close()


async def _done(task: asyncio.Task[Incoming]) -> Incoming:
    return await task


class PythonHome:
    def __init__(self, home: Home) -> None:
        self._home = home

    def client(self) -> PythonClient:
        return PythonClient(self._home.connect())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(tmp_path, path):
    """The daemon responds to the Python client as the transcript says."""
    with Home(tmp_path) as home:
        replay = Replay(PythonHome(home))
        try:
            for line in path.read_text().splitlines():
                if line.strip() and not line.startswith("#"):
                    replay.line(line)
        finally:
            for client in replay.clients.values():
                client.close()
