"""Tasks whose first step is done at once instead of in the next round of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
    """Run `work` up to where it first waits; the task that goes on with it, or None where it is through.

    The first step belongs to no task: it must neither ask for the current one nor use a timeout. (Python 3.12 can do so by itself.)
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_GoOn(work, waits_for))


class _GoOn(Coroutine[Any, Any, None]):
    """Stands in for `work` from its first wait on. No generator: one that is cancelled before its first step never runs, and
    `work`, which has begun, would never learn of it.
    """

    def __init__(self, work: Coroutine[Any, Any, None], waits_for: Any) -> None:
        self._work = work
        self._first = [waits_for]

    def send(self, value: Any) -> Any:
        return self._first.pop() if self._first else self._work.send(value)

    def throw(self, *error: Any) -> Any:
        if self._first:
            # No task came to wait for it. Whoever is thrown out of it may wait for it once more.
            self._first.pop()._asyncio_future_blocking = False
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("only a task goes on with this")
