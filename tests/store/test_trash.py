"""The trash on a disk that fails and crashes: no word is lost, no session has a second name there, nothing is half there."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
from pathlib import Path
from unittest import mock

import pytest

from sessiond.errors import BadFile, Indeterminate, ReadOnly, SessiondError, SessionNotFound
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.changes import Appended
from sessiond.model.session import Session
from sessiond.store.trash import Trash, copy_name
from tests.fakes.crashfs import Crash, CrashFS
from tests.store.conftest import NOW, House, begun, message
from tests.suite.explore import seeds

LIMITS = Limits(settle_s=0.0, segment_bytes=1500, reserve_bytes=512)
FORMATS = ["jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl"]
STEPS = ("write", "sync", "rename", "link", "remove", "sync_dir", "make")
WALKS = seeds(few=2, usual=10)


async def settled(house: House) -> None:
    """What a daemon does at its start: sessions that may be alive and in the trash at once get an owner that saves them."""
    for local_id in house.store.dirty_ids():
        with contextlib.suppress(SessionNotFound):
            await house.store.save(local_id)


async def words(house: House) -> tuple[set[str] | None, list[set[str]]]:
    """(of the live session, of each entry in the trash)"""
    alive: set[str] | None = None
    with contextlib.suppress(SessionNotFound):
        alive = {str(one.content) for one in (await house.store.load("a")).session.messages()}
    trash = house.store._around.trash
    entries = [trash.get(one.trash_id)[0] for one in trash.list()]
    return alive, [{str(one.content) for one in entry.messages()} for entry in entries]


async def check(image: CrashFS, fmt: str, must: set[str], deleted: bool | None) -> None:
    """`deleted`: what the client was told; None: nothing."""
    house = House(image, "/home", fmt, LIMITS)
    await house.open()
    names = [name for name in image.list_dir("/home/trash/default") if not name.startswith(".")]
    assert all(image.stat(f"/home/trash/default/{name}/meta.json") for name in names), "an entry without meta.json"
    assert not [name for name in image.list_dir("/home/trash/default") if name.endswith((".new", ".old", ".gone"))]
    alive, entries = await words(house)
    assert must <= (alive or set()).union(*entries), f"lost: {must - (alive or set()).union(*entries)}"
    if deleted is not None:
        assert (alive is None) == deleted
    await settled(house)
    alive, entries = await words(house)
    assert must <= (alive or set()).union(*entries), f"lost in settling: {must - (alive or set()).union(*entries)}"
    everything = entries if alive is None else [alive, *entries]
    for one, other in itertools.permutations(everything, 2):
        # What a foreign file that was written since says next to the words cannot be compared: then both are kept.
        assert not (one <= other if fmt == "jsonl" else one == other), f"twice: {one} and {other}"


async def deleting(house: House, faults: list[tuple[str, int]], *, saved: bool) -> tuple[CrashFS, bool]:
    """A session, a delete with faults at these steps, and what a client does then: it tries again. Whether it was told that it is done."""
    fs = house.fs
    assert isinstance(fs, CrashFS)
    await begun(house.store, "a", 2)
    if saved:
        await house.store.save("a")
    for step, skip in faults:
        fs.fail(step, errno.EIO, skip=skip)
    for _ in range(2):
        try:
            await house.store.delete("a", permanent=False)
        except (SessiondError, OSError):
            continue
        return fs, True
    return fs, False


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("fmt", ["jsonl", "theia"])
async def test_12_a_delete_that_fails_at_any_step_loses_nothing_and_leaves_one_name(fmt: str, saved: bool) -> None:
    """Each step of each kind fails, alone and with another one after it; the client tries again; then the power fails."""
    for number, (first, second) in enumerate(itertools.product(STEPS, (None, "sync_dir"))):
        for skip in range(6):
            faults = [(first, skip)] + ([(second, skip // 2)] if second else [])
            house = House(CrashFS(seed=number), "/home", fmt, LIMITS)
            await house.open()
            fs, done = await deleting(house, faults, saved=saved)
            fs.heal()
            for image in fs.crash_images(limit=3):
                try:
                    await check(image, fmt, {"word 1", "word 2"}, True if done else None)
                except BaseException:
                    print(f"{fmt}, saved {saved}, {faults}: {image.story}")
                    raise


async def test_12_a_second_delete_after_one_without_an_outcome_takes_the_place_of_its_entry() -> None:
    """The file's removal could not be synced, so the session continues; deleted again it is in the trash once, with what was added."""
    house = House(CrashFS(), "/home", "jsonl", LIMITS)
    await house.open()
    session = await begun(house.store, "a", 1)
    await house.store.save("a")
    assert isinstance(house.fs, CrashFS)
    house.fs.fail("sync_dir", errno.EIO, path="/sessions")
    with pytest.raises(ReadOnly):
        await house.store.delete("a", permanent=False)
    house.fs.heal()
    await house.store.commit(session, [Appended.of([message(2, "later")], NOW)])
    await house.store.delete("a", permanent=False)
    assert await words(house) == (None, [{"word 1", "later"}])


async def test_12_an_entry_that_says_more_keeps_a_name() -> None:
    """Another session of the same id was deleted before."""
    house = House(CrashFS(), "/home", "jsonl", LIMITS)
    await house.open()
    for count in (3, 2):
        await begun(house.store, "a", count)
        await house.store.delete("a", permanent=False)
    assert sorted(one.trash_id for one in await house.store.trash()) == ["a", "a.was-3"]


async def test_12_a_crash_in_the_middle_of_a_delete_leaves_it_alive_or_in_the_trash() -> None:
    """Before each of its steps, in each state of what was not synced."""
    for saved in (False, True):
        for step in range(200):
            house = House(CrashFS(seed=step), "/home", "jsonl", LIMITS)
            await house.open()
            assert isinstance(house.fs, CrashFS)
            await begun(house.store, "a", 2)
            if saved:
                await house.store.save("a")
            house.fs.crash_at = house.fs.steps + step
            try:
                await house.store.delete("a", permanent=False)
            except Crash:
                done = None
            else:
                done = True
            for image in house.fs.crash_images(limit=8):
                await check(image, "jsonl", {"word 1", "word 2"}, done)
            if done:
                break


@pytest.mark.parametrize("fmt", FORMATS)
async def test_12_lives_of_deletes_and_restores_with_faults_and_crashes(fmt: str) -> None:
    """Life after life on one disk, each ending with a crash, some after calls that failed."""
    for seed in WALKS:
        names = random.Random(seed)
        try:
            with mock.patch("secrets.token_hex", lambda size=8, names=names: names.randbytes(size).hex()):
                await walk(fmt, seed)
        except BaseException:
            print(f"reproduce: walk({fmt!r}, {seed})")
            raise


async def walk(fmt: str, seed: int) -> None:
    rng = random.Random(f"{fmt} {seed}")
    fs = CrashFS(seed=seed)
    must: set[str] = set()
    for life in range(4):
        house = House(fs, "/home", fmt, LIMITS)
        fs.crash_at = fs.steps + rng.choice((rng.randrange(30), rng.randrange(120)))
        if rng.random() < 0.6:
            for _ in range(rng.choice((1, 2))):
                fs.fail(
                    rng.choice(STEPS),
                    rng.choice((errno.EIO, errno.ENOSPC)),
                    skip=rng.randrange(25),
                    times=rng.choice((1, 2)),
                )
        with contextlib.suppress(Crash, ReadOnly, Indeterminate, BadFile, OSError):
            await house.open()
            await settled(house)
            for step in range(8):
                await one_step(house, rng, must, f"{life}-{step}")
        fs.heal()
        images = list(fs.crash_images(limit=3))
        for image in images:
            try:
                await check(next(image.crash_images()), fmt, must, None)
            except BaseException:
                print(f"life {life}: {image.story}; {fs.trace[-8:]}")
                raise
        fs = rng.choice(images)


async def one_step(house: House, rng: random.Random, must: set[str], word: str) -> None:
    """A client's request; what it was told enters `must`. It tries again what failed."""
    store = house.store
    try:
        session = (await store.load("a")).session
    except SessionNotFound:
        if rng.random() < 0.7 and any(one.trash_id == "a" for one in await store.trash()):
            await store.restore("a", "a")
        elif not await store.trash():
            session = await store.begin("a", NOW)
            await store.commit(session, [Appended.of([message(1, word)], NOW)])
            must.add(word)
        return
    action = rng.choice(("append", "append", "save", "delete"))
    if action == "append":
        await store.commit(session, [Appended.of([message(session.seq + 1, word)], NOW)])
        must.add(word)
    elif action == "save":
        await store.save("a")
    else:
        with contextlib.suppress(ReadOnly, Indeterminate):
            await store.delete("a", permanent=False)


# One call of it


def entry(trash: Trash, trash_id: str = "a", at: str = NOW) -> None:
    session = Session(trash_id, NOW)
    session.add_message(message(1))
    trash.put(trash_id, session, {}, at=at, reason="deleted")


@pytest.mark.parametrize("earlier", [False, True])
def test_an_entry_that_does_not_get_its_name_does_not_exist(earlier: bool) -> None:
    """The caller hears of the disk's error. Nothing of it is listed, and the entry that it would have replaced is as it was;
    what was written goes with the next start.
    """
    fs = CrashFS()
    trash = Trash(fs, "/trash")
    if earlier:
        entry(trash)
    seen = trash.mark("a")
    fs.fail("rename", errno.EIO, path=".new")
    with pytest.raises(OSError, match="Input/output error"):
        entry(trash, at="2026-02-02T00:00:00.000Z")
    assert trash.mark("a") == seen
    assert [one.trash_id for one in trash.list()] == (["a"] if earlier else [])
    trash.clean()
    assert not [name for name in fs.list_dir("/trash") if name.endswith((".new", ".old"))]
    entry(trash)
    assert [one.trash_id for one in trash.list()] == ["a"]


def test_an_entry_whose_replacement_never_got_its_name_is_back_after_a_crash() -> None:
    """It is all that there is of the session; where the replacement is there, it goes."""
    fs = CrashFS()
    trash = Trash(fs, "/trash")
    entry(trash)
    fs.replace("/trash/a", "/trash/.0.old")
    assert trash.list() == []
    trash.clean()
    for image in fs.crash_images():
        assert [str(one.content) for one in Trash(image, "/trash").get("a")[0].messages()] == ["word 1"], image.story
    entry(trash, "b")
    fs.replace("/trash/b", "/trash/.1.old")
    entry(trash, "b")
    trash.clean()
    assert [one.trash_id for one in trash.list()] == ["a", "b"]
    assert not [name for name in fs.list_dir("/trash") if name.endswith(".old")]


def test_what_a_crash_left_between_the_entries_goes(tmp_path: Path) -> None:
    """A file that was being written, and an entry that was being taken apart. What a link there leads to stays."""
    trash = Trash(RealFileSystem(), str(tmp_path / "trash"))
    entry(trash)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    left = tmp_path / "trash" / ".0.gone"
    left.mkdir()
    (left / "files").symlink_to(elsewhere)
    (tmp_path / "trash" / ".meta.json.0.tmp~").touch()
    trash.clean()
    assert os.listdir(tmp_path / "trash") == ["a"]
    assert os.listdir(elsewhere) == ["kept"]


async def test_a_session_whose_file_somebody_removed_can_be_deleted() -> None:
    """Its words go into the trash from memory."""
    house = House(CrashFS(), "/home", "jsonl", LIMITS)
    await house.open()
    await begun(house.store, "a", 1)
    await house.store.save("a")
    house.fs.remove("/home/sessions/a.jsonl")
    await house.store.delete("a", permanent=False)
    assert await words(house) == (None, [{"word 1"}])


def test_an_entry_that_took_the_id_of_another_stays() -> None:
    """Whoever wants to remove the entry that was there before removes nothing."""
    trash = Trash(CrashFS(), "/trash")
    entry(trash)
    seen = trash.mark("a")
    trash.remove("a")
    entry(trash, at="2026-02-02T00:00:00.000Z")
    trash.remove("a", seen)
    assert trash.holds("a")
    trash.remove("a", trash.mark("a"))
    assert not trash.holds("a")


def test_what_could_not_be_understood_is_erased_with_its_session() -> None:
    """All copies of its file and of the description of its entry, for good even if the power fails; nobody else's."""
    fs = CrashFS()
    trash = Trash(fs, "/trash")
    entry(trash)
    for name in ("a.jsonl", "a.jsonl", "a.jsonl", "a/meta.json", "aa.jsonl", "a.jsonl.bak"):
        trash.keep_bytes(copy_name(name), b"x")
    assert trash.erase("a", "a.jsonl") == {"a"}
    for image in fs.crash_images():
        assert sorted(image.list_dir("/trash/.damaged")) == ["a.jsonl.bak", "aa.jsonl"], image.story


@pytest.mark.parametrize("linked", ["trash", "trash/default"])
async def test_nothing_is_restored_from_behind_a_link(tmp_path: Path, linked: str) -> None:
    """The entry could not be removed, and the session would be alive and in the trash."""
    house = House(RealFileSystem(), str(tmp_path / "home"), "jsonl", LIMITS)
    await house.open()
    await begun(house.store, "a", 1)
    await house.store.delete("a", permanent=False)
    folder = tmp_path / "home" / linked
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadFile, match=f"{folder} is a link"):
        await house.store.restore("a", "a")
    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    assert await words(house) == (None, [{"word 1"}])
    await house.store.restore("a", "a")
    assert await words(house) == ({"word 1"}, [])
