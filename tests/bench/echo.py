"""The limit of a round trip: `python echo.py [SOCKET]` sends every line back, by bare asyncio, and does nothing else.
Without a socket's path it listens on TCP. It prints the port, or 0.
"""

import asyncio
import sys


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def main(path=None):
    loop = asyncio.get_running_loop()
    if path is None:
        server = await loop.create_server(Echo, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
    else:
        server = await loop.create_unix_server(Echo, path)
        print(0, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
