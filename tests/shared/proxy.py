"""A link to the hub that can be cut, delayed, muted and half-opened: bytes over TCP, through a thread of our own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Proxy:
    """Forwards `port` to the server on loopback. `delay`: seconds that each piece takes, in each direction."""

    def __init__(self, target: int) -> None:
        self.delay = 0.0
        self.port = 0
        self._target = target
        self._cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._muted: set[asyncio.StreamWriter] = set()
        self._back: set[asyncio.StreamWriter] = set()
        """Towards those who connected."""
        self.port = self._call(self._listen())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    # What a test does to the link

    def cut(self) -> None:
        """Every connection ends, and none can be made."""

        async def cut() -> None:
            self._cut = True
            for writer in list(self._writers):
                writer.transport.abort()

        self._call(cut())

    def silence(self) -> None:
        """Connections stay, and new ones are taken, but nothing comes through: nobody is told that the link is dead."""

        async def silence() -> None:
            self._open.clear()

        self._call(silence())

    def mute(self) -> None:
        """What is asked on the present connections gets through, and no answer comes back."""

        async def mute() -> None:
            self._muted |= self._back

        self._call(mute())

    def heal(self) -> None:
        """What was half-open is dropped, and everything works again."""

        async def heal() -> None:
            self._cut = False
            broken = self._muted if self._open.is_set() else self._writers
            for writer in list(broken):
                writer.transport.abort()
            self._open.set()

        self._call(heal())

    def close(self) -> None:
        async def close() -> None:
            self._server.close()
            for writer in list(self._writers):
                writer.transport.abort()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._call(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Inside

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._back.add(writer)
        for source, target in ((reader, back), (there, writer)):
            self._writers.add(target)
            task = asyncio.get_running_loop().create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if not self._open.is_set():
                    await self._open.wait()
                    break
                if target in self._muted:
                    continue
                target.write(piece)
                await target.drain()
        for group in (self._writers, self._muted, self._back):
            group.discard(target)
        target.transport.abort()
