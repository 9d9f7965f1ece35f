"""What a folder store does where the ways of its files, its journal and somebody else cross."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import BadFile, ReadOnly, SessiondError, SessionNotFound, Unavailable
from sessiond.formats import jsonl
from sessiond.limits import Limits
from sessiond.model.changes import Extended, Finished, StateSet, Truncated
from sessiond.model.session import Session
from sessiond.store import watch
from sessiond.store.files import OutsideChange
from sessiond.store.folder import FolderStore
from sessiond.store.memory import MemoryStore
from sessiond.store.merge import replay
from sessiond.store.port import Appeared, HealthChanged
from sessiond.store.trash import Trash
from sessiond.store.watch import Watch
from tests.fakes.crashfs import CrashFS
from tests.store.conftest import NOW, House, appended, begun, created, message


def path_of(house: House) -> Path:
    return Path(house.store.file_path("a"))


async def orphan(house: House) -> FolderStore:
    """A session whose file was deleted while no daemon ran, with changes in the journal."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path_of(house).unlink()
    return await house.open()


async def test_changes_of_a_session_whose_file_is_gone_are_given_up(house: House) -> None:
    """Deleted while nobody looked: that is the user's will, and the journal is not kept for it."""
    store = await orphan(house)
    with pytest.raises(SessionNotFound):
        await store.load("a")
    with pytest.raises(SessionNotFound):
        await store.delete("a", permanent=False)
    assert store.dirty("a")
    house.clock.advance(1000)
    await store.save_due()
    assert not store.dirty("a")
    assert (await house.open()).dirty_count() == 0


async def test_a_file_that_cannot_be_read_keeps_what_waits(house: House) -> None:
    """A save that finds NULs leaves them alone and its changes in the journal."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path_of(house).write_bytes(b"\0" * 5000)
    store = await house.open()
    house.clock.advance(1000)
    await store.save_due()
    assert store.dirty("a")
    assert path_of(house).read_bytes() == b"\0" * 5000


async def test_half_a_first_line(house: House) -> None:
    """What a crash left of a first save is kept aside, and the session is written anew from the journal."""
    await begun(house.store, "a", 2)
    path_of(house).write_bytes(b'{"sessio')
    store = await house.open()
    loaded = await store.load("a")
    assert len(loaded.session) == 2
    await store.save("a")
    assert path_of(house).read_bytes().startswith(b'{"sessiond":1')
    [kept] = (Path(house.home) / "trash" / "default" / ".damaged").iterdir()
    assert kept.read_bytes() == b'{"sessio'


async def test_a_read_only_store_refuses(house: House) -> None:
    """It names its problem; when it is well again it goes on."""
    session = await begun(house.store, "a", 1)
    house.store.set_problem(HealthChanged("readOnly", "the disk failed"))
    with pytest.raises(ReadOnly, match="the disk failed"):
        await house.store.commit(session, [appended(2)])
    with pytest.raises(ReadOnly):
        await house.store.begin("b", NOW)
    house.store.set_problem(None)
    await house.store.commit(session, [appended(2)])


async def test_a_folder_that_went_away(house: House) -> None:
    """It is not taken for one in which everything was deleted."""
    await begun(house.store, "a", 1)
    await house.store.save("a")
    os.rename(house.folder, house.folder + ".away")
    with pytest.raises(Unavailable):
        [batch async for batch in house.store.scan()]
    await house.store.look_at("a")
    os.rename(house.folder + ".away", house.folder)
    assert len((await house.store.load("a")).session) == 1
    assert await house.store.trash() == []


async def test_a_session_deleted_under_our_hands_is_not_found(house: House) -> None:
    """By a load that comes upon it; what was known lies in the trash."""
    await begun(house.store, "a", 1)
    await house.store.save("a")
    path_of(house).unlink()
    with pytest.raises(SessionNotFound):
        await house.store.load("a")
    assert [one.trash_id for one in await house.store.trash()] == ["a"]
    with pytest.raises(SessionNotFound):
        await house.store.restore("../a", "../a")


async def test_a_blank_session_is_saved_where_the_journal_must_go(house: House) -> None:
    """Only then it gets a file."""
    session = await house.store.begin("a", NOW)
    await house.store.commit(session, [created()])
    assert await house.store.save("a") is None
    assert await house.store.save_even_blank("a") is not None
    assert path_of(house).exists()
    assert await house.store.save_even_blank("a") is None


async def test_a_session_that_is_held_still_is_kept_in_mind(house: House) -> None:
    """Copying an open session forgets nothing of it, and one that nobody had open is forgotten again."""
    session = await begun(house.store, "a", 1)
    async with house.store.still("a"):
        pass
    await house.store.commit(session, [appended(2)])
    async with house.store.still("b"):
        pass
    assert "b" not in house.store._tracked


async def test_who_never_stands_still(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody writes all the time cannot be read, is saved later and merged later; nothing waits for ever."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])

    async def restless(*_: Any) -> None:
        raise OutsideChange("a.jsonl")

    with monkeypatch.context() as patched:
        patched.setattr(house.store._sync, "_write", restless)
        with pytest.raises(Unavailable, match="all the time"):
            await house.store.save("a")
        assert house.store.dirty("a")
        house.clock.advance(1000)
        await house.store.save_due()  # the timer's turn tells nobody, and comes again
        assert house.store.dirty("a")
        patched.setattr(house.store._sync, "_merge", restless)
        path_of(house).write_bytes(path_of(house).read_bytes() + b"\n")
        count = iter(range(1000))
        prints = house.store._files.prints
        patched.setattr(house.store._files, "prints", lambda local_id: {**prints(local_id), "x": (next(count), 0, 0)})
        await house.store.look_at("a")
    assert (await house.store.save("a")) is not None
    store = await house.open()
    with monkeypatch.context() as patched:
        patched.setattr(store._sync, "_load", restless)
        with pytest.raises(BadFile, match="faster than it can be read"):
            await store.load("a")
    assert len((await store.load("a")).session) == 2


async def test_what_waits_is_compared_before_it_was_loaded(house: House) -> None:
    """A hint about a session that only the journal holds loads it; one about a session that is unknown says that it appeared."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    store = await house.open()
    path_of(house).write_bytes(path_of(house).read_bytes().replace(b"word 1", b"changed"))
    await store.look_at("a")
    assert [one.content for one in (await store.load("a")).session.messages()] == ["changed", "word 2"]
    house.events.clear()
    await store.look_at("nobody")
    import asyncio

    await asyncio.sleep(0)
    assert [type(event) for event in house.events] == [Appeared]


async def test_a_sidecar_alone_is_no_edit(house: House) -> None:
    """Beside a file that is the same, and beside a session that has no file yet: nobody is told anything."""
    session = await begun(house.store, "a", 1)
    side = Path(house.folder) / ".sessiond" / "a.json"
    side.parent.mkdir(exist_ok=True)
    side.write_bytes(b"{}")
    await house.store.look_at("a")
    side.unlink()
    await house.store.save("a")
    side.touch()
    house.events.clear()
    await house.store.look_at("a")
    assert (await house.store.load("a")).session is session


async def test_the_trash_keeps_what_it_cannot_tell(house: House, tmp_path: Path) -> None:
    """No folder, a folder without an entry in it, entries of one id again and again, bytes of one name."""
    trash = Trash(house.fs, str(tmp_path / "bin"))
    assert trash.list() == []
    session = Session("a", NOW)
    session.add_message(message(1))
    for _ in range(4):
        trash.put("a", session, {"a.jsonl": b"x"}, at=NOW, reason="deleted")
    assert sorted(one.trash_id for one in trash.list()) == ["a", "a.was-1", "a.was-1-2", "a.was-1-3"]
    (tmp_path / "bin" / "half").mkdir()
    assert len(trash.list()) == 4
    assert trash.info("half") is None
    trash.remove("half")
    assert not (tmp_path / "bin" / "half").exists()
    first, second = trash.keep_bytes("b", b"1"), trash.keep_bytes("b", b"2")
    assert first != second
    assert (Path(first).read_bytes(), Path(second).read_bytes()) == (b"1", b"2")
    (tmp_path / "bin" / "a" / "meta.json").write_bytes(b"{")
    told = trash.describe_anew("a")
    assert told is not None
    assert "1 messages" in told
    assert trash.get("a")[0].message("m1") is not None
    (tmp_path / "bin" / "a" / "session.jsonl").write_bytes(b"\0")
    assert trash.describe_anew("a") is None


async def test_an_arrival_that_never_began_is_given_up(house: House) -> None:
    """Nothing was written, nothing is there; and a message longer than one read comes back whole."""
    incoming = house.store.receive("a", NOW)
    assert incoming is not None
    await incoming.abandon()
    assert await house.store.trash() == []
    session = Session("long", NOW)
    long = message(1, "x" * (3 * 1024 * 1024))
    incoming = house.store.receive("long", NOW)
    assert incoming is not None
    await incoming.add([long])
    await incoming.add([message(2)])
    session.seq, session.updated_at = 2, NOW
    await incoming.finish(session)
    assert [one.id async for part in incoming.messages() for one in part] == ["m1", "m2"]


def test_changes_that_find_nothing_to_change() -> None:
    """More text or an end for a message that an edit took out, and state that is there already, are passed over."""
    decoded = jsonl.decode("a", {"a.jsonl": b'{"sessiond":1,"id":"a","createdAt":"%s"}\n' % NOW.encode()})
    gone = [
        Extended(seq=5, at=NOW, message_id="gone", offset=0, text="x"),
        Finished(seq=6, at=NOW, message_id="gone", status="done"),
    ]
    assert replay(decoded, gone) == []
    held = jsonl.decode(
        "a",
        {"a.jsonl": b'{"sessiond":1,"id":"a","createdAt":"%s"}\n{"change":"state","seq":3,"at":"%s","values":{"k":1}}\n' % (NOW.encode(), NOW.encode())},
    )  # fmt: skip
    assert replay(held, [StateSet(seq=3, at=NOW, values={"k": 2})]) == []
    assert held.session.state == {"k": 1}


async def test_a_watch_outlives_every_failure(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be watched, and a defect, are tried again; it stops at once when told; one that never began stops too."""
    import asyncio

    import watchfiles

    failures: list[Exception] = [
        FileNotFoundError("gone"),
        RuntimeError("too many watches"),
        ZeroDivisionError("ours"),
        ExceptionGroup("on its thread", [RuntimeError("a name that is no text"), ZeroDivisionError("ours")]),
    ]
    hints = asyncio.Event()

    async def awatch(path: str, **more: Any) -> Any:
        if failures:
            raise failures.pop(0)
        yield {(1, f"{path}/a.jsonl")}
        hints.set()
        await more["stop_event"].wait()

    monkeypatch.setattr(watchfiles, "awatch", awatch)
    monkeypatch.setattr(watch, "_RETRY_S", 0.0)
    await Watch(house.store).stop()
    watching = Watch(house.store)
    watching.start()
    await hints.wait()
    await asyncio.sleep(0)
    assert [type(event) for event in house.events] == [Appeared]
    await watching.stop()


async def test_the_store_for_tests_is_a_store() -> None:
    """What the memory store refuses, the folder store refuses too."""
    store = MemoryStore()
    session = await store.begin("a", NOW)
    await store.commit(session, [created("a"), appended(1)])
    assert store.dirty_ids() == ["a"]
    assert await store.save("a") is not None
    assert await store.save("a") is None
    await store.delete("a", permanent=True)
    assert await store.trash() == []
    for failing in (store.load("a"), store.delete("a", permanent=False), store.restore("a", "a")):
        with pytest.raises(SessionNotFound):
            await failing


async def test_an_open_that_waits_for_a_copy_opens_the_session(house: House) -> None:
    """A session that is opened while a backup copies it can be written to afterwards."""
    store = house.store
    await begun(store, "a", 1)
    await store.save("a")
    await store.release("a")
    async with store.still("a"):
        opening = asyncio.create_task(store.load("a"))
        await asyncio.sleep(0)
    session = (await opening).session
    await store.commit(session, [appended(2)])
    await store.save("a")
    assert len((await (await house.open()).load("a")).session) == 2


async def test_who_comes_late_forgets_nothing_of_the_next_session_of_that_id(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that waited while its session was deleted finds none, or the one that was begun since, and leaves that one alone."""
    store = house.store
    await begun(store, "a", 1)
    await store.save("a")

    async def slowly(function: Any, *args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    monkeypatch.setattr(store, "_run", slowly)
    monkeypatch.setattr(store._sync, "run", slowly)
    deleting = asyncio.create_task(store.delete("a", permanent=False))
    await asyncio.sleep(0)
    late = asyncio.create_task(store.load("a"))
    await deleting
    session = await store.begin("a", NOW)
    await asyncio.gather(late, return_exceptions=True)
    await store.commit(session, [created("another"), appended(2)])
    assert [one.id for one in (await store.load("a")).session.messages()] == ["m2"]


@pytest.mark.parametrize("loaded", [True, False])
async def test_a_session_that_could_not_be_deleted_goes_on(
    house: House, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    """It is there as it was, is saved again where it is open, and can be deleted as soon as the disk allows it."""
    await begun(house.store, "a", 2)
    await house.store.save("a")
    if not loaded:
        await house.store.release("a")
    remove = house.fs.remove

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(house.fs, "remove", fail)
    with pytest.raises((OSError, SessiondError)):
        await house.store.delete("a", permanent=False)
    monkeypatch.setattr(house.fs, "remove", remove)
    assert len((await house.store.load("a")).session) == 2
    await house.store.save("a")
    await house.store.delete("a", permanent=False)
    assert not await house.store.exists("a")


async def test_a_rename_that_failed_brings_nothing_back() -> None:
    """A save stops at its rename; the session is deleted after that: it does not come back at the next start."""
    disk = CrashFS()
    house = House(disk, "/home", limits=Limits(settle_s=0.0, reserve_bytes=512))
    store = await house.open()
    session = await begun(store, "a", 3)
    await store.save("a")
    await store.commit(session, [Truncated(seq=4, at=NOW, after_seq=1)])
    disk.fail("rename", errno.EIO, path="a.jsonl")
    with pytest.raises(ReadOnly):
        await store.save("a")
    await store.delete("a", permanent=False)
    again = await house.open()
    with pytest.raises(SessionNotFound):
        await again.load("a")


async def test_the_journal_keeps_what_a_failed_sync_left_in_doubt() -> None:
    """A save stops at the sync of its folder. Whatever is compared and saved after that, what the disk may have is made good at the next start."""
    disk = CrashFS()
    house = House(disk, "/home", limits=Limits(settle_s=0.0, reserve_bytes=512))
    store = await house.open()
    session = await begun(store, "a", 3)
    await store.save("a")
    await store.commit(session, [Truncated(seq=4, at=NOW, after_seq=1)])
    more = [[appended(5)]]

    async def meanwhile(function: Any, *args: Any) -> Any:
        if function == store._files.perform and more:
            await store.commit(session, more.pop())
        return function(*args)

    store._sync.run = meanwhile
    disk.fail("sync_dir", errno.EIO, path="/home/sessions", skip=1)  # after the sidecar
    with pytest.raises(ReadOnly):
        await store.save("a")
    await store.look_at("a")
    await store.save("a")
    assert not store.dirty("a")
    images = list(disk.crash_images(limit=50))
    assert len(images) > 1
    for image in images:
        found = await House(image, "/home", limits=house.limits).open()
        assert [m.seq for m in (await found.load("a")).session.messages()] == [1, 5], image.story


@pytest.mark.parametrize("full", [False, True], ids=["room", "no room at first"])
@pytest.mark.parametrize("more", [False, True], ids=["all of it", "a part of it"])
async def test_what_a_file_shows_after_a_failed_sync_and_a_kill_is_written_anew(more: bool, full: bool) -> None:
    """The sync of a save fails, the daemon is killed, the next one reads what only the page cache has. A second sync of it would
    succeed and mean nothing: the file is written anew before the journal may forget.
    """
    disk = CrashFS()
    house = House(disk, "/home", limits=Limits(settle_s=0.0, reserve_bytes=512))
    store = await house.open()
    session = await begun(store, "a", 2)
    await store.save("a")
    await store.commit(session, [appended(3)])

    async def meanwhile(function: Any, *args: Any) -> Any:
        if function == store._files.perform and more:
            await store.commit(session, [appended(4)])
        return function(*args)

    store._sync.run = meanwhile
    disk.fail("sync", errno.EIO, path="a.jsonl")
    with pytest.raises(ReadOnly):
        await store.save("a")
    disk.revive()
    again = await house.open()
    if full:
        disk.fail("write", errno.ENOSPC, path="a.jsonl")
    await again.load("a")
    assert again.dirty("a") == (more or full)
    await again.save("a")
    assert not again.dirty("a")
    await again.close()
    await house.open()  # recovery is done, and the journal holds no more than it must
    expected = [1, 2, 3, 4] if more else [1, 2, 3]
    for image in disk.crash_images(limit=100):
        found = await House(image, "/home", limits=house.limits).open()
        assert [m.seq for m in (await found.load("a")).session.messages()] == expected, image.story
