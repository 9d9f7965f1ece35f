"""Room that the last segment takes ahead of its records."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from sessiond.errors import Indeterminate, ReadOnly
from sessiond.fs import RealFileSystem
from sessiond.journal.record import SEGMENT_HEADER_BYTES
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from tests.fakes.crashfs import CrashFS
from tests.journal.builders import ID, changes
from tests.journal.test_segments import FIRST, opened

STEP = 4096


def record_bytes(fs: CrashFS, path: str) -> bytes:
    return fs.read(path).rstrip(b"\0")


def test_records_fill_the_room_and_the_file_keeps_its_length() -> None:
    """One step serves many records; a new one is taken when it is used up."""
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=STEP)
    lengths = []
    for number in range(1, 60):
        segments.write([changes("a", number, b"x" * 50)], sync=True)
        lengths.append(len(fs.read(FIRST)))
    assert set(lengths) == {STEP, 2 * STEP}
    assert fs.trace.count("reserve 00000001.journal") == 2
    assert segments.total_bytes == len(record_bytes(fs, FIRST))


@pytest.mark.parametrize("seed", range(30))
def test_a_file_that_is_cut_or_longer_anywhere_in_its_room_is_whole(seed: int) -> None:
    """After a kill the room may have any length: nothing is lost, nothing is wrong, and the next start ends it at its records."""
    rng = random.Random(seed)
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=rng.choice((1, 100, STEP)))
    count = rng.randrange(1, 30)
    for number in range(1, count + 1):
        segments.write([changes("a", number, b"x" * rng.randrange(90))], sync=True)
    whole = fs.read(FIRST)[: segments.total_bytes]
    fs.revive()
    fs.poke(FIRST, whole + bytes(rng.randrange(2 * STEP)))
    _, contents = opened(fs, segment_step_bytes=1)
    assert contents.damage == []
    assert [record.entry.seq for _, record in contents.records] == list(range(1, count + 1))
    assert fs.read(FIRST) == whole


def test_a_closed_segment_has_no_room() -> None:
    """Zeros in it would be damage: something that was synced is gone."""
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=STEP)
    segments.write([changes("a", 1)], sync=True)
    segments.rotate()
    segments.write([changes("a", 2)], sync=True)
    assert fs.read(FIRST) == record_bytes(fs, FIRST)
    segments.close()
    assert sum(map(len, fs.tree().values())) == segments.total_bytes + 52, "the hint has 52"
    _, contents = opened(fs)
    assert contents.damage == []


def test_without_room_it_grows_record_by_record() -> None:
    """A disk that has no room for a step has some for a record; nothing is refused before that."""
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=STEP)
    fs.capacity = fs.used() + 1000
    for number in range(1, 4):
        segments.write([changes("a", number)], sync=True)
    assert segments.state is None
    assert fs.read(FIRST) == record_bytes(fs, FIRST)
    assert fs.trace.count("reserve 00000001.journal") == 1


def test_a_sync_of_the_room_that_fails_is_final() -> None:
    """As any sync that fails. What was acknowledged is there, and nothing of what was asked."""
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=300)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("sync", errno.EIO)
    with pytest.raises(ReadOnly):
        segments.write([changes("a", 2, b"x" * 170)], sync=True)
    assert segments.state is not None
    assert segments.state.final
    for image in fs.crash_images():
        _, contents = opened(image)
        assert [record.entry.seq for _, record in contents.records] == [1]


def test_on_a_real_disk(tmp_path: Path) -> None:
    """The same with real files: written into the room, cut at the end, also where the disk refuses the room halfway."""
    folder = str(tmp_path / "journal")
    segments = Segments(RealFileSystem(), folder, Limits(reserve_bytes=0, segment_step_bytes=STEP), lambda: 0.0)
    segments.recover(lambda: ID)
    first = f"{folder}/00000001.journal"
    for number in range(1, 4):
        segments.write([changes("a", number)], sync=True)
    assert os.path.getsize(first) == STEP
    segments.rotate()
    assert os.path.getsize(first) == segments.total_bytes - SEGMENT_HEADER_BYTES
    with pytest.MonkeyPatch.context() as patch:
        write = os.pwrite

        def half(fd: int, data: bytes, offset: int) -> int:
            if offset >= 2000 and not any(data):
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(fd, data[: max(1, len(data) // 2)] if not any(data) else data, offset)

        patch.setattr(os, "pwrite", half)
        segments.write([changes("a", 4)], sync=True)
        second = f"{folder}/00000002.journal"
        assert not Path(second).read_bytes().endswith(bytes(100))
        segments.write([changes("a", 5)], sync=True)
    segments.close()
    again = Segments(RealFileSystem(), folder, Limits(reserve_bytes=0), lambda: 0.0)
    contents = again.recover(lambda: ID)
    assert contents.damage == []
    assert [record.entry.seq for _, record in contents.records] == [1, 2, 3, 4, 5]
    again.close()


def test_a_journal_that_has_failed_is_not_rotated() -> None:
    """Its failed sync would be tried again, and what it left would be in a closed segment."""
    fs = CrashFS()
    segments, _ = opened(fs, segment_step_bytes=STEP)
    segments.write([changes("a", 1)], sync=True)
    fs.fail("sync", errno.EIO)
    with pytest.raises(Indeterminate):
        segments.write([changes("a", 2)], sync=True)
    steps = fs.steps
    with pytest.raises(ReadOnly):
        segments.rotate()
    assert fs.steps == steps


def test_a_journal_that_is_not_mended_is_mended_before_it_is_rotated() -> None:
    """It has no segment to write to yet. As long as the disk has no room for that, it says so, and continues afterwards."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("a", 1)], sync=True)
    fs.revive()
    fs.fail("make", errno.ENOSPC, times=2)
    segments, _ = opened(fs)
    with pytest.raises(ReadOnly):
        segments.rotate()
    assert segments.state is not None
    assert not segments.state.final
    segments.rotate()
    assert segments.write([changes("a", 2)], sync=True) == 2
