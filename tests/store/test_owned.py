"""A folder store under the real owners of its sessions: who waits for whom, what is read once, and what survives a save, a
merge, a delete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import AlreadyExists, ReadOnly, SessionNotFound, TooLarge, Unavailable
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.service.open_session import OpenSession
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.crashfs import CrashFS
from tests.fakes.index import FakeIndex
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService
from tests.store.conftest import House, appended, begun


class Killed(BaseException):
    """Here a daemon was killed."""


def serve(house: House) -> Service:
    """A daemon's core on the store of `house`. It saves by itself only at its end."""
    store = house.store.store
    return WireService(
        stores={"default": store}, index=FakeIndex(), clock=house.clock, limits=house.limits, interval_s=0, idle_s=0
    )  # fmt: skip


@pytest.fixture
async def service(house: House) -> AsyncIterator[Service]:
    service = serve(house)
    yield service
    await service.close()


@pytest.fixture
def peer() -> FakePeer:
    return FakePeer()


async def on_disk(house: House, count: int = 1) -> None:
    """A session with a file, and a store that nobody has asked for it yet."""
    await begun(house.store, "a", count)
    await house.store.save("a")
    await house.store.release("a")


def path_of(house: House) -> Path:
    return Path(house.store.file_path("a"))


def owned(service: Service) -> OpenSession:
    return service.open_sessions.at("a")


async def texts(service: Service) -> list[str]:
    return [one["content"] for one in (await service.read("a"))["messages"]]


async def turns(count: int = 30) -> None:
    """Let everything run that is ready to."""
    for _ in range(count):
        await asyncio.sleep(0)


def interpose(house: House, function: Callable[..., Any], before: Callable[[], Awaitable[Any]]) -> None:
    """`before()` is awaited each time that the store is about to run `function` on a thread."""
    around = house.store._around
    run = around.run

    async def interposed(called: Any, *args: Any) -> Any:
        if called == function:
            await before()
        return await run(called, *args)

    around.run = around.run_save = interposed


# Who waits for a copy


async def test_a_session_that_is_held_still_is_kept_in_mind(house: House, service: Service, peer: FakePeer) -> None:
    """Copying an open session forgets nothing of it, and one that nobody had open is forgotten again."""
    await service.new(peer, session_id="a", messages=[user("word 1")])
    one = owned(service)
    async with one.still():
        pass
    assert owned(service) is one
    await service.append(peer, "a", [user("word 2")])
    assert await texts(service) == ["word 1", "word 2"]
    other = service.open_sessions.at("b")
    async with other.still():
        assert service.open_sessions.at("b") is other
    assert service.open_sessions.at("b") is not other


async def test_an_open_that_waits_for_a_copy_opens_the_session(house: House, service: Service, peer: FakePeer) -> None:
    """A session that is opened while a backup copies it can be written to afterwards."""
    await on_disk(house)
    async with owned(service).still():
        opening = asyncio.create_task(service.open(peer, "a"))
        await turns()
        assert not opening.done()
    await opening
    await service.append(peer, "a", [user("word 2")])
    await service.save("a")
    assert len((await (await house.open()).load("a")).session) == 2


async def test_nothing_is_written_while_a_session_is_held_still(house: House, service: Service, peer: FakePeer) -> None:
    """Appends meanwhile are answered at once and kept by the journal; a save, a merge and a delete wait until it ends."""
    await on_disk(house)
    await service.open(peer, "a")
    before = path_of(house).read_bytes()
    async with owned(service).still():
        await asyncio.wait_for(service.append(peer, "a", [user("word 2")]), 5)
        waiting = [asyncio.create_task(service.save("a")), asyncio.create_task(service.delete("a"))]
        await turns()
        assert path_of(house).read_bytes() == before
        assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting)
    assert not path_of(house).exists()
    await service.restore(peer, "a")
    assert await texts(service) == ["word 1", "word 2"]


# Two at once


async def test_two_that_ask_at_once_read_it_once(
    house: House, service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many come while it is read: each has its answer from the same session."""
    await on_disk(house)
    read = house.store._files.read
    reads: list[str] = []

    def counted(local_id: str) -> Any:
        reads.append(local_id)
        return read(local_id)

    monkeypatch.setattr(house.store._files, "read", counted)
    answers = await asyncio.gather(
        service.read("a"), service.append(peer, "a", [user("word 2")]), service.open(peer, "a"), service.read("a")
    )
    assert reads == ["a"]
    assert [len(one["messages"]) for one in answers] == [1, 1, 2, 2]


async def test_of_two_that_make_it_at_once_one_does(house: House, service: Service) -> None:
    """The other is told that there is one."""
    made = await asyncio.gather(
        *(service.new(None, session_id="a", messages=[user(text)]) for text in ("mine", "yours")),
        return_exceptions=True,
    )
    assert [type(one) for one in made] == [dict, AlreadyExists]
    assert await texts(service) == ["mine"]


async def test_who_comes_late_forgets_nothing_of_the_next_session_of_that_id(
    house: House, service: Service, peer: FakePeer
) -> None:
    """A request for a session during its deletion finds none, and does not affect the one that was begun since."""
    await on_disk(house)

    async def slowly() -> None:
        await turns(3)

    interpose(house, house.store._files.remove, slowly)
    deleting = asyncio.create_task(service.delete("a"))
    await asyncio.sleep(0)
    late = asyncio.create_task(service.read("a"))
    new = asyncio.create_task(service.new(None, session_id="a", messages=[user("another")]))
    await deleting
    with pytest.raises(SessionNotFound):
        await late
    await new
    await service.append(peer, "a", [user("more")])
    assert await texts(service) == ["another", "more"]
    await service.save("a")
    assert [one.content for one in (await (await house.open()).load("a")).session.messages()] == ["another", "more"]


# Saves


async def test_changes_that_come_while_a_file_is_written_are_in_the_next_save(
    house: House, service: Service, peer: FakePeer
) -> None:
    """They are answered before the file is there, the save takes what it began with, and a kill after it loses none of both."""
    await service.new(peer, session_id="a", messages=[user("word 1")])

    async def meanwhile() -> None:
        if not path_of(house).exists():
            await asyncio.wait_for(service.append(peer, "a", [user("word 2")]), 5)

    interpose(house, owned(service).stored._write, meanwhile)  # type: ignore[attr-defined]
    await service.save("a")
    assert b"word 1" in path_of(house).read_bytes()
    assert b"word 2" not in path_of(house).read_bytes()
    assert service.open_sessions.is_dirty("a")
    killed = House(house.fs, house.home)
    found = (await (await killed.open()).load("a")).session
    assert [one.content for one in found.messages()] == ["word 1", "word 2"]


async def test_a_save_that_meets_an_edit_merges_it_and_saves_then(
    house: House, service: Service, peer: FakePeer
) -> None:
    """The edit counts, waiting changes follow it, and what is appended in between is not lost either."""
    await on_disk(house, 2)
    await service.open(peer, "a")
    await service.append(peer, "a", [user("word 3")])
    path_of(house).write_bytes(path_of(house).read_bytes().replace(b"word 1", b"w0rd 1"))

    async def settled() -> bool:
        appends.append(asyncio.create_task(service.append(None, "a", [user("word 4")])))
        return True

    appends: list[asyncio.Task[Any]] = []
    stored = owned(service).stored
    stored.changed = settled  # type: ignore[method-assign]
    await service.save("a")
    await asyncio.gather(*appends)
    await service.save("a")
    assert await texts(service) == ["w0rd 1", "word 2", "word 3", "word 4"]
    again = (await (await house.open()).load("a")).session
    assert [one.content for one in again.messages()] == ["w0rd 1", "word 2", "word 3", "word 4"]


async def test_a_file_that_somebody_writes_all_the_time(house: House, service: Service, peer: FakePeer) -> None:
    """The caller of save gets an error in the end, the words remain in the journal, and are saved as soon as the file stops changing."""
    await on_disk(house)
    await service.append(peer, "a", [user("word 2")])
    perform = house.store._files.perform

    def restless(*args: Any) -> Any:
        with path_of(house).open("ab") as file:
            file.write(b"\n")
        return perform(*args)

    house.store._files.perform = restless  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="constantly being written"):
        await asyncio.wait_for(service.save("a"), 30)
    assert service.open_sessions.is_dirty("a")
    house.store._files.perform = perform  # type: ignore[method-assign]
    await service.save("a")
    assert b"word 2" in path_of(house).read_bytes()


async def test_what_somebody_else_saved_for_us_waits_no_more(
    house: House, service: Service, peer: FakePeer, tmp_path: Path
) -> None:
    """The file says all that waits, because somebody brought it there by hand: nothing is unsaved any more."""
    await on_disk(house)
    await service.open(peer, "a")
    await service.append(peer, "a", [user("word 2")])
    twin = House(RealFileSystem(), str(shutil.copytree(house.home, tmp_path / "twin")))
    await (await twin.open()).save("a")
    path_of(house).write_bytes(twin.file("a"))
    house.store.touched([str(path_of(house))])
    await turns()
    assert not owned(service).dirty
    assert not service.open_sessions.dirty
    assert await texts(service) == ["word 1", "word 2"]
    assert [method for method, _ in peer.got if method == "session/reloaded"] == []


async def test_a_save_of_what_was_glanced_at_begins_with_reading_the_whole(tmp_path: Path, peer: FakePeer) -> None:
    """An append to it is answered before that; then nothing is written before all that is there was read, and all of it remains there."""
    house = House(
        RealFileSystem(), str(tmp_path), limits=Limits(settle_s=0.0, glanced_file_bytes=1000, glanced_end_bytes=700)
    )
    await house.open()
    await on_disk(house, 30)
    await house.open()
    service = serve(house)
    await service.append(peer, "a", [user("word 31", id="m31")])
    one = owned(service)
    assert one.there.absent
    seen: list[bool] = []

    async def wrote() -> None:
        seen.append(bool(one.there.absent))

    interpose(house, one.stored._write, wrote)  # type: ignore[attr-defined]
    await service.save("a")
    assert seen == [False]
    assert len((await (await house.open()).load("a")).session) == 31
    await service.close()


# Edits


async def test_an_append_that_waits_for_a_merge_is_made_on_what_came_of_it(
    house: House, service: Service, peer: FakePeer
) -> None:
    """It is not refused, and its seq is above all that the edit brought."""
    await on_disk(house)
    await service.open(peer, "a")
    path_of(house).write_bytes(path_of(house).read_bytes() + b'{"role":"user","content":"by hand"}\n')
    began, going = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        began.set()
        await going.wait()

    merging = owned(service).stored._merging
    interpose(house, merging._merged, slowly)  # type: ignore[attr-defined]
    merging._run = house.store._around.run  # type: ignore[attr-defined]
    looking = asyncio.create_task(service.open_sessions.look_outside(house.store.store, "a"))
    await began.wait()
    appending = asyncio.create_task(service.append(peer, "a", [user("word 2")]))
    await turns()
    early = appending.done()
    going.set()
    await looking
    seq = (await appending)["seq"]
    assert not early
    page = await service.read("a")
    assert [one["content"] for one in page["messages"]] == ["word 1", "by hand", "word 2"]
    assert page["messages"][-1]["seq"] == seq == page["seq"]


async def test_a_hint_about_a_session_that_only_the_journal_holds(house: House) -> None:
    """It is indexed as it is with what somebody wrote; so is one that nobody has heard of, and one that is not there says nothing."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    await house.open()
    service = serve(house)
    text = path_of(house).read_text()
    path_of(house).write_text(text.replace("word 1", "changed"))
    other = Path(house.store.file_path("other"))
    other.write_text(text.replace('"id":"a"', '"id":"other"'))
    house.store.touched([str(path_of(house)), str(other), house.store.file_path("nobody")])
    await turns(100)
    index: Any = service.index
    assert list(index.messages["a"].values()) == ["changed", "word 2"]
    assert list(index.messages["other"].values()) == ["word 1"]
    assert "nobody" not in index.infos
    await service.close()


async def test_a_hint_while_the_folder_is_away_deletes_nothing(house: House, service: Service, peer: FakePeer) -> None:
    """An open session remains as it is, and is there when the folder is."""
    await on_disk(house)
    await service.open(peer, "a")
    os.rename(house.folder, house.folder + ".away")
    house.store.touched_all()
    await turns(100)
    assert await texts(service) == ["word 1"]
    os.rename(house.folder + ".away", house.folder)
    house.store.touched_all()
    await turns(100)
    assert await texts(service) == ["word 1"]
    assert await house.store.trash() == []


# What is deleted


async def test_a_permanent_delete_is_over_when_the_journal_knows_nothing_of_it(
    house: House, service: Service, peer: FakePeer
) -> None:
    """A session of the same id that is made meanwhile comes after that, and is there after a kill."""
    await service.new(peer, session_id="a", messages=[user("old")])
    purge, gate = house.journal.purge, asyncio.Event()

    async def slowly(store: str, session: str) -> None:
        await gate.wait()
        await purge(store, session)

    house.journal.purge = slowly  # type: ignore[method-assign]
    deleting = asyncio.create_task(service.delete("a", permanent=True))
    making = asyncio.create_task(service.new(peer, session_id="a", messages=[user("new")]))
    await turns()
    over = deleting.done() or making.done()
    gate.set()
    await asyncio.gather(deleting, making)
    await turns()
    assert not over
    killed = House(house.fs, house.home)
    assert [one.content for one in (await (await killed.open()).load("a")).session.messages()] == ["new"]


@pytest.mark.parametrize("saved", [False, True])
async def test_a_restore_on_a_full_disk_leaves_the_session_in_the_trash(saved: bool, peer: FakePeer) -> None:
    """It says so, and can be tried again when there is room."""
    disk = CrashFS()
    house = House(disk, "/home")
    await house.open()
    service = serve(house)
    await service.new(peer, session_id="a", messages=[user("word 1")])
    if saved:
        await service.save("a")
    await service.delete("a")
    disk.fail("write", errno.ENOSPC, path="a.jsonl")
    with pytest.raises(ReadOnly):
        await service.restore(peer, "a")
    assert [one.trash_id for one in await house.store.trash()] == ["a"]
    await service.restore(peer, "a")
    assert await texts(service) == ["word 1"]
    assert await house.store.trash() == []
    await service.close()


# Crashes


async def test_a_crash_before_an_append_cuts_nothing_of_somebody_elses_bytes(house: House) -> None:
    """The sidecar tells what was about to be appended, and is all that came to the disk. What somebody else appended since,
    shorter than that, is not a torn append of ours: it stays, next to what waited.
    """
    await on_disk(house)
    files = house.store._files
    perform = files.perform
    session = (await house.store.load("a")).session
    await house.store.commit(session, [appended(2)])

    def half(writes: Any, expected: Any) -> Any:
        perform(writes[:1], expected)
        raise Killed

    files.perform = half
    with pytest.raises(Killed):
        await house.store.save("a")
    with path_of(house).open("ab") as file:
        file.write(b'{"role":"user","content":"theirs"}\n')
    await house.open()
    loaded = await house.store.load("a")
    await house.store.save("a")
    assert [one.content for one in loaded.session.messages()] == ["word 1", "word 2", "theirs"]
    again = (await (await house.open()).load("a")).session
    assert [one.content for one in again.messages()] == ["word 1", "word 2", "theirs"]


# Requests that are taken back


async def test_whoever_is_taken_down_with_everything_else_ends() -> None:
    """A loop that ends takes back all that runs, requests and owners alike: nobody waits for ever for an answer that cannot come."""
    store = MemoryStore()
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.new(None, session_id="a")
    store.before_commit = asyncio.get_running_loop().create_future  # it never comes
    running = asyncio.all_tasks()
    asked = [asyncio.create_task(service.append(None, "a", [user(str(n))])) for n in range(2)]
    asked.append(asyncio.create_task(service.delete("a")))
    await turns()
    owners = asyncio.all_tasks() - running
    for task in owners:
        task.cancel()
    _, left = await asyncio.wait(owners, timeout=1)
    for task in left:  # so that this test itself comes to an end
        owned(service)._queue.clear()
        task.get_coro().close()  # type: ignore[union-attr]
    assert not left


async def test_a_request_that_is_taken_back_as_it_is_put_off_ends() -> None:
    """Two appends are too large for one record, so they are made one after another. Who takes the second one back in that
    very moment has an answer, and so has the first.
    """
    store = MemoryStore()
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.new(None, session_id="a")
    gate = asyncio.get_running_loop().create_future()

    async def too_large() -> None:
        store.before_commit = None
        await gate
        raise TooLarge("both", limit=1)

    store.before_commit = too_large
    first, second = (asyncio.create_task(service.append(None, "a", [user(text)])) for text in ("one", "two"))
    await turns()
    gate.set_result(None)
    second.cancel()
    _, left = await asyncio.wait({first, second}, timeout=1)
    for task in left:
        task.get_coro().close()  # type: ignore[union-attr]
    assert not left
    assert [one["content"] for one in (await service.read("a"))["messages"]] in (["one"], ["one", "two"])
    await service.close()
