"""A whole new session that is put at once: the answer agrees with the disk, even if another program writes there."""

from __future__ import annotations

import contextlib
import errno
import itertools
from typing import Any

import pytest

from sessiond.errors import AlreadyExists, ReadOnly, SessionNotFound, Unavailable
from sessiond.formats import registry
from sessiond.limits import Limits
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from tests.fakes.crashfs import Crash, CrashFS
from tests.store.conftest import NOW, House

PAD = "/home/sessions/scratchpad.org"
FAST = Limits(settle_s=0.0)


def whole(words: str = "ours") -> Session:
    session = Session("a", NOW)
    for seq, role in ((1, "user"), (2, "assistant")):
        session.add_message(Message(id=f"m{seq}", seq=seq, role=role, content=f"{words} {seq}", timestamp=NOW))
    session.notes = [
        Note(thread=None, tick=None, id="n3", seq=3, heading="Kept", content=f"{words} in a note", timestamp=NOW)
    ]
    session.seq = 3
    return session


async def files_of(fmt: str) -> dict[str, bytes]:
    """What a system would write of another session of the same id."""
    house = House(CrashFS(), "/home", fmt, FAST)
    store = await house.open()
    await store.put(whole("theirs"))
    main = registry.get(fmt).main_path("a")
    return {main: house.fs.read(store.file_path("a"))}


@pytest.mark.parametrize("fmt", registry.NAMES)
async def test_a_session_that_somebody_makes_first_stays_his(fmt: str) -> None:
    """Between the check and the write: the put is refused, the other file is unchanged, and nothing of ours is next to it or
    in the trash.
    """
    [(main, theirs)] = (await files_of(fmt)).items()
    disk = CrashFS()
    house = House(disk, "/home", fmt, FAST)
    store = await house.open()
    link = disk.link

    def beaten(source: str, target: str) -> None:
        if target == store.file_path("a") and disk.stat(target) is None:
            disk.create(target, theirs)
        link(source, target)

    disk.link = beaten  # type: ignore[method-assign]
    with pytest.raises(AlreadyExists):
        await store.put(whole())
    disk.link = link  # type: ignore[method-assign]
    assert disk.read(store.file_path("a")) == theirs
    assert await store.trash() == []
    left = {path for path in disk.tree() if path.startswith("/home/sessions/")} - {PAD}
    assert left == {f"/home/sessions/{main}"}
    said = [one.content for one in (await store.load("a")).session.messages()]
    assert said == ["theirs 1", "theirs 2"]


async def test_a_put_that_never_gets_its_turn_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared file is written by somebody else all the time: unavailable, with no file of the session, and it can be tried again."""
    disk = CrashFS()
    house = House(disk, "/home", "amacs", FAST)
    store = await house.open()
    disk.create(PAD, b"# theirs\n")
    count = itertools.count()
    perform = store._files.perform

    def restless(*args: Any) -> Any:
        disk.append(PAD, b"# theirs %d\n" % next(count))
        return perform(*args)

    with monkeypatch.context() as patched:
        patched.setattr(store._files, "perform", restless)
        with pytest.raises(Unavailable, match="keeps writing its files") as told:
            await store.put(whole())
    assert "try again" in (told.value.hint or "")
    assert [path for path in disk.tree() if path.startswith("/home/sessions/")] == [PAD]
    assert not await store.exists("a")
    assert store.dirty_count() == 0
    with pytest.raises(SessionNotFound):
        await store.load("a")
    saved = await store.put(whole())
    assert saved.bytes == len(disk.read(saved.path))
    again = await House(disk, "/home", "amacs", FAST).open()
    assert [one.content for one in (await again.load("a")).session.messages()] == ["ours 1", "ours 2"]


@pytest.mark.parametrize("fmt", registry.NAMES)
async def test_a_disk_that_fails_leaves_nothing_of_it(fmt: str) -> None:
    """Whichever write, sync, name or folder fails: readOnly, no file of it, and the next try is like the first."""
    for step, skip in itertools.product(("make", "write", "sync", "link", "sync_dir"), range(5)):
        disk = CrashFS()
        store = await House(disk, "/home", fmt, FAST).open()
        disk.fail(step, errno.EIO, path="/home/sessions", skip=skip)
        try:
            await store.put(whole())
        except ReadOnly:
            left = [path for path in disk.tree() if path.startswith("/home/sessions/") and path != PAD]
            assert left == [], (step, skip)
            disk.heal()
            await store.put(whole())
        disk.heal()
        assert len((await store.load("a")).session) == 2


async def test_what_somebody_wrote_on_meanwhile_is_not_taken_back() -> None:
    """The write of the sidecar fails after another program appended to the new file: its words remain."""
    disk = CrashFS()
    house = House(disk, "/home", "jsonl", FAST)
    store = await house.open()
    path = store.file_path("a")
    create = disk.create

    def between(target: str, data: bytes, mode: int = 0o600) -> object:
        if ".sessiond/" in target:
            disk.append(path, b'{"id":"t","role":"user","content":"theirs"}\n')
            raise OSError(errno.ENOSPC, "No space left on device", target)
        return create(target, data, mode)

    disk.create = between  # type: ignore[method-assign,assignment]
    with pytest.raises(ReadOnly):
        await store.put(whole())
    assert b"theirs" in disk.read(path)


@pytest.mark.parametrize("fmt", registry.NAMES)
async def test_after_every_crash_it_is_whole_or_not_there(fmt: str) -> None:
    """Once it was acknowledged it is there, with every message."""
    fs = CrashFS(seed=1)
    await (await House(fs, "/home", fmt, FAST).open()).put(whole())
    for step in range(fs.steps + 1):
        fs, acknowledged = CrashFS(seed=1), False
        fs.crash_at = step
        with contextlib.suppress(Crash):
            await (await House(fs, "/home", fmt, FAST).open()).put(whole())
            acknowledged = True
        for image in fs.crash_images(limit=8):
            store = await House(image, "/home", fmt, FAST).open()
            try:
                found = [one.content for one in (await store.load("a")).session.messages()]
            except SessionNotFound:
                assert not acknowledged, image.story
            else:
                assert found == ["ours 1", "ours 2"], image.story
