"""A service on a memory store, with connections that only remember what they were sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.limits import Limits
from sessiond.service.sessions import Service
from sessiond.store.memory import MemoryStore
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex


class FakePeer:
    """`full`: it reads too slowly, so that notifications are dropped."""

    _numbers = iter(range(1, 1_000_000))

    def __init__(self, client: str = "test") -> None:
        self.id = next(self._numbers)
        self.client = client
        self.closed = False
        self.full = False
        self.got: list[tuple[str, dict[str, Any]]] = []

    def notify(self, method: str, params: bytes) -> bool:
        if self.full:
            return False
        self.got.append((method, json.loads(params)))
        return True

    def take(self, method: str | None = None) -> list[dict[str, Any]]:
        """What came since the last look."""
        got, self.got = self.got, []
        return [params for name, params in got if method in (None, name)]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(store, clock):
    service = Service(stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits())
    await service.start()
    yield service
    await service.close()


@pytest.fixture
def peer() -> FakePeer:
    return FakePeer("one")


@pytest.fixture
def other() -> FakePeer:
    return FakePeer("two")


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}
