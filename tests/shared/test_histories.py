"""Random histories of three machines and a hub: nothing is lost, doubled or reordered, and all hold the same in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.postgres import Server
from tests.shared.history import History
from tests.shared.machines import Machine, make_team
from tests.suite.explore import seeds

STEPS = 60
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
        self.clocks = [folder / f"clock{index}" for index in range(3)]
        self.machines = [
            Machine(folder / f"m{index}", self.server, self.database, role, _MORE, _moved_by(clock)).start()
            for index, (role, clock) in enumerate(zip(("ada", "bob", "ada"), self.clocks, strict=True))
        ]

    def live(self, seed: int) -> None:
        history = History(seed, self.machines, self.server, self.database, self.folder, self.clocks)
        history.run(STEPS)
        history.check()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()
        self.server.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


@pytest.mark.parametrize("seed", seeds(few=3, usual=20))
def test_a_random_history(lab: Lab, seed: int) -> None:
    """The seed repeats one."""
    lab.live(seed)
