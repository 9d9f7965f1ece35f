"""Accepts the connections of a listening socket and makes a channel of each.

It accepts by itself instead of leaving that to asyncio: a peer must be checked before anything is read from it, one too many
gets an error before it is closed, and when the process runs out of descriptors (EMFILE) a spare one is given up to accept
and refuse, so that neither the loop spins nor the peer waits in vain.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from functools import partial

from sessiond.limits import Limits
from sessiond.transports.channel import Acceptor, Channel, Receiver
from sessiond.transports.framing import Decoder, encode
from sessiond.transports.stream import StreamChannel

_log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
BACKLOG = 1024
_ACCEPTS_A_TURN = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_RETRY_S = 0.1


class Listener:
    """`may_enter` checks an accepted socket before anything else; one that it refuses is closed silently."""

    def __init__(
        self,
        sock: socket.socket,
        acceptor: Acceptor,
        *,
        kind: str,
        trusted: bool,
        limits: Limits,
        may_enter: Callable[[socket.socket], bool] = lambda _: True,
    ) -> None:
        self.socket = sock
        self._acceptor = acceptor
        self._kind = kind
        self._trusted = trusted
        self._limits = limits
        self._may_enter = may_enter
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._spare = _open_spare()
        self._joining: set[asyncio.Task[None]] = set()
        self._coming: set[socket.socket] = set()
        """Admitted, but not counted as connections yet."""
        self.channels: set[StreamChannel] = set()
        sock.setblocking(False)
        self._loop.add_reader(sock, self._accept_waiting)

    @property
    def address(self) -> object:
        return self.socket.getsockname()

    def close(self) -> None:
        """Stop accepting. Open channels remain open."""
        if self.socket.fileno() < 0:
            return
        self._loop.remove_reader(self.socket)
        self.socket.close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _accept_waiting(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                peer, _address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS or not self._refuse_with_spare():
                    _log.error("accepting on %s failed: %s", self._kind, error)
                    self._rest()
                    return
                continue
            self._welcome(peer)

    def _welcome(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        if not self._may_enter(peer):
            _log.warning("refused a connection by another user on %s", self._kind)
            peer.close()
        elif (word := self._refusal()) is not None:
            self._refuse(peer, word)
        else:
            self._coming.add(peer)
            task = self._loop.create_task(self._join(peer))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, peer: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(partial(self._make_channel, peer), peer)
        except OSError as error:
            _log.info("a connection on %s ended before it began: %s", self._kind, error)
            peer.close()
        finally:
            self._coming.discard(peer)

    def _refusal(self) -> bytes | None:
        """Return why another peer cannot be accepted, or None if it can."""
        return self._acceptor.refusal(self._trusted, len(self._coming))

    def _make_channel(self, peer: socket.socket) -> StreamChannel:
        def connect(channel: Channel) -> Receiver:
            self._coming.discard(peer)
            return self._acceptor.connect(channel)

        limits = self._limits
        channel = StreamChannel(
            connect,
            kind=self._kind,
            trusted=self._trusted,
            limits=limits,
            buffer=self._buffer,
            forget=self.channels.discard,
            framing=Decoder(
                header_limit=limits.header_bytes,
                message_limit=limits.message_bytes if self._trusted else limits.unauthenticated_message_bytes,
                allow_lines=True,
            ),
        )
        self.channels.add(channel)
        return channel

    def _refuse(self, peer: socket.socket, word: bytes) -> None:
        """Send a last message and close."""
        with peer:
            peer.setblocking(False)
            try:
                peer.send(self._last_word(word))
                peer.shutdown(socket.SHUT_WR)
            except OSError:
                return

    def _last_word(self, word: bytes) -> bytes:
        # It is not known yet how the peer frames messages. One that reads lines gets a header and an empty line, then this.
        return encode(word + b"\n", lines=False)

    def _refuse_with_spare(self) -> bool:
        """Out of descriptors: accept one peer with the spare one, tell it, and close it. False if there was no spare."""
        if self._spare is None:
            self._spare = _open_spare()
            return False
        os.close(self._spare)
        try:
            peer, _address = self.socket.accept()
        except OSError:
            return False
        else:
            self._refuse(peer, self._refusal() or _NO_DESCRIPTORS)
        finally:
            self._spare = _open_spare()
        return True

    def _rest(self) -> None:
        """Accept nothing for a moment, so that a lasting failure does not make the loop spin."""
        self._loop.remove_reader(self.socket)
        self._loop.call_later(_RETRY_S, self._wake)

    def _wake(self) -> None:
        if self.socket.fileno() >= 0:
            self._loop.add_reader(self.socket, self._accept_waiting)


_NO_DESCRIPTORS = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-31006,"message":"the daemon has no file descriptor left for another connection",'
    b'"data":{"kind":"tooLarge","hint":"close a connection, or raise the limit of open files (ulimit -n)"}}}'
)


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
