"""The news that a client is told of the hubs of shared stores over one connection. No I/O."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from sessiond.client.daemon_types import HubStatus, Status
from sessiond.client.types import Value

OnHub = Callable[[str, HubStatus], None]
"""Called with the name of a shared store and what is known of its hub."""


class _HubChanged(Value, frozen=True, kw_only=True):
    store: str = ""
    hub: HubStatus = HubStatus()


_decode = msgspec.json.Decoder(_HubChanged).decode


class Hubs:
    """`due`: the daemon has to be asked for its status, once on each connection. What it has told since then is newer."""

    def __init__(self, on_hub: OnHub) -> None:
        self.due = True
        self._on_hub = on_hub
        self._told: set[str] = set()

    def asking(self) -> None:
        self.due = False
        self._told.clear()

    def answered(self, status: Status) -> None:
        for store in status.stores:
            if store.hub is not None and store.name not in self._told:
                self._on_hub(store.name, store.hub)

    def heard(self, params: Raw) -> None:
        """The params of a `store/hubChanged`."""
        told = _decode(params)
        self._told.add(told.store)
        self._on_hub(told.store, told.hub)
