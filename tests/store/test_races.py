"""What another program does between two of our calls, and what a store does about it."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.errors import AlreadyExists, BadFile, ReadOnly
from sessiond.formats import registry
from sessiond.formats.base import Write
from sessiond.formats.sidecar import decode_sidecar, encode_sidecar
from sessiond.fs import RealFileSystem, Stat
from sessiond.model.changes import Appended
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.files import OutsideChange, StoreFiles
from sessiond.store.port import StoreProblem
from tests.store.conftest import NOW, House, begun, created, message


class Others(RealFileSystem):
    """After the first call of a method, another program does something: `after[name]` is called then."""

    def __init__(self) -> None:
        super().__init__()
        self.after: dict[str, Callable[[], object]] = {}
        self.owner: int | None = None
        """Who owns every file, if not who does."""

    def _then(self, name: str) -> None:
        self.after.pop(name, lambda: None)()

    def look(self, path: str) -> Stat | None:
        found = super().look(path)
        if found is not None and self.owner is not None:
            found = msgspec.structs.replace(found, uid=self.owner)
        self._then("look")
        return found

    def stat(self, path: str) -> Stat | None:
        found = super().stat(path)
        return msgspec.structs.replace(found, uid=self.owner) if found is not None and self.owner is not None else found

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self._then("link")

    def replace(self, source: str, target: str) -> None:
        super().replace(source, target)
        self._then("replace")


@pytest.fixture
def fs() -> Others:
    return Others()


@pytest.fixture
def files(fs: Others, tmp_path: Path) -> StoreFiles:
    return StoreFiles(fs, str(tmp_path), registry.get("jsonl"))


def test_a_link_to_another_users_file_is_not_followed(files: StoreFiles, fs: Others, tmp_path: Path) -> None:
    """Whoever may make links in the folder must not have the daemon read or write where only its user may. Another user's
    file in the folder itself is a session as any other.
    """
    (tmp_path / "theirs.jsonl").write_bytes(b"x")
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "theirs.jsonl")
    assert files.print_of("a.jsonl") is not None
    fs.owner = os.geteuid() + 1
    assert files.print_of("theirs.jsonl") is not None
    with pytest.raises(BadFile, match="link to another user's file"):
        files.print_of("a.jsonl")


@pytest.mark.parametrize("how", ["append", "replace"])
def test_a_link_that_has_just_taken_the_place_of_a_sidecar_is_not_followed(
    files: StoreFiles, fs: Others, tmp_path: Path, how: str
) -> None:
    """It came after the look that found no file there. Its target stays as it is, and the error names the link."""
    elsewhere, side = tmp_path / "elsewhere", tmp_path / ".sessiond" / "a.json"
    elsewhere.write_bytes(b"precious")
    side.parent.mkdir()
    fs.after["look"] = lambda: side.symlink_to(elsewhere)
    with pytest.raises(BadFile, match="is a link") as told:
        files.perform([Write(".sessiond/a.json", b"{}", how)], {})  # type: ignore[arg-type]
    assert told.value.data["path"] == str(side)
    assert elsewhere.read_bytes() == b"precious"
    assert os.listdir(side.parent) == ["a.json"]


def test_a_file_with_two_names_that_grows_before_it_is_copied_is_read_again(
    files: StoreFiles, fs: Others, tmp_path: Path
) -> None:
    """An append to it becomes a new file, because the other name must not change: with what was seen, or not at all."""
    path, copy = tmp_path / "a.jsonl", tmp_path / "backup"
    path.write_bytes(b"1\n")
    os.link(path, copy)
    prints = files.prints("a")

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"2\n")

    fs.after["look"] = grow
    with pytest.raises(OutsideChange):
        files.perform([Write("a.jsonl", b"3\n", "append")], prints)
    assert path.read_bytes() == b"1\n2\n"
    files.perform([Write("a.jsonl", b"3\n", "append")], files.prints("a"))
    assert (path.read_bytes(), copy.read_bytes()) == (b"1\n2\n3\n", b"1\n2\n")


def test_a_failure_after_the_rename_is_told_as_what_it_is(files: StoreFiles, fs: Others, tmp_path: Path) -> None:
    """The new version is there, and the old one does not come back after a delete."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"old")

    def fail() -> None:
        raise MemoryError

    fs.after["replace"] = fail
    with pytest.raises(MemoryError):
        files.perform([Write("a.jsonl", b"new", "replace")], files.prints("a"))
    assert path.read_bytes() == b"new"
    files.remove("a")
    files.clean()
    assert os.listdir(tmp_path) == []


def test_a_link_that_leads_nowhere_goes_with_its_session(files: StoreFiles, tmp_path: Path) -> None:
    """It took the file's place since that was read: there is nothing to keep, and the session is deleted nevertheless."""
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "nothing")
    kept: list[bytes] = []
    files.remove("a", (1, 2, 3), kept.append)
    assert kept == []
    assert os.listdir(tmp_path) == []


async def test_an_arrival_that_somebody_removes_at_once_is_complete_all_the_same(tmp_path: Path, fs: Others) -> None:
    """Whoever sends it is answered, the session is gone, and a file that comes there later counts as somebody else's."""
    house = House(fs, str(tmp_path))
    store = await house.open()
    incoming = store.receive("a", NOW)
    assert incoming is not None
    await incoming.add([message(1)])
    path = Path(store.file_path("a"))
    fs.after["link"] = path.unlink
    session = Session("a", NOW)
    session.seq = 1
    saved = await incoming.finish(session)
    assert saved.bytes == 0
    assert not await store.exists("a")
    path.write_bytes(b"{}\n")
    assert store.not_ours([str(path)]) == [str(path)]


async def test_a_file_that_comes_while_its_session_is_begun_is_no_deleted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sidecar is not the rest of a session that somebody removed, so nothing of it is shown in the trash."""
    house = House(RealFileSystem(), str(tmp_path), "amacs")
    await with_tools(await house.open())
    await house.open()
    stored = house.store.of("a")

    async def not_yet() -> bool:
        return False

    with monkeypatch.context() as patched:
        patched.setattr(stored, "exists", not_yet)
        await stored.begin()
    assert await house.store.trash() == []
    assert len((await house.store.load("a")).session) == 3
    with pytest.raises(AlreadyExists):
        await stored.begin()


async def test_of_a_removed_file_its_sidecar_gives_what_only_it_has(tmp_path: Path) -> None:
    """A new session of the same id begins: messages of which the sidecar has the whole are in the trash, and one that only
    the removed file had is not made up.
    """
    house = House(RealFileSystem(), str(tmp_path), "amacs")
    store = await house.open()
    await with_tools(store)
    side = Path(house.folder) / ".sessiond" / "a.json"
    there, problems = decode_sidecar("", side.read_bytes())
    assert there is not None
    assert problems == []
    entries = [msgspec.structs.replace(one, copy=one.copy if one.seq > 1 else None) for one in there.entries]
    side.write_bytes(encode_sidecar(msgspec.structs.replace(there, entries=entries)))
    Path(store.file_path("a")).unlink()
    store = await house.open()
    await store.begin("a", NOW)
    [entry] = await store.trash()
    kept = store._around.trash.get(entry.trash_id)[0]
    assert [one.content for one in kept.messages()] == ["tool 2", "tool 3"]


async def with_tools(store: Any) -> None:
    """A session that is saved, two messages of which have no place in a file of amacs."""
    session = await begun(store, "a", 1)
    tools = [
        Message(id=f"t{seq}", seq=seq, role="tool", content=f"tool {seq}", timestamp=NOW, rest={"toolCallId": "c"})
        for seq in (2, 3)
    ]
    await store.commit(session, [Appended.of(tools, NOW)])
    await store.save("a")


@pytest.mark.parametrize("left", [b"", b"#+TITLE: mine\n", b"Other words.\n"])
async def test_a_save_after_an_edit_that_took_the_rest_away_writes_what_is_new(tmp_path: Path, left: bytes) -> None:
    """Another program removes what the file has while acknowledged messages wait. Nobody removed those, so they are saved."""
    house = House(RealFileSystem(), str(tmp_path), "amacs")
    store = await house.open()
    session = await begun(store, "a", 0)
    said = [msgspec.structs.replace(message(seq), role=role) for seq, role in enumerate(("user", "assistant") * 2, 1)]
    await store.commit(session, [Appended.of(said[:2], NOW)])
    await store.save("a")
    await store.commit(session, [Appended.of(said[2:], NOW)])
    Path(store.file_path("a")).write_bytes(left)
    await store.save("a")
    store = await house.open()
    assert [one.id for one in (await store.load("a")).session.messages()] == ["m3", "m4"]


async def test_a_sidecar_that_cannot_be_read_is_kept_before_it_is_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages that their format has no place for stand only there. It is in the trash, as it was, and the log says where."""
    house = House(RealFileSystem(), str(tmp_path), "amacs")
    await with_tools(await house.open())
    side = Path(house.folder) / ".sessiond" / "a.json"
    damaged = side.read_bytes()[:-20]
    side.write_bytes(damaged)
    store = await house.open()
    session = (await store.load("a")).session
    await store.commit(session, [Appended.of([message(session.seq + 1)], NOW)])
    with caplog.at_level(logging.WARNING):
        await store.save("a")
    assert decode_sidecar("", side.read_bytes())[0] is not None
    [kept] = (tmp_path / "trash" / "default" / ".damaged").iterdir()
    assert kept.read_bytes() == damaged
    assert str(kept) in caplog.text


async def test_a_store_with_a_problem_settles_its_trash_another_time(house: House) -> None:
    """A crash left a session both in the trash and in its folder. Which of them counts is not decided while the folder
    cannot be written.
    """
    await begun(house.store, "a", 1)
    await house.store.save("a")
    folder = house.store.store
    folder._around.trash.put("a", house.store.sessions["a"], {}, at=NOW, reason="deleted")
    folder.set_problem(StoreProblem("readOnly", "the disk failed"))
    await folder.open()
    assert folder.recovered() == []
    folder.set_problem(None)
    await folder.open()
    assert folder.recovered() == ["a"]


async def test_a_session_that_goes_before_it_is_listed_is_left_out(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are listed, and nothing is logged about the one that has gone."""
    for name in ("a", "b"):
        session = await begun(house.store, name, 1)
        await house.store.commit(session, [created(name)])
        await house.store.save(name)
    Path(house.store.file_path("a")).unlink()
    with caplog.at_level(logging.WARNING):
        found = await house.store.heads(["a", "b"])
    assert [one.session_id for one in found] == ["b"]
    assert caplog.records == []


@pytest.mark.parametrize(("number", "advice"), [(errno.EACCES, "mode and owner"), (errno.ENOSPC, "free some space")])
async def test_a_save_that_fails_says_what_to_do(house: House, number: int, advice: str) -> None:
    """A file that may not be written needs no space, and a full disk no other mode."""
    session = await begun(house.store, "a", 1)
    stored = house.store.of("a")

    async def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    stored._around.run_save = fails
    with pytest.raises(ReadOnly) as refused:
        await stored.save(session)
    assert advice in (refused.value.hint or "")
