"""TCP: loopback unless configured otherwise. A peer is trusted only after it has shown the token."""

from __future__ import annotations

import asyncio
import logging
import socket

from sessiond.limits import Limits
from sessiond.transports.channel import Acceptor
from sessiond.transports.listener import BACKLOG, Listener

_log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


class TcpListener(Listener):
    def __init__(self, sock: socket.socket, acceptor: Acceptor, *, limits: Limits) -> None:
        super().__init__(sock, acceptor, kind="tcp", trusted=False, limits=limits)
        self.host, self.port = str(sock.getsockname()[0]), int(sock.getsockname()[1])


async def listen(host: str | None, port: int, acceptor: Acceptor, limits: Limits) -> TcpListener:
    """Listen on `host` (a name or an address, None: loopback) and `port` (0: any free one). OSError is passed on."""
    return TcpListener(await bind(host, port), acceptor, limits=limits)


async def bind(host: str | None, port: int) -> socket.socket:
    """A listening socket. If a name has several addresses, the first IPv4 one is taken."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or LOOPBACK, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _name, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    import ipaddress  # imported late: it takes as long as all our own modules that most starts need

    if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        _log.warning("listening on %s, which other machines can reach; the traffic is not encrypted", address[0])
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Every connection inherits this: a peer whose machine is gone does not keep its place for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
