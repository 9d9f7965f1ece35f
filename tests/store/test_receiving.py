"""A new session that comes in parts: complete or not there at all, whatever the disk or a crash does."""

from __future__ import annotations

import contextlib
import errno
import itertools

import pytest

from sessiond.errors import AlreadyExists, ReadOnly, SessionNotFound
from sessiond.formats import registry
from sessiond.fs import RealFileSystem
from sessiond.model.message import Message
from sessiond.model.session import Session, content_equal
from sessiond.store.folder import FolderStore
from sessiond.store.port import IncomingSession
from tests.fakes.crashfs import Crash, CrashFS
from tests.store.conftest import NOW, House, message

PARTS = [[message(1), message(2)], [message(3)], [message(4, "long " * 50), message(5)]]


def shell() -> Session:
    """Everything of the session but its messages."""
    session = Session("a", NOW)
    session.update({"name": "A name", "metadata": {"x": [None]}, "cwd": "/w"})
    session.seq = 5
    return session


def whole() -> Session:
    session = shell()
    for one in itertools.chain(*PARTS):
        session.add_message(one)
    return session


async def receive(store: FolderStore) -> IncomingSession:
    incoming = store.receive("a", NOW)
    assert incoming is not None
    for part in PARTS:
        await incoming.add(part)
    await incoming.finish(shell())
    return incoming


async def test_it_is_the_same_as_put(house, tmp_path):
    """The same bytes in the same files, the same session when loaded, and its messages can be read back."""
    incoming = await receive(house.store)
    other = House(RealFileSystem(), str(tmp_path / "other"))
    store = await other.open()
    await store.put(whole())
    for name in registry.get("jsonl").paths("a"):
        assert house.fs.read(f"{house.folder}/{name}") == other.fs.read(f"{other.folder}/{name}")
    assert content_equal((await house.store.load("a")).session, whole())
    back: list[Message] = [message async for part in incoming.messages() for message in part]
    assert back == [message for part in PARTS for message in part]
    listed = await house.store.look("a")
    assert listed is not None
    assert listed.fingerprint == house.store.fingerprint("a")


async def test_an_id_that_is_taken_meanwhile_is_not_written_over(house):
    """Somebody made a session of that id before the parts were complete."""
    incoming = house.store.receive("a", NOW)
    assert incoming is not None
    await incoming.add(PARTS[0])
    other = Session("a", NOW)
    other.update({"name": "the first"})
    await house.store.put(other)
    with pytest.raises(AlreadyExists):
        await incoming.finish(shell())
    await incoming.abandon()
    assert (await house.store.load("a")).session.name == "the first"
    assert [name for name in house.fs.list_dir(house.folder) if name.startswith(".") and name != ".sessiond"] == []


async def test_only_a_format_that_appends_takes_parts(tmp_path):
    """The others take sessions as a whole."""
    house = House(RealFileSystem(), str(tmp_path), "sibyl")
    store = await house.open()
    assert store.receive("a", NOW) is None


async def test_a_full_disk_leaves_nothing(house, monkeypatch):
    """The failure is reported as readOnly, and what was written goes."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    incoming = house.store.receive("a", NOW)
    assert incoming is not None
    await incoming.add(PARTS[0])
    monkeypatch.setattr(house.fs, "append", full)
    with pytest.raises(ReadOnly):
        await incoming.add(PARTS[1])
    await incoming.abandon()
    assert [name for name in house.fs.list_dir(house.folder) if name != ".sessiond"] == []


async def test_after_every_crash_it_is_whole_or_not_there():
    """Crash before every step, and look at what the disk may hold then; once it was acknowledged, it is there."""

    async def live(fs: CrashFS, acknowledged: list[bool]) -> None:
        await receive(await House(fs, "/home").open())
        acknowledged.append(True)

    fs = CrashFS(seed=1)
    await live(fs, [])
    seen = set()
    for step in range(fs.steps + 1):
        fs, acknowledged = CrashFS(seed=1), list[bool]()
        fs.crash_at = step
        with contextlib.suppress(Crash):
            await live(fs, acknowledged)
        for image in fs.crash_images(limit=8):
            again = House(image, "/home")
            store = await again.open()
            try:
                loaded = await store.load("a")
            except SessionNotFound:
                assert not acknowledged
                seen.add("absent")
            else:
                assert content_equal(loaded.session, whole())
                seen.add("whole")
            names = image.list_dir("/home/sessions")
            assert [name for name in names if name.endswith(".new")] == []
    assert seen == {"absent", "whole"}
