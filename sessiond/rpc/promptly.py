"""Tasks whose first step is done at once instead of in the next round of the loop."""

from __future__ import annotations

import asyncio
import types
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
    return asyncio.get_running_loop().create_task(_go_on(work, waits_for))


@types.coroutine
def _go_on(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """Stands in for `work` from its first wait on: what it waits for is handed up, what comes of it is handed down."""
    while True:
        try:
            result = yield waits_for
        except BaseException as error:
            failure: BaseException | None = error
        else:
            failure = None
        try:
            waits_for = work.send(result) if failure is None else work.throw(failure)
        except StopIteration:
            return
