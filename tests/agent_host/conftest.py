"""A service on a memory store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sessiond.limits import Limits
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[Service]:
    made = Service(stores={"default": MemoryStore()}, index=FakeIndex(), clock=clock, limits=Limits())
    await made.start()
    yield made
    await made.close()
