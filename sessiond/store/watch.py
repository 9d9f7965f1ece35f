"""Hints that somebody wrote into a store's folder. Only hints: files are compared at start, on open and before each
save as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sessiond.store.folder import FolderStore

log = logging.getLogger(__name__)
_RETRY_S = 2.0


class Watch:
    """Watches one store's folder for as long as it is there. `begun(store)` is awaited each time after it has begun: what
    was written since the store was listed, and before that, gave no hint.
    """

    def __init__(self, store: FolderStore, begun: Callable[[FolderStore], Awaitable[object]] | None = None) -> None:
        self._store = store
        self._begun = begun
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"watch {self._store.name}")

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        # Imported here, off the loop: the daemon answers its first client before it watches anything.
        watchfiles = await asyncio.to_thread(__import__, "watchfiles")
        while not self._stop.is_set():
            try:
                hints = watchfiles.awatch(
                    self._store.path, watch_filter=_is_theirs, debounce=200, step=50, stop_event=self._stop, rust_timeout=5000,
                    ignore_permission_denied=True,
                )  # fmt: skip
                first = asyncio.ensure_future(anext(hints, None))
                await asyncio.sleep(0)  # it watches from its first step on
                try:
                    if self._begun is not None:
                        await self._begun(self._store)
                    if self._told:  # it has failed before
                        await self._store.look_at_all()
                    await self._look(await first)
                    async for changes in hints:
                        await self._look(changes)
                finally:
                    first.cancel()
            except (OSError, RuntimeError) as error:
                self._tell(error)
            except ExceptionGroup as group:  # what fails on the thread that waits for hints
                foreseen, fault = group.split((OSError, RuntimeError))
                if foreseen is not None:
                    self._tell(_leaf(foreseen))
                if fault is not None:
                    log.error("store %s: the watch failed", self._store.name, exc_info=fault)
            except Exception:  # a fault of ours: hints go on coming, and the files are compared at other times too
                log.exception("store %s: the watch failed", self._store.name)
            if not self._stop.is_set():
                await _pause(self._stop, _RETRY_S)

    def _tell(self, error: Exception) -> None:
        """Once for each reason: a file whose name is no UTF-8 ends the watch whenever it is written, and the look at all files
        that follows finds what it has to say.
        """
        level = logging.DEBUG if str(error) in self._told else logging.INFO
        self._told.add(str(error))
        log.log(level, "store %s cannot be watched now; its files are compared instead: %s", self._store.name, error)

    async def _look(self, changes: set[tuple[int, str]] | None) -> None:
        for local_id in self._store.ids_of([path for _, path in changes or ()]):
            await self._store.look_at(local_id)


def _leaf(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_theirs(_change: object, path: str) -> bool:
    """Not one of our dot-names (temporary files, displaced versions), nor anything under `.sessiond/`."""
    return not path.rpartition("/")[2].startswith(".") and "/.sessiond/" not in path


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
