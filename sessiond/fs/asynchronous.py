"""File access for coroutines: blocking work on a thread, by means of aiofiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple, Unpack

import aiofiles.os

from sessiond.limits import SAVING_THREADS
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
