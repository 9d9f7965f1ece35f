"""What keeps one client's work from delaying the others, counted, so that the machine's load does not matter."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.fs import DiskFailed, RealFileSystem
from sessiond.fs.group_sync import GroupSync
from sessiond.limits import LARGE_SAVE_BYTES, LARGE_SAVES_AT_A_TIME, LEAVING_AT_A_TIME, SAVES_AT_A_TIME
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.store.own_writes import OwnWrites
from sessiond.store.port import Touched
from sessiond.store.watch import Watch
from tests import inside
from tests.fakes.peer import FakePeer, user
from tests.service.test_autosave import Core, play
from tests.store.conftest import House, begun

MANY = 300


async def opened(core: Core, count: int, text: str = "x") -> None:
    """`core.peer` has `count` sessions open, none of them saved."""
    service = await core.start(interval_s=0.0, idle_s=0.0)
    for number in range(count):
        await service.new(core.peer, session_id=f"s{number}", messages=[user(text)])


# Leaving


def test_a_connection_that_ends_leaves_some_sessions_at_a_time() -> None:
    """However many it had open: others have their turns of the loop in between. All are left, and saved, in the end."""

    async def story(core: Core) -> None:
        await opened(core, MANY)
        sessions = core.service.open_sessions
        core.service.disconnected(core.peer)
        left, most = MANY, 0
        while left:
            await asyncio.sleep(0)
            most, left = max(most, left - sessions.attended), sessions.attended
        assert most <= LEAVING_AT_A_TIME
        await asyncio.sleep(1.0)
        assert not core.unsaved and all(core.has_file(f"s{number}") for number in range(MANY))
        await core.service.close()

    play(story)


def test_what_somebody_else_has_open_is_not_saved_because_one_left() -> None:
    """A session is saved only when the last client leaves it."""

    async def story(core: Core) -> None:
        await opened(core, 20)
        await core.service.open(FakePeer(), "s7")
        core.service.disconnected(core.peer)
        await asyncio.sleep(1.0)
        assert core.unsaved == 1 and core.dirty("s7")
        await core.service.close()

    play(story)


def test_one_save_looks_at_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others are in memory: what may be let go of is known without looking through them."""
    looked: list[OpenSession] = []
    attended = OpenSession.attended.fget  # type: ignore[attr-defined]

    def noted(one: OpenSession) -> bool:
        looked.append(one)
        return bool(attended(one))

    async def story(core: Core) -> None:
        await opened(core, MANY)
        core.service.disconnected(core.peer)
        await asyncio.sleep(1.0)
        monkeypatch.setattr(OpenSession, "attended", property(noted))
        await core.service.append(None, "s7", [user("more")])
        await core.service.save("s7")
        await asyncio.sleep(1.0)  # it is looked in that time whether too many are in memory
        assert {one.local_id for one in looked} == {"s7"}
        await core.service.close()

    play(story)


def test_sessions_that_nobody_needs_go_some_at_a_time_oldest_first() -> None:
    """The kept ones use at most the limit; a turn of the loop releases few."""

    async def story(core: Core) -> None:
        await opened(core, MANY, "x" * 1000)
        sessions: OpenSessions = core.service.open_sessions
        core.service.disconnected(core.peer)
        most, before = 0, MANY
        while before == MANY or sessions._sparing is not None or any(one.spare for one in sessions._all.values()):
            await asyncio.sleep(0.001)
            most, before = max(most, before - len(sessions._all)), len(sessions._all)
        there = [int(local_id[1:]) for local_id in sessions.in_memory(core.store)]
        weight = sum(sessions.at(f"s{number}").there.weight for number in there)
        assert 0 < weight <= core.house.limits.idle_sessions_bytes < weight + 10_000
        assert most <= 64
        assert sessions._unattended.bytes == weight
        await core.service.close()

    play(story, idle_sessions_bytes=100_000)


# Saving


@pytest.mark.parametrize(("size", "limit"), [(10, SAVES_AT_A_TIME), (LARGE_SAVE_BYTES, LARGE_SAVES_AT_A_TIME)])
def test_many_small_sessions_are_saved_at_a_time_and_few_large_ones(size: int, limit: int) -> None:
    """Small ones wait for the disk together; large ones take memory and time."""

    async def story(core: Core) -> None:
        await opened(core, 2 * SAVES_AT_A_TIME, "x" * size)
        under_way = most = 0
        around: Any = core.store._around
        run = around.run_save

        async def slowly(function: Callable[..., Any], *args: Any) -> Any:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1
            return await run(function, *args)

        around.run_save = slowly
        core.service.disconnected(core.peer)
        await asyncio.sleep(60.0)
        assert most == limit and not core.unsaved
        await core.service.close()

    play(story)


async def test_our_own_saves_cost_no_look_at_the_files(tmp_path: Path) -> None:
    """From the system's hints about a folder only other programs' writes are examined, even in a file that we have just written."""
    house = House(RealFileSystem(), str(tmp_path))
    store = await house.open()
    watched = asyncio.Event()

    async def begins(_: object) -> None:
        watched.set()

    watching = Watch(store.store, begins)
    watching.start()
    await watched.wait()
    for number in range(50):
        await begun(store, f"s{number}", 2)
        await store.save(f"s{number}")
    for name in ("s7", "theirs"):
        with open(store.file_path(name), "a") as file:
            file.write("{}\n")
    touched: set[str] = set()
    while not {"s7", "theirs"} <= touched:
        await asyncio.sleep(0.01)
        touched = {name for event in house.events if isinstance(event, Touched) for name in event.local_ids}
    await watching.stop()
    assert touched == {"s7", "theirs"}


def test_a_write_of_ours_that_is_under_way_is_waited_for() -> None:
    """The system's hint arrives before we know the file's new version."""
    own = OwnWrites()
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(own.is_own("a", lambda _: (1, 2, 3))))
    with own.writing("a"):
        asking.start()
        own.wrote("a", (1, 2, 3))
    asking.join()
    assert answers == [True]
    assert not own.is_own("a", lambda _: (1, 2, 4)) and not own.is_own("a", lambda _: None)
    assert not own.is_own("b", lambda _: (1, 2, 3))


# Syncing


class _Disk:
    """The work of a `GroupSync`, which waits for `go`, and counts."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.times = 0
        self.error: OSError | None = None

    def __call__(self) -> None:
        self.times += 1
        self.begun.release()
        self.go.acquire()
        error, self.error = self.error, None  # the system says it once
        if error is not None:
            raise error


class _Asking(threading.Thread):
    def __init__(self, together: GroupSync, disk: _Disk) -> None:
        super().__init__()
        self._together, self._disk = together, disk
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._together("folder", self._disk)
        except OSError as error:
            self.error = error


def asked_while_one_is_under_way(disk: _Disk, count: int) -> tuple[_Asking, list[_Asking]]:
    together = GroupSync()
    first = _Asking(together, disk)
    disk.begun.acquire()
    later = [_Asking(together, disk) for _ in range(count)]
    while not together._waiting or inside.waiting(together._waiting["folder"].over) < count - 1:
        time.sleep(0.001)
    return first, later


def test_who_asks_while_a_folder_is_synced_shares_the_next_sync() -> None:
    """Never the one that is under way: it may have passed what they did. So n saves at once cost one sync of the folder, or two."""
    disk = _Disk()
    first, later = asked_while_one_is_under_way(disk, 30)
    disk.go.release()
    first.join()
    disk.begun.acquire()
    assert all(one.is_alive() for one in later) and disk.times == 2
    disk.go.release()
    for one in later:
        one.join()
    assert disk.times == 2


def test_a_sync_that_failed_has_failed_for_all_who_shared_it() -> None:
    """The system says so only once: if one of them tried again, it would be told that all is well."""
    disk = _Disk()
    first, later = asked_while_one_is_under_way(disk, 10)
    disk.go.release()
    first.join()
    disk.begun.acquire()
    disk.error = DiskFailed(5, "broken")
    for _ in range(31):
        disk.go.release()
    for one in later:
        one.join()
    assert first.error is None
    assert all(isinstance(one.error, DiskFailed) and one.error.errno == 5 for one in later)


def test_what_is_wrong_before_a_sync_is_everybodys_own_affair() -> None:
    """A folder that could not be opened for one of them may be there for the next."""
    disk = _Disk()
    first, later = asked_while_one_is_under_way(disk, 10)
    disk.go.release()
    first.join()
    disk.begun.acquire()
    disk.error = FileNotFoundError(2, "no folder")
    for _ in range(31):
        disk.go.release()
    for one in later:
        one.join()
    assert sum(one.error is not None for one in later) == 1


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_every_load_runs(tmp_path: Path) -> None:
    """`--smoke` runs each on next to nothing and writes its rows into the page, in the place of those of the same name."""
    from tests.fairness.loads import LOADS  # it needs what a copy of the program with a planted bug lacks

    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- tests.fairness: begin -->\n| new | an old row |\n<!-- tests.fairness: end -->\nafter\n"
    )
    command = [sys.executable, "-m", "tests.fairness", "--smoke", "--write", str(page)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "an old row" not in text
    assert [name for name in LOADS if f"| {name} | " not in text] == []
