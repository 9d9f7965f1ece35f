"""The daemon with a stop-watch on its event loop: `python -m tests.order.watched FILE`.

Every callback of the loop is timed in CPU time of the loop's own thread, so that neither a busy machine nor a wait for the
disk counts, but a garbage collection does. A collection in another thread is timed too, because nothing else runs meanwhile.
Callbacks that take longer than `NOTED_S` go into FILE, one per line, before the loop continues: a client that got an answer
finds everything before it there.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from asyncio import Handle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.home import Home
from tests.order.pipeline import Pipeline
from tests.zygote import ROOT

NOTED_S = 0.005
LOOP, ELSEWHERE = "loop", "elsewhere"


class Stall(NamedTuple):
    seconds: float
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms ({self.where}): {self.what}"


class WatchedHome(Home):
    """A home whose daemon notes what kept its loop."""

    _seen = 0

    def pipeline(self, answer_s: float) -> Pipeline:
        """A connection that is closed with the others."""
        made = Pipeline(self, answer_s)
        self._clients.append(made)
        return made

    def spawn(self) -> Any:
        path = os.pathsep.join(filter(None, (str(ROOT), self.env.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "tests.order.watched", str(self._notes)]
        with open(self.path / "daemon.err", "ab") as log:
            env = {**self.env, "PYTHONPATH": path}
            return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def _notes(self) -> Path:
        return self.path / "stalls"

    def stalls(self) -> list[Stall]:
        """What was noted since the last call, the longest first. Ask the daemon something before."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        new, self._seen = lines[self._seen :], len(lines)
        found = (line.split(" ", 2) for line in new)
        return sorted((Stall(float(seconds), where, what) for seconds, where, what in found), reverse=True)


class Watch:
    def __init__(self, path: str) -> None:
        self._path = path
        self._collecting = 0.0

    def begin(self) -> None:
        """Time every callback of every loop of this process, and every collection."""
        run: Callable[[Handle], None] = Handle._run

        def timed(handle: Handle) -> None:
            what = _name(handle)
            began = time.thread_time()
            run(handle)
            self._note(time.thread_time() - began, LOOP, what)

        Handle._run = timed  # type: ignore[method-assign]
        gc.callbacks.append(self._collects)

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if threading.current_thread() is threading.main_thread():
            return  # it counts to the callback that it began in
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            what = f"collection of generation {info['generation']} in {threading.current_thread().name}"
            self._note(time.thread_time() - self._collecting, ELSEWHERE, lambda: what)

    def _note(self, seconds: float, where: str, what: Callable[[], str]) -> None:
        if seconds > NOTED_S:
            with open(self._path, "a") as file:
                file.write(f"{seconds:.4f} {where} {what()}\n")


def _name(handle: Handle) -> Callable[[], str]:
    """The name of a callback: for a task the chain of its awaits before the call. Formatted only if it was long."""
    callback = handle._callback  # type: ignore[attr-defined]
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        return lambda: getattr(callback, "__qualname__", None) or repr(callback)
    chain: list[Any] = []
    coroutine: Any = owner.get_coro()
    while coroutine is not None and len(chain) < 20:
        chain.append(coroutine)
        coroutine = getattr(coroutine, "cr_await", None)
    return lambda: " > ".join(getattr(one, "__qualname__", type(one).__name__) for one in chain)


if __name__ == "__main__":
    Watch(sys.argv[1]).begin()
    from sessiond.daemon import process

    process.main({}, None)
