"""The place where bytes go, from several threads, in the order in which they were put. The standard library only: an editor waits."""

from __future__ import annotations

import os
import select
import threading
from collections import deque


class Sink:
    """A descriptor. `put` is called by whoever decides, one at a time; it never waits. `flush` writes, and waits as a pipe does."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.waiting = 0
        """Bytes that were put and are not written."""
        self._queue: deque[bytes] = deque()
        self._late: list[bytes] = []
        """Messages that wait for the end of a line that passes in pieces: they must not be written inside it."""
        self._inside = False
        self._closed = False
        self._writing = threading.Lock()
        self._news: threading.Event | None = None

    def put(self, data: bytes, whole: bool = True) -> None:
        """Bytes that are to be written; False: a piece of a line."""
        if self._closed or not data:
            return
        if whole and self._inside:
            self._late.append(data)
            return
        self.waiting += len(data)
        self._queue.append(data)
        if not whole:
            self._inside = not data.endswith(b"\n")
            if not self._inside:
                self.waiting += sum(map(len, self._late))
                self._queue.extend(self._late)
                self._late.clear()

    def flush(self) -> None:
        """Returns when everything that was put before is written. OSError: nobody reads it any more."""
        with self._writing:
            while self._queue and not self._closed:
                taken = [self._queue.popleft() for _ in range(len(self._queue))]
                data = taken[0] if len(taken) == 1 else b"".join(taken)
                _write(self.descriptor, data)
                self.waiting -= len(data)

    def soon(self) -> None:
        """Have it flushed by a thread of its own: the caller must not wait for this side."""
        if self._news is None:
            self._news = threading.Event()
            threading.Thread(target=self._carry, args=(self._news,), daemon=True).start()
        self._news.set()

    def close(self) -> None:
        """Nothing is written from here on; the caller closes the descriptor."""
        with self._writing:
            self._closed = True
        if self._news is not None:
            self._news.set()

    def _carry(self, news: threading.Event) -> None:
        while not self._closed:
            news.wait()
            news.clear()
            try:
                self.flush()
            except OSError:  # it is gone; the thread that reads from the other side finds out too
                return


def _write(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:  # whoever gave us the descriptor shares its flags
            select.select([], [sink], [])
