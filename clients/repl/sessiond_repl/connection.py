"""One connection to the daemon: newline-delimited JSON-RPC over its Unix socket, for asyncio."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

from sessiond.client.failures import error_of
from sessiond.errors import InvalidParams
from sessiond.limits import DEFAULT

Heard = Callable[[str, dict[str, Any]], None]
LINE_BYTES = 2 * DEFAULT.message_bytes


class Connection:
    """Several requests may be in flight. Notifications go to `heard` in the order in which they arrive."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Heard) -> None:
        self._reader = reader
        self._writer = writer
        self._heard = heard
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.ended = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def over(cls, connected: socket.socket, heard: Heard) -> Connection:
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=LINE_BYTES)
        return cls(reader, writer, heard)

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The result of a request. Raises the daemon's error as a SessiondError; ConnectionError."""
        answer = asyncio.get_running_loop().create_future()
        number = self.send(method, params, answer)
        try:
            return await answer
        finally:
            if self._waiting.pop(number, None) is not None and not self.ended.is_set():
                self._write({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})

    def send(self, method: str, params: dict[str, Any] | None, answer: asyncio.Future[Any]) -> int:
        """Send a request whose answer goes into a future. Returns its id. ConnectionError."""
        if self.ended.is_set():
            raise ConnectionResetError("the daemon ended the connection")
        self._last_id += 1
        self._waiting[self._last_id] = answer
        self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params or {}})
        return self._last_id

    def _write(self, message: dict[str, Any]) -> None:
        try:
            line = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            raise InvalidParams("the text is not valid UTF-8", hint="check the terminal's encoding") from None
        self._writer.write(line + b"\n")

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):
            pass  # a broken line: nothing after it can be trusted
        finally:
            self._writer.close()
            self.ended.set()
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError("the daemon ended the connection"))

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:  # a request from the daemon: nothing here handles those
                refusal = {"code": -32601, "message": "this client takes no requests"}
                self._write({"jsonrpc": "2.0", "id": message["id"], "error": refusal})
            else:
                self._heard(message["method"], message.get("params") or {})
            return
        answer = self._waiting.pop(message.get("id") or 0, None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(error_of(message["error"]))
        else:
            answer.set_result(message.get("result"))

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
