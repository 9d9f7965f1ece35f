"""Work that is not abandoned midway: a cancelled caller must neither release a lock while a thread still writes, nor leave a
file ahead of what is known about it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Awaitable[T]) -> T:
    """Run `work` to its end; a cancellation that arrived meanwhile takes effect after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):  # again: the first one is raised below
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # marks it as seen: nothing waits for it any longer
        raise


async def through(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result: what is durable can no longer be cancelled."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
