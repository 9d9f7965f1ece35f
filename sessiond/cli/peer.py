"""A client like an editor: messages with a Content-Length header over a pair of streams, answers and notifications
mixed.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import BinaryIO, TypeVar

from msgspec import MsgspecError

from sessiond.client.changes import Appended, read_change
from sessiond.client.requests import Request, read_notice
from sessiond.client.wire import Incoming, decode, request_line
from sessiond.errors import SessiondError

T = TypeVar("T")
Waiting = queue.SimpleQueue[Incoming | None]
"""None: the other side is gone."""

_ANSWER_S = 30.0
_END_S = 30.0
"""Longer than a relay takes to find or start a daemon: a relay that is killed meanwhile leaves that daemon behind."""


class NothingHeard(SessiondError):
    """Nothing arrived within the deadline."""


class DemoEditor:
    """One connection, read on its own thread. Requests go one after another."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading = reading
        self._writing = writing
        self._answers: Waiting = queue.SimpleQueue()
        self._notifications: Waiting = queue.SimpleQueue()
        self._last_id = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @classmethod
    def over_stdio(cls, environment: Mapping[str, str]) -> DemoEditor:
        """A child process `sessiond --stdio`, as editors start it."""
        command = [sys.executable, "-m", "sessiond", "--stdio"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(environment))
        assert process.stdin is not None
        assert process.stdout is not None
        peer = cls(process.stdout, process.stdin)  # type: ignore[arg-type]  # typeshed: IO[bytes]
        peer._process = process
        return peer

    @classmethod
    def over_tcp(cls, host: str, port: int) -> DemoEditor:
        connection = socket.create_connection((host, port), _ANSWER_S)
        connection.settimeout(None)  # the reading thread waits as long as it must
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = cls(connection.makefile("rb"), connection.makefile("wb"))
        peer._socket = connection
        return peer

    def ask(self, request: Request[T]) -> T:
        """The result of a request. SessiondError; ConnectionError when the other side is gone; NoAnswer."""
        self._last_id += 1
        self._send(request_line(self._last_id, request.method, request.params))
        return request.answer(_next(self._answers, f"an answer to {request.method}")).value

    def notification(self) -> Incoming:
        """The next one, waited for. ConnectionError when the other side is gone; NoAnswer."""
        return _next(self._notifications, "a notification about another client")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # nobody is left to receive what is still buffered
            self._writing.close()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        if self._process is not None:
            _end(self._process)
        self._thread.join(_ANSWER_S)
        self._reading.close()

    def _send(self, body: bytes) -> None:
        try:
            self._writing.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            self._writing.flush()
        except OSError as error:
            raise ConnectionResetError(str(error)) from None

    def _read(self) -> None:
        try:
            while (message := self._message()) is not None:
                (self._answers if message.method is None else self._notifications).put(message)
        except (OSError, ValueError, MsgspecError):
            pass  # the end, however it came
        self._answers.put(None)
        self._notifications.put(None)

    def _message(self) -> Incoming | None:
        length = 0
        while (line := self._reading.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._reading.read(length) if length else b""
        return decode(body) if body else None


def must_see(peer: DemoEditor, session: str, text: str) -> None:
    """Wait until the client is shown a message with this text. NothingHeard if that takes too long."""
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        seen = peer.notification()
        if seen.method == "session/changed":
            changes = [read_change(change, session) for change in read_notice(seen.params).changes]
            messages = [message for change in changes if isinstance(change, Appended) for message in change.messages]
            if any(message.content == text for message in messages):
                return
    raise NothingHeard(f"a client was not shown {text!r} within {_ANSWER_S:g} s")


def tell(text: str = "") -> None:
    """A line of the demo, seen at once."""
    print(text, flush=True)


def _next(waiting: Waiting, what: str) -> Incoming:
    try:
        found = waiting.get(timeout=_ANSWER_S)
    except queue.Empty:
        raise NothingHeard(f"{what} did not arrive within {_ANSWER_S:g} s") from None
    if found is None:
        raise ConnectionResetError("the daemon is gone")
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its input is closed, so it ends by itself; if it does not, SIGKILL ends it."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
