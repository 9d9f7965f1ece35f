"""A disk that is not ours and hangs: whoever needs it waits, and nobody else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sessiond import config as configuration
from sessiond.daemon import core
from sessiond.daemon import upkeep as upkeep_module
from sessiond.daemon.upkeep import Upkeep
from sessiond.endpoint import places
from sessiond.errors import Unavailable
from sessiond.fs import RealFileSystem, Threads, off_loop, off_loop_to_save
from sessiond.fs import asynchronous as module
from sessiond.fs.asynchronous import PlaceThreads
from sessiond.journal import JournalWriter
from sessiond.limits import SAVES_AT_A_TIME, Limits
from sessiond.service import checks as checks_module
from sessiond.service import intake as intake_module
from sessiond.service.sessions import Service
from sessiond.store import mounts as mounts_module
from sessiond.store.folder import FolderStore
from sessiond.store.mounts import Mounts
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService

MANY = (os.cpu_count() or 1) + 40
"""More calls than any group has threads."""
SOON_S = 8.0
"""Nothing here takes as long, unless it waits for the disk that hangs."""


class Disk:
    """Hangs from `hang` to `answer`. `look` is a call that needs it."""

    def __init__(self) -> None:
        self._answers = threading.Event()
        self._answers.set()
        self.hanging = 0
        self.threads: set[str] = set()

    def hang(self) -> None:
        self._answers.clear()

    def answer(self) -> None:
        self._answers.set()

    def look(self, *_: object) -> str:
        self.hanging += 1
        self.threads.add(threading.current_thread().name)
        self._answers.wait()
        return threading.current_thread().name

    async def is_asked(self, calls: int = 1) -> None:
        async with asyncio.timeout(SOON_S):
            while self.hanging < calls:
                await asyncio.sleep(0.001)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.answer()


async def soon(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(SOON_S):
        return await work


# Groups of threads


async def test_a_group_that_hangs_keeps_no_other_waiting(disk: Disk) -> None:
    """Neither readers nor savers of another group, nor ours."""
    theirs, others = Threads("theirs", saving=2), Threads("others", saving=2)
    disk.hang()
    waiting = [asyncio.create_task(run(disk.look)) for run in (theirs.run, theirs.save) for _ in range(MANY)]
    await disk.is_asked(2)
    for run in (off_loop, off_loop_to_save, others.run, others.save, others.call):
        thread = await soon(run(threading.current_thread))
        assert not thread.name.startswith("theirs")
    disk.answer()
    assert all(name.startswith("theirs") for name in await soon(asyncio.gather(*waiting)))


async def test_no_thread_is_begun_before_there_is_work_for_it() -> None:
    before = threading.active_count()
    threads = [Threads(f"store {number}", saving=6) for number in range(50)]
    assert threading.active_count() == before
    await threads[0].run(int)
    assert threading.active_count() == before + 1


async def test_a_disk_that_hangs_does_not_gather_callers(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nothing has come back for long and many wait, others are refused at once; those who wait get their answers, and so
    does everybody when it answers.
    """
    monkeypatch.setattr(module, "STUCK_S", 0.0)
    monkeypatch.setattr(module, "WAITING_CALLS", 8)
    theirs = Threads("theirs", threads=2)
    disk.hang()
    waiting = [asyncio.create_task(theirs.run(disk.look)) for _ in range(8)]
    await disk.is_asked(2)
    with pytest.raises(Unavailable, match="theirs"):
        await theirs.run(disk.look)
    disk.answer()
    assert len(await soon(asyncio.gather(*waiting))) == 8
    assert await soon(theirs.run(int)) == 0


async def test_many_callers_of_a_disk_that_answers_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_CALLS", 8)
    theirs = Threads("theirs", threads=2)
    assert await soon(asyncio.gather(*(theirs.run(int) for _ in range(500)))) == [0] * 500


# Stores


class Hanging(RealFileSystem):
    """Every look at a path under `folder` needs the disk."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        super().__init__()
        self._folder = str(folder)
        self._disk = disk

    def stat(self, path: str) -> Any:
        self._wait(path)
        return super().stat(path)

    def look(self, path: str) -> Any:
        self._wait(path)
        return super().look(path)

    def real_path(self, path: str) -> str:
        self._wait(path)
        return super().real_path(path)

    def _wait(self, path: str) -> None:
        if path.startswith(self._folder):
            self._disk.look()


@pytest.fixture
async def mounts(tmp_path: Path, disk: Disk) -> AsyncIterator[Mounts]:
    data = tmp_path / "data"
    (data / "mounts").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    fs = Hanging(tmp_path / "theirs", disk)
    journal, _ = await JournalWriter.recover(fs, str(data / "journal"), Limits())
    back: list[FolderStore] = []
    made = Mounts(fs, str(data), journal, ManualClock(), Limits(look_around_s=0.0), pending={}, on_back=back.append)
    made.were_back = back  # type: ignore[attr-defined]
    await made.mount_default()
    yield made
    disk.answer()
    await made.close()
    await journal.close()


async def test_a_store_that_hangs_keeps_no_other_store_waiting(mounts: Mounts, tmp_path: Path, disk: Disk) -> None:
    """Looks at the default store and at the trash, which is ours, are answered meanwhile."""
    theirs = await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
    disk.hanging = 0
    disk.hang()
    waiting = [asyncio.create_task(theirs.look(f"s{number}")) for number in range(MANY)]
    await disk.is_asked()
    assert await soon(mounts.stores["default"].look("a")) is None
    assert await soon(theirs.trash()) == []
    disk.answer()
    assert await soon(asyncio.gather(*waiting)) == [None] * MANY


async def test_a_start_does_not_wait_for_a_store_that_hangs(
    mounts: Mounts, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is out of reach until its disk answers, and is back then."""
    monkeypatch.setattr(mounts_module, "STORE_PATIENCE_S", 0.01)
    disk.hang()
    theirs = await soon(mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl"))
    assert theirs.problem is not None and theirs.problem.kind == "unavailable"
    disk.answer()
    async with asyncio.timeout(SOON_S):
        while theirs.problem is not None or mounts.were_back != [theirs]:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)


async def test_a_look_at_a_store_that_hangs_does_not_end_the_looks_at_the_others(
    mounts: Mounts, tmp_path: Path, disk: Disk
) -> None:
    await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
    disk.hanging = 0
    disk.hang()
    mounts._rounds = asyncio.create_task(mounts._look_around())
    await disk.is_asked()
    default = mounts.stores["default"]
    (tmp_path / "data" / "sessions").rename(tmp_path / "data" / "away")
    async with asyncio.timeout(SOON_S):
        while default.problem is None:
            await asyncio.sleep(0.001)


# The index and the saves


class Asked:
    """Awaited by a store whose disk hangs."""

    def __init__(self) -> None:
        self.times = 0
        self.answers = asyncio.Event()

    async def __call__(self) -> None:
        self.times += 1
        await self.answers.wait()


class SlowStore(MemoryStore):
    asked: Asked

    async def scan(self) -> AsyncIterator[Any]:
        await self.asked()
        async for batch in super().scan():
            yield batch


@pytest.fixture
async def two(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SimpleNamespace]:
    """A service whose second store hangs when it is scanned, and when a session is saved."""
    monkeypatch.setattr(checks_module, "STORE_PATIENCE_S", 0.01)
    theirs = SlowStore("theirs")
    theirs.asked = asked = Asked()
    theirs.before_save = asked
    stores: dict[str, Any] = {"theirs": theirs, "default": MemoryStore()}
    service: Service = WireService(
        stores=stores, index=cast(Any, FakeIndex()), clock=ManualClock(), limits=Limits(), interval_s=0.0, idle_s=0.0
    )
    yield SimpleNamespace(service=service, asked=asked, default=stores["default"])
    asked.answers.set()
    disk.answer()
    await service.close()


async def test_a_store_is_checked_while_another_hangs(two: SimpleNamespace) -> None:
    """Also if the one that hangs comes first. The whole is not ready before it."""
    await two.service.start()
    catalog = two.service.catalog
    await soon(catalog.over("default").wait())
    assert await soon(catalog.check(two.default)) == []
    assert not catalog.over("theirs").is_set() and not catalog.ready.is_set()
    two.asked.answers.set()
    await soon(catalog.ready.wait())
    assert catalog.over("theirs").is_set()


async def test_a_store_that_hangs_keeps_no_worker_of_another_store_from_saving(two: SimpleNamespace) -> None:
    """However many of its sessions wait to be saved."""
    peer, sessions = FakePeer(), two.service.open_sessions
    for number in range(2 * SAVES_AT_A_TIME):
        await two.service.new(peer, session_id=f"s{number}", store="theirs", messages=[user("x")])
        sessions.autosave.soon(sessions.at(f"theirs/s{number}"))
    await two.service.new(peer, session_id="ours", messages=[user("x")])
    sessions.autosave.soon(sessions.at("ours"))
    async with asyncio.timeout(SOON_S):
        while sessions.is_dirty("ours"):
            await asyncio.sleep(0.001)
    assert sessions.is_dirty("theirs/s0")


# The daemon


async def test_imports_from_a_disk_that_hangs_take_no_thread_of_ours(
    disk: Disk, two: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they keep the next client waiting who needs one."""
    await two.service.start()
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "x"}]')
    monkeypatch.setattr(intake_module, "mark_of", disk.look)
    disk.hang()
    waiting = [asyncio.create_task(two.service.import_(None, str(tmp_path / "chat.json"))) for _ in range(MANY)]
    await disk.is_asked()
    assert await soon(asyncio.to_thread(int)) == 0
    assert all("import" in name for name in disk.threads)
    disk.answer()
    await soon(asyncio.gather(*waiting))


def test_a_daemon_stops_while_a_thread_hangs(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs cannot be cancelled, so nothing waits for it longer than a stop may take."""

    class Stuck:
        def __init__(self, *_: object) -> None: ...
        async def start(self) -> None: ...
        async def until_stopped(self) -> None: ...
        def stop(self) -> None: ...
        async def close(self) -> None:
            await off_loop(disk.look)

    monkeypatch.setenv("SESSIOND_HOME", str(tmp_path))
    monkeypatch.setattr(core, "Daemon", Stuck)
    monkeypatch.chdir(tmp_path)
    disk.hang()
    where, fs = places(), RealFileSystem()
    config = configuration.load(fs, where, flags={})
    config = SimpleNamespace(limits=Limits(shutdown_s=0.05), file=config.file)  # type: ignore[assignment]
    ended: list[bool] = []
    has_ended = threading.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        monkeypatch.setattr(loop, "add_signal_handler", lambda *_: None)
        ended.append(loop.run_until_complete(core.live(fs, where, config, lambda: None)))
        has_ended.set()
        loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop)))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    in_time = has_ended.wait(SOON_S)
    disk.answer()
    thread.join()
    assert in_time
    assert ended == [False]


async def test_a_save_that_hangs_does_not_keep_the_journal_from_being_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other sessions are saved, and the one that hangs is not saved twice at a time."""
    monkeypatch.setattr(upkeep_module, "_PATIENCE_S", 0.01)
    relieved: list[str] = []
    hangs = asyncio.Event()

    async def relieve(store: str, local_id: str) -> None:
        relieved.append(store)
        if store == "theirs":
            await hangs.wait()

    async def hold_back() -> bool:
        return False

    journal: Any = SimpleNamespace(
        total_bytes=10**9, oldest_pending=lambda: [("theirs", "a"), ("default", "b")], hold_back=hold_back
    )
    upkeep = Upkeep(journal, SimpleNamespace(relieve=relieve), Limits())  # type: ignore[arg-type]
    for _ in range(3):
        await soon(upkeep._round())
    assert relieved == ["theirs", "default", "default", "default"]
    hangs.set()


async def test_places_do_not_take_each_others_threads(disk: Disk) -> None:
    """However many imports wait for a place that hangs, another place has threads; beyond many places, they share some. Trying a
    place again that hangs takes no more threads, and one that answers again has none left.
    """
    shared = Threads("shared")
    places = PlaceThreads("import from", shared, each=2, most=2)
    disk.hang()

    async def asked(place: str, look: Callable[[], object]) -> object:
        with places.of(place) as threads:
            return await threads.call(look)

    waiting = [asyncio.create_task(asked("/a", disk.look)) for _ in range(MANY)]
    await disk.is_asked(2)
    assert "/b" in (await soon(asked("/b", threading.current_thread))).name
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    again = asyncio.create_task(asked("/a", disk.look))
    with places.of("/b") as threads, places.of("/c") as third:
        assert third is shared
        assert threads is not shared
    assert len(disk.threads) == 2
    disk.answer()
    await soon(again)
    while places._used:
        with places.of("/b"):
            await asyncio.sleep(0.001)
    assert not places._users


async def test_an_import_from_a_healthy_disk_does_not_wait_for_one_that_hangs(
    disk: Disk, two: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two.service.start()
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "chat.json").write_text('[{"role": "user", "content": "x"}]')
    real = intake_module.mark_of
    monkeypatch.setattr(intake_module, "mark_of", lambda path: disk.look() if "/bad/" in path else real(path))
    disk.hang()
    bad = str(tmp_path / "bad")
    waiting = [asyncio.create_task(two.service.import_(None, bad)) for _ in range(MANY)]
    await disk.is_asked(1)
    result = await soon(two.service.import_(None, str(tmp_path / "good"), format="messages"))
    assert len(result["sessions"]) == 1
    disk.answer()
    await soon(asyncio.gather(*waiting))


# With real daemons and a real delay


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["slow store", "slow source", "slow target", "slow backup", "slow follow"])
def test_a_light_client_does_not_wait_for_a_foreign_disk(name: str) -> None:
    """Its slowest call stays below 250 ms, where each look at the foreign disk takes 3 s; or, on a slow machine, below four times
    what it is where the disk answers at once and everything is traced as well. Three tries: the machine may be busy.
    """
    from tests.fairness.__main__ import measured
    from tests.fairness.foreign import is_possible
    from tests.fairness.loads import FULL, LOADS

    if not is_possible():
        pytest.skip("only root may always trace another process")
    slowest: list[tuple[float, float]] = []
    for _ in range(3):
        with_delay, without = (
            max(max(one) for one in measured(LOADS[name][0], scale)[1].values())
            for scale in (FULL, replace(FULL, delay_s=0.001))
        )
        if with_delay < max(0.25, 4 * without):
            return
        slowest.append((with_delay, without))
    raise AssertionError(f"the light client waited so many seconds, with the delay and without: {slowest}")
