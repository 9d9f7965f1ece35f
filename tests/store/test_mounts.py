"""All stores of a daemon: each is watched once, and a missing folder is looked for repeatedly."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter
from sessiond.limits import Limits
from sessiond.store import mounts as module
from sessiond.store.folder import FolderStore
from sessiond.store.mount import OutOfReach
from sessiond.store.mounts import Mounts, recognise
from sessiond.store.port import Event
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


# A disk that answers late


class Late:
    """In place of a `Mounter`: it claims nothing before `ready`, and then fails with `error`."""

    def __init__(self, error: Exception) -> None:
        self.ready = threading.Event()
        self._error = error

    def claim(self, _name: str, _root: str, **wanted: bool) -> None:
        self.ready.wait()
        raise self._error


@pytest.fixture
def surprises() -> Iterator[list[dict[str, Any]]]:
    """What the loop was told of errors that nobody handled."""
    found: list[dict[str, Any]] = []
    loop = asyncio.get_event_loop()
    loop.set_exception_handler(lambda _, context: found.append(context))
    yield found
    loop.set_exception_handler(None)


@pytest.mark.parametrize(
    ("error", "reported", "logged"),
    [
        (OutOfReach("not mounted"), "not mounted", ""),
        (OSError(errno.EIO, "Input/output error"), "does not answer", "Input/output error"),
    ],
)
async def test_a_disk_that_answers_late_with_an_error_is_asked_again(
    mounts: Mounts,
    tmp_path: Path,
    back: list[FolderStore],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    surprises: list[dict[str, Any]],
    error: Exception,
    reported: str,
    logged: str,
) -> None:
    """Nobody waits for the answer any longer: the store is still away, says why, and is back as soon as a look finds it."""
    monkeypatch.setattr(module, "STORE_PATIENCE_S", 0.0)
    (tmp_path / "theirs").mkdir()
    late, sound = Late(error), mounts._mounter
    mounts._mounter = late  # type: ignore[assignment]
    store = await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
    first = mounts._looks["theirs"]
    late.ready.set()
    await asyncio.wait({first})
    await asyncio.sleep(0)
    assert store.problem is not None and store.problem.kind == "unavailable" and reported in store.problem.message
    assert logged in caplog.text
    assert (back, mounts._looks, surprises) == ([], {}, [])
    mounts._mounter = sound
    await mounts._look_once(mounts._mounted["theirs"])
    assert (back, store.problem) == ([store], None)


async def test_a_daemon_that_ends_before_a_disk_answers_ends_quietly(
    mounts: Mounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surprises: list[dict[str, Any]]
) -> None:
    """It gives up the look, and takes that neither for a store that is back nor for an error."""
    monkeypatch.setattr(module, "STORE_PATIENCE_S", 0.0)
    late = Late(OutOfReach("not mounted"))
    mounts._mounter = late  # type: ignore[assignment]
    await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
    first = mounts._looks["theirs"]
    await mounts.close()
    late.ready.set()
    await asyncio.wait({first})
    await asyncio.sleep(0)
    assert (first.cancelled(), mounts._looks, surprises) == (True, {}, [])


async def test_a_defect_in_one_look_is_logged_and_the_next_look_comes(
    mounts: Mounts,
    tmp_path: Path,
    back: list[FolderStore],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise the store would be away until the daemon is started again, and nobody would know why."""
    mounts._limits = Limits(look_around_s=0.0)
    store = await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")

    async def fail(_mounted: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr(mounts, "_look_at", fail)
        mounts.start()
        async with asyncio.timeout(8):
            while "a fault of ours" not in caplog.text:
                await asyncio.sleep(0.001)
    assert "store theirs could not be looked at" in caplog.text
    (tmp_path / "theirs").mkdir()
    async with asyncio.timeout(8):
        while not back:
            await asyncio.sleep(0.001)
    assert (back, store.problem) == ([store], None)


async def test_a_read_only_folder_is_written_to_as_soon_as_that_is_possible(
    mounts: Mounts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that finds it as it was says nothing; the one that can write says so, and every open session is looked at."""

    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system", path)

    (tmp_path / "theirs").mkdir()
    events: list[Event] = []
    with monkeypatch.context() as patched:
        patched.setattr(mounts._fs, "lock", refuse)
        store = await mounts.mount("theirs", str(tmp_path / "theirs"), "jsonl")
        store.subscribe(events.append)
        mounted = mounts._mounted["theirs"]
        for _ in range(2):
            await mounts._look_at(mounted)
            await asyncio.sleep(0)
            assert store.problem is not None and store.problem.kind == "readOnly"
        assert events == []
    for _ in range(2):
        await mounts._look_at(mounted)
        await asyncio.sleep(0)
        assert store.problem is None
    assert [type(event).__name__ for event in events] == ["HealthChanged", "Touched"]
    await store.session("a").begin()


def test_what_cannot_be_read_is_no_sign_of_a_format(tmp_path: Path) -> None:
    """A link to a folder, and a pipe, in a folder that somebody adopts without naming its format."""
    (tmp_path / "mine" / "photos").mkdir(parents=True)
    (tmp_path / "mine" / "latest").symlink_to("photos")
    assert recognise(RealFileSystem(), str(tmp_path / "mine")) == (None, 0)
    (tmp_path / "theia").mkdir()
    os.mkfifo(tmp_path / "theia" / "a.json")
    (tmp_path / "theia" / "b.json").write_text('{"messages":[],"savedAt":"2026-01-01T00:00:00Z"}')
    assert recognise(RealFileSystem(), str(tmp_path / "theia"))[0] == "theia"


async def test_a_folder_whose_marker_was_removed_is_taken_when_a_person_says_so(
    mounts: Mounts, tmp_path: Path, back: list[FolderStore]
) -> None:
    """`git clean` removes `.sessiond`: nothing else tells the folder from another one. An empty one is a disk that is not mounted."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "a.jsonl").write_text("{}")
    store = await mounts.mount("theirs", str(folder), "jsonl")
    mounted = mounts._mounted["theirs"]
    marker = folder / ".sessiond" / "store.json"
    before = marker.read_bytes()
    shutil.rmtree(marker.parent)
    (folder / "a.jsonl").rename(tmp_path / "a.jsonl")
    for _ in range(2):  # it is gone; it is not back
        await mounts._look_once(mounted)
    assert store.problem is not None and "`sessiond adopt" in store.problem.message
    await mounts.accept("theirs")
    assert store.problem is not None and not back
    (tmp_path / "a.jsonl").rename(folder / "a.jsonl")
    await mounts._look_once(mounted)
    assert store.problem is not None and not back
    await mounts.accept("theirs")
    assert (store.problem, back) == (None, [store])
    assert marker.read_bytes() == before
