"""One byte stream under asyncio: framing on top, back-pressure both ways, an orderly end.

Reading: bytes arrive in a buffer that all streams of a listener share (they are received and consumed in one turn of the
loop), go through the decoder, and come out as messages until the receiver holds the channel. Writing: messages of one turn
are joined into one write. If more than `outgoing_bytes` wait, the channel is choked. Ending: `close` sends everything first.
After a fault it also discards what still arrives for a moment: closing a socket with unread bytes resets it, and the reset
would overtake the answer. A peer that only stopped sending still gets its answers; one that is gone does not.

Another thread may write a single message (`at_once`), if nothing waits before it. A thread that writes to the socket holds
`_lock`; while the transport has bytes in its own buffer (`_backed_up`) only the loop writes. If such a write is partial, the
rest goes to the front of what waits.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable
from functools import partial
from typing import cast

from sessiond.eager import turn
from sessiond.endpoint import GREETED, GREETING
from sessiond.limits import MESSAGES_AT_A_TIME, Limits
from sessiond.transports.channel import Connect, Receiver
from sessiond.transports.framing import Fault, Framing

_PLAIN = ("unix", "tcp")
"""Kinds whose messages any thread may write, because they are sent unchanged."""


class StreamChannel(asyncio.BufferedProtocol):
    """A `Channel` over a socket. A listener creates one for each connection."""

    def __init__(
        self,
        connect: Connect,
        *,
        kind: str,
        trusted: bool,
        limits: Limits,
        buffer: memoryview,
        forget: Callable[[StreamChannel], None],
        framing: Framing,
    ) -> None:
        self.kind = kind
        self.trusted = trusted
        self._connect = connect
        self._limits = limits
        self._shared_buffer = buffer
        self._forget = forget
        self._framing = framing
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._lock = threading.Lock()
        self._fd = -1
        """The descriptor of a socket that any thread may write to."""
        self._backed_up = False
        self._flush_planned = False
        self._begun = False
        """Its first byte has arrived."""
        self._held = False
        self._yielded = False
        """More was received than one turn of the loop takes: the next one continues."""
        self._finished_reading = False
        """The peer's last byte has arrived."""
        self._told_end = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.kind in _PLAIN:
            self._fd = transport.get_extra_info("socket").fileno()
        self._transport.set_write_buffer_limits(high=self._limits.outgoing_bytes, low=self._limits.outgoing_bytes // 4)
        self._receiver = self._connect(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._closing:
            self._framing.feed(self._shared_buffer[self._greeted(nbytes) : nbytes])
            if not self._held:
                with turn:
                    self._deliver()

    def _greeted(self, nbytes: int) -> int:
        """Answer the greeting (see `relay.py`), before anything else is read. How many of the bytes were that."""
        if self._begun or nbytes == 0:
            return 0
        self._begun = True
        if self.kind != "unix" or self._shared_buffer[:1] != GREETING:
            return 0
        assert self._transport is not None
        self._transport.write(GREETED)
        return len(GREETING)

    def eof_received(self) -> bool:
        self._finished_reading = True
        if self._closing:
            return False
        self._framing.end()
        if not self._held:
            self._deliver()
        return True

    def pause_writing(self) -> None:
        if self._receiver is not None:
            self._receiver.choked()

    def resume_writing(self) -> None:
        if self._receiver is not None and not self._closing:
            self._receiver.drained()

    def connection_lost(self, exc: Exception | None) -> None:
        with self._lock:  # the socket is closed after this: nothing may write to its number any longer
            self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        receiver, self._receiver, self._transport = self._receiver, None, None
        self._out.clear()
        self._forget(self)
        if receiver is not None:
            receiver.lost()

    # The channel

    def send(self, message: bytes, *, soon: bool = False) -> None:
        if self._closing:
            return
        self._write(self._framing.encode(message), soon=soon)

    def _write(self, framed: bytes, *, soon: bool) -> None:
        self._out.append(framed)
        self._out_bytes += len(framed)
        if not soon or self._out_bytes > self._limits.outgoing_bytes:
            self._flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def at_once(self, message: bytes, claim: Callable[[], bool]) -> Callable[[], bool] | None:
        return None if self._fd < 0 else partial(self._write_now, self._framing.encode(message), claim)

    def _write_now(self, framed: bytes, claim: Callable[[], bool]) -> bool:
        """From any thread. False: nothing of it was sent or will be."""
        with self._lock:
            if self._closing or self._backed_up or self._out or not claim():
                return False
            try:
                count = os.write(self._fd, framed)
            except OSError:  # it is full; or broken, which the loop finds out as well
                count = 0
            if count < len(framed):
                self._out.insert(0, framed[count:])  # the loop may have queued something since
                self._loop.call_soon_threadsafe(self._flush)
            return True

    def limit_messages(self, size: int) -> None:
        self._framing.message_limit = size

    def hold(self) -> None:
        if not self._held and not self._closing:
            self._held = True
            if self._transport is not None:
                self._transport.pause_reading()

    def release(self) -> None:
        if self._held and not self._closing:
            self._held = False
            self._loop.call_soon(self._go_on)

    def close(self, *, linger: bool = False) -> None:
        if self._closing or self._transport is None:
            return
        with self._lock:
            self._out.append(self._framing.farewell())
            self._write_out()
            self._closing = True
        if linger and not self._finished_reading:
            self._transport.resume_reading()
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self._timer = self._loop.call_later(self._limits.linger_s, self.abort)
        else:
            self._watch_last_bytes(self._transport.get_write_buffer_size() + 1)
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            with self._lock:
                self._closing = True
            self._transport.abort()

    # Within

    def _deliver(self) -> None:
        receiver = self._receiver
        self._yielded = False
        taken = 0
        while receiver is not None and not self._held and not self._closing:
            if taken == MESSAGES_AT_A_TIME:
                self._yield()
                return
            taken += 1
            item = self._framing.next()
            if reply := self._framing.replies():
                self._write(reply, soon=True)
            if item is None:
                break
            if isinstance(item, Fault):
                receiver.broken(item)
                return
            receiver.received(item)
        if self._framing.finished:
            self._finished_reading = True
        if self._finished_reading and receiver is not None and not (self._held or self._closing or self._told_end):
            self._told_end = True
            if self._hung_up():
                self.abort()
            else:
                receiver.ended()

    def _yield(self) -> None:
        """Let others have their turns before the next messages are taken. Nothing more is read until then."""
        self._yielded = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._loop.call_soon(self._go_on)

    def _hung_up(self) -> bool:
        """Return whether the peer cannot read any more either. (Over TCP that shows only when something is written.)"""
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(sock.fileno(), 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    def _go_on(self) -> None:
        if self._held or self._closing or self._transport is None:
            return
        with turn:
            self._deliver()
        if not (self._held or self._yielded or self._closing or self._finished_reading):
            self._transport.resume_reading()

    def _flush(self) -> None:
        self._flush_planned = False
        with self._lock:
            self._write_out()

    def _write_out(self) -> None:
        """Write what waits. The lock is held."""
        if self._out and self._transport is not None and not self._closing:
            data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
            self._out.clear()
            self._out_bytes = 0
            self._transport.write(data)
            self._backed_up = self._transport.get_write_buffer_size() > 0

    def _watch_last_bytes(self, before: int) -> None:
        """Give up on a peer that takes none of its last answers for a while."""
        if self._transport is None:
            return
        waiting = self._transport.get_write_buffer_size()
        if waiting >= before:
            self.abort()
        elif waiting:
            self._timer = self._loop.call_later(self._limits.close_s, self._watch_last_bytes, waiting)
