"""A throwaway home with a real daemon in it, and small blocking clients for its socket."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from io import BufferedRWPair
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from tests import contract

START_S = 30.0
ANSWER_S = 20.0
STOP_S = 60.0
"""A daemon gives its saves half a minute."""


class Client:
    """Newline-delimited JSON-RPC over any connected stream socket. All that it receives is held to the schema."""

    checked: ClassVar[bool] = "pytest" in sys.modules
    """Not in benchmarks: checking takes the client's own time, which they measure."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file: BufferedRWPair = sock.makefile("rwb")  # type: ignore[assignment]
        self._last = 0
        self._asked: dict[int, str] = {}
        """Methods of requests that have no answer yet."""
        self._answers: dict[int, dict[str, Any]] = {}
        self.notifications: list[tuple[str, dict[str, Any]]] = []

    @property
    def stream(self) -> BinaryIO:
        """The bare connection, for another framing than lines."""
        return self._file

    def send(self, method: str, params: Any = None) -> int:
        """Send a request; answers its id."""
        self._last += 1
        self._asked[self._last] = method
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params or {}})
        return self._last

    def send_raw(self, method: str, params: Any) -> int:
        """As `send`, with every character as itself, as short as it can be."""
        self._last += 1
        self._asked[self._last] = method
        message = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._file.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        return self._last

    def notify(self, method: str, params: Any = None) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def _write(self, message: dict[str, Any]) -> None:
        self._file.write(json.dumps(message).encode() + b"\n")
        self._file.flush()

    def _read(self) -> None:
        line = self._file.readline()
        if not line:
            raise ConnectionError("the daemon closed the connection")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise AssertionError(f"this is not a message: {line[:200]!r}") from error
        if "method" in message:
            if self.checked:
                contract.check_notification(message["method"], message["params"])
            self.notifications.append((message["method"], message["params"]))
        else:
            method = self._asked.pop(message["id"], None)
            if self.checked and method is not None:
                contract.check_answer(method, message)
            self._answers[message["id"]] = message

    def answer(self, number: int) -> dict[str, Any]:
        """The whole answer to a request: with `result` or `error`."""
        while number not in self._answers:
            self._read()
        return self._answers.pop(number)

    def call(self, method: str, /, **params: Any) -> Any:
        """The result of a request. AssertionError where it failed."""
        answer = self.answer(self.send(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def fails(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The error of a request."""
        answer = self.answer(self.send(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def notification(self, method: str) -> dict[str, Any]:
        """The next notification of that method; earlier ones of other methods are skipped."""
        while True:
            while self.notifications:
                name, params = self.notifications.pop(0)
                if name == method:
                    return params
            self._read()

    def heard_by_now(self) -> list[tuple[str, dict[str, Any]]]:
        """The notifications that have come, without waiting for more; they are taken."""
        patience = self._sock.gettimeout()
        while True:
            self._sock.setblocking(False)
            try:
                begun = self._file.peek(1)
            finally:
                self._sock.settimeout(patience)
            if b"\n" not in begun:
                break
            self._read()
        heard, self.notifications = self.notifications, []
        return heard

    def hang_up(self) -> None:
        """End the connection; whoever waits for it in another thread gets ConnectionError."""
        self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # The file keeps the descriptor open, so both must go for the daemon to notice.
        # What was not sent to a daemon that is gone stays unsent.
        with contextlib.suppress(OSError):
            self._file.close()
        self._sock.close()


class Home:
    """`SESSIOND_HOME` under a folder, with a daemon in the foreground of a process of ours."""

    def __init__(self, path: Path, config: str = "", env: dict[str, str] | None = None) -> None:
        self.path = path
        self.env = {**os.environ, "SESSIOND_HOME": str(path), **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Client] = []
        if config:
            self.configure(config)

    def configure(self, text: str) -> None:
        (self.path / "config").mkdir(exist_ok=True)
        (self.path / "config" / "config.toml").write_text(text)

    def __enter__(self) -> Home:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.process = self.spawn()
        self.client().close()

    def spawn(self) -> subprocess.Popen[bytes]:
        log = open(self.path / "daemon.err", "ab")  # noqa: SIM115  (the process keeps it)
        command = [sys.executable, "-m", "sessiond", "serve"]
        process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        return process

    def kill(self) -> None:
        """kill -9, and wait until it is gone, and its socket with it: a process that it was about to start has a copy until
        its program is loaded, and would take in whoever comes next.
        """
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.wait_till_nobody_listens()

    def wait_till_nobody_listens(self) -> None:
        deadline = time.monotonic() + START_S
        while self._is_listened():
            assert time.monotonic() < deadline, "somebody still listens for the daemon that has ended"
            time.sleep(0.002)

    def _is_listened(self) -> bool:
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(str(self.socket_path))
            except OSError:
                return False
            return True

    def forget_clients(self) -> None:
        """Close every connection that was made."""
        for client in self._clients:
            client.close()
        self._clients.clear()

    def stop(self) -> None:
        self.forget_clients()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_S)

    @property
    def socket_path(self) -> Path:
        return self.path / "run" / "sessiond.sock"

    def connect(self, answer_s: float = ANSWER_S) -> socket.socket:
        """A connection to the daemon; waits until it listens. `answer_s`: how long an answer may take."""
        deadline = time.monotonic() + START_S
        while True:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(answer_s)
            try:
                sock.connect(str(self.socket_path))
            except (FileNotFoundError, ConnectionRefusedError):
                sock.close()
                assert self.process is not None
                gone = self.process.poll() is not None
                if gone or time.monotonic() > deadline:
                    raise AssertionError(f"no daemon: {(self.path / 'daemon.err').read_text()}") from None
                time.sleep(0.01)
            else:
                return sock

    def client(self, answer_s: float = ANSWER_S) -> Client:
        client = Client(self.connect(answer_s))
        self._clients.append(client)
        return client
