"""Servers and stores for the hub's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count

import pytest

from tests.hub.postgres import PLACES, Server
from tests.hub.stores import Team

_numbers = count(1)


@pytest.fixture(scope="session", params=list(PLACES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that all tests share: they neither kill nor stop it."""
    made = Server(request.param).start()
    yield made
    made.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may kill."""
    made = Server("wheel").start()
    yield made
    made.close()


@pytest.fixture
async def team(server: Server) -> AsyncIterator[Team]:
    """A store in a database of its own, with the members ada and bob."""
    made = await Team.make(server, f"hub_{next(_numbers)}")
    yield made
    await made.close()


MakeTeam = Callable[[Server], Awaitable[Team]]


@pytest.fixture
async def own_team(own_server: Server) -> AsyncIterator[Team]:
    made = await Team.make(own_server, "hub")
    yield made
    await made.close()
