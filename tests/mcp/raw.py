"""`sessiond mcp` as bytes: lines in, lines out."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.shell import Shell

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
_META = "io.modelcontextprotocol/"


class Raw:
    """A process and its pipes. Every line that comes out must be a JSON-RPC message."""

    def __init__(self, shell: Shell, *flags: str, modern: bool = False) -> None:
        self.process = shell.start("mcp", *flags)
        self._modern = modern
        self._last = 0
        self.notifications: list[dict[str, Any]] = []
        self.answers: dict[Any, dict[str, Any]] = {}
        if not modern:
            self.call("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "raw", "version": "1"})
            self.notify("notifications/initialized")

    def send(self, method: str, /, **params: Any) -> int:
        self._last += 1
        if self._modern:
            info = {"name": "raw", "version": "1"}
            meta = {"protocolVersion": MODERN, "clientInfo": info, "clientCapabilities": {}}
            params["_meta"] = {_META + key: value for key, value in meta.items()}
        self.write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        return self._last

    def notify(self, method: str, /, **params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def write(self, message: Any) -> None:
        self.write_raw(json.dumps(message).encode() + b"\n")

    def write_raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read() if self.process.stderr else ""
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            self.notifications.append(message)
        else:
            self.answers[message["id"]] = message
        return message

    def answer(self, number: Any) -> dict[str, Any]:
        while number not in self.answers:
            self.read()
        return self.answers.pop(number)

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        answer = self.answer(self.send(method, **params))
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result = self.call("tools/call", name=name, arguments=arguments)
        assert not result.get("isError"), result
        found: dict[str, Any] = result["structuredContent"]
        return found

    def heard(self, method: str) -> dict[str, Any]:
        """The next notification of a method."""
        while True:
            while self.notifications:
                one = self.notifications.pop(0)
                if one["method"] == method:
                    return one
            self.read()

    def end(self) -> tuple[int, bytes, bytes]:
        """Close standard input: exit code, and what it still says."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        try:
            out, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out, err
