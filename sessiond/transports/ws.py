"""WebSocket: one text frame for each message, and files of the page on the same port.

    accepted ──one HTTP request──> judged by Host and Origin ──upgrade──> a channel like any other
                                        └── a plain GET: a file, and the end

A token may come with the handshake (then the peer is trusted from the start; a wrong one is refused there) or in the first
message, which the layer above checks. Only a channel counts as a connection of the daemon; peers in the handshake have a
separate deadline and limit.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

import msgspec
from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from sessiond.limits import Limits
from sessiond.transports import tcp, unix
from sessiond.transports.channel import Acceptor
from sessiond.transports.listener import Listener
from sessiond.transports.stream import StreamChannel
from sessiond.transports.ws_framing import WsFraming
from sessiond.transports.ws_http import (
    HttpResponse,
    OriginCheck,
    RequestRefused,
    Site,
    read_head,
    serialize,
    token_of,
    wants_upgrade,
)

_log = logging.getLogger(__name__)
_END_OF_HEAD = b"\r\n\r\n"
_TEXT = "text/plain; charset=utf-8"
_FULL = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-31006,"message":"too many connections","data":{"kind":"tooLarge"}}}'
)

Admits = Callable[[str | None], bool]
"""Whether a token is valid."""
TokenOf = Callable[[Request], str | None]
"""Where the token is in the request."""


class Gate(msgspec.Struct, frozen=True):
    """The rules on who comes in by WebSocket, and what else the port serves. `strangers`: a peer may come without a token, and show it in its
    first message.
    """

    door: OriginCheck
    site: Site
    admits: Admits
    kind: str = "ws"
    token_of: TokenOf = token_of
    strangers: bool = True


class WsListener(Listener):
    """`host` and `port` are empty and 0 for a Unix socket."""

    def __init__(
        self,
        sock: socket.socket,
        acceptor: Acceptor,
        *,
        limits: Limits,
        gate: Gate,
        may_enter: Callable[[socket.socket], bool] = lambda _: True,
    ) -> None:
        self.gate = gate
        super().__init__(sock, acceptor, kind=gate.kind, trusted=False, limits=limits, may_enter=may_enter)
        name = ("", 0) if sock.family == socket.AF_UNIX else sock.getsockname()
        self.host, self.port = str(name[0]), int(name[1])

    def _refusal(self) -> bytes | None:
        return _FULL if len(self.channels) + len(self._coming) >= self._limits.connections else None

    def _last_word(self, word: bytes) -> bytes:
        return serialize(HttpResponse(503, "application/json", word), "")

    def _make_channel(self, peer: socket.socket) -> StreamChannel:
        self._coming.discard(peer)
        channel = WsChannel(self, self._acceptor, self._limits, self._buffer)
        self.channels.add(channel)
        return channel


class WsUnixListener(WsListener):
    """On a Unix socket, for programs of this user."""

    def __init__(self, path: str, acceptor: Acceptor, *, limits: Limits, gate: Gate) -> None:
        super().__init__(unix.bind(path), acceptor, limits=limits, gate=gate, may_enter=unix.same_user)
        self.file = unix.SocketFile(path)

    def close(self) -> None:
        self.file.remove()
        super().close()


class WsChannel(StreamChannel):
    """A `Channel` from the moment when the handshake is answered; before that the layer above does not know it."""

    def __init__(self, listener: WsListener, acceptor: Acceptor, limits: Limits, buffer: memoryview) -> None:
        self._frames = WsFraming(limits.unauthenticated_message_bytes)
        super().__init__(
            acceptor.connect,
            kind=listener.gate.kind,
            trusted=False,
            limits=limits,
            buffer=buffer,
            forget=listener.channels.discard,
            framing=self._frames,
        )
        self._listener = listener
        self._acceptor = acceptor
        self._head: bytearray | None = bytearray()
        """The part of the request that has arrived; None once it is complete."""
        self._host = ""
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._next_ping: asyncio.TimerHandle | None = None
        self._heard = True

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.outgoing_bytes, low=self._limits.outgoing_bytes // 4)
        self._deadline = self._loop.call_later(self._limits.first_message_s, self.abort)

    def buffer_updated(self, nbytes: int) -> None:
        self._heard = True
        if self._head is None:
            super().buffer_updated(nbytes)
            return
        seen = max(
            0, len(self._head) - len(_END_OF_HEAD) + 1
        )  # each byte is examined once, however few arrive at a time
        self._head += self._shared_buffer[:nbytes]
        end = self._head.find(_END_OF_HEAD, seen) + len(_END_OF_HEAD)
        try:
            self._check_head(end)
            if end >= len(_END_OF_HEAD):
                head, rest = bytes(self._head[:end]), bytes(self._head[end:])
                self._head = None
                self._request(head, rest)
        except RequestRefused as refused:
            self._head = None
            self._finish(refused.answer)

    def eof_received(self) -> bool:
        if self._head is not None:
            self.abort()  # gone before it sent a request
            return False
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._next_ping):
            if timer is not None:
                timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        super().connection_lost(exc)

    # The request

    def _check_head(self, end: int) -> None:
        assert self._head is not None
        size = end if end >= len(_END_OF_HEAD) else len(self._head)
        if size > self._limits.http_header_bytes:
            raise RequestRefused(
                431, f"the headers are longer than {self._limits.http_header_bytes} bytes", kind="tooLarge"
            )
        if not 0x41 <= self._head[0] <= 0x5A:  # a TLS hello, or another protocol: it would wait for an answer
            raise RequestRefused(400, "this port speaks HTTP and WebSocket, without TLS", kind="invalidRequest")

    def _request(self, head: bytes, rest: bytes) -> None:
        method, protocol, request = read_head(head)
        self._host = self._listener.gate.door.judge(request.headers)
        if method == "GET" and wants_upgrade(request):
            self._upgrade(protocol, request, rest)
            return
        assert self._transport is not None
        self._transport.pause_reading()
        self._answering = self._loop.create_task(self._serve(request, head_only=method == "HEAD"))

    def _upgrade(self, protocol: ServerProtocol, request: Request, rest: bytes) -> None:
        gate = self._listener.gate
        token = gate.token_of(request)
        trusted = gate.admits(token)
        if not trusted and (token is not None or not gate.strangers):
            what = "no token" if token is None else "wrong token"
            raise RequestRefused(401, what, "the file that `sessiond status` shows contains it")
        response = protocol.accept(request)
        if response.status_code != 101:
            self._finish(HttpResponse(response.status_code, _TEXT, bytes(response.body)))
            return
        self._write(response.serialize(), soon=True)
        self._frames.opened = True
        if (word := self._acceptor.refusal(trusted)) is not None:
            self._frames.close_with(CloseCode.TRY_AGAIN_LATER)
            self.send(word)
            self.close(linger=True)
            return
        if self._deadline is not None:
            self._deadline.cancel()  # from here on the layer above waits for the first message
        self.trusted = trusted
        if trusted:
            self._frames.message_limit = self._limits.message_bytes
        self._receiver = self._connect(self)
        self._next_ping = self._loop.call_later(self._limits.ping_s, self._ping)
        self._frames.feed(rest)
        if not self._held:
            self._deliver()

    async def _serve(self, request: Request, *, head_only: bool) -> None:
        path, _, query = request.path.partition("?")
        authorization = request.headers.get_all("Authorization")
        try:
            answer = await self._listener.gate.site.get(
                path, query, authorization[0] if len(authorization) == 1 else "", self._listener.port
            )
        except RequestRefused as refused:
            answer = refused.answer
        except OSError as error:
            _log.error("%s could not be read: %s", path, error)
            answer = HttpResponse(500, _TEXT, b"this file could not be read\n")
        except Exception:  # without an answer the peer would wait for the deadline
            _log.exception("%s could not be served", path)
            answer = HttpResponse(500, _TEXT, b"an internal error: the daemon's log says which\n")
        self._finish(answer or HttpResponse(404, _TEXT, b"there is nothing here\n"), head_only=head_only)

    def _finish(self, answer: HttpResponse, *, head_only: bool = False) -> None:
        if self._transport is None:
            return
        if self._deadline is not None:
            self._deadline.cancel()  # `close` watches that the peer takes it
        self._write(serialize(answer, self._host, head_only=head_only), soon=True)
        self.close(linger=answer.status >= 400)

    # Whether the peer is still there

    def _ping(self) -> None:
        if self._closing or self._transport is None:
            return
        if not (self._heard or self._held):
            _log.info(
                "a WebSocket peer sent nothing for %g s, not even a pong; the connection is closed", self._limits.ping_s
            )
            self.abort()
            return
        if not self._held:  # while nothing is read, nothing can arrive
            self._heard = False
            self._write(self._frames.ping(), soon=False)
        self._next_ping = self._loop.call_later(self._limits.ping_s, self._ping)


def listen_unix(path: str, acceptor: Acceptor, limits: Limits, gate: Gate) -> WsUnixListener:
    """Listen on `path`. Raises ConfigError for a folder that other users can access; OSError is passed on."""
    return WsUnixListener(path, acceptor, limits=limits, gate=gate)


async def listen(host: str | None, port: int, acceptor: Acceptor, limits: Limits, gate: Gate) -> WsListener:
    """Listen on `host` (a name or an address, None: loopback) and `port` (0: any free one). OSError is passed on."""
    return WsListener(await tcp.bind(host, port), acceptor, limits=limits, gate=gate)
