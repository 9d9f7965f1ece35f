"""Standard input and output as the streams of the SDK: one JSON-RPC message a line, and nothing else on standard output.

The SDK's own transport reads lines of any length, drops what it cannot read without a word, and takes in any number of requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from sessiond.limits import MIB

MAX_LINE_BYTES = 8 * MIB
MAX_IN_FLIGHT = 128
"""Requests without a response. Beyond this nothing is read until some have one."""
_READ_BYTES = 64 * 1024
_ENDLESS = "subscriptions/listen"
_NO_REQUEST = "this is not a request: params must be an object, and no text may hold half a surrogate pair"

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class Pipes:
    """The two ends, which nothing else in this process can use: what prints goes to standard error."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._open: set[object] = set()
        """Ids of requests that have no response."""
        self._fewer = asyncio.Event()

    async def lines(self) -> AsyncIterator[bytes | None]:
        """None for a line that is too long."""
        rest, skipping = b"", False
        while chunk := await self._read():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield None if skipping or len(line) > MAX_LINE_BYTES else line
                skipping = False
            if len(rest) > MAX_LINE_BYTES:
                rest, skipping = b"", True
        if rest and not skipping:
            yield rest

    async def _read(self) -> bytes:
        """Read what is there; empty at the end."""
        loop = asyncio.get_running_loop()
        while True:
            ready = asyncio.Event()
            try:
                loop.add_reader(self._in, ready.set)
            except PermissionError:  # a file, which never keeps anybody waiting
                return os.read(self._in, _READ_BYTES)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._in)
            with contextlib.suppress(BlockingIOError):  # another process that has the same pipe was faster
                return os.read(self._in, _READ_BYTES)

    def write(self, message: str) -> None:
        """BrokenPipeError if nobody reads any more."""
        data = memoryview(message.encode("utf-8", "replace") + b"\n")
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:  # whoever made the pipe set it so
                select.select([], [self._out], [])

    def refuse(self, code: int, message: str, number: int | str | None = None) -> None:
        """Answer what is not a message; `number`: the id that it has all the same."""
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}))

    async def taken(self, message: mcp_types.JSONRPCMessage) -> None:
        """Count a request, and wait while there are too many."""
        if isinstance(message, mcp_types.JSONRPCRequest) and message.method != _ENDLESS:
            self._open.add(message.id)
        elif isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._closed((message.params or {}).get("requestId"))
        while len(self._open) > MAX_IN_FLIGHT:
            self._fewer.clear()
            await self._fewer.wait()

    def given(self, message: mcp_types.JSONRPCMessage) -> None:
        if isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._closed(message.id)

    def _closed(self, number: object) -> None:
        if isinstance(number, str | int):
            self._open.discard(number)
        self._fewer.set()


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Yield what `Server.run` takes."""
    pipes = Pipes()
    sending, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, receiving = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with sending:
            async for line in pipes.lines():
                message = _decoded(pipes, line)
                if message is not None:
                    await sending.send(SessionMessage(message))
                    await pipes.taken(message)

    async def write() -> None:
        async with receiving:
            async for one in receiving:
                pipes.given(one.message)
                pipes.write(one.message.model_dump_json(by_alias=True, exclude_unset=True))

    async def while_read(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (BrokenPipeError, anyio.BrokenResourceError):  # the agent is gone, or the server has ended
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(while_read, read)
        group.start_soon(while_read, write)
        yield incoming, outgoing
        group.cancel_scope.cancel()


def _decoded(pipes: Pipes, line: bytes | None) -> mcp_types.JSONRPCMessage | None:
    """A message; None for a line that holds none, which is then answered."""
    if line is None:
        pipes.refuse(mcp_types.INVALID_REQUEST, f"a message may have {MAX_LINE_BYTES} bytes at most")
    elif line.strip():
        try:
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            number = _id_in(line)
            if number is None:
                pipes.refuse(mcp_types.PARSE_ERROR, "this line is not a JSON-RPC message")
            else:
                pipes.refuse(mcp_types.INVALID_REQUEST, _NO_REQUEST, number)
            return None
        if (
            not isinstance(message, mcp_types.JSONRPCNotification)
            or b'"id"' not in line
            or "id" not in json.loads(line)
        ):
            return message
        # Its sender waits for a response, which a notification never gets.
        pipes.refuse(mcp_types.INVALID_REQUEST, "an id must be a string or an integer")
    return None


def _id_in(line: bytes) -> int | str | None:
    """The id of what is meant as a request, whose sender waits for a response with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    number = found.get("id") if isinstance(found, dict) and "method" in found else None
    return number if isinstance(number, int | str) and not isinstance(number, bool) else None
