"""A small blocking JSON-RPC client over the Unix socket, one message a line. For commands and for tests."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from sessiond.cli.streams import wait
from sessiond.client.failures import error_of
from sessiond.endpoint import Places, places
from sessiond.errors import DaemonUnreachable, InvalidParams
from sessiond.reach import PATIENCE_S, is_held, reach

Notification = Callable[[str, dict[str, Any]], None]
_READ_BYTES = 256 * 1024
_ANSWER_S = 5.0
_LOOK_AGAIN_S = 0.02
_QUESTIONS = frozenset({
    "daemon/hello", "daemon/status", "session/list", "session/read", "session/search", "note/list", "state/get",
})  # fmt: skip
"""Requests that change nothing and may be sent twice."""


class Client:
    """One connection. Requests go one after another; notifications in between are kept or handed on."""

    def __init__(self, connection: socket.socket, timeout_s: float | None = None) -> None:
        self._socket = connection
        self._socket.settimeout(timeout_s)
        self._buffer = bytearray()
        self._last_id = 0
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._dial: Callable[[], socket.socket] | None = None
        """Makes the connection again. None once the daemon has sent anything."""

    @classmethod
    def connect(
        cls,
        where: Places | None = None,
        *,
        start: bool = True,
        patience_s: float = PATIENCE_S,
        timeout_s: float | None = None,
    ) -> Client:
        """Connect to this user's daemon, starting it if `start` is true. DaemonUnreachable.

        `timeout_s`: how long an answer may take; None: no limit.
        """

        def dial() -> socket.socket:
            from sessiond.reach import Unreachable

            try:
                raw = reach(where or places(), start=start, patience_s=patience_s)
            except Unreachable as error:
                raise DaemonUnreachable(str(error)) from None
            return socket.socket(fileno=raw.detach())

        client = cls(dial(), timeout_s)
        client._dial = dial
        return client

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, params: dict[str, Any] | None = None, *, notified: Notification | None = None) -> Any:
        """The result of a request. Raises the daemon's error as the SessiondError of its kind; ConnectionError.

        Notifications that arrive before the answer go to `notified`, or wait for `notifications`. A request in `_QUESTIONS` is
        sent again if the connection ends before the daemon sent anything: a daemon that was just stopping had accepted it.
        """
        try:
            message = self._ask(method, params, notified)
        except ConnectionResetError:
            dial, self._dial = self._dial, None
            if dial is None or method not in _QUESTIONS:
                raise
            timeout_s = self._socket.gettimeout()
            self._socket.close()
            self._socket = dial()
            self._socket.settimeout(timeout_s)
            message = self._ask(method, params, notified)
        if "error" in message:
            raise error_of(message["error"])
        return message.get("result")

    def _ask(self, method: str, params: dict[str, Any] | None, notified: Notification | None) -> dict[str, Any]:
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}})
        return self._answer(notified)

    def cancel(self, *, notified: Notification | None = None) -> None:
        """After an interrupted `call`: have the daemon stop it, and wait until it has."""
        params = {"id": self._last_id}
        self._send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params})
        self._answer(notified)

    def _answer(self, notified: Notification | None) -> dict[str, Any]:
        while True:
            message = self._receive()
            if "method" in message:
                self._take(message, notified)
            elif message.get("id") in (self._last_id, None):
                return message

    def notifications(self, *, while_read: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        """The daemon's notifications, as (method, params), until the connection ends (ConnectionError).

        `while_read`: stop when nobody reads standard output any more (OutputFailed).
        """
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if while_read and b"\n" not in self._buffer:
                wait(self._socket.fileno())
            message = self._receive()
            if "method" in message:
                self._take(message, None)

    def _take(self, message: dict[str, Any], notified: Notification | None) -> None:
        params = message.get("params") or {}
        if "id" in message:  # a request from the daemon: nothing here handles those
            refusal = {"code": -32601, "message": "this client takes no requests"}
            self._send({"jsonrpc": "2.0", "id": message["id"], "error": refusal})
        elif notified is not None:
            notified(message["method"], params)
        else:
            self._waiting.append((message["method"], params))

    def _send(self, message: dict[str, Any]) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise InvalidParams("an argument is not valid UTF-8", hint="check the terminal's encoding") from None
        try:
            self._socket.sendall(line + b"\n")
        except ConnectionError:
            raise _ended() from None

    def _receive(self) -> dict[str, Any]:
        searched = 0
        while True:
            end = self._buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                message = json.loads(line)
                if isinstance(message, dict):
                    return message
                searched = 0
                continue
            searched = len(self._buffer)
            try:
                chunk = self._socket.recv(_READ_BYTES)
            except TimeoutError:
                raise DaemonUnreachable(
                    f"the daemon did not answer within {self._socket.gettimeout():g} s; run `sessiond doctor`"
                ) from None
            except ConnectionError:
                raise _ended() from None
            if not chunk:
                raise _ended()
            self._dial = None
            self._buffer += chunk


def _ended() -> ConnectionResetError:
    """Without an errno: others would take an EPIPE for standard output's."""
    return ConnectionResetError("the daemon closed the connection; the request may or may not have been carried out")


def connect_if_running(where: Places) -> Client | None:
    """For commands that start no daemon: None if no daemon is running; DaemonUnreachable if one is but cannot be reached."""
    deadline = time.monotonic() + _ANSWER_S
    while True:
        try:
            return Client.connect(where, start=False, patience_s=_ANSWER_S, timeout_s=_ANSWER_S)
        except DaemonUnreachable as error:
            if not is_held(where):
                return None
            if time.monotonic() > deadline:
                raise DaemonUnreachable(f"a daemon owns {where.data}, but {error.message}") from None
        time.sleep(_LOOK_AGAIN_S)  # it may be just starting or stopping
