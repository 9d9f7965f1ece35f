"""When a session is saved by itself, and what keeps the journal from growing: the real owners of sessions on a fake disk and
in fake time. An hour is over as soon as nothing is left to do in it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sessiond.daemon import upkeep
from sessiond.daemon.upkeep import Upkeep
from sessiond.errors import ReadOnly
from sessiond.journal.segments import ReadOnlyState
from sessiond.limits import Limits
from sessiond.service.open_session import OpenSession
from sessiond.service.sessions import Service
from sessiond.store.port import StoreProblem
from tests.fakes.clock import ManualClock
from tests.fakes.crashfs import CrashFS
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.simulation.loop import SimLoop
from tests.store.conftest import House

START = 1000.0


class LoopClock(ManualClock):
    """Its monotonic time is the loop's."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Core:
    """`saves`: (session, seconds since the start) of each attempt to write a file."""

    def __init__(self, disk: CrashFS | None = None, **limits: Any) -> None:
        self.disk = disk or CrashFS()
        self.house = House(self.disk, "/home", limits=Limits(settle_s=0.0, reserve_bytes=512, **limits))
        self.house.clock = LoopClock()
        self.peer = FakePeer()
        self.saves: list[tuple[str, float]] = []

    async def start(self, interval_s: float = 300.0, idle_s: float = 2.0) -> Service:
        await self.house.open()
        self.store = self.house.store.store
        self.service = WireService(
            stores={"default": self.store}, index=FakeIndex(), clock=self.house.clock, limits=self.house.limits,
            interval_s=interval_s, idle_s=idle_s,
        )  # fmt: skip
        return self.service

    def one(self, session_id: str) -> OpenSession:
        return self.service.open_sessions.at(session_id)

    def dirty(self, session_id: str) -> bool:
        return self.service.open_sessions.is_dirty(session_id)

    def watch(self, session_id: str) -> OpenSession:
        """Note each attempt to write its file."""
        one = self.one(session_id)
        save = one.stored.save

        async def noted(session: Any) -> Any:
            self.saves.append((session_id, seconds()))
            return await save(session)

        one.stored.save = noted  # type: ignore[method-assign]
        return one

    def has_file(self, session_id: str) -> bool:
        return self.disk.stat(f"/home/sessions/{session_id}.jsonl") is not None

    @property
    def unsaved(self) -> int:
        """How many sessions count as unsaved."""
        return len(self.service.open_sessions.dirty)

    async def kill(self) -> Core:
        """Another daemon on the same disk; this one does nothing any more."""
        self.service.open_sessions.autosave.stop()
        return Core(self.disk)


def play(story: Callable[[Core], Coroutine[Any, Any, None]], **limits: Any) -> None:
    loop = SimLoop(START, lambda: False)
    try:
        assert loop.play(story(Core(**limits)))
        assert loop.faults == []
    finally:
        loop.bury()


def seconds() -> float:
    """Since the start."""
    return asyncio.get_running_loop().time() - START


# When


def test_it_waits_for_quiet_and_not_longer_than_the_interval() -> None:
    """A session is saved when it was quiet for two seconds, or its file was behind for the interval, by the monotonic clock."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", name="n")
        core.watch("a")
        for _ in range(302):
            await asyncio.sleep(1.0)
            core.house.clock.set_wall(0)
            await service.append(core.peer, "a", [user("x")])
        assert [round(at) for _, at in core.saves] == [300]
        await asyncio.sleep(1.9)
        assert core.dirty("a")
        await asyncio.sleep(0.2)
        assert not core.dirty("a")
        assert core.saves[1:] == [("a", pytest.approx(304, abs=0.01))]
        await asyncio.sleep(1000)
        assert len(core.saves) == 2
        await service.close()

    play(story)


@pytest.mark.parametrize(
    ("interval_s", "idle_s", "at"), [(0.0, 2.0, [12]), (5.0, 0.0, [5, 11]), (300.0, 0.0, [300]), (0.0, 0.0, [])]
)
def test_0_switches_either_off(interval_s: float, idle_s: float, at: list[int]) -> None:
    """Changes come once a second for ten seconds. What stays is the other rule, or none: then only a request saves, and the end."""

    async def story(core: Core) -> None:
        service = await core.start(interval_s, idle_s)
        await service.new(core.peer, session_id="a", name="n")
        core.watch("a")
        for _ in range(10):
            await asyncio.sleep(1.0)
            await service.append(core.peer, "a", [user("x")])
        await asyncio.sleep(400)
        assert [round(when) for _, when in core.saves] == at
        await service.close()
        assert not core.dirty("a")

    play(story)


def test_what_comes_while_a_file_is_written_is_saved_by_the_next_one() -> None:
    """The save takes what it began with; the rest waits for its own quiet moment, and nothing is written twice."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("first")])
        one = core.watch("a")
        around = core.store._around
        run = around.run_save

        async def meanwhile(function: Any, *args: Any) -> Any:
            if len(core.saves) == 1:
                await service.append(core.peer, "a", [user("second")])
            return await run(function, *args)

        around.run_save = meanwhile
        await asyncio.sleep(2.1)
        assert one.dirty
        assert b"first" in core.disk.read("/home/sessions/a.jsonl")
        assert b"second" not in core.disk.read("/home/sessions/a.jsonl")
        await asyncio.sleep(2.1)
        assert not one.dirty
        assert core.disk.read("/home/sessions/a.jsonl").count(b"second") == 1
        assert len(core.saves) == 2
        await service.close()

    play(story)


def test_a_session_with_nothing_in_it_gets_no_file() -> None:
    """It waits for the first word in it."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a")
        await asyncio.sleep(1000)
        assert not core.has_file("a")
        await service.append(core.peer, "a", [user("first")])
        await asyncio.sleep(2.1)
        assert core.has_file("a")
        await service.close()

    play(story)


# What fails


def test_a_session_that_cannot_be_saved_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it says why or has a defect: it is tried again ten seconds later, and again, and the others are saved in time."""

    async def story(core: Core) -> None:
        service = await core.start()
        for session_id in ("bad", "good"):
            await service.new(core.peer, session_id=session_id, messages=[user("x")])
        bad = core.one("bad")
        failures: list[Exception] = [ReadOnly("no room", reason="ENOSPC"), ZeroDivisionError("ours")]
        save = bad.stored.save

        async def failing(session: Any) -> Any:
            if failures:
                raise failures.pop(0)
            return await save(session)

        bad.stored.save = failing  # type: ignore[method-assign]
        core.watch("bad")
        core.watch("good")
        await asyncio.sleep(100)
        assert sorted((name, round(at)) for name, at in core.saves) == [
            ("bad", 2),
            ("bad", 12),
            ("bad", 22),
            ("good", 2),
        ]
        assert not (core.dirty("bad") or core.dirty("good"))
        await service.close()

    play(story)
    assert "session bad was not saved: no room" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_full_disk_is_told_and_tried_till_there_is_room() -> None:
    """The store says that it cannot save, the words remain in the journal, and as soon as there is room all is well again."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        core.disk.fail("write", errno.ENOSPC, path="a.jsonl", times=2)
        await asyncio.sleep(5)
        assert core.store.problem is not None
        assert core.store.problem.kind == "saveFailed"
        await asyncio.sleep(20)
        assert core.store.problem is None
        assert not core.dirty("a")
        await service.close()

    play(story)


def test_a_file_that_somebody_writes_all_the_time_is_saved_later(caplog: pytest.LogCaptureFixture) -> None:
    """The timer's turn goes by, and comes again."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        await service.save("a")
        perform = core.store._files.perform

        def restless(*args: Any) -> Any:
            core.disk.append("/home/sessions/a.jsonl", b"\n")
            return perform(*args)

        core.store._files.perform = restless  # type: ignore[method-assign]
        await service.append(core.peer, "a", [user("y")])
        await asyncio.sleep(5)
        assert core.dirty("a")
        core.store._files.perform = perform  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert not core.dirty("a")
        assert b'"y"' in core.disk.read("/home/sessions/a.jsonl")
        await service.close()

    play(story)
    assert "session a was not saved" in caplog.text


def test_a_store_that_may_not_be_written_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """After a failed sync, or in a read-only folder, the timer writes nothing and does not report it repeatedly; what waits
    is saved once that is possible.
    """

    async def story(core: Core) -> None:
        service = await core.start()
        for number in range(5):
            await service.new(core.peer, session_id=f"s{number}", messages=[user("x")])
        core.store.set_problem(StoreProblem("readOnly", "the disk failed"))
        before = core.disk.steps
        await asyncio.sleep(1000)
        assert core.disk.steps == before
        assert caplog.text.count("not saved") <= 5
        core.store.set_problem(None)
        await asyncio.sleep(15)
        assert core.unsaved == 0
        await service.close()

    play(story)


# A session that goes while its timer has come


def test_a_delete_that_meets_a_save_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """The timer goes off while a session is being deleted: there is nothing left to save, and nothing is said of it."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        around = core.store._around
        run = around.run

        async def slowly(function: Any, *args: Any) -> Any:
            await asyncio.sleep(3)
            return await run(function, *args)

        around.run = slowly
        await service.delete("a")
        around.run = run
        await asyncio.sleep(100)
        assert core.unsaved == 0
        await service.close()

    play(story)
    assert "not saved" not in caplog.text


def test_a_timer_that_goes_off_in_the_last_moment_of_a_session_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """It finds that its session is gone and that somebody else may own it now."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        one = core.one("a")
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        core.store._around.journal.note_gone = lambda *_: gone  # type: ignore[method-assign]
        deleting = asyncio.create_task(service.delete("a"))
        await asyncio.sleep(1)
        saver = service.open_sessions.autosave
        saver._timers[one].cancel()
        one.changed_at -= 10
        gone.set_result(None)
        saver._look(one)  # in the same turn of the loop
        await deleting
        await asyncio.sleep(100)
        await service.close()

    play(story)
    assert "not saved" not in caplog.text


# What the journal had


def test_what_the_journal_had_is_saved_as_if_it_had_just_been_said() -> None:
    """A killed daemon saved nothing: the next one does, although nobody asks for the session, and the journal may go."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        assert not core.has_file("a")
        again = await core.kill()
        await again.start()
        assert again.unsaved == 1
        await asyncio.sleep(3)
        assert core.has_file("a")
        assert again.unsaved == 0
        await again.service.close()
        await core.house.open()
        assert core.house.journal.pending == {}

    play(story)


@pytest.mark.parametrize("asked", [False, True])
def test_what_the_journal_had_of_a_session_that_is_gone_lies_in_the_trash(
    caplog: pytest.LogCaptureFixture, asked: bool
) -> None:
    """Its file was deleted while no daemon ran. Whether somebody asks for it or not: the journal is not kept for it, nothing counts as
    unsaved, and nothing is tried again, not even at the end.
    """

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        await service.save("a")
        await service.append(core.peer, "a", [user("y")])
        core.disk.remove("/home/sessions/a.jsonl")
        again = await core.kill()
        service = await again.start()
        if asked:
            await service.start()
        await asyncio.sleep(30)
        assert [one.trash_id for one in await again.store.trash()] == ["a"]
        assert again.unsaved == 0
        await service.close()
        await core.house.open()
        assert core.house.journal.pending == {}

    play(story)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_what_the_journal_had_of_a_file_that_cannot_be_read_stays_in_it() -> None:
    """NULs are left alone, again and again; as soon as the file can be read, what waited is in it."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        await service.save("a")
        whole = core.disk.read("/home/sessions/a.jsonl")
        await service.append(core.peer, "a", [user("y")])
        core.disk.remove("/home/sessions/a.jsonl")
        core.disk.create("/home/sessions/a.jsonl", b"\0" * 5000)
        again = await core.kill()
        service = await again.start()
        await asyncio.sleep(60)
        assert again.unsaved == 1
        assert core.disk.read("/home/sessions/a.jsonl") == b"\0" * 5000
        core.disk.remove("/home/sessions/a.jsonl")
        core.disk.create("/home/sessions/a.jsonl", whole)
        await asyncio.sleep(15)
        assert again.unsaved == 0
        assert b'"y"' in core.disk.read("/home/sessions/a.jsonl")
        await service.close()

    play(story)


# The journal


class Journal:
    def __init__(self, size: int, oldest: list[tuple[str, str]] | None = None) -> None:
        self.total_bytes = size
        self.oldest = oldest or []
        self.trims = 0
        self.failures: list[Exception] = []
        self.read_only: ReadOnlyState | None = None
        self.tries = 0

    def oldest_pending(self) -> list[tuple[str, str]]:
        return self.oldest

    async def rotate_and_trim(self) -> None:
        self.trims += 1
        if self.failures:
            raise self.failures.pop(0)

    async def try_again(self) -> None:
        self.tries += 1
        if self.tries < 3:
            raise ReadOnly("full", reason="ENOSPC")
        self.read_only = None


def test_a_large_journal_is_relieved() -> None:
    """The sessions that its oldest segment is kept for are saved, each although another cannot be, one with nothing in it too; of a store that
    is not configured nothing is asked, and what is saved is not written again.
    """

    async def story(core: Core) -> None:
        service = await core.start(0.0, 0.0)
        for session_id in ("stuck", "b"):
            await service.new(core.peer, session_id=session_id, messages=[user("x")])
        for session_id in ("blank", "other"):
            await service.new(core.peer, session_id=session_id)
        core.disk.fail("write", errno.ENOSPC, path="stuck.jsonl", times=1000)
        names = ("stuck", "blank", "b", "never")
        journal = Journal(200, [*(("default", name) for name in names), ("gone", "c")])
        Upkeep(journal, service.open_sessions, service.limits).start()
        await asyncio.sleep(1)
        left = sorted(name for name in core.disk.list_dir("/home/sessions") if name.endswith(".jsonl"))
        assert left == ["b.jsonl", "blank.jsonl"]
        assert not core.dirty("blank")
        core.watch("b")
        core.watch("blank")
        await asyncio.sleep(10)
        assert core.saves == []
        assert journal.trims == 0
        core.disk.heal()
        await service.close()
        assert core.has_file("stuck")

    play(story, journal_bytes=100)


@pytest.mark.parametrize(
    ("size", "dirty", "trimmed"),
    [(upkeep._TIDY_BYTES + 1, False, True), (upkeep._TIDY_BYTES + 1, True, False), (10, False, False)],
)
def test_a_journal_that_nobody_needs_is_trimmed(size: int, dirty: bool, trimmed: bool) -> None:
    """Only when all is saved, only when it is worth it."""

    async def story(core: Core) -> None:
        service = await core.start(0.0, 0.0)
        await service.new(core.peer, session_id="a", messages=[user("x")])
        if not dirty:
            await service.save()
        journal = Journal(size)
        Upkeep(journal, service.open_sessions, service.limits).start()
        await asyncio.sleep(2)
        assert bool(journal.trims) == trimmed
        await service.close()

    play(story)


def test_a_full_disk_is_looked_at_until_it_has_room_again() -> None:
    """Not one that has failed."""

    async def story(core: Core) -> None:
        service = await core.start()
        full, failed = Journal(10), Journal(10)
        full.read_only = ReadOnlyState("full", "2026-01-01T00:00:00.000Z", final=False)
        failed.read_only = ReadOnlyState("failed", "2026-01-01T00:00:00.000Z", final=True)
        keepers = [Upkeep(one, service.open_sessions, service.limits) for one in (full, failed)]
        for one in keepers:
            one.start()
        await asyncio.sleep(5)
        assert (full.tries, full.read_only, failed.tries) == (3, None, 0)
        for one in keepers:
            await one.stop()
        await service.close()

    play(story)


def test_the_upkeep_of_the_journal_outlives_every_failure(caplog: pytest.LogCaptureFixture) -> None:
    """After any error, expected or not, the next round tries again, until it is told to stop."""

    async def story(core: Core) -> None:
        service = await core.start()
        journal = Journal(upkeep._TIDY_BYTES + 1)
        journal.failures = [ReadOnly("full", reason="ENOSPC"), ZeroDivisionError("ours")]
        keeper = Upkeep(journal, service.open_sessions, service.limits)
        keeper.start()
        await asyncio.sleep(2.2)
        assert journal.trims >= 3
        await keeper.stop()
        trims = journal.trims
        await asyncio.sleep(10)
        assert journal.trims == trims

    play(story)
    assert "not trimmed: full" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_one_that_never_began_can_be_stopped() -> None:
    """A daemon whose start failed stops what it has, once or twice."""

    async def story(core: Core) -> None:
        service = await core.start()
        await service.new(core.peer, session_id="a", messages=[user("x")])
        service.open_sessions.autosave.stop()
        service.open_sessions.autosave.stop()
        await asyncio.sleep(100)
        assert core.dirty("a")

    play(story)


# The end


def test_the_end_saves_everything_that_can_be_saved(caplog: pytest.LogCaptureFixture) -> None:
    """Each session although another cannot be; one that was cleared, so that what was in it is not in its file any more; none with nothing in
    it gets a file.
    """

    async def story(core: Core) -> None:
        service = await core.start(0.0, 0.0)
        for session_id in ("bad", "good", "cleared"):
            await service.new(core.peer, session_id=session_id, messages=[user("words")])
        await service.new(core.peer, session_id="blank")
        await service.clear(core.peer, "cleared")
        core.disk.fail("write", errno.ENOSPC, path="bad.jsonl", times=1000)
        await service.close()
        left = sorted(name for name in core.disk.list_dir("/home/sessions") if name.endswith(".jsonl"))
        assert left == ["cleared.jsonl", "good.jsonl"]
        assert b"words" not in core.disk.read("/home/sessions/cleared.jsonl")

    play(story)
    assert "session bad was not saved" in caplog.text
