"""amacs' scratchpad belongs to all chats of a folder: what one saves the others see, and no note is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem, off_loop_to_save
from sessiond.limits import Limits
from sessiond.model.changes import Noted
from sessiond.model.message import Note
from tests.fakes.crashfs import CrashFS
from tests.store.conftest import NOW, House, created

PAD = "/home/sessions/scratchpad.org"


def note(chat: str, seq: int) -> Noted:
    return Noted.of(
        Note(
            thread=None, tick=None, id=f"{chat}{seq}", seq=seq, heading="Shared", content=f"{chat} {seq}", timestamp=NOW
        )
    )


async def test_a_note_of_one_chat_is_in_the_other() -> None:
    """Both have both notes after both were saved, in memory and after a restart, and deleting one chat leaves them."""
    fs = CrashFS(seed=1)
    house = House(fs, "/home", "amacs", Limits(settle_s=0.0))
    store = await house.open()
    for chat in ("one", "two"):
        session = await store.begin(chat, NOW)
        await store.commit(session, [created(chat), note(chat, 1)])
        await store.save(chat)
    for again in (store, await House(fs, "/home", "amacs", Limits(settle_s=0.0)).open()):
        for chat, other in (("one", "two"), ("two", "one")):
            found = (await again.load(chat)).session
            assert {one.id: one.content for one in found.notes} == {f"{chat}1": f"{chat} 1", f"{other}1": f"{other} 1"}
            assert len({one.seq for one in found.notes}) == 2
    await again.delete("one", permanent=False)
    assert b"one 1" in fs.read(PAD)
    assert [one.id for one in (await again.load("two")).session.notes] == ["two1", "one1"]


async def test_chats_that_write_notes_in_turn_keep_them_all() -> None:
    """Saves of several chats never write over a note that another chat saved meanwhile."""
    fs = CrashFS(seed=1)
    store = await House(fs, "/home", "amacs", Limits(settle_s=0.0)).open()
    for chat in ("one", "two", "three"):
        await store.commit(await store.begin(chat, NOW), [created(chat)])
    for _ in range(3):
        for chat in ("one", "two", "three"):
            session = (await store.load(chat)).session
            await store.commit(session, [note(chat, session.seq + 1)])
        for chat in ("three", "one", "two"):
            await store.save(chat)
    pad = fs.read(PAD)
    assert pad.count(b"\n* ") == 0
    for chat in ("one", "two", "three"):
        found = (await store.load(chat)).session
        assert len(found.notes) == 9
        assert all(pad.count(b"\n" + one.content.encode() + b"\n") == 1 for one in found.notes)


async def test_chats_that_are_saved_at_once_take_each_other_for_nobody_else(tmp_path: Path) -> None:
    """On as many threads: none finds an edit in the notes that the others write meanwhile, and all notes are there."""
    house = House(RealFileSystem(), str(tmp_path), "amacs", Limits(settle_s=0.0))
    store = await house.open()
    store.store._around.run_save = off_loop_to_save
    chats = [f"chat{number}" for number in range(20)]
    sessions = {chat: await store.begin(chat, NOW) for chat in chats}
    for chat in chats:
        await store.commit(sessions[chat], [created(chat), note(chat, 1)])
    saved = await asyncio.gather(*(store.of(chat).save(sessions[chat]) for chat in chats))
    assert None not in saved
    pad = (tmp_path / "sessions" / "scratchpad.org").read_bytes()
    assert all(pad.count(f"\n{chat} 1\n".encode()) == 1 for chat in chats)


@pytest.mark.parametrize(("fmt", "name"), [("amacs", "scratchpad.org"), ("jsonl", "one.jsonl")])
async def test_a_note_that_an_edit_takes_away_is_in_the_trash(tmp_path: Path, fmt: str, name: str) -> None:
    """An editor writes its older copy of the file."""
    house = House(RealFileSystem(), str(tmp_path), fmt)
    store = await house.open()
    session = await store.begin("one", NOW)
    await store.commit(session, [created("one"), note("one", 1)])
    await store.save("one")
    file = tmp_path / "sessions" / name
    older = file.read_bytes()
    await store.commit(session, [note("one", 2)])
    await store.save("one")
    file.write_bytes(older)
    await store.look_at("one")
    assert [one.content for one in (await store.load("one")).session.notes] == ["one 1"]
    [entry] = await store.trash()
    assert [one.content for one in store._around.trash.get(entry.trash_id)[0].notes] == ["one 1", "one 2"]
