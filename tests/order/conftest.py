"""Real daemons that start in milliseconds, which save only when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.order.pipeline import Pipeline
from tests.zygote import ForkedHome, Zygote

STILL = "[autosave]\ninterval_s = 0\nidle_s = 0\n"
"""No automatic saves."""


@pytest.fixture
def forked(zygote: Zygote, tmp_path: Path) -> Iterator[ForkedHome]:
    """A home whose daemon saves only when it is told to."""
    made = ForkedHome(zygote, tmp_path, STILL)
    made.start()
    yield made
    made.forget_clients()
    made.kill()


@pytest.fixture
def connect(forked: ForkedHome) -> Iterator[Callable[[], Pipeline]]:
    """Makes connections to `still`, closed after the test."""
    made: list[Pipeline] = []

    def make() -> Pipeline:
        made.append(Pipeline(forked))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def client(connect: Callable[[], Pipeline]) -> Pipeline:
    return connect()


@pytest.fixture
def again(forked: ForkedHome, connect: Callable[[], Pipeline]) -> Callable[..., Pipeline]:
    """`again(kill=...)`: the daemon ends, by kill -9 or in good order, and starts again with nothing loaded; a new connection."""

    def restart(*, kill: bool = False) -> Pipeline:
        if kill:
            forked.kill()
        else:
            forked.stop()
        forked.start()
        return connect()

    return restart
