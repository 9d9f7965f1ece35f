"""All stores of a daemon: each is watched once, and a missing folder is looked for repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter
from sessiond.limits import Limits
from sessiond.store.folder import FolderStore
from sessiond.store.mounts import Mounts
from tests.fakes.clock import ManualClock


@pytest.fixture
async def back() -> list[FolderStore]:
    """The stores that came back."""
    return []


@pytest.fixture
async def mounts(tmp_path: Path, back: list[FolderStore]) -> AsyncIterator[Mounts]:
    data = tmp_path / "data"
    (data / "mounts").mkdir(parents=True)
    journal, _ = await JournalWriter.recover(RealFileSystem(), str(data / "journal"), Limits())
    made = Mounts(RealFileSystem(), str(data), journal, ManualClock(), Limits(), pending={}, on_back=back.append)
    await made.mount_default()
    yield made
    await made.close()
    await journal.close()


async def test_a_store_that_is_started_while_all_are_is_watched_once(mounts: Mounts, tmp_path: Path) -> None:
    """A folder may be adopted in the very moment in which the daemon begins to watch."""
    (tmp_path / "theirs").mkdir()
    await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
    mounts.start()
    watch = mounts._mounted["theirs"].watch
    mounts.started("theirs")
    assert mounts._mounted["theirs"].watch is watch is not None


async def test_a_folder_that_is_looked_at_while_it_is_taken_is_taken_once(mounts: Mounts, tmp_path: Path) -> None:
    """A round that comes in the middle of an adoption would find the folder in use, by the daemon itself."""
    mounts._limits = Limits(look_around_s=0.0)
    mounts.start()
    for number in range(20):
        folder = tmp_path / f"theirs{number}"
        folder.mkdir()
        store = await mounts.mount(folder.name, str(folder), "jsonl")
        await asyncio.sleep(0.01)
        assert store.problem is None


async def test_a_folder_that_is_not_there_is_looked_for_till_it_is(
    mounts: Mounts, tmp_path: Path, back: list[FolderStore]
) -> None:
    """Each look that finds nothing changes nothing; the one that finds it says so once."""
    folder = tmp_path / "theirs"
    store = await mounts.mount("theirs", str(folder), "jsonl")
    mounted = mounts._mounted["theirs"]
    for _ in range(2):
        await mounts._look_at(mounted)
        assert store.problem is not None and store.problem.kind == "unavailable"
    assert back == []
    folder.mkdir()
    for _ in range(2):
        await mounts._look_at(mounted)
        assert store.problem is None
    assert back == [store]
