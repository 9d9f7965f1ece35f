"""What the daemon does by itself as long as it lives, beside its clients: one task."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class PeriodicTask(ABC):
    """`start`, then `stop`, which also is right where it was never started."""

    name: str
    """Of the task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @abstractmethod
    async def _run(self) -> None:
        """Until it is cancelled."""
