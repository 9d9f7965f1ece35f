"""How soon the changes of other machines are fetched: at once where somebody here has the session open, many at a time elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sessiond.hub.port import HeadHint
from sessiond.limits import Limits
from sessiond.shared import synchroniser
from sessiond.shared.store import SharedStore
from sessiond.shared.synchroniser import Synchroniser
from sessiond.store.port import HubStatus
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


class Ledger:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.problem = None

    def head(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(number=self._replica.number)

    async def try_again(self) -> None: ...


class Replica:
    """A store whose hub has more with each hint, and which counts how often it is asked."""

    def __init__(self, *, attended: bool) -> None:
        self.number = self.head = 0
        self.pulls = 0
        self.hints: asyncio.Queue[HeadHint] = asyncio.Queue()
        self.link = SimpleNamespace(
            mirrors=False,
            ours=True,
            hints=self.hints,
            up=True,
            heard=lambda *_: None,
            pull=self._pull,
            ledger=Ledger(self),
        )
        self.name = "team"
        self.attended = lambda _: attended
        self.arrived = lambda _: None
        self.synchroniser = Synchroniser(cast(SharedStore, cast(Any, self)))
        self.synchroniser.start()

    async def _pull(self, _: str) -> bool:
        self.pulls += 1
        self.number = self.head
        return True

    async def hint(self) -> None:
        """One more change; returns when everything that can go on without time passing has gone on."""
        self.head += 1
        self.hints.put_nowait(HeadHint("s", self.head))
        for _ in range(20):
            await asyncio.sleep(0)


async def test_changes_of_a_session_that_nobody_has_open_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first at once, and all that come in the pause after it with one look at the hub."""
    monkeypatch.setattr(synchroniser, "HUB_PAUSE_S", 0.5)
    replica = Replica(attended=False)
    await replica.hint()
    assert (replica.pulls, replica.number) == (1, 1)
    for _ in range(50):
        await replica.hint()
    while replica.number < 51:
        await asyncio.sleep(0.01)
    assert replica.pulls == 2
    await replica.synchroniser.stop()


async def test_a_session_that_is_open_here_has_each_change_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synchroniser, "HUB_PAUSE_S", 3600)
    replica = Replica(attended=True)
    for number in range(1, 51):
        await replica.hint()
        assert replica.number == number
    await replica.synchroniser.stop()


class Sharing(MemoryStore):
    """A store that says that it is shared, and keeps what it was told."""

    shared = True

    def hurry(self, attended: Callable[[str], bool]) -> None:
        self.attended = attended

    def hub_status(self) -> HubStatus:
        return HubStatus("online", "", 0, 0, None)


async def test_a_shared_store_is_told_what_clients_have_open() -> None:
    """From the first that opens a session until the last one leaves; reading it is not enough."""
    store = Sharing()
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    one, two = FakePeer("one"), FakePeer("two")
    await service.new(one, session_id="a", messages=[user("1")])
    assert store.attended("a")
    await service.open(two, "a")
    await service.close_session(one, "a")
    assert store.attended("a")
    await service.close_session(two, "a")
    await service.read("a")
    assert not store.attended("a")
    assert not store.attended("never seen")
    await service.close()
