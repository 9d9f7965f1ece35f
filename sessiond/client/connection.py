"""One blocking connection. Every call has a deadline (monotonic seconds, or infinity), and the connection is of no use after
it failed.
"""

from __future__ import annotations

import _socket
import contextlib
import math
import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from sessiond.client import forks
from sessiond.client.dialing import DaemonTarget, Welcome, check_welcome, introduction
from sessiond.client.requests import Answer, Request
from sessiond.client.wire import Incoming, IncomingLines, cancellation, refusal, request_line, too_large

T = TypeVar("T")
Heard = Callable[[Incoming], None]
_READ_BYTES = 256 * 1024
_welcome = msgspec.json.Decoder(Welcome).decode


class DaemonConnection:
    """`heard` gets notifications in the order in which they came, between responses."""

    def __init__(self, connected: _socket.socket, heard: Heard | None = None) -> None:
        self._socket = connected
        self._heard = heard
        self._lines = IncomingLines()
        self._incoming: deque[Incoming] = deque()
        """What has come and is not taken yet; an interrupt leaves it there."""
        self._asking: Request[Any] | None = None
        self._last_id = 0
        self._awaited: set[int] = set()
        self._answers: dict[int, Incoming] = {}
        self._message_bytes: int | None = None
        """How long a message the daemon takes, once it has said so."""
        forks.keep(self, DaemonConnection._forked)

    @classmethod
    def to(cls, target: DaemonTarget, name: str, deadline: float, heard: Heard | None = None) -> DaemonConnection:
        """A connection that has introduced itself. DaemonUnreachable, Unauthorized; OSError where it ended meanwhile,
        TimeoutError where nobody responds.
        """
        connection = cls(target.dial(deadline), heard)
        try:
            number = connection.send("initialize", introduction(name, target.token()), deadline)
            answer = connection.wait(number, deadline)
            welcome = read_welcome(answer)
            check_welcome(answer.error, welcome)
            connection._message_bytes = welcome.message_bytes
        except BaseException:
            connection.close()
            raise
        return connection

    def ask(self, request: Request[T], deadline: float, *, resent: bool = False) -> Answer[T]:
        """The answer to a request, or its error as a SessiondError. TimeoutError, ConnectionError.

        Ctrl-C stops a request that `stops`: KeyboardInterrupt is raised once the daemon has stopped it.
        """
        number = self.send(request.method, request.params, deadline)
        self._asking = request
        try:
            return request.answer(self.wait(number, deadline), resent=resent)
        except KeyboardInterrupt:
            if request.stops:
                self._write(cancellation(number), deadline)
                self.wait(number, deadline)
            raise
        finally:
            self._asking = None

    def send(self, method: str, params: Mapping[str, Any], deadline: float) -> int:
        """Send a request. Its number, for `wait`."""
        line = request_line(self._last_id + 1, method, params)
        self._last_id += 1
        refused = too_large(self._last_id, line, self._message_bytes)
        self._awaited.add(self._last_id)
        if refused is None:
            try:
                self._write(line, deadline)
            except ConnectionError:
                with contextlib.suppress(ConnectionError):
                    self.read_waiting()  # a daemon that refuses a connection says why before it closes it
                if self._last_id not in self._answers:
                    raise
        else:
            self._answers[self._last_id] = refused
        return self._last_id

    def wait(self, number: int, deadline: float) -> Incoming:
        """The response to a request. TimeoutError, ConnectionError."""
        while number not in self._answers:
            self.read(deadline)
        self._awaited.discard(number)
        return self._answers.pop(number)

    def has(self, number: int) -> bool:
        """Return whether the response has come."""
        return number in self._answers

    def read(self, deadline: float) -> None:
        """Wait for bytes and take the messages in them. TimeoutError, ConnectionError."""
        if not self._incoming:
            left = deadline - time.monotonic()
            if left <= 0 and not self._readable():
                raise TimeoutError
            self._socket.settimeout(_timeout(left))
            chunk = self._socket.recv(_READ_BYTES)
            if not chunk:
                raise ConnectionResetError("the daemon ended the connection")
            self._incoming.extend(self._lines.feed(chunk))
        while self._incoming:
            self._take(self._incoming.popleft(), deadline)

    def read_waiting(self) -> None:
        """Take what has come, without waiting for more. ConnectionError."""
        while self._readable():
            self.read(time.monotonic())

    def _readable(self) -> bool:
        if self._socket.fileno() < 0:
            raise ConnectionResetError("the connection was closed")
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _take(self, incoming: Incoming, deadline: float) -> None:
        if incoming.method is None:
            number = incoming.id
            if number is None and incoming.error is not None:
                # A request that the daemon could not read. Nobody may be waiting any more for one that has an answer.
                number = min(self._awaited.difference(self._answers), default=None)
            if number in self._awaited:
                self._answers[number] = incoming
        elif incoming.id is not None:
            self._write(refusal(incoming), deadline)
        else:
            if self._asking is not None:
                self._asking.hears(incoming)
            if self._heard is not None:
                self._heard(incoming)

    def _write(self, line: bytes, deadline: float) -> None:
        self._socket.settimeout(_timeout(deadline - time.monotonic()))
        self._socket.sendall(line)

    def fileno(self) -> int:
        """For `select` and `poll`. Readable: `read` does not wait for the first bytes."""
        return self._socket.fileno()

    def end(self) -> None:
        """From any thread: whoever waits on the connection is told that it has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(_socket.SHUT_RDWR)

    def _forked(self) -> None:
        self._socket.close()  # without a shutdown, which would end the parent's connection

    def close(self) -> None:
        self.end()
        with contextlib.suppress(OSError):
            self._socket.close()


def _timeout(left: float) -> float | None:
    return None if left == math.inf else max(0.001, left)


def read_welcome(answer: Incoming) -> Welcome:
    if answer.error is not None:
        return Welcome()
    try:
        return _welcome(answer.result)
    except msgspec.MsgspecError:
        return Welcome()
