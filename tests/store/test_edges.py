"""What a folder store does when its files, its journal and other programs interact."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import AlreadyExists, BadFile, ReadOnly, SessiondError, SessionNotFound, Unavailable
from sessiond.formats import jsonl
from sessiond.limits import Limits
from sessiond.model.changes import Appended, Extended, Finished, StateSet, Truncated
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store import hints, watch
from sessiond.store.files import OutsideChange
from sessiond.store.merge import replay
from sessiond.store.port import StoreProblem, Touched, WatchChanged
from sessiond.store.trash import Trash
from sessiond.store.watch import Watch
from tests.fakes.crashfs import Crash, CrashFS
from tests.fakes.memory_store import MemoryStore
from tests.store.conftest import NOW, House, appended, begun, created, message
from tests.store.owner import Owner
from tests.store.test_crash import SMALL


def path_of(house: House) -> Path:
    return Path(house.store.file_path("a"))


async def orphan(house: House) -> Owner:
    """A session whose file was deleted while no daemon ran, with changes in the journal."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path_of(house).unlink()
    return await house.open()


async def test_changes_of_a_session_whose_file_is_gone_go_into_the_trash(house: House) -> None:
    """Deleted without a daemon: that is intended, and the journal is not kept for it. Unsaved changes can be restored."""
    store = await orphan(house)
    assert store.dirty("a")
    with pytest.raises(SessionNotFound):
        await store.load("a")
    assert not store.dirty("a")
    assert [(one.trash_id, one.reason) for one in await store.trash()] == [("a", "deleted")]
    store = await house.open()
    assert store.dirty_count() == 0
    with pytest.raises(SessionNotFound):
        await store.load("a")
    assert [one.content for one in (await store.restore("a", "a")).session.messages()] == ["word 2"]


async def test_a_delete_of_changes_whose_session_is_gone_keeps_them(house: House) -> None:
    """The delete fails because the session is already gone; unsaved changes are nevertheless in the trash."""
    store = await orphan(house)
    with pytest.raises(SessionNotFound):
        await store.delete("a", permanent=False)
    assert not store.dirty("a")
    assert [one.trash_id for one in await store.trash()] == ["a"]


async def test_nothing_is_given_up_while_the_folder_is_away(house: House) -> None:
    """A folder that is not there says nothing of what was deleted in it."""
    store = await orphan(house)
    os.rename(house.folder, house.folder + ".away")
    with pytest.raises(Unavailable):
        await store.load("a")
    assert store.dirty("a")
    os.rename(house.folder + ".away", house.folder)
    assert await store.trash() == []
    assert (await house.open()).dirty("a")


async def test_what_waits_for_a_message_that_is_gone_goes_nowhere(house: House) -> None:
    """Of changes without their session, those that can be told alone are in the trash."""
    store = house.store
    session = await begun(store, "a", 1)
    reply = Message(id="r", seq=2, role="assistant", content="be", timestamp=NOW, status="streaming")
    await store.commit(session, [Appended.of([reply], NOW)])
    await store.save("a")
    await store.commit(session, [Extended(seq=3, at=NOW, message_id="r", offset=2, text="gin")])
    await store.commit(session, [appended(4)])
    path_of(house).unlink()
    store = await house.open()
    with pytest.raises(SessionNotFound):
        await store.load("a")
    assert [one.content for one in (await store.restore("a", "a")).session.messages()] == ["word 4"]


async def test_a_crash_while_a_session_is_deleted_keeps_all_of_it_together() -> None:
    """A session with changes that were not saved is deleted, and the daemon is killed at any step: after the next start it is there with all
    its messages, or comes back from the trash with all of them.
    """

    async def life(disk: CrashFS) -> None:
        store = await House(disk, "/home", limits=SMALL).open()
        session = await begun(store, "a", 2)
        await store.save("a")
        await store.commit(session, [appended(3)])
        start.append(disk.steps)
        await store.delete("a", permanent=False)

    start: list[int] = []
    disk = CrashFS(seed=1)
    await life(disk)
    for step in range(start[0], disk.steps):
        disk = CrashFS(seed=1)
        disk.crash_at = step
        with contextlib.suppress(Crash):
            await life(disk)
        disk.revive()
        store = await House(disk, "/home", limits=SMALL).open()
        try:
            found = (await store.load("a")).session
        except SessionNotFound:
            found = (await store.restore("a", "a")).session
        assert [one.seq for one in found.messages()] == [1, 2, 3], f"crash at step {step - start[0]}"


async def test_a_file_that_cannot_be_read_keeps_what_waits(house: House) -> None:
    """A save that finds NULs leaves them alone and its changes in the journal."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path_of(house).write_bytes(b"\0" * 5000)
    store = await house.open()
    with pytest.raises(BadFile):
        await store.save("a")
    assert store.dirty("a")
    assert path_of(house).read_bytes() == b"\0" * 5000
    assert (await house.open()).dirty("a")


async def test_half_a_first_line(house: House) -> None:
    """What a crash left of a first save is kept aside, and the session is written again from the journal."""
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
    """It names its problem; when it is well again it continues."""
    session = await begun(house.store, "a", 1)
    house.store.set_problem(StoreProblem("readOnly", "the disk failed"))
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
    with pytest.raises(Unavailable):
        await house.store.look_at("a")
    os.rename(house.folder + ".away", house.folder)
    assert len((await house.store.load("a")).session) == 1
    assert await house.store.trash() == []


async def test_a_session_deleted_under_our_hands_is_not_found(house: House) -> None:
    """By a load that comes upon it; what was known is in the trash."""
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
    house.store.of("a").save_even_blank()
    assert await house.store.save("a") is not None
    assert path_of(house).exists()
    assert await house.store.save("a") is None


async def test_who_never_stands_still(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody writes all the time cannot be read, is saved later and merged later; nothing waits for ever."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    stored = house.store.of("a")

    async def restless(*_: Any) -> None:
        raise OutsideChange("a.jsonl")

    def restless_disk(*_: Any) -> None:
        raise OutsideChange("a.jsonl")

    with monkeypatch.context() as patched:
        patched.setattr(stored, "_write", restless_disk)
        with pytest.raises(OutsideChange):
            await stored.save(session)
        assert stored.dirty
    with monkeypatch.context() as patched:
        patched.setattr(stored._merging, "_put_in_place", restless)
        path_of(house).write_bytes(path_of(house).read_bytes() + b"\n")
        count = iter(range(1000))
        prints = house.store._files.prints
        patched.setattr(house.store._files, "prints", lambda local_id: {**prints(local_id), "x": (next(count), 0, 0)})
        await house.store.look_at("a")
        assert house.store.sessions["a"] is session
    assert (await house.store.save("a")) is not None
    store = await house.open()
    with monkeypatch.context() as patched:
        patched.setattr(store.of("a")._merging, "_taken_in", restless)
        with pytest.raises(BadFile, match="faster than it can be read"):
            await store.load("a")
    assert len((await store.load("a")).session) == 2


async def test_what_waits_is_read_with_what_was_edited_meanwhile(house: House) -> None:
    """Of a session that only the journal holds, the file counts as it is when it is read first."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    store = await house.open()
    path_of(house).write_bytes(path_of(house).read_bytes().replace(b"word 1", b"changed"))
    assert [one.content for one in (await store.load("a")).session.messages()] == ["changed", "word 2"]


async def test_hints(house: House) -> None:
    """A path of a session names that session, whether anybody knows it or not; what else is there names none."""
    house.events.clear()
    house.store.touched([house.store.file_path("nobody"), f"{house.folder}/notes.txt", "/elsewhere/b.jsonl"])
    house.store.touched([f"{house.folder}/notes.txt"])
    house.store.touched_all()
    await asyncio.sleep(0)
    assert house.events == [Touched(frozenset({"nobody"})), Touched(frozenset(), all_open=True)]


async def test_a_sidecar_alone_is_no_edit(house: House) -> None:
    """Beside a file that is the same, and next to a session that has no file yet: nobody is told anything."""
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
    for number in range(4):
        session = Session("a", NOW)
        session.add_message(message(1, f"of life {number}"))
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
    """More text or an end for a message that an edit took out, and state that already exists, are skipped."""
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
    """A folder that cannot be watched, and a defect, are tried again, and what was written meanwhile is looked for; it stops at once when
    told; one that never began stops too.
    """
    failures: list[Exception] = [
        FileNotFoundError("gone"),
        OSError(errno.ENOSPC, "too many watches"),
        ZeroDivisionError("ours, while it waits"),
        RuntimeError("a name that is not valid UTF-8"),
        hints.HintsLost("too much"),
    ]

    class Source:
        def __init__(self) -> None:
            self._stop = threading.Event()
            self._hints = [{house.store.file_path("a")}]

        def wait(self) -> set[str]:
            if failures:
                raise failures.pop(0)
            if self._hints:
                return self._hints.pop()
            self._stop.wait()
            return set()

        def wake(self) -> None:
            self._stop.set()

        def close(self) -> None: ...

    def source_of(*_: object) -> Source:
        if len(failures) > 3:
            raise failures.pop(0)
        return Source()

    monkeypatch.setattr(hints, "source_of", source_of)
    monkeypatch.setattr(watch, "_RETRY_S", 0.0)
    monkeypatch.setattr(watch, "_COMPARE_S", 0.0)
    await Watch(house.store.store).stop()
    compared: list[object] = []

    async def begins(store: object) -> None:
        compared.append(store)

    watching = Watch(house.store.store, begins)
    watching.start()
    while not house.events or house.events[-1] != Touched(frozenset({"a"})):
        await asyncio.sleep(0.001)
    await watching.stop()
    everything = Touched(frozenset(), all_open=True)
    assert len(compared) == 5
    said, *others = house.events[:-1]
    assert "max_user_watches" in said.problem
    assert others == [everything, WatchChanged(None), everything, everything, everything, everything]


@pytest.mark.timeout(30)
async def test_a_watch_stops_while_it_begins(house: House) -> None:
    """Stopping it waits neither for the work after its begin, nor for a hint."""
    begun = asyncio.Event()

    async def begins(_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    watching = Watch(house.store.store, begins)
    watching.start()
    await begun.wait()
    await watching.stop()


async def test_the_store_for_tests_is_a_store() -> None:
    """What the memory store refuses, the folder store refuses too."""
    store = MemoryStore()
    stored = store.session("a")
    await stored.begin()
    session = Session("a", NOW)
    await stored.commit(session, [created("a"), appended(1)])
    assert stored.dirty
    with pytest.raises(AlreadyExists):
        await store.session("a").begin()
    assert await stored.save(session) is not None
    assert await stored.save(session) is None
    await stored.delete(session, permanent=True)
    assert await store.trash() == []
    for failing in (stored.read(whole=True), stored.restore()):
        with pytest.raises(SessionNotFound):
            await failing


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
        if function == store.of("a")._write and more:
            await store.commit(session, more.pop())
        return function(*args)

    store._around.run_save = meanwhile
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
    """The sync of a save fails, the daemon is killed, the next one reads what only the page cache has. A second sync of it
    would succeed and mean nothing: the file is written again before the journal may forget.
    """
    disk = CrashFS()
    house = House(disk, "/home", limits=Limits(settle_s=0.0, reserve_bytes=512))
    store = await house.open()
    session = await begun(store, "a", 2)
    await store.save("a")
    await store.commit(session, [appended(3)])

    async def meanwhile(function: Any, *args: Any) -> Any:
        if function == store.of("a")._write and more:
            await store.commit(session, [appended(4)])
        return function(*args)

    store._around.run_save = meanwhile
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
