"""Python's search of all memory, which stops everything, runs when nobody waits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from sessiond.daemon import memory
from sessiond.daemon.memory import DUE, LONG_LOOKS, OVERDUE, SHORT_S, Garbage, leave_the_old_alone

LOOK_S = 5.0


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Daemon:
    """What `Garbage` sees of one: how busy it was between two looks, how much there is to search, how long that takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.used = 0.0
        self.searches = DUE
        self.takes = SHORT_S / 2
        self.times = 0
        monkeypatch.setattr(memory.gc, "get_count", lambda: (0, 0, self.searches))
        monkeypatch.setattr(memory.gc, "collect", self._collect)
        self.garbage = Garbage(lambda: self.now, lambda: self.used)

    def _collect(self) -> int:
        self.times += 1
        self.now += self.takes
        self.used += self.takes
        return 0

    def look(self, share: float = 0.0, *, alone: bool = False) -> bool:
        """After a while of which it used such a share of a processor."""
        self.now += LOOK_S
        self.used += LOOK_S * share
        return self.garbage.look(alone=alone)


def test_python_itself_searches_only_what_is_young(thresholds: None) -> None:
    """However many objects are made and kept: a search of the oldest is ours to begin."""
    searched: list[int] = []

    def noted(phase: str, about: dict[str, Any]) -> None:
        if phase == "start":
            searched.append(about["generation"])

    leave_the_old_alone()
    gc.callbacks.append(noted)
    try:
        kept = [[number] for number in range(500_000)]
    finally:
        gc.callbacks.remove(noted)
    assert len(kept) == 500_000
    assert searched
    assert max(searched) < 2


def test_nobody_who_works_waits_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy daemon never runs one, for however long, until far too much has accumulated."""
    daemon = Daemon(monkeypatch)
    assert not any(daemon.look(0.1, alone=number % 2 == 0) for number in range(1000))
    daemon.searches = OVERDUE
    assert daemon.look(0.1)


def test_it_is_searched_where_nobody_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first quiet look, but not if there is nothing new to search."""
    daemon = Daemon(monkeypatch)
    daemon.searches = DUE - 1
    assert not daemon.look(alone=True)
    daemon.searches = DUE
    assert not daemon.look(0.5, alone=True)
    assert daemon.look(alone=True)


def test_a_long_search_waits_for_a_long_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a client is connected. The first one counts as long, because its length is unknown; after a short one the next is done soon."""
    daemon = Daemon(monkeypatch)
    for takes in (2 * SHORT_S, SHORT_S / 2):
        daemon.takes = takes
        daemon.look(0.5)
        looks = [daemon.look() for _ in range(LONG_LOOKS)]
        assert looks == [False] * (LONG_LOOKS - 1) + [True]
    daemon.look(0.5)
    assert daemon.look()
    assert daemon.times == 3
