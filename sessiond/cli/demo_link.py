"""A network between a machine of the demo and its hub: bytes through a socket, until it is cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

NAME = ".s.PGSQL.5432"
"""The name of a server's socket in its folder: what follows `.s.PGSQL.` is the port."""


class DemoLink:
    """Takes connections in `folder`, which exists, and passes them on to the hub in `hub_folder`. Only who may enter the folder
    can connect.
    """

    def __init__(self, folder: str, hub_folder: str) -> None:
        self._target = f"{hub_folder}/{NAME}"
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._cut = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/{NAME}")
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Every connection ends, and a new one ends at once."""
        with self._lock:
            self._cut = True
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        with self._lock:
            self._cut = False

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            far = None if self._cut else self._reached()
            with self._lock:
                if far is None or self._cut:  # also while it was being reached
                    near.close()
                    if far is not None:
                        far.close()
                    continue
                self._ends |= {near, far}
            both = _Both(self, near, far)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=both.pump, args=(source, target), daemon=True).start()

    def _reached(self) -> socket.socket | None:
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self._target)
        except OSError:
            far.close()
            return None
        return far

    def forget(self, *ends: socket.socket) -> None:
        with self._lock:
            self._ends.difference_update(ends)
            for end in ends:
                end.close()


class _Both:
    """A connection through the link: its two ends, closed when neither direction is left."""

    def __init__(self, link: DemoLink, near: socket.socket, far: socket.socket) -> None:
        self._link, self._near, self._far = link, near, far
        self._left = 2
        self._lock = threading.Lock()

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for end in (source, target):  # the other direction ends too
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._link.forget(self._near, self._far)
