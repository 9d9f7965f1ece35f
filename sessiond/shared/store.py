"""A shared store: a folder of renderings, a ledger, and the link to the hub. Implements `store.port.Store`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from sessiond.hub.port import HubHead
from sessiond.model.session import SessionInfo
from sessiond.shared.link import HubLink
from sessiond.shared.listing import listed, listed_head
from sessiond.shared.streamed import StreamedSession
from sessiond.store.folder import FolderStore
from sessiond.store.port import (
    Announced,
    Arrived,
    Erased,
    Event,
    HealthChanged,
    HubStatus,
    IncomingSession,
    Listed,
    Recovered,
    StoreProblem,
    Touched,
    Trashed,
)


class SharedStore:
    shared = True

    def __init__(self, folder: FolderStore, link: HubLink) -> None:
        self.name, self.format, self.path = folder.name, folder.format, folder.path
        self.taken_state_keys = folder.taken_state_keys
        self.link = link
        self._folder = folder
        self._listeners: list[Callable[[Event], None]] = []
        link.on_erased = lambda local_id: self._emit(Erased(local_id))
        self.attended: Callable[[str], bool] = lambda _: True
        """Whether a client has a session open here, by its local id."""

    def hurry(self, attended: Callable[[str], bool]) -> None:
        self.attended = attended

    def hub_status(self) -> HubStatus:
        return self.link.status()

    def arrived(self, local_ids: Sequence[str]) -> None:
        """The ledger has more of these sessions than their owners know."""
        if local_ids:
            self._emit(Arrived(list(local_ids)))

    async def taken_in(self, local_id: str) -> None:
        """Tell the session's owner that the ledger has more of it, and wait until it knows that, or could not read it."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._emit(Arrived([local_id], partial(_settle, taken)))
        await taken

    def vanished(self, local_ids: Sequence[str]) -> None:
        """The hub does not have what it listed: it was restored from an older backup."""
        self.link.ledger.unlist(local_ids)
        self.arrived(local_ids)

    def announce(self, heads: Sequence[HubHead]) -> None:
        """The hub has sessions of which the ledger has nothing. Those that lists can show are fetched when somebody reads them, or
        by the mirror in their turn.
        """
        found = [(one, info) for one in heads if (info := listed_head(one)) is not None]
        self.link.ledger.note_listed(
            [(one.session, one.head, one.listing) for one, _ in found if one.listing is not None]
        )
        if found:
            self._emit(Announced([info for _, info in found]))

    def announced(self) -> list[SessionInfo]:
        found = [listed(one, *about) for one, about in self.link.ledger.listed.items()]
        return [info for info in found if info is not None]

    @property
    def unfetched(self) -> int:
        return len(self.link.ledger.listed)

    @property
    def fetching(self) -> bool:
        return self.link.mirrors and self.link.up and self.unfetched > 0

    @property
    def problem(self) -> StoreProblem | None:
        return self.link.ledger.problem or self._folder.problem

    def ledger_changed(self) -> None:
        """Its ledger cannot be written, or can be written again."""
        self._emit(HealthChanged(self.problem))
        if self.problem is None:
            self._emit(Recovered(self.recovered()))
            self._emit(Touched(frozenset(), everything=True))

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)
        self._folder.subscribe(listener)

    def _emit(self, event: Event) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.call_soon(listener, event)

    def recovered(self) -> list[str]:
        heads = self.link.ledger.heads
        unsaved = [local_id for local_id, one in heads.items() if not one.trashed and one.saved != one.number]
        return list(dict.fromkeys([*unsaved, *self.link.ledger.waits]))

    def session(self, local_id: str) -> StreamedSession:
        return StreamedSession(self.link, self._folder, self._folder.session(local_id))

    async def scan(self) -> AsyncIterator[list[Listed]]:
        self.link.ledger.check_open()
        async for batch in self._folder.scan():
            yield [one for one in batch if self._is_there(one.local_id)]

    def _is_there(self, local_id: str) -> bool:
        known = self.link.ledger.heads.get(local_id)
        return local_id in self.link.ledger.waits or (known is not None and not known.trashed)

    async def look(self, local_id: str) -> Listed | None:
        self.link.ledger.check_open()
        if local_id in self.link.ledger.listed:
            return Listed(local_id, self.file_path(local_id), "")
        return await self._folder.look(local_id) if self._is_there(local_id) else None

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        return await self._folder.heads(local_ids)

    def file_path(self, local_id: str) -> str:
        return self._folder.file_path(local_id)

    def receive(self, local_id: str, created_at: str) -> IncomingSession | None:
        return None

    async def trash(self) -> list[Trashed]:
        """Another machine may have restored what was put into the trash here."""
        return [one for one in await self._folder.trash() if not self._is_there(one.trash_id)]


def _settle(taken: asyncio.Future[None]) -> None:
    if not taken.done():
        taken.set_result(None)
