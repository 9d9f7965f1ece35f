"""What a folder store does where a file, a folder or the trash changed between two of its steps, or cannot be understood."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import AlreadyExists, BadFile, ReadOnly, SessionNotFound, Unavailable
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.changes import Appended
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.files import ATTEMPTS
from sessiond.store.port import OutsideChange
from tests.fakes.crashfs import CrashFS
from tests.store.conftest import NOW, House, appended, begun, message

LARGE = Limits(settle_s=0.0, glanced_file_bytes=1000, glanced_end_bytes=2000)
"""A session of 30 messages is first loaded partially."""


def path_of(house: House) -> Path:
    return Path(house.store.file_path("a"))


def before(house: House, function: Callable[..., Any] | None, act: Callable[[], object]) -> None:
    """`act()` each time that the store is about to run `function` on a thread."""
    merging, around = house.store.of("a")._merging, house.store._around

    async def run(called: Any, *args: Any) -> Any:
        if called == function:
            act()
        return called(*args)

    around.run = merging._run = run


def append_by_hand(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write('{"role": "user", "content": "%s"}\n' % text)


def texts(session: Session) -> list[str]:
    return [str(one.content) for one in session.messages()]


# The rest of a session that was partially loaded


@pytest.fixture
async def glanced(tmp_path: Path) -> House:
    """A store that has read the end of a large session."""
    house = House(RealFileSystem(), str(tmp_path), limits=LARGE)
    await house.open()
    await begun(house.store, "a", 30)
    await house.store.save("a")
    await asyncio.sleep(0)
    house.events.clear()
    await house.open()
    assert (await house.store.load("a", whole=False)).session.absent
    return house


@pytest.mark.parametrize("moment", ["before it is read", "while it is read", "after it was read"])
async def test_a_file_that_goes_before_its_rest_is_put_in_place_is_in_the_trash(glanced: House, moment: str) -> None:
    """Whoever asks for all of it hears that it is gone, and what was shown of it can be restored."""
    store, path = glanced.store, path_of(glanced)
    stored, session = store.of("a"), store.sessions["a"]

    def remove() -> None:
        path.unlink(missing_ok=True)
        if moment == "while it is read":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    if moment == "after it was read":
        append_by_hand(path, "by hand")
        complete = await stored.read_rest(session)
        await stored.commit(session, [appended(50)])  # what was read is numbered too low by now
        remove()
    else:
        before(glanced, store._files.read, remove)
        complete = await stored.read_rest(session)
        before(glanced, None, remove)
    shown = session.messages(session.absent)
    assert await complete() is None
    [entry] = await store.trash()
    assert (entry.trash_id, entry.reason) == ("a", "deleted")
    assert (await store.restore("a", "a")).session.messages() == shown


@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("which", ["file", "sidecar"])
async def test_files_that_are_written_while_the_rest_is_put_in_place(glanced: House, which: str, times: int) -> None:
    """They are read again, and what was written is there. If that never ends, the caller is told, and not after ever more
    attempts.
    """
    store, path = glanced.store, path_of(glanced)
    stored, session = store.of("a"), store.sessions["a"]
    count = 0

    def write() -> None:
        nonlocal count
        count += 1
        if count <= times:
            if which == "file":
                raise OutsideChange("a.jsonl")
            with (path.parent / ".sessiond" / "a.json").open("a") as file:
                file.write(" ")

    append_by_hand(path, "by hand")
    before(glanced, store._files.read if which == "file" else store._around.write, write)
    complete = await stored.read_rest(session)
    if times == 1:
        now = await complete()
        assert now is not None and not now.absent
        assert texts(now) == [*(f"word {number}" for number in range(1, 31)), "by hand"]
    else:
        with pytest.raises(BadFile, match="faster than it can be read"):
            await complete()
        assert count == ATTEMPTS + 1
        assert session.absent
        assert await store.trash() == []


async def test_what_the_end_of_a_file_shows_of_the_journal_is_not_saved_again(tmp_path: Path) -> None:
    """A crash between a save and its mark: the session is read whole, and the journal is told."""
    house = House(RealFileSystem(), str(tmp_path), limits=LARGE)
    await house.open()
    session = await begun(house.store, "a", 30)
    await house.store.save("a")
    await house.store.commit(session, [appended(31)])
    house.journal.note_saved = lambda *_: None
    await house.store.save("a")
    content = house.file("a")
    await house.open()
    assert house.store.dirty("a")
    found = (await house.store.load("a", whole=False)).session
    assert texts(found) == texts(session)
    assert not house.store.dirty("a")
    assert house.file("a") == content


# Something else in a file's place


async def test_what_stands_where_a_session_is_saved_first_is_reported(house: House) -> None:
    """Nothing was in the file, so there is nothing to keep; the journal has what waits."""
    await begun(house.store, "a", 1)
    path_of(house).mkdir()
    with pytest.raises(BadFile, match="not a regular file"):
        await house.store.of("a").changed()
    with pytest.raises(BadFile):
        await house.store.look_at("a")
    assert house.store.dirty("a")
    assert await house.store.trash() == []


@pytest.mark.parametrize("reachable", [True, False])
async def test_an_id_is_not_free_because_nobody_can_look(
    house: House, monkeypatch: pytest.MonkeyPatch, reachable: bool
) -> None:
    """A name that cannot be examined is taken; if the whole folder cannot, that is what the client hears."""

    def fail(path: str) -> Any:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr(house.fs, "look", fail)
    if not reachable:
        monkeypatch.setattr(house.fs, "stat", fail)
    with pytest.raises(AlreadyExists if reachable else Unavailable):
        await house.store.begin("a", NOW)


async def test_what_stands_beside_a_removed_file_outlives_the_next_session_of_its_name(tmp_path: Path) -> None:
    """A message that its format has no place for is in the trash when somebody begins another session of that id."""
    house = House(RealFileSystem(), str(tmp_path), "amacs")
    await house.open()
    session = await begun(house.store, "a", 0)
    tool = Message(id="t", seq=1, role="tool", content="only here", timestamp=NOW, rest={"toolCallId": "c"})
    await house.store.commit(session, [Appended.of([tool], NOW)])
    await house.store.save("a")
    path_of(house).unlink()
    await house.open()
    assert len(await house.store.begin("a", NOW)) == 0
    [entry] = await house.store.trash()
    assert entry.reason == "deleted" and entry.trash_id.startswith("a.was-")
    assert texts(house.store._around.trash.get(entry.trash_id)[0]) == ["only here"]


async def test_a_save_into_a_file_that_decayed_is_refused(tmp_path: Path) -> None:
    """Nothing says that anybody wrote it, and its format would write nothing: what waits stays in the journal."""
    house = House(RealFileSystem(), str(tmp_path), "theia")
    await house.open()
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path, stat = path_of(house), path_of(house).stat()
    path.write_bytes(b"!" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(BadFile):
        await house.store.save("a")
    assert house.store.dirty("a")
    assert path.read_bytes() == b"!" * stat.st_size
    await house.open()
    assert house.store.dirty("a")


# Deleting


async def test_what_waits_for_a_file_that_cannot_be_read_outlives_its_deletion(house: House) -> None:
    """The file goes into the trash byte for byte, and beside it what the journal has."""
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    await house.store.commit(session, [appended(2)])
    path_of(house).write_bytes(b"\0" * 50)
    await house.open()
    await house.store.delete("a", permanent=False)
    trash = house.store._around.trash
    entries = {one.trash_id: trash.get(one.trash_id) for one in await house.store.trash()}
    assert sorted(entries) == ["a", "a.was-2"]
    assert entries["a"][1]["a.jsonl"] == b"\0" * 50
    assert texts(entries["a.was-2"][0]) == ["word 2"]
    await house.open()
    assert not house.store.dirty("a")


async def test_what_waits_in_the_journal_is_not_struck_out(house: House) -> None:
    """Of a session that could not be saved; one that is saved is forgotten."""
    await begun(house.store, "a", 1)
    await house.store.of("a").strike_out()
    await house.open()
    assert texts((await house.store.load("a")).session) == ["word 1"]


@pytest.mark.parametrize("written", [True, False])
async def test_an_entry_of_the_trash_stays_if_somebody_writes_the_file_meanwhile(written: bool) -> None:
    """A delete that failed left the session alive with a copy in the trash. Somebody has written to the file since our last save,
    so we cannot tell whether that copy is still needed.
    """
    house = House(CrashFS(), "/home")
    await house.open()
    assert isinstance(house.fs, CrashFS)
    await begun(house.store, "a", 1)
    await house.store.save("a")
    house.fs.fail("rename", errno.EIO, path="/sessions/a.jsonl")
    with pytest.raises(ReadOnly):
        await house.store.delete("a", permanent=False)
    house.fs.heal()
    assert [one.trash_id for one in await house.store.trash()] == ["a"]

    async def run_save(function: Any, *args: Any) -> Any:
        done = function(*args)
        if written:
            house.fs.append("/home/sessions/a.jsonl", b"\n")
        return done

    house.store._around.run_save = run_save
    await house.store.save("a")
    assert [one.trash_id for one in await house.store.trash()] == (["a"] if written else [])


@pytest.mark.parametrize("there", [True, False])
async def test_only_the_entry_that_was_seen_is_taken_out_of_the_trash(
    house: House, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Another session of that id may be deleted between the two steps: its entry stays."""
    trash = house.store._around.trash
    mark = trash.mark

    def put(text: str, at: str) -> None:
        session = Session("a", NOW)
        session.add_message(message(1, text))
        trash.put("a", session, {}, at=at, reason="deleted")

    def mark_and_another_comes(trash_id: str) -> bytes | None:
        monkeypatch.undo()
        seen = mark(trash_id)
        put("later", "2026-02-02T00:00:00.000Z")
        return seen

    if there:
        put("earlier", NOW)
    monkeypatch.setattr(trash, "mark", mark_and_another_comes)
    await house.store.of("a").out_of_trash()
    assert texts(trash.get("a")[0]) == ["later"]
    await house.store.of("a").out_of_trash()
    with pytest.raises(SessionNotFound):
        trash.get("a")
