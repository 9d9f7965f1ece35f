"""Work that is not given up half-way: a cancelled caller must leave neither a lock free over a thread that still
writes, nor a file ahead of what is known of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Awaitable[T]) -> T:
    """Run `work` to its end; a cancellation that came meanwhile goes on after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):  # again: the first one goes on below
                await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # seen: nobody waits for it any more
        raise


async def through(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and answer what it answers: what is durable can not be cancelled any more."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
