"""The system's hints about a store's folder, on the real disk."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem
from sessiond.store import hints, watch
from sessiond.store.hints import Folders, Hints, HintsLost, HintSource, Notify
from sessiond.store.port import Touched, WatchChanged
from sessiond.store.watch import Watch
from tests.store.conftest import House, begun

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
_QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


def told(source: HintSource, path: Path) -> set[str]:
    """All that is reported, relative, until something of `path` is."""
    found: set[str] = set()
    while str(path) not in found:
        found |= source.wait()
    return {str(Path(one).relative_to(path.parent)) for one in found}


def wait_for_ever(source: HintSource) -> None:
    while True:
        source.wait()


async def test_hints_that_are_cancelled_while_they_open_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end, closed = threading.Event(), threading.Event(), threading.Event()

    class Source:
        def wait(self) -> set[str]:
            time.sleep(0.01)
            return set()

        def wake(self) -> None: ...

        def close(self) -> None:
            closed.set()

    def source_of(*_: object) -> HintSource:
        began.set()
        assert may_end.wait(10)
        return Source()

    monkeypatch.setattr(hints, "source_of", source_of)
    opened = Hints(lambda _: None, lambda _: None)
    opening = asyncio.create_task(opened.open(str(tmp_path), lambda _: True))
    await asyncio.to_thread(began.wait, 10)
    opening.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await opened.close()
    assert closed.is_set()


@LINUX
def test_17_what_cannot_be_told_is_said_to_be_lost(tmp_path: Path) -> None:
    """Where more is written than the system's queue holds, everything has to be compared."""
    source = Folders(str(tmp_path), lambda _: False)
    try:
        for number in range(int(_QUEUE.read_text()) // 2 + 100):
            (tmp_path / str(number % 2)).touch()
            (tmp_path / str(number % 2)).unlink()
        with pytest.raises(HintsLost):
            wait_for_ever(source)
    finally:
        source.close()


@LINUX
def test_17_a_folder_is_told_after_it_is_watched(tmp_path: Path) -> None:
    """So what is in it by then is seen by whoever looks, and what comes later is told; under its new name where it is
    renamed, and not at all where it went elsewhere.
    """
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    source = Folders(str(root), lambda folder: folder.count("/") == 0)
    try:
        (root / "a").mkdir()
        (root / "a" / "early").touch()
        assert "a" in told(source, root / "a")
        (root / "a" / "late").touch()
        told(source, root / "a" / "late")
        (root / "a").rename(root / "b")
        assert "a" in told(source, root / "b")
        (root / "b" / "later").touch()
        told(source, root / "b" / "later")
        (root / "b").rename(outside)
        told(source, root / "b")
        (outside / "elsewhere").touch()
        (root / "last").touch()
        assert told(source, root / "last") == {"last"}
    finally:
        source.close()


@LINUX
@pytest.mark.parametrize("gone", ["removed", "renamed", "its parent renamed"])
def test_17_a_folder_that_is_another_one_is_watched_no_more(tmp_path: Path, gone: str) -> None:
    """Removed, renamed, or below a folder that was renamed: the waiting caller learns of it."""
    root = tmp_path / "parent" / "root"
    root.mkdir(parents=True)
    source = Folders(str(root), lambda _: False)
    try:
        if gone == "removed":
            root.rmdir()
        else:
            away = root if gone == "renamed" else root.parent
            away.rename(tmp_path / "away")
            root.mkdir(parents=True)
        with pytest.raises(FileNotFoundError):
            wait_for_ever(source)
    finally:
        source.close()


@LINUX
def test_a_name_that_is_not_utf_8_is_told_like_every_other(tmp_path: Path) -> None:
    source = Folders(str(tmp_path), lambda _: False)
    try:
        odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
        odd.touch()
        told(source, odd)
    finally:
        source.close()


def test_elsewhere_than_on_linux_a_library_tells(tmp_path: Path) -> None:
    """It tells of a file, and ends its wait when it is woken."""
    source = Notify(str(tmp_path))
    try:
        (tmp_path / "a").touch()
        told(source, tmp_path / "a")
        source.wake()
        while source.wait():
            pass
    finally:
        source.close()


@pytest.mark.parametrize("fmt", ["sibyl", "cortex"])
async def test_17_a_save_of_ours_never_costs_a_scan(tmp_path: Path, fmt: str) -> None:
    """Sessions that are made and saved in folders of their own are looked at, and nothing else is."""
    house = House(RealFileSystem(), str(tmp_path), fmt)
    store = await house.open()
    watched = asyncio.Event()
    (tmp_path / "sessions" / "transcripts").mkdir()

    async def begins(_: object) -> None:
        watched.set()

    watching = Watch(store.store, begins)
    watching.start()
    await watched.wait()
    for name in ("a", "b"):
        await begun(store, name, 2)
        await store.save(name)
    while not {"a", "b"} <= {name for event in house.events if isinstance(event, Touched) for name in event.local_ids}:
        await asyncio.sleep(0.01)
    await watching.stop()
    assert not [event for event in house.events if isinstance(event, Touched) and (event.everything or event.all_open)]


async def test_17_a_folders_name_touches_its_sessions(tmp_path: Path) -> None:
    """As its files would: one session for a separate folder, everything for the one that all are in, nothing for others."""
    for fmt, name, expected in (
        ("sibyl", "a", [Touched(frozenset({"a"}))]),
        ("cortex", "transcripts/a", [Touched(frozenset({"a"}))]),
        ("cortex", "transcripts", [Touched(frozenset(), all_open=True, everything=True)]),
        ("cortex", "a", []),
        ("jsonl", "a", []),
    ):
        house = House(RealFileSystem(), str(tmp_path / fmt), fmt)
        store = (await house.open()).store
        store.touched([f"{store.path}/{name}"])
        await asyncio.sleep(0)
        assert house.events == expected, (fmt, name)


async def test_a_folder_that_stays_unwatched_is_told_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is tried again and whatever the reason is; and once more when it is watched at last."""
    failures = [OSError("too many watches"), RuntimeError("a name"), OSError("too many watches")]

    def source_of(*_: object) -> HintSource:
        if failures:
            raise failures.pop(0)
        return Folders(house.folder, lambda _: False) if sys.platform == "linux" else Notify(house.folder)

    monkeypatch.setattr(hints, "source_of", source_of)
    monkeypatch.setattr(watch, "_COMPARE_S", 0.0)
    compared: list[object] = []
    watched = asyncio.Event()

    async def begins(store: object) -> None:
        compared.append(store)
        if not failures and len(compared) == 4:
            watched.set()

    watching = Watch(house.store.store, begins)
    watching.start()
    await watched.wait()
    await watching.stop()
    told = [event.problem for event in house.events if isinstance(event, WatchChanged)]
    assert len(told) == 2
    assert "too many watches" in str(told[0])
    assert told[1] is None
