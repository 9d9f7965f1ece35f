"""Hints that another program wrote into a store's folder. Only hints: files are also compared at start, on open and before
each save. A folder that the system will not watch is compared now and then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from sessiond.store.folder import FolderStore
from sessiond.store.hints import Hints, HintsLost

log = logging.getLogger(__name__)
_RETRY_S = 2.0
_COMPARE_S = 10.0
"""How often a folder that cannot be watched is compared."""
_COMPARING_SHARE = 0.05
"""The largest share of its time that such a store spends on comparing."""


class _Unwatched(Exception):
    """The folder exists, but the system does not watch it for us."""


class Watch:
    """Watches one store's folder for as long as it is there. `begun(store)` is awaited each time the watch has begun:
    earlier writes since the store was listed gave no hint.
    """

    def __init__(self, store: FolderStore, begun: Callable[[FolderStore], Awaitable[object]] | None = None) -> None:
        self._store = store
        self._begun = begun
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._unwatched = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"watch {self._store.name}")

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._stop.is_set():
            pause = _RETRY_S
            try:
                await self._watch()
            except _Unwatched as error:
                pause = await self._do_without(str(error))
            except (OSError, RuntimeError, HintsLost) as error:
                self._tell(error)
            except Exception:  # a bug of ours: the watch is tried again, and the files are compared at other times too
                log.exception("store %s: the watch failed", self._store.name)
            await self._unless_stopped(asyncio.sleep(pause))

    async def _watch(self) -> None:
        """Watch until it is stopped. Raises the error that ends it before that."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        held: list[str] = []
        begun = False

        def told(paths: Sequence[str]) -> None:
            if begun:
                self._store.touched(paths)
            else:
                held.extend(paths)

        def hinted(paths: Sequence[str]) -> None:  # on the hints' thread
            theirs = self._store.not_ours(paths)
            if theirs:
                loop.call_soon_threadsafe(told, theirs)

        hints = Hints(
            hinted,
            lambda error: loop.call_soon_threadsafe(failed.set_exception, error),
            self._store.run,
        )
        try:
            await self._open(hints)
            if not await self._unless_stopped(self._compare()):
                return
            begun = True
            self._store.touched(held)
            await self._unless_stopped(_result(failed))
        finally:
            await hints.close()

    async def _open(self, hints: Hints) -> None:
        try:
            await hints.open(self._store.path, self._store.holds_sessions)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            raise  # comparing would fail too
        except (OSError, RuntimeError) as error:
            raise _Unwatched(error) from error
        if self._unwatched:
            self._unwatched = False
            self._store.watch_changed(None)

    async def _compare(self) -> None:
        if self._begun is not None:
            await self._begun(self._store)
        if self._told:  # it has failed before
            self._store.touched_all()

    async def _do_without(self, reason: str) -> float:
        """Compare the files, because nothing reports when they are written. Returns the seconds until the next comparison."""
        self._told.add(reason)
        if not self._unwatched:
            self._unwatched = True
            self._store.watch_changed(
                f"its folder cannot be watched ({reason}), so outside edits may take {_COMPARE_S:g} s or more to be "
                "noticed; on Linux the limits are fs.inotify.max_user_watches and fs.inotify.max_user_instances"
            )
        began = time.monotonic()
        await self._unless_stopped(self._compare())
        return max(_COMPARE_S, (time.monotonic() - began) / _COMPARING_SHARE)

    def _tell(self, error: Exception) -> None:
        """Report each reason once. All files are compared when the watch begins again."""
        level = logging.DEBUG if str(error) in self._told else logging.INFO
        self._told.add(str(error))
        log.log(
            level, "store %s cannot be watched now, so its files are compared regularly: %s", self._store.name, error
        )

    async def _unless_stopped(self, work: Coroutine[object, object, None]) -> bool:
        """Run `work` until the watch is stopped, and return whether it finished before that. Raises what `work` raises."""
        tasks = [asyncio.create_task(work), asyncio.create_task(self._stop.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                return False
            tasks[0].result()
            return True
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _result(future: asyncio.Future[None]) -> None:
    await future
