"""Random histories of three machines and a hub: nothing is lost, doubled or reordered, and all hold the same in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.postgres import Server
from tests.shared.history import History
from tests.shared.machines import Machine, make_team
from tests.suite.explore import seeds

STEPS = 60
LIVES = 40
"""Histories in one lab."""
_MORE = "\n[limits]\nhub_patience_s = 0.5\n"


def _moved_by(clock: Path) -> dict[str, str]:
    """The environment in which a daemon's wall clock is moved by what the file says; empty where faketime is not installed."""
    libraries = sorted(Path("/usr/lib").glob("**/libfaketime*.so.1"))
    if not libraries:
        return {}
    clock.write_text("+0")
    return {
        "LD_PRELOAD": str(libraries[-1]), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip


class Lab:
    """Three machines and a hub, that live through one history after another."""

    def __init__(self, folder: Path) -> None:
        self.server = Server("wheel").start()
        self.database = "histories"
        make_team(self.server, self.database)
        self.folder = folder
        self.lived = 0
        self.clocks = [folder / f"clock{index}" for index in range(3)]
        self.machines = [
            Machine(folder / f"m{index}", self.server, self.database, role, _MORE, _moved_by(clock)).start()
            for index, (role, clock) in enumerate(zip(("ada", "bob", "ada"), self.clocks, strict=True))
        ]

    def live(self, seed: int) -> None:
        self.lived += 1
        history = History(seed, self.machines, self.server, self.database, self.folder, self.clocks)
        history.run(STEPS)
        history.check()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        self.server.close()


class Labs:
    """One lab after the other: each history leaves its sessions there, and all of them are compared at the end of each."""

    def __init__(self, made_in: Callable[[], Path]) -> None:
        self._made_in = made_in
        self._lab: Lab | None = None

    def live(self, seed: int) -> None:
        if self._lab is not None and self._lab.lived >= LIVES:
            self.close()
        self._lab = self._lab or Lab(self._made_in())
        self._lab.live(seed)

    def close(self) -> None:
        lab, self._lab = self._lab, None
        if lab is not None:
            lab.close()


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labs]:
    made = Labs(lambda: tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


@pytest.mark.parametrize("seed", seeds(few=3, usual=20))
def test_a_random_history(labs: Labs, seed: int) -> None:
    """The seed repeats one."""
    labs.live(seed)
