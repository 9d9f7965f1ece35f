"""The timer outlives every failure, keeps the journal from growing, and forgets what nobody needs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sessiond.errors import ReadOnly
from sessiond.limits import Limits
from sessiond.store import autosave
from sessiond.store.autosave import AutoSave


class Journal:
    def __init__(self, size: int, oldest: list[tuple[str, str]] | None = None) -> None:
        self.total_bytes = size
        self.oldest = oldest or []
        self.trims = 0
        self.fails = False

    def oldest_pending(self) -> list[tuple[str, str]]:
        return self.oldest

    async def rotate_and_trim(self) -> None:
        self.trims += 1
        if self.fails:
            raise ReadOnly("full", reason="ENOSPC")


class Store:
    """Asked for what is due, it fails as told, then has nothing to do."""

    def __init__(self, name: str, failures: list[BaseException] | None = None, dirty: int = 0) -> None:
        self.name = name
        self.failures = failures or []
        self.dirty = dirty
        self.saved: list[str] = []
        self.asked = 0

    async def save_due(self) -> float | None:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return 0.0

    def dirty_count(self) -> int:
        return self.dirty

    async def save_even_blank(self, local_id: str) -> None:
        self.saved.append(local_id)
        if local_id == "stuck":
            raise ReadOnly("it cannot be saved", reason="EIO")


async def run(stores: list[Any], journal: Journal, rounds: int, limits: Limits | None = None) -> None:
    """So many rounds of the timer."""
    watched = stores[-1]
    saver = AutoSave(lambda: {store.name: store for store in stores}, journal, limits or Limits())
    saver.start()
    goal = watched.asked + rounds
    while watched.asked < goal:
        await asyncio.sleep(0)
    await saver.stop()
    await saver.stop()


async def test_a_store_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it says why or has a defect: every store is asked again in the next round."""
    bad, good = Store("bad", [ReadOnly("no room", reason="ENOSPC"), ZeroDivisionError("ours")]), Store("good")
    await run([bad, good], Journal(0), 4)
    assert bad.asked >= 4
    assert "no room" in caplog.text
    assert "auto-save failed" in caplog.text


async def test_a_large_journal_is_relieved() -> None:
    """The sessions that its oldest segment is kept for are saved, each although another cannot be; of a store that is not configured nothing
    is asked.
    """
    store = Store("default", dirty=2)
    journal = Journal(200, [("default", "stuck"), ("default", "b"), ("gone", "c")])
    await run([store], journal, 2, Limits(journal_bytes=100))
    assert store.saved[:2] == ["stuck", "b"]
    assert journal.trims == 0


async def test_a_journal_that_nobody_needs_is_trimmed(caplog: pytest.LogCaptureFixture) -> None:
    """Only when all is saved, only when it is worth it; a failure is told and tried again."""
    for size, dirty, trims in (
        (autosave._TIDY_BYTES + 1, 0, True),
        (autosave._TIDY_BYTES + 1, 1, False),
        (10, 0, False),
    ):
        journal = Journal(size)
        await run([Store("default", dirty=dirty)], journal, 2)
        assert bool(journal.trims) == trims
    journal = Journal(autosave._TIDY_BYTES + 1)
    journal.fails = True
    await run([Store("default")], journal, 3)
    assert journal.trims >= 2
    assert "not trimmed" in caplog.text


async def test_one_that_never_began_can_be_stopped() -> None:
    """A daemon whose start failed stops what it has."""
    await AutoSave(dict, Journal(0), Limits()).stop()
