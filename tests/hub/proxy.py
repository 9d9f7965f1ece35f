"""A way to a server that can be cut, held up, or lose one direction without a word."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Listens on `port` and passes everything on to `target` (a port of this machine)."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.delay_s = 0.0
        """How long each piece waits, in each direction."""
        self._server: asyncio.Server | None = None
        self._ways: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._deaf: set[asyncio.StreamWriter] = set()
        self._back: set[asyncio.StreamWriter] = set()
        """Towards those who connected."""
        self._refusing = False

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._ways:
            task.cancel()
        self.cut()
        await asyncio.gather(*self._ways, return_exceptions=True)

    def cut(self) -> None:
        """Every connection breaks at once, whatever is on its way."""
        for writer in self._writers:
            writer.transport.abort()

    def go_deaf(self) -> None:
        """From now on nothing gets through on the present connections, and nobody is told."""
        self._deaf |= self._writers

    def mute(self) -> None:
        """From now on no answer gets through on the present connections; what is asked does."""
        self._deaf |= self._back

    def refuse(self, refusing: bool) -> None:
        self._refusing = refusing
        if refusing:
            self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._back.add(writer)
        for one, other in ((reader, back), (there, writer)):
            self._writers.add(other)
            task = asyncio.get_running_loop().create_task(self._pass_on(one, other, writer if other is back else back))
            self._ways.add(task)
            task.add_done_callback(self._ways.discard)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, piece = await pieces.get()
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                if writer in self._deaf:
                    continue
                writer.write(piece)
                await writer.drain()

        sender = loop.create_task(send())
        try:
            with contextlib.suppress(OSError):
                while piece := await reader.read(65536):
                    pieces.put_nowait((loop.time() + self.delay_s, piece))
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            if writer not in self._deaf:
                writer.transport.abort()
                other.transport.abort()
            self._writers.discard(writer)
