"""One connection for asyncio. Requests may be in flight side by side; it is of no use after it ended."""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sessiond.client import forks
from sessiond.client.connection import read_welcome
from sessiond.client.dialing import DaemonTarget, check_welcome, introduction
from sessiond.client.failures import error_of
from sessiond.client.requests import Answer, Request
from sessiond.client.wire import Incoming, IncomingLines, cancellation, refusal, request_line, too_large

T = TypeVar("T")
Heard = Callable[[Incoming], None]
_READ_BYTES = 256 * 1024


class AsyncConnection(asyncio.Protocol):
    """`heard` gets notifications in the order in which they came, between responses. What it raises ends the connection.

    The loop keeps it until it has ended, so whoever has it must close it, or abandon it.
    """

    def __init__(self, heard: Heard | None) -> None:
        self._heard = heard
        self._lines = IncomingLines()
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._last_id = 0
        self._awaited: dict[int, asyncio.Future[Incoming]] = {}
        self._hearing: dict[int, Request[Any]] = {}
        """Requests that are told of their progress."""
        self._heard_at = time.monotonic()
        self._missed_since = math.inf
        """When the first request was made that got no response in time, of those since anything was heard."""
        self.ended: BaseException | None = None
        """Why it is of no use any more."""
        self._message_bytes: int | None = None
        """How long a message the daemon takes, once it has said so."""
        self.told_of_end: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        forks.keep(self, AsyncConnection._forked)

    @classmethod
    async def to(cls, target: DaemonTarget, name: str, timeout_s: float, heard: Heard | None = None) -> AsyncConnection:
        """A connection that has introduced itself. DaemonUnreachable, Unauthorized; OSError where it ended meanwhile."""
        deadline = time.monotonic() + timeout_s
        # The token may be in a file, and a daemon may have to be started: neither belongs on the loop.
        raw, token = await _in_thread(lambda: (target.dial(deadline), target.token()))
        raw.settimeout(0)
        plain = socket.socket(fileno=raw.detach())
        forks.keep(plain, _release)
        try:
            _check_refused(plain)
            connection = cls(heard)
            await connection.use(plain)
        except BaseException:
            plain.close()
            raise
        try:
            answer = await (await connection.send("initialize", introduction(name, token)))
            welcome = read_welcome(answer)
            check_welcome(answer.error, welcome)
            connection._message_bytes = welcome.message_bytes
        except BaseException:
            connection.close()
            raise
        return connection

    async def use(self, connected: socket.socket) -> None:
        """Talk over this socket from now on."""
        await self._loop.create_connection(lambda: self, sock=connected)
        self._socket = connected

    async def ask(self, request: Request[T], *, resent: bool = False) -> Answer[T]:
        """The answer to a request, or its error as a SessiondError. ConnectionError.

        The daemon is told to stop a request that `stops` when the task that waits for it is cancelled.
        """
        number, response = self._write(request.method, request.params)
        if request.on_progress is not None:
            self._hearing[number] = request
        try:
            await self._drain()
            return request.answer(await response, resent=resent)
        except asyncio.CancelledError:
            if request.stops and self.ended is None:
                self._send(cancellation(number))
            raise
        finally:
            self._hearing.pop(number, None)

    async def send(self, method: str, params: Mapping[str, Any]) -> asyncio.Future[Incoming]:
        """Send a request. What will have the response; ConnectionError."""
        answer = self._write(method, params)[1]
        await self._drain()
        return answer

    def _write(self, method: str, params: Mapping[str, Any]) -> tuple[int, asyncio.Future[Incoming]]:
        if self.ended is not None:
            raise ConnectionResetError(str(self.ended))
        number = self._last_id + 1
        line = request_line(number, method, params)
        self._last_id = number
        answer: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at)
        refused = too_large(number, line, self._message_bytes)
        if refused is None:
            self._awaited[number] = answer
            self._send(line)
        else:
            answer.set_result(refused)
        return number, answer

    def silent_s(self, begun: float) -> float:
        """Return for how long nothing was heard, now that a request of that time (monotonic) got no response by its deadline."""
        self._missed_since = min(self._missed_since, begun)
        return time.monotonic() - max(self._missed_since, self._heard_at)

    def _forked(self) -> None:
        self.ended = ConnectionResetError("the connection is the parent's")

    def close(self) -> None:
        """At once, whatever the other side does, and whether or not the loop has ended."""
        if self._loop.is_closed():  # nobody waits there any more, and its transport can do nothing
            self.ended = ConnectionResetError("its event loop was closed")
            if self._socket is not None:
                _release(self._socket)
            return
        self._end(ConnectionResetError("the connection was closed"))

    def abandon(self) -> None:
        """Close it from whichever thread, where whoever had it is gone."""
        try:
            self._loop.call_soon_threadsafe(self.close)
        except RuntimeError:  # the loop is closed
            self.close()

    def _send(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line)

    async def _drain(self) -> None:
        """Wait until the daemon has taken enough of what was sent. ConnectionError."""
        await self._writable.wait()
        if self.ended is not None:
            raise ConnectionResetError(str(self.ended))

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._heard_at, self._missed_since = time.monotonic(), math.inf
        try:
            for incoming in self._lines.feed(data):
                self._take(incoming)
        except Exception as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError("the daemon ended the connection"))

    def _take(self, incoming: Incoming) -> None:
        if incoming.method is None:
            number = incoming.id
            if number is None and incoming.error is not None:  # a request that the daemon could not read
                number = min(self._awaited, default=None)
            answer = self._awaited.pop(number, None) if isinstance(number, int) else None
            if answer is not None and not answer.done():
                answer.set_result(incoming)
        elif incoming.id is not None:
            self._send(refusal(incoming))
        else:
            for asked in list(self._hearing.values()):
                asked.hears(incoming)
            if self._heard is not None:
                self._heard(incoming)

    def _end(self, error: BaseException) -> None:
        if self.ended is None:
            self.ended = error
            self._writable.set()
            if self._transport is not None:
                self._transport.abort()
            for answer in self._awaited.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError(str(error)))
            self._awaited.clear()
            if self.told_of_end is not None:
                self.told_of_end()


def _check_refused(connected: socket.socket) -> None:
    """Raise the error with which a daemon refuses a connection, if it has done so already: after the first write it could not be
    read any more.
    """
    try:
        said = connected.recv(_READ_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return
    for incoming in IncomingLines().feed(said):
        if incoming.error is not None:
            raise error_of(incoming.error)


def _release(connected: socket.socket) -> None:
    """Close it without the transport: in a forked child its loop would stop watching the socket for the parent, too, and a loop
    that is closed does nothing.
    """
    descriptor = connected.detach()
    if descriptor >= 0:
        os.close(descriptor)


def _look_at(answer: asyncio.Future[Incoming]) -> None:
    """Nobody may be waiting for it any more; asyncio complains of an exception that nobody looks at."""
    if not answer.cancelled():
        answer.exception()


async def _in_thread(work: Callable[[], tuple[_socket.socket, T]]) -> tuple[_socket.socket, T]:
    """Run `work` as asyncio.to_thread does, but let nothing wait for the thread when the caller leaves: reaching a daemon may take long."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[_socket.socket, T]] = loop.create_future()

    def give(result: tuple[_socket.socket, T] | None, error: BaseException | None) -> None:
        if done.done():
            if result is not None:
                result[0].close()
        elif result is not None:
            done.set_result(result)
        elif error is not None:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(give, result, error)
        except RuntimeError:  # the loop is closed: nobody asks any longer
            if result is not None:
                with contextlib.suppress(OSError):
                    result[0].close()

    threading.Thread(target=run, daemon=True, name="sessiond reach").start()
    return await done
