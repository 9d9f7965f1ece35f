"""A daemon on a TCP port that sends what a test tells it to: of another version, or nonsense."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
WELCOME = {"capabilities": {"experimental": {"sessiond": {"protocolVersion": 1}}}}


class Raw(str):
    """A line to send as it is."""


class Scripted:
    """`answers`: method -> a result, an Exception whose first argument is the error object, or a function of the params. A
    function may return a list whose items after the first are notifications or Raw lines that follow the response.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "initialize": WELCOME,
            **{name.replace("__", "/"): it for name, it in answers.items()},
        }
        self.asked: list[dict[str, Any]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                self.asked.append(message)
                if "method" in message:
                    connection.sendall(self._response(message).encode())

    def _response(self, message: dict[str, Any]) -> str:
        answer, after = self.answers[message["method"]], []
        if callable(answer):
            answer = answer(message["params"])
            if isinstance(answer, list):
                answer, *after = answer
        response = {"jsonrpc": "2.0", "id": message["id"], "another": {"member": [1]}}
        if isinstance(answer, Exception):
            response["error"] = answer.args[0]
        else:
            response["result"] = answer
        said = [one if isinstance(one, Raw) else json.dumps({"jsonrpc": "2.0", **one}) for one in (response, *after)]
        return "".join(f"{one}\n" for one in said)
