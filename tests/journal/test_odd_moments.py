"""What the journal does at rare moments: damage that a purge finds, a folder that cannot be created, a caller that was cancelled."""

from __future__ import annotations

import asyncio
import errno

import pytest

from sessiond.errors import Indeterminate, ReadOnly
from sessiond.journal import JournalWriter
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from tests.fakes.crashfs import CrashFS
from tests.journal.builders import changes

LIMITS = Limits(reserve_bytes=0, segment_bytes=400)


async def test_a_purge_that_meets_damage_keeps_what_is_others() -> None:
    """Rotten bytes in a closed segment are kept aside unless they name the session that is to go for ever."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    for number in range(4):
        await writer.commit("default", "secret", number + 1, b"secret words %d" % number)
        await writer.commit("default", "other", number + 1, b"other words %d" % number)
    first = "/data/journal/00000001.journal"
    content = fs.read(first)
    for words in (b"other words 0", b"secret words 2"):
        content = content.replace(words, words.upper())
    fs.poke(first, content)
    await writer.purge("default", "secret")
    everything = b"".join(fs.tree().values()).lower()
    assert b"secret words" not in everything
    assert b"OTHER WORDS 0" in b"".join(data for path, data in fs.tree().items() if "/damaged/" in path)
    await writer.close()


def test_a_purge_leaves_alone_what_only_names_the_session() -> None:
    """Another session's words may hold its name: that segment is not written again, for nothing of it is to go."""
    fs = CrashFS()
    segments = Segments(fs, "/data/journal", LIMITS, lambda: 0.0)
    segments.recover(lambda: b"j" * 16)
    segments.write([changes("other", 1, b"words about secret")], sync=True)
    segments.rotate()
    segments.write([changes("secret", 1, b"words")], sync=True)
    first = "/data/journal/00000001.journal"
    before, made = fs.read(first), fs.stat(first)
    assert made is not None
    segments.purge("default", "secret")
    after = fs.stat(first)
    assert after is not None
    assert (after.ino, fs.read(first)) == (made.ino, before)
    assert b"secret" not in b"".join(data for path, data in fs.tree().items() if path != first)


def test_a_folder_that_cannot_be_made_is_an_error() -> None:
    """A file in its place: the daemon does not start, and says why."""
    fs = CrashFS()
    fs.make_dirs("/data")
    fs.append("/data/journal", b"a file")
    with pytest.raises(OSError, match=r".") as told:
        Segments(fs, "/data/journal/below", LIMITS, lambda: 0.0).recover(lambda: b"j" * 16)
    assert told.value.errno in (errno.ENOTDIR, errno.EEXIST)


async def test_a_name_that_is_none_is_a_mistake_of_the_caller() -> None:
    """It is refused before anything is written."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    with pytest.raises(ValueError, match="no session named"):
        writer.commit("default", "", 1, b"x")
    with pytest.raises(ValueError, match="out of range"):
        writer.commit("default", "a", -1, b"x")
    assert writer.lsn == 0
    await writer.close()


async def test_who_left_is_not_answered() -> None:
    """A commit and an order whose callers gave up are done nevertheless, and when they fail nobody is told twice."""
    fs = CrashFS()
    writer, _ = await JournalWriter.recover(fs, "/data/journal", LIMITS)
    first = writer.commit("default", "a", 1, b"x")
    first.cancel()
    waiting = asyncio.ensure_future(writer.rotate_and_trim())
    await asyncio.sleep(0)
    waiting.cancel()
    assert await writer.commit("default", "a", 2, b"y") == 2
    fs.fail("sync", errno.EIO)
    lost = writer.commit("default", "a", 3, b"z")
    lost.cancel()
    with pytest.raises((Indeterminate, ReadOnly)):
        await writer.commit("default", "a", 4, b"z")
    await writer.close()
