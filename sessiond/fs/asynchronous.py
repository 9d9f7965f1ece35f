"""File access for coroutines: blocking work on a thread. What is ours never stands behind a disk that is not.

    off_loop, off_loop_to_save    ours: the data folder (default store, shared stores, trash, settings) and what computes
    Threads of an adopted store   `store/mounts.py` makes one for each: its files, its health, the hints of its folder
    IMPORTING                     the files that an import reads
    FOLLOWING                     what other tools write, and the folders where they write it
    NAMED                         other paths that clients name: exports, backups, folders to adopt, documents

Whoever uses a disk names its threads: a store is given its own (`Run`), the others are named at the call. A task does not
carry them with it, because an import also saves into a store. Threads are begun when there is work for them, so a store that
nobody uses has none. A disk that hangs holds all threads of its group; whoever calls for it waits, and nobody else does.
When nothing has come back for `STUCK_S` and `WAITING_CALLS` wait, further callers get Unavailable at once. A thread that
hangs for ever does not keep the daemon from ending: `daemon/process.py` ends the process without waiting for threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple, Unpack

import aiofiles.os

from sessiond.errors import Unavailable
from sessiond.limits import FOREIGN_THREADS, SAVING_THREADS, STUCK_S, WAITING_CALLS
from sessiond.shield import shielded

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_savers = ThreadPoolExecutor(SAVING_THREADS, thread_name_prefix="save")


class _OwnThread:
    """`executor` becomes None again at the end: tasks that were begun meanwhile may outlive it."""

    def __init__(self) -> None:
        self.executor: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="background")


_own_thread: ContextVar[_OwnThread | None] = ContextVar("own_thread", default=None)


def _call(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    return function(*args)


_on_a_thread = aiofiles.os.wrap(_call)  # once: wrapping costs as much as many calls


async def off_loop(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Run several synchronous steps as one call on one thread. A cancelled caller waits for its end, and so keeps its locks
    until then.
    """
    return await shielded(_begin(function, *args))


async def off_loop_to_save(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """The same on threads that only save, which mostly means waiting for the disk. One sync of a disk serves all that wait
    for it, so there are several such threads, and readers never wait for a thread because of them.
    """
    return await shielded(_on_a_thread(function, *args, executor=_savers))


async def _begin(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    # Run as a task, a turn of the loop after the call: the thread is looked up only now, because it may have ended.
    own = _own_thread.get()
    done: T = await _on_a_thread(function, *args, executor=own.executor if own is not None else None)
    return done


class Threads:
    """Threads for disks that are not ours. `what`: whose, for people. Call it on the loop."""

    def __init__(self, what: str, *, threads: int = FOREIGN_THREADS, saving: int = 0) -> None:
        self._what = what
        self._readers = ThreadPoolExecutor(threads, thread_name_prefix=what)
        self._savers = ThreadPoolExecutor(saving, thread_name_prefix=f"{what} save") if saving else self._readers
        self._waiting = 0
        """Calls that are under way, or wait for a thread."""
        self._moved = 0.0
        """When one came back last, or was the first; by the monotonic clock."""

    async def run(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """As `off_loop`. Unavailable: nothing has come back for long, and many wait already."""
        return await shielded(self._do(None, function, *args))

    async def save(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """As `off_loop_to_save`. Unavailable, as `run`."""
        return await shielded(self._do(self._savers, function, *args))

    async def call(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """As `run`, but a cancelled caller does not wait for its end."""
        return await self._do(None, function, *args)

    async def _do(self, executor: ThreadPoolExecutor | None, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        now = time.monotonic()
        if not self._waiting:
            self._moved = now
        elif self._waiting >= WAITING_CALLS and now - self._moved > STUCK_S:
            raise Unavailable(
                f"{self._what}: its disk has not answered for {now - self._moved:.0f} s, and {self._waiting} calls wait for it",
                hint="try again when it answers",
            )
        own = _own_thread.get()
        if executor is None:
            executor = own.executor if own is not None and own.executor is not None else self._readers
        # The call itself counts, not its caller, who may leave.
        call = asyncio.get_running_loop().run_in_executor(executor, function, *args)
        self._waiting += 1
        call.add_done_callback(self._came_back)
        return await call

    def _came_back(self, call: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not call.cancelled():
            self._moved = time.monotonic()


IMPORTING = Threads("import")
FOLLOWING = Threads("follow")
NAMED = Threads("named path")


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Within this, the off-loop work of this task, and of tasks that it begins, runs one call after another on a separate
    thread: long reads in the background do not take threads from work that a client waits for, and are faster on a thread
    that is always awake.
    """
    own = _OwnThread()
    assert own.executor is not None
    executor, token = own.executor, _own_thread.set(own)
    try:
        yield
    finally:
        _own_thread.reset(token)
        own.executor = None
        executor.shutdown(wait=False)
