"""A journal that is being copied: nothing of it is removed, writing continues, and the copy is the journal of that moment."""

from __future__ import annotations

import asyncio
import posixpath
import threading

import pytest

from sessiond.errors import Indeterminate
from sessiond.journal import JournalExtent, JournalWriter
from sessiond.journal.recovery import read_journal
from sessiond.journal.replay import replay
from sessiond.limits import Limits
from tests.fakes.crashfs import CrashFS

LIMITS = Limits(reserve_bytes=4096, segment_bytes=200)


def copy(fs: CrashFS, held: JournalExtent) -> dict[str, list[bytes]]:
    """What a daemon would find pending in a copy of these bytes."""
    fs.make_dirs("/copy")
    for path, size in held.files:
        fs.create(posixpath.join("/copy", posixpath.basename(path)), fs.read(path, 0, -1 if size is None else size))
    contents = read_journal(fs, "/copy", 8)
    assert [one for one in contents.damage if not one.torn] == []
    assert contents.last_lsn == held.lsn
    pending = replay(record for _, record in contents.records)
    return {session: [record.entry.payload for record in kept] for (_, session), kept in pending.items()}


async def test_what_is_held_stays_as_it_was() -> None:
    """Saved marks, rotations and new changes remove nothing from what is held; after `let_go`, what is not needed is removed."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    for seq in range(1, 9):
        await writer.commit("default", "a", seq, b"word %d of a" % seq)
    async with writer.held() as held:
        assert held.lsn == 8
        assert len(held.files) > 2
        writer.note_saved("default", "a", 8)
        await writer.rotate_and_trim()
        for number in range(8):
            await writer.commit("default", f"b{number}", 1, b"later")
        assert copy(fs, held) == {"a": [b"word %d of a" % seq for seq in range(1, 9)]}
    before = writer.total_bytes
    await writer.rotate_and_trim()
    assert writer.total_bytes < before
    assert fs.stat(held.files[0][0]) is None
    await writer.close()


async def test_two_may_hold_it() -> None:
    """The one that lets go first takes nothing from the other."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    for seq in range(1, 9):
        await writer.commit("default", "a", seq, b"word %d of a" % seq)
    async with writer.held() as outer:
        async with writer.held() as inner:
            assert inner == outer
        writer.note_saved("default", "a", 8)
        await writer.rotate_and_trim()
        assert fs.stat(outer.files[0][0]) is not None
    await writer.close()


async def test_a_journal_that_failed_can_be_copied() -> None:
    """After a failed sync everything acknowledged is in the copy: that is when a copy is wanted most."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    await writer.commit("default", "a", 1, b"kept")
    fs.fail("sync", 5)
    with pytest.raises(Indeterminate):
        await writer.commit("default", "a", 2, b"who knows")
    async with writer.held() as held:
        assert copy(fs, held)["a"][0] == b"kept"
    await writer.close()


async def test_who_gives_up_while_he_waits_holds_nothing() -> None:
    """A backup that is cancelled before the journal is held for it, even twice, leaves a journal that is trimmed as ever."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    for seq in range(1, 9):
        await writer.commit("default", "a", seq, b"word %d of a" % seq)
    busy = threading.Event()

    def wait() -> None:
        busy.wait(30)

    waiting = writer._order(wait)

    async def hold() -> None:
        async with writer.held():
            pytest.fail("it was cancelled before that")

    holding = asyncio.create_task(hold())
    for _ in range(2):
        await asyncio.sleep(0)
        holding.cancel()
    await asyncio.sleep(0)
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await holding
    await waiting
    before = writer.total_bytes
    writer.note_saved("default", "a", 8)
    await writer.rotate_and_trim()
    assert writer.total_bytes < before
    await writer.close()


async def test_a_journal_that_is_closed_while_it_is_held() -> None:
    """A backup at the end of the daemon's life has nothing to let go of any more."""
    writer, _ = await JournalWriter.recover(CrashFS(), "/data/journal", LIMITS)
    async with writer.held():
        await writer.close()
