"""A TCP port in front of a daemon's Unix socket that cuts connections, even in the middle of a line, and delays what it passes on."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from pathlib import Path

_RST = struct.pack("ii", 1, 0)


class Proxy:
    """`delay_s` before each chunk that is passed on. A connection that finds no daemon ends at once."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._tear = False
        self.delay_s = 0.0
        self.made = 0
        """Connections so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection now, by a reset."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _end(*pair)

    def tear(self) -> None:
        """Pass on only half of the next chunk, whoever sends it, and end its connection."""
        self._tear = True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX)
            try:
                daemon.connect(str(self._path))
            except OSError:
                client.close()
                daemon.close()
                continue
            with self._lock:
                self.made += 1
                self._pairs.append((client, daemon))
            for source, sink in ((client, daemon), (daemon, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if self.delay_s:
                    time.sleep(self.delay_s)
                if self._tear:
                    self._tear = False
                    sink.sendall(chunk[: len(chunk) // 2])
                    break
                sink.sendall(chunk)
        _end(source, sink)
        with self._lock:
            self._pairs = [pair for pair in self._pairs if source not in pair]


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
