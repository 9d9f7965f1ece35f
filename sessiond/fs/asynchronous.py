"""The door for coroutines: blocking work on a thread, by way of aiofiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiofiles.os

from sessiond.unbroken import unbroken


async def off_loop(function: Callable[..., Any], *args: Any) -> Any:
    """Several synchronous steps as one call on one thread. A cancelled caller waits for its end, and so keeps its locks
    until then.
    """
    return await unbroken(aiofiles.os.wrap(function)(*args))
