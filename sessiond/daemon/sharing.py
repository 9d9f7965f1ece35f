"""The shared stores of a daemon: their ledgers, their links to the hubs, and what keeps both up to date."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from sessiond.clock import Clock
from sessiond.config import StoreConfig
from sessiond.endpoint import Places
from sessiond.fs import off_loop
from sessiond.hub.opening import address_of, open_hub
from sessiond.limits import Limits
from sessiond.shared.journal import NoJournal
from sessiond.shared.ledger import Ledger
from sessiond.shared.link import HubLink
from sessiond.shared.news import HubNews
from sessiond.shared.store import SharedStore
from sessiond.shared.synchroniser import Synchroniser
from sessiond.store.mounts import Mounts
from sessiond.store.port import Event, HealthChanged, HubStatus


class Sharing:
    """`open` first; `stop` before the sessions are saved, `close` after. `tell`: hears of a store what is known of its hub, when
    that changes.
    """

    def __init__(
        self,
        where: Places,
        stores: Sequence[StoreConfig],
        mounts: Mounts,
        clock: Clock,
        limits: Limits,
        on_event: Callable[[str, Event], None],
        tell: Callable[[str, HubStatus], None],
    ) -> None:
        self.stores: dict[str, SharedStore] = {}
        self._where = where
        self._configured = [store for store in stores if store.hub is not None]
        self._mounts = mounts
        self._clock = clock
        self._limits = limits
        self._on_event = on_event
        self._tell = tell
        self._synchronisers: list[Synchroniser] = []
        self._news: list[HubNews] = []

    async def open(self) -> None:
        """ConfigError: the extra is not installed. OSError: the ledgers' folder cannot be created."""
        for config in self._configured:
            assert config.hub is not None
            folder = await self._mounts.mount_shared(config.name, config.path, NoJournal())
            ledger = Ledger(f"{self._where.data}/shared/{config.name}.ledger")
            await off_loop(lambda: os.makedirs(f"{self._where.data}/shared", 0o700, exist_ok=True))
            await ledger.open()
            link = HubLink(
                config.name,
                ledger,
                open_hub(address_of(config.hub), ledger.replica, config.hub.key_file),
                self._clock,
                refuses=config.hub.offline == "refuse",
                mirrors=config.hub.mirror,
                patience_s=self._limits.hub_patience_s,
            )
            store = SharedStore(folder, link)
            self.stores[config.name] = store
            ledger.on_problem = partial(self._ledger_changed, store)
            self._synchronisers.append(Synchroniser(store))
            news = HubNews(
                link.known, link.status, partial(self._tell, config.name), asyncio.get_running_loop().call_later
            )
            link.on_change = news.touched
            self._news.append(news)

    def _ledger_changed(self, store: SharedStore) -> None:
        store.ledger_changed()
        self._on_event(store.name, HealthChanged(store.problem))

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """By the store's name."""
        return {name: store.link.ledger for name, store in self.stores.items()}

    def start(self) -> None:
        for one in self._synchronisers:
            one.start()

    async def stop(self) -> None:
        """Nothing more comes from the hubs."""
        for one in self._synchronisers:
            await one.stop()

    async def close(self) -> None:
        for news in self._news:
            news.stop()
        for store in self.stores.values():
            store.link.on_change = lambda: None
            await store.link.hub.close()
            await store.link.ledger.close()
