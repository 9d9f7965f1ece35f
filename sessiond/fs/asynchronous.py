"""File access for coroutines: blocking work on a thread. What is ours never stands behind a disk that is not.

    off_loop, off_loop_to_save    ours: the data folder (default store, shared stores, trash, settings) and what computes
    Threads of an adopted store   `store/mounts.py` makes one for each: its files, its health, the hints of its folder
    IMPORTING                     other paths that imports look at
    IMPORT_PLACES                 the files that an import reads: threads of its own for each folder that clients name
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
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TypeVar, TypeVarTuple, Unpack

import aiofiles.os

from sessiond.errors import Unavailable
from sessiond.limits import (
    FOREIGN_THREADS,
    IMPORT_PLACES_AT_ONCE,
    IMPORT_THREADS,
    SAVING_THREADS,
    STUCK_S,
    WAITING_CALLS,
)
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
        """Run a function as `off_loop` does. Unavailable: nothing has come back for long, and many wait already."""
        return await shielded(self._do(None, function, *args))

    async def save(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Run a function as `off_loop_to_save` does. Unavailable, as `run`."""
        return await shielded(self._do(self._savers, function, *args))

    async def call(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """Do the same as `run`, but a cancelled caller does not wait for its end."""
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
        loop = asyncio.get_running_loop()
        call = executor.submit(function, *args)
        self._waiting += 1
        call.add_done_callback(partial(self._tell, loop))
        return await asyncio.wrap_future(call)

    def _tell(self, loop: asyncio.AbstractEventLoop, call: Future[T]) -> None:
        """On whatever thread the call ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody counts any more
            loop.call_soon_threadsafe(self._came_back, call)

    @property
    def idle(self) -> bool:
        """No call is under way."""
        return not self._waiting

    def close(self) -> None:
        """End the threads when their calls come back. Nothing may be called afterwards."""
        self._readers.shutdown(wait=False)
        self._savers.shutdown(wait=False)

    def _came_back(self, call: Future[T]) -> None:
        self._waiting -= 1
        if not call.cancelled():
            self._moved = time.monotonic()


class PlaceThreads:
    """Threads for each of several places, while they are used: one that hangs takes none of another's. Call it on the loop."""

    def __init__(self, what: str, shared: Threads, *, each: int, most: int) -> None:
        """`each`: threads for a place. Places beyond `most` use the threads `shared`."""
        self._what = what
        self._shared = shared
        self._each = each
        self._most = most
        self._used: dict[str, Threads] = {}
        self._users: Counter[str] = Counter()

    @contextlib.contextmanager
    def of(self, place: str) -> Iterator[Threads]:
        """A place whose disk hangs keeps its threads until it answers, so that trying again takes no more of them."""
        for other in [one for one, threads in self._used.items() if not self._users[one] and threads.idle]:
            self._used.pop(other).close()
        if place not in self._used and len(self._used) >= self._most:
            yield self._shared
            return
        if place not in self._used:
            self._used[place] = Threads(f"{self._what} {place}", threads=self._each)
        self._users[place] += 1
        try:
            yield self._used[place]
        finally:
            self._users[place] -= 1
            if not self._users[place]:
                del self._users[place]
                if self._used[place].idle:
                    self._used.pop(place).close()


IMPORTING = Threads("import")
IMPORT_PLACES = PlaceThreads("import from", IMPORTING, each=IMPORT_THREADS, most=IMPORT_PLACES_AT_ONCE)
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
