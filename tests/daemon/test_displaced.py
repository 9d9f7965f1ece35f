"""The data folder is moved or removed under a daemon that runs, and another one begins at its path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.endpoint import read_endpoint
from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from sessiond.store.files import StoreFiles
from sessiond.store.mount import Ownership
from tests.home import Client, Home
from tests.journal.builders import changes, saved
from tests.shell import wait_until

_SOON = "[daemon]\nidle_exit_s = 2\n"
"""How often a daemon looks around depends on this."""


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """Two daemons of one path, one after the other."""
    path = tmp_path / "home"
    path.mkdir()
    first, second = Home(path, _SOON), Home(path, _SOON)
    first.start()
    yield first, second
    first.stop()
    second.stop()


def begin(home: Home) -> None:
    """Start its daemon, and wait until clients find that one."""
    process = home.process = home.spawn()
    data = str(home.path / "data")
    wait_until(lambda: (record := read_endpoint(data)) is not None and record.pid == process.pid)


def append(client: Client, text: str) -> None:
    client.call("session/append", sessionId="s", messages=[{"role": "user", "content": text}])


def texts(client: Client) -> list[str]:
    return [one["content"] for one in client.call("session/read", sessionId="s")["messages"]]


def ended(home: Home) -> int:
    """How the daemon of a home ended."""
    process = home.process
    assert process is not None
    wait_until(lambda: process.poll() is not None)
    return int(process.returncode)


def test_a_daemon_whose_folder_was_moved_leaves_the_next_one_alone(homes: tuple[Home, Home], tmp_path: Path) -> None:
    first, second = homes
    one = first.client()
    one.call("session/new", sessionId="s")
    append(one, "before")
    (first.path / "data").rename(tmp_path / "aside")
    append(one, "after")  # into the journal, wherever that is
    begin(second)
    other = second.client()
    other.call("session/new", sessionId="s")
    append(other, "new")
    assert ended(first) == 1
    assert texts(second.client()) == ["new"]
    assert other.call("session/list", filter={"deleted": True})["sessions"] == []
    second.stop()
    shutil.rmtree(first.path / "data")
    (tmp_path / "aside").rename(first.path / "data")
    begin(second)
    assert texts(second.client()) == ["before", "after"]


def test_nothing_is_acknowledged_into_a_journal_that_was_removed(homes: tuple[Home, Home]) -> None:
    first, _ = homes
    one = first.client()
    one.call("session/new", sessionId="s")
    shutil.rmtree(first.path / "data")
    error = one.fails("session/append", sessionId="s", messages=[{"role": "user", "content": "lost"}])
    assert error["data"]["kind"] in ("indeterminate", "readOnly")
    assert ended(first) == 1


def test_a_daemon_whose_journal_was_moved_saves_everything(homes: tuple[Home, Home], tmp_path: Path) -> None:
    first, second = homes
    one = first.client()
    one.call("session/new", sessionId="s")
    (first.path / "data" / "journal").rename(tmp_path / "aside")
    append(one, "after")
    assert ended(first) == 0
    second.start()
    assert texts(second.client()) == ["after"]


def test_a_journal_whose_folder_was_replaced_touches_nothing(tmp_path: Path) -> None:
    """The other one's segments have the same names."""
    folder, aside, fs = tmp_path / "journal", tmp_path / "aside", RealFileSystem()
    limits = Limits(segment_bytes=200)

    def begin() -> Segments:
        segments = Segments(fs, str(folder), limits, lambda: 0.0)
        segments.recover(lambda: os.urandom(16))
        return segments

    def write_many(segments: Segments) -> None:
        for seq in range(1, 9):
            segments.write([changes("s", seq, b"x" * 60)], sync=True)

    first = begin()
    first.write([changes("s", 1, b"x" * 60)], sync=True)
    folder.rename(aside)
    write_many(begin())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(Exception, match="journal"):
        write_many(first)
    first.trim()
    first.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name in before} == before
    assert first.state is not None
    assert first.state.final


def test_a_journal_whose_folder_was_replaced_removes_nothing(tmp_path: Path) -> None:
    folder, fs = tmp_path / "journal", RealFileSystem()
    first = Segments(fs, str(folder), Limits(), lambda: 0.0)
    first.recover(lambda: os.urandom(16))
    first.write([changes("s", 1)], sync=True)
    first.rotate()
    folder.rename(tmp_path / "aside")
    shutil.copytree(tmp_path / "aside", folder)
    first.write([saved("s", 1)], sync=True)  # so nothing needs the first segment
    before = sorted(path.name for path in folder.iterdir())
    first.trim()
    assert sorted(path.name for path in folder.iterdir()) == before
    first.close()


def test_a_store_in_a_folder_that_is_not_ours_cannot_be_reached(tmp_path: Path) -> None:
    lock, fs = tmp_path / "lock", RealFileSystem()
    lock.touch()
    files = StoreFiles(fs, str(tmp_path), registry.get("jsonl"))
    files.is_lost = Ownership(fs, str(lock)).is_lost
    assert files.reachable()
    lock.rename(tmp_path / "old")
    lock.touch()
    assert not files.reachable()


def test_a_folder_is_ours_as_long_as_its_lock_file_is(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    ownership = Ownership(RealFileSystem(), str(lock))
    assert not ownership.is_lost()
    lock.rename(tmp_path / "old")
    assert ownership.is_lost()
    lock.touch()
    assert ownership.is_lost()
