"""All segments of a journal are gone, and only the note of what was synced tells of them."""

from __future__ import annotations

import errno

from sessiond.journal.segments import Segments
from tests.fakes.crashfs import CrashFS
from tests.journal.builders import changes, saved
from tests.journal.test_segments import FOLDER, names, opened


def emptied(*, all_saved: bool) -> tuple[CrashFS, Segments]:
    """A journal that has written three records, and its folder after somebody removed the segments."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("a", 1), changes("a", 2)], sync=True)
    segments.write([saved("a", 2) if all_saved else changes("a", 3)], sync=True)
    if all_saved:  # a new segment begins, and the next note is of a journal without records
        segments.rotate()
        segments.trim()
    segments.close()
    for name in names(fs):
        fs.remove(f"{FOLDER}/{name}")
    assert fs.has_name(f"{FOLDER}/synced")
    return fs, segments


def test_6_segments_that_are_all_gone_are_told_with_what_they_held() -> None:
    """It is damage and a loss of so many records, told until it is acknowledged; no lsn is given out twice."""
    fs, before = emptied(all_saved=False)
    segments, contents = opened(fs)
    assert [one.reason for one in contents.damage] == ["all segments are missing, with the records 1 to 3"]
    assert [one.records for one in segments.losses()] == [3]
    assert segments.write([changes("a", 4)], sync=True) == before.lsn + 1
    segments.close()
    again, contents = opened(fs)
    assert contents.damage == []
    assert [one.records for one in again.losses()] == [3]


def test_6_a_loss_that_is_found_again_is_told_once() -> None:
    """The disk has no room for a new segment, so the next start finds the same; what was acknowledged stays so."""
    fs, _ = emptied(all_saved=False)
    fs.fail("make", errno.ENOSPC, path=".journal")
    segments, _ = opened(fs)
    assert segments.state is not None
    [loss] = segments.losses()
    segments.acknowledge()
    again, contents = opened(fs)
    assert len(contents.damage) == 1
    assert again.losses() == []
    assert [one.path for one in contents.losses.values()] == [loss.path]


def test_6_segments_without_a_record_are_no_loss() -> None:
    """Everything was saved and trimmed before they went: nothing is told, and lsns go on."""
    fs, before = emptied(all_saved=True)
    segments, contents = opened(fs)
    assert contents.damage == []
    assert segments.losses() == []
    assert segments.write([changes("a", 3)], sync=True) == before.lsn + 1
