"""A folder that is not the right one: an empty mount point, another disk at the same path. Nothing is written there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import SessiondError, Unavailable
from sessiond.formats.names import id_in_trash, is_local_id, local_id_of
from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.service.sessions import Service
from sessiond.store.mounts import Mounts
from sessiond.store.port import SavedSession
from sessiond.store.stored import StoredSession
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


class Disk:
    """A folder that is mounted as the store `disk`, and what takes its place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside = path.with_name("aside")

    def unmount(self, *, leave: bool) -> None:
        """`leave`: an empty mount point."""
        self.path.rename(self._aside)
        if leave:
            self.path.mkdir()

    def mount(self) -> None:
        if self.path.exists():
            self.path.rename(self.path.with_name("other"))
        self._aside.rename(self.path)

    def everything(self) -> list[str]:
        return sorted(str(one.relative_to(self.path)) for one in self.path.rglob("*")) if self.path.exists() else []


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "disk").mkdir()
    return Disk(tmp_path / "disk")


@pytest.fixture
async def mounts(tmp_path: Path) -> AsyncIterator[Mounts]:
    data = tmp_path / "data"
    (data / "mounts").mkdir(parents=True)
    journal, _ = await JournalWriter.recover(RealFileSystem(), str(data / "journal"), Limits())
    made = Mounts(RealFileSystem(), str(data), journal, ManualClock(), Limits(settle_s=0.0), pending={})
    await made.mount_default()
    yield made
    await made.close()
    await journal.close()


@pytest.fixture
async def service(mounts: Mounts, disk: Disk) -> AsyncIterator[Service]:
    await mounts.mount("disk", str(disk.path), "jsonl")
    made = WireService(stores=mounts.stores, index=FakeIndex(), clock=ManualClock(), limits=Limits(), idle_s=0.0)
    await made.start()
    yield made
    await made.close()


@pytest.mark.parametrize("leave", [True, False])
async def test_1_a_new_session_is_not_saved_into_an_empty_mount_point(
    service: Service, disk: Disk, leave: bool
) -> None:
    """Its first save is refused as unavailable, its words wait, and are in the folder once that is back."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", store="disk", messages=[user("kept")])
    disk.unmount(leave=leave)
    with pytest.raises(Unavailable):
        await service.save("disk/a")
    assert disk.everything() == []
    disk.mount()
    await service.save("disk/a")
    assert "kept" in (disk.path / "a.jsonl").read_text()


@pytest.mark.parametrize("leave", [True, False])
async def test_1_nothing_moves_into_an_empty_mount_point(service: Service, disk: Disk, leave: bool) -> None:
    """The session remains where it was."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", messages=[user("kept")])
    disk.unmount(leave=leave)
    with pytest.raises(Unavailable):
        await service.move(peer, "a", "disk")
    assert disk.everything() == []
    assert [one["content"] for one in (await service.read("a"))["messages"]] == ["kept"]
    disk.mount()


async def test_2_what_waits_for_one_disk_does_not_go_to_another(
    service: Service, mounts: Mounts, disk: Disk, tmp_path: Path
) -> None:
    """Another store at the same path, with a session of the same name: it is left alone, and the store is unavailable."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", store="disk", messages=[user("for the first")])
    await service.save("disk/a")
    other = tmp_path / "second"
    (other / ".sessiond").mkdir(parents=True)
    (other / ".sessiond" / "store.json").write_text('{"id": "another", "sessiond": 1}\n')
    theirs = (disk.path / "a.jsonl").read_text().replace("for the first", "theirs")
    (other / "a.jsonl").write_text(theirs)
    await service.append(peer, "disk/a", [user("waits")])
    disk.unmount(leave=False)
    other.rename(disk.path)
    with pytest.raises(Unavailable):
        await service.save("disk/a")
    mounted = mounts._mounted["disk"]
    await mounts._look_at(mounted)  # it is found to be gone
    await mounts._look_at(mounted)  # it is looked for
    assert mounted.store.problem is not None and "a different store" in mounted.store.problem.message
    assert (disk.path / "a.jsonl").read_text() == theirs
    disk.mount()
    await mounts._look_at(mounted)
    assert mounted.store.problem is None
    await asyncio.sleep(0)
    await service.save("disk/a")
    assert "waits" in (disk.path / "a.jsonl").read_text()


def test_23_an_id_in_the_trash_is_not_cut_within_an_escape() -> None:
    """Whatever the length of a name, what was cut from its session can be named and restored."""
    for length in range(20, 60):
        local_id = local_id_of("x" * (length % 3) + "会" * length)
        assert is_local_id(id_in_trash(local_id, 7)), local_id


async def test_what_somebody_writes_while_a_session_moves_is_in_the_trash(
    service: Service, mounts: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that comes between the copy and the removal is in neither place; the file as it was then is in the trash."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", messages=[user("kept")])
    await service.save("a")
    path = Path(mounts.stores["default"].file_path("a"))
    put = StoredSession.put

    async def put_while_somebody_writes(stored: StoredSession, session: Session) -> SavedSession:
        saved = await put(stored, session)
        with path.open("a") as file:
            file.write('{"role": "user", "content": "by hand"}\n')
        return saved

    monkeypatch.setattr(StoredSession, "put", put_while_somebody_writes)
    await service.move(peer, "a", "disk")
    assert not path.exists()
    trash = Path(mounts._mounted["default"].trash.folder)
    assert any(b"by hand" in each.read_bytes() for each in trash.rglob("*") if each.is_file())


async def test_what_somebody_writes_into_what_a_move_has_just_made_is_in_the_trash(
    service: Service, disk: Disk, mounts: Mounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session remains where it is, the client may try again, and the line by hand is not lost with the copy."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", messages=[user("kept")])
    put = StoredSession.put

    async def put_and_somebody_writes(stored: StoredSession, session: Session) -> SavedSession:
        saved = await put(stored, session)
        with (disk.path / "a.jsonl").open("a") as file:
            file.write('{"role": "user", "content": "by hand"}\n')
        return saved

    monkeypatch.setattr(StoredSession, "put", put_and_somebody_writes)
    with pytest.raises(Unavailable):
        await service.move(peer, "a", "disk")
    assert not (disk.path / "a.jsonl").exists()
    assert [one["content"] for one in (await service.read("a"))["messages"]] == ["kept"]
    trash = Path(mounts._mounted["disk"].trash.folder)
    assert any(b"by hand" in each.read_bytes() for each in trash.rglob("*") if each.is_file())
    monkeypatch.setattr(StoredSession, "put", put)
    assert (await service.move(peer, "a", "disk"))["session"]["sessionId"] == "disk/a"


async def test_what_somebody_writes_into_a_blank_session_outlives_its_deletion(
    service: Service, mounts: Mounts, disk: Disk
) -> None:
    """There is nothing in it that anyone could miss, as far as the daemon has read."""
    peer = FakePeer("one")
    await service.new(peer, session_id="a", store="disk")
    await service.open_sessions.relieve("disk", "a")
    with (disk.path / "a.jsonl").open("a") as file:
        file.write('{"role": "user", "content": "by hand"}\n')
    await service.delete("disk/a")
    trash = Path(mounts._mounted["disk"].trash.folder)
    assert any(b"by hand" in each.read_bytes() for each in trash.rglob("*") if each.is_file())


@pytest.mark.parametrize("step", range(1, 9))
async def test_2_a_write_that_has_begun_ends_on_the_disk_that_it_began_on(
    service: Service, mounts: Mounts, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Another store comes to the same path between any two steps of a save and of a delete: nothing of it changes."""
    peer = FakePeer("one")
    other = tmp_path / "second"
    (other / ".sessiond").mkdir(parents=True)
    (other / ".sessiond" / "store.json").write_text('{"id": "another", "sessiond": 1}\n')
    for name in ("a.jsonl", ".sessiond/a.json"):
        (other / name).write_text("theirs")
    theirs = {path: path.read_bytes() for path in other.rglob("*") if path.is_file()}
    await service.new(peer, session_id="a", store="disk", messages=[user("kept")])
    steps = 0

    def swapped(before: Any) -> Any:
        def call(fs: RealFileSystem, path: str, *more: Any) -> Any:
            nonlocal steps
            if path.startswith(str(disk.path)):
                steps += 1
                if steps == step:
                    disk.unmount(leave=False)
                    other.rename(disk.path)
            return before(fs, path, *more)

        return call

    for name in ("create", "append", "link", "replace", "remove", "sync_dir"):
        monkeypatch.setattr(RealFileSystem, name, swapped(getattr(RealFileSystem, name)))
    for request in (service.save("disk/a"), service.delete("disk/a")):
        with contextlib.suppress(SessiondError):
            await request
    assert steps >= step
    disk.path.rename(other)
    disk.mount()
    assert {path: path.read_bytes() for path in other.rglob("*") if path.is_file()} == theirs
