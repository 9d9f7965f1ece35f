"""A service on a memory store, with connections that only remember what they were sent."""

from __future__ import annotations

import pytest

from sessiond.limits import Limits
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(store, clock):
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits())
    await service.start()
    yield service
    await service.close()


@pytest.fixture
def peer() -> FakePeer:
    return FakePeer("one")


@pytest.fixture
def other() -> FakePeer:
    return FakePeer("two")
