"""The folder store on a real disk: durable, saved, merged with outside edits."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from sessiond.errors import AlreadyExists, BadFile, SessionNotFound
from sessiond.fs import RealFileSystem
from sessiond.model.changes import Appended, Cleared, Extended, Finished, StateSet, Truncated, Updated
from sessiond.model.message import Message
from sessiond.model.session import content_equal
from tests.store.conftest import NOW, House, appended, begun, message
from tests.store.owner import Reloaded, Vanished


def texts(session):
    return [m.content for m in session.messages()]


async def reopened(house: House) -> House:
    again = House(house.fs, house.home, house.format.name, house.limits)
    await again.open()
    return again


async def test_an_unsaved_session_is_there_after_a_kill(house):
    """What was committed and never saved comes back from the journal, with its name and seq."""
    session = await begun(house.store, "a", 3)
    again = await reopened(house)
    loaded = (await again.store.load("a")).session
    assert content_equal(loaded, session)
    assert not os.path.exists(house.store.file_path("a"))


async def test_a_saved_session_is_a_readable_file(house):
    """The file is a header and one JSON line a message, in order."""
    await begun(house.store, "a", 3)
    saved = await house.store.save("a")
    lines = [json.loads(line) for line in house.file("a").splitlines()]
    assert lines[0]["sessiond"] == 1
    assert lines[0]["name"] == "a name"
    assert [line["content"] for line in lines[1:]] == ["word 1", "word 2", "word 3"]
    assert saved.bytes == len(house.file("a"))


async def test_a_save_without_a_change_writes_nothing(house):
    """Saving twice leaves the same bytes, the same inode and the same mtime."""
    await begun(house.store, "a", 2)
    await house.store.save("a")
    before = os.stat(house.store.file_path("a"))
    assert await house.store.save("a") is None
    assert os.stat(house.store.file_path("a")) == before


async def test_an_append_changes_only_the_end_of_the_file(house):
    """The old bytes are a prefix of the new ones, in the same inode."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    old, inode = house.file("a"), os.stat(house.store.file_path("a")).st_ino
    await house.store.commit(session, [appended(3)])
    await house.store.save("a")
    assert house.file("a").startswith(old)
    assert os.stat(house.store.file_path("a")).st_ino == inode


async def test_everything_a_session_holds_survives_save_and_restart(house):
    """Names, tags, state, streamed replies and their end come back from the file alone."""
    session = await begun(house.store, "a", 1)
    streamed = Message(id="s", seq=2, role="assistant", content="He", timestamp=NOW, status="streaming")
    await house.store.commit(session, [Appended.of([streamed], NOW)])
    await house.store.commit(session, [Extended(seq=3, at=NOW, message_id="s", offset=2, text="llo")])
    await house.store.save("a")
    await house.store.commit(session, [Finished(seq=4, at=NOW, message_id="s", status="done", metadata={"tokens": 3})])
    await house.store.commit(session, [Updated(seq=5, at=NOW, fields={"tags": ["x"], "name": None})])
    await house.store.commit(session, [StateSet(seq=6, at=NOW, values={"plan": {"class": None, "jsonrpc": "2.0"}})])
    await house.store.save("a")
    again = await reopened(house)
    assert not again.journal.pending
    loaded = (await again.store.load("a")).session
    assert content_equal(loaded, session)
    assert loaded.message("s").content == "Hello"


@pytest.mark.parametrize(
    ("change", "left"), [(Truncated(seq=4, at=NOW, after_seq=1), ["word 1"]), (Cleared(seq=4, at=NOW), [])]
)
async def test_truncate_and_clear_rewrite_the_file(house, change, left):
    """Removed messages are gone from the file, and the seq keeps growing after a restart."""
    session = await begun(house.store, "a", 3)
    await house.store.save("a")
    await house.store.commit(session, [change])
    await house.store.save("a")
    again = await reopened(house)
    loaded = (await again.store.load("a")).session
    assert texts(loaded) == left
    assert loaded.seq == 4


async def test_an_outside_edit_is_merged_with_what_waits(house):
    """A removed line is gone and in the trash, a line by hand is there with a new seq, an unsaved message is kept."""
    session = await begun(house.store, "a", 3)
    await house.store.save("a")
    await house.store.commit(session, [appended(4)])
    path = Path(house.store.file_path("a"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1], lines[3], '{"role":"user","content":"by hand"}']) + "\n")
    await house.store.look_at("a")
    await asyncio.sleep(0)
    merged = (await house.store.load("a")).session
    assert [(m.seq, m.content) for m in merged.messages()] == [
        (1, "word 1"),
        (3, "word 3"),
        (4, "word 4"),
        (5, "by hand"),
    ]
    assert merged.seq == 6
    assert isinstance(house.events[-1], Reloaded)
    [trashed] = await house.store.trash()
    assert (trashed.trash_id, trashed.reason, trashed.info.message_count) == ("a.was-4", "edited", 4)


async def test_a_merge_survives_a_kill_right_after_it(house):
    """Seqs that were given to lines by hand, and the unsaved message, are the same after a kill."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    await house.store.commit(session, [appended(3)])
    path = Path(house.store.file_path("a"))
    path.write_text(path.read_text() + '{"role":"user","content":"by hand"}\n')
    await house.store.look_at("a")
    merged = (await house.store.load("a")).session
    again = await reopened(house)
    loaded = (await again.store.load("a")).session
    assert [(m.seq, m.id, m.content) for m in loaded.messages()] == [
        (m.seq, m.id, m.content) for m in merged.messages()
    ]
    assert loaded.seq == merged.seq


async def test_a_malformed_line_is_a_warning_and_stays_where_it_stands(house):
    """The rest of the file is the session; an append and even a rewrite keep the line."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    path = Path(house.store.file_path("a"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], "{not json", *lines[2:]]) + "\n")
    again = await reopened(house)
    loaded = await again.store.load("a")
    assert texts(loaded.session) == texts(session)
    [warning] = loaded.warnings
    assert (warning.path, warning.line) == (str(path), 3)
    await again.store.commit(loaded.session, [Truncated(seq=loaded.session.seq + 1, at=NOW, after_seq=1)])
    await again.store.save("a")
    assert path.read_text().splitlines()[2] == "{not json"


async def test_a_file_of_nuls_is_a_bad_file_and_is_left_alone(house):
    """It cannot be loaded, says so with its path, and keeps every byte."""
    path = Path(house.folder) / "nul.jsonl"
    path.write_bytes(b"\0" * 4096)
    with pytest.raises(BadFile) as caught:
        await house.store.load("nul")
    assert caught.value.data["path"] == str(path)
    assert path.read_bytes() == b"\0" * 4096


@pytest.mark.parametrize("make", ["fifo", "folder", "dangling"])
async def test_what_is_no_regular_file_is_a_bad_file(house, make):
    """A FIFO, a folder or a dangling link in a session's place never hangs and is never replaced."""
    path = Path(house.folder) / "odd.jsonl"
    if make == "fifo":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.parent / "nowhere")
    with pytest.raises(BadFile):
        await house.store.load("odd")
    assert os.path.lexists(path)


async def test_a_link_to_a_file_stays_a_link(house, tmp_path):
    """A rewrite goes to where the link leads."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    path = Path(house.store.file_path("a"))
    real = tmp_path / "elsewhere.jsonl"
    path.rename(real)
    path.symlink_to(real)
    await house.store.look_at("a")
    session = (await house.store.load("a")).session
    await house.store.commit(session, [Truncated(seq=session.seq + 1, at=NOW, after_seq=1)])
    await house.store.save("a")
    assert path.is_symlink()
    assert b"word 2" not in real.read_bytes()


async def test_a_deleted_file_is_the_users_will(house):
    """The session vanishes, and what was known is in the trash, unsaved words included."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    await house.store.commit(session, [appended(3)])
    os.remove(house.store.file_path("a"))
    await house.store.look_at("a")
    await asyncio.sleep(0)
    assert isinstance(house.events[-1], Vanished)
    with pytest.raises(SessionNotFound):
        await house.store.load("a")
    restored = (await house.store.restore("a", "a")).session
    assert texts(restored) == ["word 1", "word 2", "word 3"]


async def test_delete_and_restore_bring_back_every_byte(house):
    """Even a line that nobody understood."""
    await begun(house.store, "a", 2)
    await house.store.save("a")
    path = Path(house.store.file_path("a"))
    path.write_bytes(path.read_bytes() + b"strange\n")
    await house.store.look_at("a")
    before = path.read_bytes()
    await house.store.delete("a", permanent=False)
    assert not path.exists()
    assert [one.trash_id for one in await house.store.trash()] == ["a"]
    await house.store.restore("a", "a")
    assert path.read_bytes() == before
    assert await house.store.trash() == []


async def test_restore_refuses_an_id_in_use(house):
    """The trash keeps what cannot come back."""
    await begun(house.store, "a", 1)
    await house.store.delete("a", permanent=False)
    await begun(house.store, "a", 2)
    with pytest.raises(AlreadyExists):
        await house.store.restore("a", "a")
    assert [one.trash_id for one in await house.store.trash()] == ["a"]


async def test_a_permanent_delete_leaves_no_byte(house):
    """Neither in the store, nor in the trash, nor in the journal."""
    session = await house.store.begin("a", NOW)
    from tests.store.conftest import created

    await house.store.commit(session, [created()])
    await house.store.commit(session, [Appended.of([message(1, "unforgettable-secret")], NOW)])
    await house.store.save("a")
    await house.store.delete("a", permanent=True)
    for folder, _, names in os.walk(house.home):
        for name in names:
            assert b"unforgettable-secret" not in Path(folder, name).read_bytes(), name


async def test_a_write_between_our_look_and_our_rename_is_merged(house):
    """Somebody who holds the displaced inode and writes to it after our look loses nothing."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    path = house.store.file_path("a")

    class Sneaky(RealFileSystem):
        done = False

        def replace(self, source: str, target: str) -> None:
            if target == path and not self.done:
                self.done = True
                handle = open(path, "ab")  # noqa: SIM115
                super().replace(source, target)
                handle.write(b'{"role":"user","content":"sneaked in"}\n')
                handle.close()
                return
            super().replace(source, target)

    house.store._files.fs = Sneaky()
    await house.store.commit(session, [Truncated(seq=3, at=NOW, after_seq=1)])
    await house.store.save("a")
    merged = (await house.store.load("a")).session
    assert "sneaked in" in texts(merged)
    assert "word 2" not in texts(merged)
    assert [name for name in os.listdir(house.folder) if name.startswith(".") and name != ".sessiond"] == []


async def test_an_edit_of_the_same_length_right_before_a_save_is_merged(house):
    """The overwritten text is in the session after the save that found it, followed by what waited."""
    session = await begun(house.store, "a", 2)
    await house.store.save("a")
    path = Path(house.store.file_path("a"))
    await house.store.commit(session, [appended(3)])
    path.write_bytes(path.read_bytes().replace(b"word 1", b"w0rd 1"))
    await house.store.save("a")
    loaded = await house.store.load("a")
    assert texts(loaded.session) == ["w0rd 1", "word 2", "word 3"]
    assert texts((await (await reopened(house)).store.load("a")).session) == ["w0rd 1", "word 2", "word 3"]


@pytest.mark.parametrize("fmt", ["jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl"])
async def test_a_save_whose_mark_was_lost_is_told_to_the_journal_again(tmp_path, fmt):
    """A crash between the file and the mark costs nothing, and does not keep the journal for that session for ever."""
    house = House(RealFileSystem(), str(tmp_path), fmt)
    await house.open()
    await begun(house.store, "session-1", 2)
    house.journal.note_saved = lambda *_: None
    await house.store.save("session-1")
    again = await reopened(house)
    assert again.journal.pending
    assert await again.store.save("session-1") is None
    once_more = await reopened(again)
    assert not once_more.journal.pending
    loaded = (await once_more.store.load("session-1")).session
    assert texts(loaded) == ["word 1", "word 2"]


async def test_a_damaged_entry_does_not_hide_the_rest_of_the_trash(house):
    """It is left out of the list, refused with its path, and nothing of it is written over by a later deletion."""
    for name in ("a", "b"):
        await begun(house.store, name, 1)
        await house.store.delete(name, permanent=False)
    entry = Path(house.home) / "trash/default/a"
    (entry / "meta.json").write_bytes(b"\0\0")
    kept = (entry / "session.jsonl").read_bytes()
    assert [one.trash_id for one in await house.store.trash()] == ["b"]
    with pytest.raises(BadFile):
        await house.store.restore("a", "a")
    await begun(house.store, "a", 2)
    await house.store.delete("a", permanent=False)
    assert sorted(one.trash_id for one in await house.store.trash()) == ["a", "b"]
    assert (Path(house.home) / "trash/default/a.was-0/session.jsonl").read_bytes() == kept


async def test_no_folder_is_listed_for_one_session(house):
    """Making, loading, saving and asking for a session look at its own names only, however many others there are."""
    listed = []

    class Counting(RealFileSystem):
        def list_dir(self, path: str) -> list[str]:
            listed.append(path)
            return super().list_dir(path)

    house.store._files.fs = Counting()
    await begun(house.store, "a", 2)
    await house.store.save("a")
    await house.store.release("a")
    await house.store.load("a")
    await house.store.look_at("a")
    assert not await house.store.exists("b")
    assert listed == []
