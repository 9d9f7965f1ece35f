"""The door for coroutines: blocking work on a thread, by way of aiofiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple, Unpack

import aiofiles.os

from sessiond.limits import SAVES_AT_A_TIME
from sessiond.shield import shielded

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_savers = ThreadPoolExecutor(SAVES_AT_A_TIME, thread_name_prefix="save")


class _OwnThread:
    """`executor` is None again when its time is over: tasks that were begun meanwhile may outlive it."""

    def __init__(self) -> None:
        self.executor: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix="background")


_own_thread: ContextVar[_OwnThread | None] = ContextVar("own_thread", default=None)


def _call(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    return function(*args)


_on_a_thread = aiofiles.os.wrap(_call)  # once: making one costs as much as many calls


async def off_loop(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Several synchronous steps as one call on one thread. A cancelled caller waits for its end, and so keeps its locks
    until then.
    """
    return await shielded(_begin(function, *args))


async def off_loop_to_save(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """The same on threads that do nothing but save, which mostly means to wait for the disk. One sync of a disk serves all that
    wait for it, so they are many, and no reader waits for a thread because of them.
    """
    return await shielded(_on_a_thread(function, *args, executor=_savers))


async def _begin(function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    # Run as a task, a turn of the loop after the call: the thread is looked up now, when it is needed, for its time may be over.
    own = _own_thread.get()
    done: T = await _on_a_thread(function, *args, executor=own.executor if own is not None else None)
    return done


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """What this task, and tasks that it begins, do off the loop meanwhile is done one after the other on a thread of its own:
    much that is read in the background keeps no thread from those whom somebody waits for, and is quicker on one that is
    always awake.
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
