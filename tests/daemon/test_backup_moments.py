"""daemon/backup.py: odd moments of a backup, with the parts of a daemon put together by hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.backups.verify import prove
from sessiond.config import load
from sessiond.daemon.adoption import Adoption
from sessiond.daemon.backup import Backups
from sessiond.daemon.expiry import Expiry
from sessiond.endpoint import Places
from sessiond.errors import AlreadyExists, InvalidParams
from sessiond.fs import RealFileSystem, off_loop
from sessiond.importers.record import digest_of
from sessiond.journal import JournalExtent, JournalWriter
from sessiond.limits import Limits
from sessiond.model.session import Session
from sessiond.service import source_ledger_file
from sessiond.service.source_ledger import SourceLedger
from sessiond.service.source_merge import SourceDigest
from sessiond.store.mounts import Mounts
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.wire_service import WireService

NOW = "2026-01-11T14:30:22.000Z"


class Guarded(RealFileSystem):
    """Folders of this name may not be listed, as `lost+found` may not by anybody but root; nor may what is named `odd` be looked at."""

    def list_dir(self, path: str) -> list[str]:
        if path.endswith("/lost+found"):
            raise PermissionError(13, "Permission denied", path)
        return super().list_dir(path)

    def stat(self, path: str) -> Any:
        if path.endswith("/odd"):
            raise PermissionError(13, "Permission denied", path)
        return super().stat(path)


class Rig:
    def __init__(self, home: Path, journal: JournalWriter) -> None:
        super().__init__()
        names = ("data", "config", "cache", "run", "log")
        self.where = Places(**{name: str(home / name) for name in names}, home=str(home))
        self.fs = Guarded()
        self.clock = ManualClock()
        self.journal = journal
        self.mounts = Mounts(self.fs, self.where.data, journal, self.clock, Limits(), pending={})
        self.config = load(self.fs, self.where, {})
        self.backups: Backups
        self.service: WireService

    async def start(self) -> None:
        await self.mounts.mount_default()
        self.service = service = WireService(
            stores=self.mounts.stores, index=FakeIndex(), clock=self.clock, limits=Limits(),
            ledger_path=f"{self.where.data}/imports.db",
        )  # fmt: skip
        self.backups = Backups(
            self.fs,
            self.where,
            self.config,
            self.clock,
            self.journal,
            self.mounts,
            service.open_sessions,
            {},
            service.removals,
        )


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    journal, _ = await JournalWriter.recover(RealFileSystem(), str(home / "data" / "journal"), Limits())
    made = Rig(home, journal)
    await made.start()
    yield made
    await made.mounts.close()
    await journal.close()


def problems(folder: Path) -> list[str]:
    return [f"{one.what}: {one.problem}" for one in prove(RealFileSystem(), str(folder)) if one.problem]


async def test_a_folder_that_may_not_be_looked_into_costs_the_rest_nothing(rig: Rig, tmp_path: Path) -> None:
    """A data folder that is a disk of its own has a `lost+found` of root's: that is reported, and everything else is copied."""
    data = Path(rig.where.data)
    (data / "lost+found").mkdir()
    (data / "odd").write_bytes(b"")
    (data / "notes" / "lost+found").mkdir(parents=True)
    (data / "notes" / "odd").write_bytes(b"")
    (data / "notes" / "mine.txt").write_text("kept")
    done = await rig.backups.make(str(tmp_path / "copy"), None)
    assert {(one.path, one.message) for one in done.warnings} == {
        (str(data / name), "cannot be examined: Permission denied")
        for name in ("lost+found", "odd", "notes/lost+found", "notes/odd")
    }
    assert (tmp_path / "copy" / "data" / "notes" / "mine.txt").read_text() == "kept"
    assert problems(tmp_path / "copy") == []


async def test_a_store_that_is_adopted_meanwhile_is_in_the_copy(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration that is copied names it, so its sessions have to be there too."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    held = rig.journal.held

    @contextlib.asynccontextmanager
    async def adopted_first() -> AsyncIterator[JournalExtent]:
        store = await rig.mounts.mount("theirs", str(theirs), "jsonl")
        await store.session("late").put(Session("late", NOW))
        async with held() as found:
            yield found

    monkeypatch.setattr(rig.journal, "held", adopted_first)
    await rig.backups.make(str(tmp_path / "copy"), None)
    assert (tmp_path / "copy" / "stores" / "theirs" / "late.jsonl").read_bytes() == (theirs / "late.jsonl").read_bytes()
    assert problems(tmp_path / "copy") == []


async def test_what_is_known_of_other_tools_is_of_that_moment(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not written yet is in the copy. What came in meanwhile is not, since the sessions lack it: a follower would take
    it for removed. What was removed meanwhile is.
    """
    ledger = rig.service.removals.load()
    early, late = SourceDigest(messages={b"a": b"1"}), SourceDigest(messages={b"a": b"1", b"b": b"2"})
    await ledger.keep("default", "s", "/file", early)
    held = rig.journal.held

    @contextlib.asynccontextmanager
    async def going_on() -> AsyncIterator[JournalExtent]:
        await ledger.keep("default", "s", "/file", late)
        await ledger.remove("default", "s", ["m"])
        async with held() as found:
            yield found

    monkeypatch.setattr(rig.journal, "held", going_on)
    await rig.backups.make(str(tmp_path / "copy"), None)
    assert problems(tmp_path / "copy") == []
    assert [one for one in os.listdir(tmp_path / "copy") if one.startswith(".")] == []
    copied = SourceLedger(str(tmp_path / "copy" / "data" / "imports.db"))
    found = await copied.recall("default", "s")
    assert (found.by_path, found.removed_messages) == ({"/file": early}, {digest_of("m")})
    await copied.close()
    await ledger.close()


async def test_a_ledger_that_is_in_use_costs_a_backup_nothing_else(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_ledger_file, "_PATIENCE_S", 0.05)
    ledger = rig.service.removals.load()
    await ledger.remove("default", "s")
    other = sqlite3.connect(f"{rig.where.data}/imports.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    done = await rig.backups.make(str(tmp_path / "copy"), None)
    other.close()
    [warning] = done.warnings
    assert "keeps it to itself; after a restore" in warning.message
    assert problems(tmp_path / "copy") == []
    await ledger.close()


async def test_nothing_leaves_the_trash_at_the_moment_of_a_backup(rig: Rig, tmp_path: Path) -> None:
    """An expired entry is removed before that moment or after it: entries are never copied in part."""
    trash = rig.mounts._mounted["default"].trash
    trash.put("old", Session("old", NOW), {}, at="2020-01-01T00:00:00.000Z", reason="deleted")
    trash.expire(
        rig.clock.now_ms() - 24 * 3600 * 1000, 10**12
    )  # a look of a day ago, from which on time is seen to pass
    expiry = Expiry(lambda: {"default": trash}, rig.clock, Limits(trash_days=0.5), rig.mounts.moves)
    async with rig.mounts.moves.none():
        going = asyncio.create_task(expiry.round())
        for _ in range(10):
            await asyncio.sleep(0)
        assert [one.trash_id for one in await off_loop(trash.list)] == ["old"]
    await going
    assert trash.list() == []


async def test_a_backup_goes_to_a_fresh_place_that_can_be_written(rig: Rig, tmp_path: Path) -> None:
    """Existing files are left as they are; an impossible place is reported as the caller's mistake."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine").write_text("x")
    with pytest.raises(AlreadyExists):
        await rig.backups.make(str(there), None)
    assert [one.name for one in there.iterdir()] == ["mine"]
    with pytest.raises(InvalidParams, match="is not a folder"):
        await rig.backups.make(str(tmp_path / "none" / "copy"), None)
    with pytest.raises(InvalidParams, match="cannot be written: File name too long"):
        await rig.backups.make(str(tmp_path / ("x" * 300)), None)


async def test_folders_of_one_name_are_stores_of_several(rig: Rig, tmp_path: Path) -> None:
    """The second is numbered; an unknown format is refused before anything is mounted."""
    adoption = Adoption(rig.fs, rig.where, load(rig.fs, rig.where, {}), rig.mounts)
    names = []
    for folder in ("one", "two", "three"):
        path = tmp_path / folder / "Talks!"
        path.mkdir(parents=True)
        with pytest.raises(InvalidParams, match="format: expected one of"):
            await adoption.adopt(str(path), None, "docx")
        names.append((await adoption.adopt(str(path), None, "jsonl")).name)
    assert names == ["talks", "talks-2", "talks-3"]
    with pytest.raises(InvalidParams, match="is not a folder"):
        await adoption.adopt(str(tmp_path / "none"), None, None)
