"""A hub and machines for the tests of shared stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.hub.postgres import Server
from tests.shared.machines import Machine, make_team

_numbers = count(1)
Machines = Callable[..., list[Machine]]


@pytest.fixture(scope="session")
def hub_server() -> Iterator[Server]:
    """PostgreSQL from the wheel. Tests that kill it make their own."""
    made = Server("wheel").start()
    yield made
    made.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A PostgreSQL that the test may kill."""
    made = Server("wheel").start()
    yield made
    made.close()


@pytest.fixture
def machines(hub_server: Server, tmp_path: Path) -> Iterator[Machines]:
    """Makes so many machines with one shared store, and starts their daemons."""
    made: list[Machine] = []

    def make(number: int, more: str = "", server: Server = hub_server, *, sealed: bool = False) -> list[Machine]:
        database = f"shared_{next(_numbers)}"
        make_team(server, database, sealed=sealed)
        for index in range(number):
            role = ("ada", "bob")[index % 2]
            made.append(Machine(tmp_path / f"m{index}", server, database, role, more).start())
        return made

    yield make
    for machine in made:
        machine.close()
