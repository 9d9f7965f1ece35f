"""Something that the daemon does regularly by itself, in one task."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class PeriodicTask(ABC):
    """Call `start`, then `stop`; `stop` is harmless if it was never started."""

    name: str
    """Name of the task."""

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
        """Runs until it is cancelled."""
