"""The door through which others join a conversation that runs: a Unix socket for each connection, which only its owner can open.

A visitor first says lines of ours, JSON with the key `sessiond`; once it is attached, both sides say messages of the protocol.

    > {"sessiond": "look"}
    < {"sessiond": "here", "sessions": [S ...], "names": [[...] ...], "initialized": {...}}
    > {"sessiond": "attach", "session": S, "client": {...}, "role": "controller", "aware": true}
    < {"sessiond": "attached", "spool": PATH, "size": BYTES, "opened": {...}, "questions": [...], "clients": [...], "running": true}

When the agent has ended: < {"sessiond": "ended"}. What came before is in the spool, up to exactly `size`; what comes after
follows on the socket. One thread reads from each visitor, and one writes to it, so that a slow one delays nobody. The standard
library only: an editor waits.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Protocol

from sessiond.acp.acts import dumped, parsed
from sessiond.acp.bounds import BEHIND_BYTES, CLIENTS
from sessiond.acp.content import mapped, word
from sessiond.acp.cutter import Cutter
from sessiond.acp.sink import Sink
from sessiond.endpoint import APP, MAX_SOCKET_PATH_BYTES, make_private_dir, places

SUFFIX = ".sock"
PIECE_BYTES = 256 * 1024
DRAIN_S = 2.0
"""How long visitors may take to read what an agent said last."""


class DoorHost(Protocol):
    """The party that opens the door. Each call decides at once and never waits for a visitor."""

    def looked(self) -> dict[str, object]:
        """Return what runs here."""

    def attached(self, client: int, key: str, asked: dict[str, object]) -> None:
        """A visitor joins a session; it is told by `put`."""

    def heard(self, client: int, data: bytes) -> None:
        """A visitor says a message."""

    def parted(self, client: int) -> None:
        """A visitor is gone."""


def folder() -> str:
    """Return where the sockets of this user's connections are. NoHome."""
    where = places()
    inside = f"{where.run}/acp"
    if len(os.fsencode(inside)) + 16 <= MAX_SOCKET_PATH_BYTES:
        return inside
    return f"/tmp/{APP}-{os.geteuid()}/acp"  # noqa: S108  make_private_dir checks that it is ours


def socket_of(pid: int) -> str:
    """Return where the process that has an agent listens, if anybody can join. NoHome."""
    return f"{folder()}/{pid}{SUFFIX}"


class Door:
    """One connection's. `open` it once; `close` it when the agent has ended."""

    def __init__(self, host: DoorHost) -> None:
        self._host = host
        self._path = ""
        self._count = 0
        self._visitors: dict[int, tuple[socket.socket, Sink]] = {}
        """Changed under the host's decisions and by the threads of visitors; each change is one step."""

    def open(self) -> None:
        """Listen. OSError, NoHome."""
        where = folder()
        make_private_dir(where)
        path = socket_of(os.getpid())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of a process that had our number
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        os.chmod(path, 0o600)  # nobody can connect before `listen`
        listening.listen()
        self._path = path
        threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def close(self) -> None:
        """Let visitors read what is there, for at most DRAIN_S."""
        if not self._path:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        for client, (_, sink) in list(self._visitors.items()):
            self.put(client, said("ended", {}))
            last = threading.Thread(target=_flushed, args=(sink,), daemon=True)
            last.start()
            last.join(DRAIN_S)

    def put(self, client: int, data: bytes) -> None:
        """Something for a visitor. One that is too far behind is let go."""
        connection, sink = self._visitors.get(client, (None, None))
        if connection is None or sink is None:
            return
        sink.put(data)
        if sink.waiting > BEHIND_BYTES:
            _hang_up(connection)
        else:
            sink.soon()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # the caller has gone already, or there are too many files: the next may come
                continue
            if len(self._visitors) >= CLIENTS:
                connection.close()
                continue
            self._count += 1
            self._visitors[self._count] = connection, Sink(connection.fileno())
            threading.Thread(target=self._serve, args=(self._count, connection), daemon=True).start()

    def _serve(self, client: int, connection: socket.socket) -> None:
        cutter = Cutter()
        with contextlib.suppress(OSError):  # it is gone, whichever way
            while piece := connection.recv(PIECE_BYTES):
                for data, whole in cutter.feed(piece):
                    if whole:
                        self._hear(client, data)
        self._host.parted(client)
        _, sink = self._visitors.pop(client)
        _hang_up(connection)
        sink.close()
        connection.close()

    def _hear(self, client: int, data: bytes) -> None:
        if not data.startswith(b'{"sessiond":'):
            self._host.heard(client, data)
            return
        asked = mapped(parsed(data))
        key = word(asked.get("session"))
        if asked.get("sessiond") == "attach" and key is not None:
            self._host.attached(client, key, asked)
        else:
            self.put(client, said("here", self._host.looked()))


def said(what: str, values: dict[str, object]) -> bytes:
    """A line of ours."""
    line = dumped({"sessiond": what, **values})
    return b'{"sessiond":' + line.partition(b'"sessiond":')[2]


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has hung up itself
        connection.shutdown(socket.SHUT_RDWR)


def _flushed(sink: Sink) -> None:
    with contextlib.suppress(OSError):
        sink.flush()
