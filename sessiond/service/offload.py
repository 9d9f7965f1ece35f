"""Work that grows with a session's length, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

from sessiond.model.session import Session

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
LIGHT_MESSAGES = 1000  # up to this many, the way to a thread and back costs more than the work


async def heavy(session: Session, work: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """`work(*args)`, on a thread if `session` is long. Nothing may change what `work` reads."""
    return work(*args) if len(session) <= LIGHT_MESSAGES else await asyncio.to_thread(work, *args)
