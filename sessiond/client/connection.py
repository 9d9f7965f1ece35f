"""One blocking connection. Every call has a deadline (monotonic seconds), and the connection is of no use after it failed."""

from __future__ import annotations

import _socket
import contextlib
import select
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sessiond.client.dialing import Target, Welcome, check_welcome, introduction
from sessiond.client.wire import Incoming, Lines, refusal, request

Heard = Callable[[Incoming], None]
_READ_BYTES = 256 * 1024
_welcome = msgspec.json.Decoder(Welcome).decode


class Connection:
    """`heard` gets notifications in the order in which they came, between responses."""

    def __init__(self, connected: _socket.socket, heard: Heard | None = None) -> None:
        self._socket = connected
        self._heard = heard
        self._lines = Lines()
        self._last_id = 0
        self._awaited: set[int] = set()
        self._answers: dict[int, Incoming] = {}

    @classmethod
    def to(cls, target: Target, name: str, deadline: float, heard: Heard | None = None) -> Connection:
        """A connection that has introduced itself. DaemonUnreachable, Unauthorized; OSError where it ended meanwhile,
        TimeoutError where nobody responds.
        """
        connection = cls(target.dial(deadline), heard)
        try:
            number = connection.send("initialize", introduction(name, target.token()), deadline)
            answer = connection.wait(number, deadline)
            check_welcome(answer.error, read_welcome(answer))
        except BaseException:
            connection.close()
            raise
        return connection

    def send(self, method: str, params: Mapping[str, Any], deadline: float) -> int:
        """Send a request. Its number, for `wait`."""
        line = request(self._last_id + 1, method, params)
        self._last_id += 1
        self._write(line, deadline)
        self._awaited.add(self._last_id)
        return self._last_id

    def wait(self, number: int, deadline: float) -> Incoming:
        """The response to a request. TimeoutError, ConnectionError."""
        while number not in self._answers:
            self.read(deadline)
        self._awaited.discard(number)
        return self._answers.pop(number)

    def has(self, number: int) -> bool:
        """Whether the response has come."""
        return number in self._answers

    def read(self, deadline: float) -> None:
        """Wait for bytes and take the messages in them. TimeoutError, ConnectionError."""
        left = deadline - time.monotonic()
        if left <= 0 and not self._readable():
            raise TimeoutError
        self._socket.settimeout(max(left, 0.001))
        chunk = self._socket.recv(_READ_BYTES)
        if not chunk:
            raise ConnectionResetError("the daemon ended the connection")
        for incoming in self._lines.feed(chunk):
            self._take(incoming, deadline)

    def read_waiting(self) -> None:
        """Take what has come, without waiting for more. ConnectionError."""
        while self._readable():
            self.read(time.monotonic())

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _take(self, incoming: Incoming, deadline: float) -> None:
        if incoming.method is None:
            if incoming.id in self._awaited:
                self._answers[incoming.id] = incoming
        elif incoming.id is not None:
            self._write(refusal(incoming), deadline)
        elif self._heard is not None:
            self._heard(incoming)

    def _write(self, line: bytes, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(line)

    def end(self) -> None:
        """From any thread: whoever waits on the connection is told that it has ended."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(_socket.SHUT_RDWR)

    def close(self) -> None:
        self.end()
        with contextlib.suppress(OSError):
            self._socket.close()


def read_welcome(answer: Incoming) -> Welcome:
    if answer.error is not None:
        return Welcome()
    try:
        return _welcome(answer.result)
    except msgspec.MsgspecError:
        return Welcome()
