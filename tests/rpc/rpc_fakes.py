"""A small service, daemon and client for the tests of the wire."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from sessiond.errors import Conflict, SessionNotFound
from sessiond.limits import Limits
from sessiond.rpc.server import Server
from sessiond.transports import tcp, unix

TOKEN = "correct horse"
AT = "2026-01-11T14:30:22.000Z"


class FakeService:
    """Keeps messages in memory; notes what it was asked, in order."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[dict[str, Any]]] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.attached: dict[str, list[Any]] = {}
        self.calls: list[tuple[str, Any]] = []
        self.gone: list[int] = []
        self.drained_peers: list[int] = []
        self.gate = asyncio.Event()
        self.waiting = asyncio.Event()
        self.left = asyncio.Event()

    def info(self, session_id: str) -> dict[str, Any]:
        count = len(self._messages(session_id))
        return {
            "sessionId": session_id, "name": None, "createdAt": AT, "updatedAt": AT, "model": None, "messageCount": count,
            "seq": count, "store": "default", "format": "jsonl", "path": f"/nowhere/{session_id}.jsonl", "cwd": None, "tags": [],
            "archived": False, "summary": None, "parent": None, "metadata": {}, "attached": 0, "dirty": False,
        }  # fmt: skip

    def _messages(self, session_id: str) -> list[dict[str, Any]]:
        if session_id not in self.sessions:
            raise SessionNotFound(
                f"there is no session {session_id!r}", hint="session/list shows what there is", sessionId=session_id
            )
        return self.sessions[session_id]

    async def new(self, peer: Any, *, session_id: str | None = None, **fields: Any) -> dict[str, Any]:
        self.calls.append(("new", fields))
        session_id = session_id or f"session-{len(self.sessions)}"
        self.sessions[session_id] = []
        self.attached.setdefault(session_id, []).append(peer)
        return self.info(session_id)

    async def open(
        self,
        peer: Any,
        session_id: str,
        *,
        last: Any = None,
        since: Any = None,
        restore: bool = False,
        answers: bool = False,
    ) -> Any:
        messages = self._messages(session_id)
        self.attached.setdefault(session_id, []).append(peer)
        if restore:
            asyncio.get_running_loop().call_soon(
                peer.notify, "session/restored", b'{"messageCount":%d}' % len(messages)
            )
        return {
            "session": self.info(session_id), "messages": messages, "notes": [], "state": self.states.get(session_id, {}),
            "hasMore": False, "warnings": [],
        }  # fmt: skip

    async def append(
        self, peer: Any, session_id: str, messages: list[Any], expected_seq: int | None = None, early: Any = None
    ) -> Any:
        kept = self._messages(session_id)
        if expected_seq is not None and expected_seq != len(kept):
            raise Conflict("another change came first", seq=len(kept))
        added = []
        for message in messages:
            self.calls.append(("append", message.get("content")))
            kept.append(
                {**message, "id": message.get("id", f"m{len(kept) + 1}"), "seq": len(kept) + 1, "timestamp": AT}
            )
            added.append({"id": kept[-1]["id"], "seq": len(kept)})
        seq = len(kept)
        await asyncio.sleep(0)
        params = msgspec.json.encode({"sessionId": session_id, "seq": seq, "changes": messages})
        for other in self.attached.get(session_id, []):
            if other is not peer:
                other.notify("session/changed", params)
        return {"seq": seq, "messages": added}

    async def extend(self, peer: Any, session_id: str, message_id: str, text: str, offset: int | None = None) -> int:
        self.calls.append(("extend", text))
        return len(self._messages(session_id))

    async def read(self, session_id: str, **page: Any) -> Any:
        self.calls.append(("read", page))
        messages = self._messages(session_id)
        return {"messages": messages, "hasMore": False, "seq": len(messages)}

    async def update(self, peer: Any, session_id: str, fields: dict[str, Any], expected_seq: int | None = None) -> Any:
        self.calls.append(("update", fields))
        return self.info(session_id)

    async def state_set(
        self, peer: Any, session_id: str, values: dict[str, Any], expected_seq: int | None = None
    ) -> int:
        self.states.setdefault(session_id, {}).update(values)
        return 1

    async def state_get(self, session_id: str, keys: list[str] | None = None) -> Any:
        return {"values": self.states.get(session_id, {}), "savedAt": None}

    async def list(self, **page: Any) -> Any:
        self.calls.append(("list", page))
        return {"sessions": [self.info(session_id) for session_id in self.sessions], "nextCursor": None}

    async def search(self, peer: Any, **query: Any) -> Any:
        """Waits until the test opens the gate."""
        self.calls.append(("search", query))
        self.waiting.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.calls.append(("search cancelled", None))
            raise
        return {"hits": [], "total": 0, "nextCursor": None}

    async def clear(self, peer: Any, session_id: str) -> Any:
        """Stands for a request that must be done although the client is gone."""
        self.waiting.set()
        await self.gate.wait()
        self.calls.append(("cleared", session_id))
        return self.info(session_id)

    async def import_(
        self, peer: Any, path: str, *, progress: Callable[[dict[str, Any]], None] | None = None, **_: Any
    ) -> Any:
        self.calls.append(("import", path))
        for percentage in (10, 20):
            if progress is not None:
                progress({"percentage": percentage, "message": path})
        if path == "/wait":
            await self.gate.wait()
        return {"sessions": [], "skipped": 0, "warnings": []}

    async def restore(self, peer: Any, session_id: str, *, after: Awaitable[None]) -> Any:
        """Waits for what may put it into the trash."""
        self.calls.append(("restore", session_id))
        await after
        self.calls.append(("restored", session_id))
        return self.info(session_id)

    async def save(self, session_id: str | None = None) -> list[Any]:
        self.calls.append(("save", session_id))
        return []

    async def delete(self, peer: Any, session_id: str, permanent: bool = False) -> None:
        raise ZeroDivisionError("a secret that no client should see")

    async def fork(self, *_: Any) -> Any:
        return {"not json": object()}

    def disconnected(self, peer: Any) -> None:
        self.gone.append(peer.id)
        for peers in self.attached.values():
            while peer in peers:
                peers.remove(peer)
        self.left.set()

    def drained(self, peer: Any) -> None:
        self.drained_peers.append(peer.id)
        peer.notify("session/resync", b'{"sessionId":"s","seq":1}')


class FakeDaemon:
    def __init__(self) -> None:
        self.stopped = False
        self.listeners: list[str] = []

    def hello(self) -> dict[str, Any]:
        return {"protocolVersion": 1, "version": "0", "pid": os.getpid(), "instanceId": "i"}

    def stop(self) -> None:
        self.stopped = True

    async def status(self) -> dict[str, Any]:
        return {"version": "0"}

    async def backup(self, path: str, progress: Any) -> dict[str, Any]:
        return {"files": 1, "bytes": 2, "lsn": 3}

    async def listen(self, peer: Any, kind: str, host: str | None, port: int, *, write: bool = False) -> dict[str, Any]:
        self.listeners.append(kind)
        peer.on_closed(lambda: self.listeners.remove(kind))
        return {"host": host or "127.0.0.1", "port": port or 1, "tokenFile": "/nowhere"}


class Client:
    """One connection of a test. Every wait is bounded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lines: bool) -> None:
        self.reader, self.writer, self.lines = reader, writer, lines
        self.last_id = 0
        self.notifications: list[dict[str, Any]] = []

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def frame(self, message: Any) -> bytes:
        body = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
        return body + b"\n" if self.lines else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)

    def send(self, message: Any) -> None:
        self.raw(self.frame(message))

    def request(self, method: str, params: Any = None, **more: Any) -> int:
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params or {}, **more})
        return self.last_id

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def receive(self) -> Any:
        return await asyncio.wait_for(self._receive(), 10)

    async def _receive(self) -> Any:
        if self.lines:
            line = await self.reader.readline()
            if not line:
                raise EOFError
            return json.loads(line)
        header = await self.reader.readline()
        if not header:
            raise EOFError
        assert header.startswith(b"Content-Length: "), header
        assert await self.reader.readline() == b"\r\n"
        return json.loads(await self.reader.readexactly(int(header[16:])))

    async def answer(self, request_id: Any) -> Any:
        """The answer to a request; notifications that come before it are kept."""
        while True:
            message = await self.receive()
            if "method" in message:
                self.notifications.append(message)
            elif message["id"] == request_id:
                return message

    async def call(self, method: str, params: Any = None) -> Any:
        answer = await self.answer(self.request(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    async def fail(self, method: str, params: Any = None) -> dict[str, Any]:
        answer = await self.answer(self.request(method, params))
        error: dict[str, Any] = answer["error"]
        return error

    async def notification(self, method: str) -> Any:
        while True:
            for index, message in enumerate(self.notifications):
                if message["method"] == method:
                    return self.notifications.pop(index)["params"]
            message = await self.receive()
            assert "method" in message, message
            self.notifications.append(message)

    async def initialize(self, **options: Any) -> Any:
        return await self.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}, **options})

    async def at_end(self) -> bytes:
        """What comes until the daemon closes its half."""
        return await asyncio.wait_for(self.reader.read(), 10)

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


class World:
    """A server with its listeners, in this process."""

    def __init__(self, limits: Limits | None = None, documents: Any = None) -> None:
        self.limits = limits or Limits()
        self.service = FakeService()
        self.daemon = FakeDaemon()
        self.server = Server(
            self.service,  # type: ignore[arg-type]
            self.daemon,
            limits=self.limits,
            version="0.0.test",
            token=TOKEN,
            documents=documents,
        )
        self.folder = tempfile.TemporaryDirectory(prefix="sd-")
        self.path = os.path.join(self.folder.name, "s.sock")
        self.unix = unix.listen(self.path, self.server, self.limits)
        self.tcp: tcp.TcpListener | None = None
        self.clients: list[Client] = []

    async def client(self, *, lines: bool = False, limit: int = 2**20) -> Client:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=limit)
        self.clients.append(Client(reader, writer, lines))
        return self.clients[-1]

    async def tcp_client(self, *, lines: bool = False) -> Client:
        if self.tcp is None:
            self.tcp = await tcp.listen(None, 0, self.server, self.limits)
        reader, writer = await asyncio.open_connection(self.tcp.host, self.tcp.port)
        self.clients.append(Client(reader, writer, lines))
        return self.clients[-1]

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        await self.server.close(5)
        self.unix.close()
        if self.tcp is not None:
            self.tcp.close()
        self.folder.cleanup()


@asynccontextmanager
async def world(limits: Limits | None = None, documents: Any = None) -> AsyncIterator[World]:
    one = World(limits, documents)
    try:
        yield one
    finally:
        await one.close()
