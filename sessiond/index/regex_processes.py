"""The processes that search for regular expressions: started when needed, kept for a while, killed when a request's time is
over. Threads may share them; nothing here runs on the loop.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

import msgspec

from sessiond import pipes
from sessiond.errors import Cancelled
from sessiond.index.chunks import library
from sessiond.index.readers import Ticket
from sessiond.ready import ready

_WORKER = os.path.join(os.path.dirname(__file__), "regex_worker.py")
KEPT_S = 30.0
"""How long a process waits for the next request: starting one takes longer than most searches."""


class WorkerReply(msgspec.Struct):
    """A worker's answer."""

    ids: list[list[int]] = []
    shown: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    error: str | None = None
    position: int = 0
    damage: str | None = None


ready(WorkerReply)


@cache
def libraries() -> list[str]:
    """The folders from which workers import packages outside the standard library. Reads the disk."""
    folders = [library()]
    re2 = find_spec("re2")  # optional
    if re2 is not None and re2.origin is not None:
        folders.append(os.path.dirname(os.path.dirname(re2.origin)))
    return list(dict.fromkeys(folders))


class Processes:
    """The idle processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[subprocess.Popen[bytes]] = []

    def take(self) -> subprocess.Popen[bytes]:
        while True:
            with self._lock:
                if not self._idle:
                    break
                process = self._idle.pop()
            if process.poll() is None:
                return process
            end(process)
        return pipes.start(_WORKER, bare=True)

    def give(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._idle.append(process)

    def end_idle(self) -> None:
        """Blocks until they have ended."""
        with self._lock:
            gone, self._idle = self._idle, []
        for process in gone:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it, wait for its end, and close its pipes."""
    process.kill()
    with suppress(BrokenPipeError), process:  # for a request that it did not read completely
        pass


class RegexJob:
    """One request to several processes at once; call `run` on a separate thread, `kill` from any."""

    def __init__(self, processes: Processes, request: Mapping[str, object], shares: int, ticket: Ticket) -> None:
        self._processes = processes
        self._request = request
        self._shares = shares
        self._ticket = ticket
        self._lock = threading.Lock()
        self._taken: list[subprocess.Popen[bytes]] = []

    def run(self) -> list[WorkerReply]:
        """The answer of each share. Cancelled when its time is over, or if a process ended by itself."""
        try:
            for number in range(self._shares):
                self._begin(number)
            answers = [msgspec.json.decode(self._line_of(process), type=WorkerReply) for process in self._taken]
        except BaseException:
            with self._lock:
                taken, self._taken = self._taken, []
            for process in taken:
                end(process)
            raise
        with self._lock:
            taken, self._taken = self._taken, []
        for process in taken:
            self._processes.give(process)
        return answers

    def kill(self) -> None:
        self._ticket.give_up()
        with self._lock:
            for process in self._taken:
                process.kill()

    def _begin(self, number: int) -> None:
        with self._lock:
            if self._ticket.over():
                raise self._ticket.ended()
            process = self._processes.take()
            self._taken.append(process)
        more = {"libraries": libraries(), "seconds": self._ticket.left_s, "share": [number, self._shares]}
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**self._request, **more}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _line_of(self, process: subprocess.Popen[bytes]) -> bytes:
        """A process writes its whole answer at once."""
        assert process.stdout is not None
        poll = select.poll()
        poll.register(process.stdout, select.POLLIN)
        if not poll.poll(max(0.0, self._ticket.left_s) * 1000):
            raise self._ticket.ended()
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        return line

    def _ended(self) -> Cancelled:
        return self._ticket.ended() if self._ticket.over() else Cancelled("it needed more memory than it may use")


def all_of(answers: Sequence[WorkerReply]) -> tuple[list[int], dict[int, tuple[str, list[tuple[int, int]]]]]:
    """Ids in the order of the queries, the newest of each first; and what is shown of them. Rows that were rewritten
    meanwhile may be in several answers.
    """
    if len(answers) == 1:
        return [doc for ids in answers[0].ids for doc in ids], answers[0].shown
    ids = [doc for some in zip(*(one.ids for one in answers), strict=True) for doc in _merged(some)]
    shown: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    for one in answers:
        shown |= one.shown
    return ids, shown


def _merged(some: Sequence[list[int]]) -> list[int]:
    return sorted({doc for ids in some for doc in ids}, reverse=True)
