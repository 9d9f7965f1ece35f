"""The wire transcripts, replayed over the terminal client's own connection."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from sessiond_repl.connection import Connection

from sessiond.errors import SessiondError
from tests.home import Home
from tests.wire.test_wire import FILES, Replay


class ReplClient:
    """What Replay needs from a client, with a separate loop for each."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._heard: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(Connection.over(connected, self._hear))
        self._asked: list[asyncio.Task[Any]] = []

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        self._heard.put_nowait((method, params))

    def send(self, method: str, params: Any) -> int:
        self._asked.append(self._runner.get_loop().create_task(self._connection.call(method, params)))
        return len(self._asked) - 1

    def answer(self, number: int) -> dict[str, Any]:
        try:
            return {"result": self._runner.run(_done(self._asked[number]))}
        except SessiondError as error:
            return {"error": {"message": error.message, "data": {"kind": error.kind, **error.data}}}

    def notification(self, method: str) -> dict[str, Any]:
        while True:
            name, params = self._runner.run(asyncio.wait_for(self._heard.get(), 20))
            if name == method:
                return params

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


async def _done(task: asyncio.Task[Any]) -> Any:
    return await task


class ReplHome:
    def __init__(self, home: Home) -> None:
        self._home = home

    def client(self) -> ReplClient:
        return ReplClient(self._home.connect())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(tmp_path, path):
    """The daemon answers the terminal client as the transcript says."""
    with Home(tmp_path) as home:
        replay = Replay(ReplHome(home))
        try:
            for line in path.read_text().splitlines():
                if line.strip() and not line.startswith("#"):
                    replay.line(line)
        finally:
            for client in replay.clients.values():
                client.close()
