"""What the journal's thread reports before the loop wakes."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from sessiond.errors import Indeterminate
from sessiond.journal import writer as module
from tests.fakes.crashfs import CrashFS, CrashLog
from tests.journal.test_writer import Gate, Open, open_journal

__all__ = ["open_journal"]


class Told:
    """Counts its calls, and says what it was told to say."""

    def __init__(self, enough: bool) -> None:
        self.enough = enough
        self.threads: list[str] = []
        self.called = threading.Event()

    def __call__(self) -> bool:
        self.threads.append(threading.current_thread().name)
        self.called.set()
        return self.enough


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment that does not end while a test runs."""
    monkeypatch.setattr(module, "_MOMENT_S", 600.0)


async def test_it_is_called_after_the_sync_and_not_before(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the journal's thread, once, when the record is on the disk."""
    journal, _ = await open_journal(CrashFS())
    gate = Gate(monkeypatch)
    told = Told(enough=False)
    future = journal.commit("default", "a", 1, b"x", told)
    await gate.until_reached()
    assert not told.threads
    gate.may_pass.release(10)
    assert await future == 1
    assert told.threads == ["journal"]


@pytest.mark.parametrize("failing", ["write", "sync"])
async def test_it_is_not_called_where_the_disk_fails(
    open_journal: Open, monkeypatch: pytest.MonkeyPatch, failing
) -> None:
    """Nothing is reported as durable that is not."""
    journal, _ = await open_journal(CrashFS())

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(CrashLog, failing, fail)
    monkeypatch.setattr(CrashLog, "truncate", fail)
    told = Told(enough=True)
    with pytest.raises(Indeterminate):
        await journal.commit("default", "a", 1, b"x", told)
    assert not told.threads


async def test_the_loop_is_not_woken_where_nobody_else_waits(open_journal: Open, no_hurry: None) -> None:
    """It learns of the record when it asks, before the moment is over."""
    journal, _ = await open_journal()
    told = Told(enough=True)
    future = journal.commit("default", "a", 1, b"x", told)
    assert await asyncio.to_thread(told.called.wait, 20)
    await asyncio.sleep(0.02)
    assert not future.done()
    journal.settle()
    assert future.done()
    assert await future == 1


async def test_the_loop_is_told_after_a_moment(open_journal: Open) -> None:
    """Even if there is no request and nothing else arrives."""
    journal, _ = await open_journal()
    async with asyncio.timeout(20):
        assert await journal.commit("default", "a", 1, b"x", Told(enough=True)) == 1


async def test_the_loop_is_told_at_once_of_what_others_wait_for(open_journal: Open, no_hurry: None) -> None:
    """One of a batch that says so is enough; and a mark, an order or a later record tells of those before it."""
    journal, _ = await open_journal()
    async with asyncio.timeout(20):
        assert await journal.commit("default", "a", 1, b"x", Told(enough=False)) == 1
        assert await journal.commit("default", "a", 2, b"x") == 2
        early = journal.commit("default", "a", 3, b"x", Told(enough=True))
        assert await journal.note_gone("default", "b") is None
        assert early.done()
        early = journal.commit("default", "a", 4, b"x", Told(enough=True))
        await journal.rotate_and_trim()
        assert early.done()
        early = journal.commit("default", "a", 5, b"x", Told(enough=True))
        await journal.close()
        assert early.done()


async def test_a_large_batch_is_told_by_the_loop(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that writes to a hundred sockets would wait for the loop a hundred times."""
    journal, _ = await open_journal(CrashFS())
    gate = Gate(monkeypatch)
    first = journal.commit("default", "a", 1, b"x")
    await gate.until_reached()
    told = [Told(enough=True) for _ in range(100)]
    futures = [journal.commit("default", f"s{n}", 1, b"x", one) for n, one in enumerate(told)]
    gate.may_pass.release(10)
    await asyncio.gather(first, *futures)
    assert not any(one.threads for one in told)


async def test_the_loop_is_told_before_the_next_record_is_begun(
    open_journal: Open, no_hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sync may hang, and who waits for the first one has nothing to do with it."""
    journal, _ = await open_journal(CrashFS())
    gate = Gate(monkeypatch)
    first = journal.commit("default", "a", 1, b"x", Told(enough=True))
    await gate.until_reached()
    second = journal.commit("default", "b", 1, b"x", Told(enough=True))
    gate.may_pass.release()
    async with asyncio.timeout(20):
        assert await first == 1
    await gate.until_reached()
    assert not second.done()
    gate.may_pass.release(10)
    journal.settle()
