"""The checks of the index against the files, each store by itself: one whose disk hangs keeps no other from being checked."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence

from sessiond.limits import STORE_PATIENCE_S
from sessiond.store.port import Listed, Store


class Checks:
    """`checking`: held by a check of a store, by its name. `find(store)`: what is not current, after lists show it.
    `read(store, found)`: indexes that. `listed()` is called once lists show every session of a check's stores.
    """

    def __init__(
        self,
        find: Callable[[Store], Awaitable[list[Listed]]],
        read: Callable[[Store, Sequence[Listed]], Awaitable[object]],
        settled: Callable[[], Awaitable[object]],
        listed: Callable[[], None],
    ) -> None:
        self.checking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._find = find
        self._read = read
        self._settled = settled
        self._listed = listed
        self._under_way: Counter[str] = Counter()
        self._over: dict[str, asyncio.Event] = {}

    def over(self, name: str) -> asyncio.Event | None:
        """Set while no check of the store is under way; None if none has begun."""
        return self._over.get(name)

    def begin(self, stores: Sequence[Store]) -> None:
        """A check of these begins soon."""
        for store in stores:
            self._under_way[store.name] += 1
            self._over.setdefault(store.name, asyncio.Event()).clear()

    async def run(self, stores: Sequence[Store]) -> None:
        """First what lists show of all sessions, then their messages. A store's messages do not wait long for the lists of the
        others.
        """
        unread = list(stores)
        try:
            async with asyncio.TaskGroup() as group:
                finding = {store.name: group.create_task(self._find_one(store)) for store in stores}
                for store in stores:
                    group.create_task(self._read_one(store, finding, unread))
                try:
                    await asyncio.wait(finding.values())
                finally:
                    self._listed()
        finally:
            for store in unread:
                self._end(store)

    async def _find_one(self, store: Store) -> list[Listed]:
        async with self.checking[store.name]:
            return await self._find(store)

    async def _read_one(
        self, store: Store, finding: dict[str, asyncio.Task[list[Listed]]], unread: list[Store]
    ) -> None:
        await asyncio.wait(finding.values(), timeout=STORE_PATIENCE_S)
        found = await finding[store.name]
        async with self.checking[store.name]:
            await self._read(store, found)
        await self._settled()
        unread.remove(store)
        self._end(store)

    def _end(self, store: Store) -> None:
        self._under_way[store.name] -= 1
        if not self._under_way[store.name]:
            self._over[store.name].set()
