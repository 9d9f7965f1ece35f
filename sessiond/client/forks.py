"""Everything that this client had when its process forked belongs to the parent: the child closes its copies of the connections and makes
its own, and tells the daemon nothing about what the parent began.
"""

from __future__ import annotations

import contextlib
import os
from _weakref import ref
from collections.abc import Callable
from typing import Any, TypeVar

from sessiond.client.failures import Closed

T = TypeVar("T")


class Process:
    """The process in which something began. One object for each, because a pid may be used again."""

    def __init__(self) -> None:
        self.pid = os.getpid()


class _Here:
    def __init__(self) -> None:
        self.process = Process()


_here = _Here()
_kept: dict[ref[Any], Callable[[Any], None]] = {}


def keep(one: T, forked: Callable[[T], None]) -> None:
    """Call `forked(one)` in each child that this process forks, as long as `one` exists.

    No other thread runs there, and locks may be held by threads of the parent. It must not touch an event loop, nor shut a
    connection down: those are the parent's too.
    """
    _kept[ref(one, _forget)] = forked


def _forget(gone: ref[Any]) -> None:
    _kept.pop(gone, None)


def process() -> Process:
    """The one that this is. `keep`'s work is done by then, also where a C program forked and did not tell Python."""
    if _here.process.pid != os.getpid():
        _in_child()
    return _here.process


def check_begun(begun: Process, what: str) -> None:
    """Closed if `what` began in another process."""
    if begun is not process():
        raise Closed(
            f"{what} belongs to the process that began it, and this one was forked from it", hint="begin another"
        )


def _in_child() -> None:
    _here.process = Process()
    for kept, forked in list(_kept.items()):
        one = kept()
        if one is not None:
            with contextlib.suppress(OSError):  # a descriptor that the program closed itself
                forked(one)


if hasattr(os, "register_at_fork"):
    # At once, not at the first use: a child that never uses its copy must not keep the parent's connection open after the
    # parent has died.
    os.register_at_fork(after_in_child=_in_child)
