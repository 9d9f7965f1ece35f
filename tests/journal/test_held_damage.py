"""Held changes on a disk that decays under a running journal, or that a crash left halfway: nothing that was pending is lost, and
nothing that ended comes back.
"""

from __future__ import annotations

import errno

import pytest

from sessiond.journal.record import SEGMENT_HEADER_BYTES
from tests.fakes.crashfs import CrashFS
from tests.journal.builders import changes, gone, saved
from tests.journal.test_held import FOLDER, held, opened, opened_only, pending

FIRST = f"{FOLDER}/00000001.journal"
HELD = "/data/held/00000001.held"
RECORD = b"\xffREC"
"""Where a record begins."""


def flip(fs: CrashFS, path: str, place: int) -> None:
    data = bytearray(fs.read(path))
    data[place] ^= 1
    fs.poke(path, bytes(data))


def crashed_in_between(*, ended: bool) -> CrashFS:
    """The changes of x were moved out of the first segment, and the disk still has that segment too, whose mark that `a` is
    saved has decayed: what was moved is not all that has to be moved. `ended`: of x the segment has an earlier change and its
    mark, which has decayed too.
    """
    fs = CrashFS()
    segments, _ = opened(fs)
    if ended:
        segments.write([changes("x", 1, b"<first of x>"), saved("x", 1)], sync=True)
    segments.write([changes("x", 2, b"<words of x>"), changes("a", 1, b"<words of a>"), saved("a", 1)], sync=True)
    whole = bytearray(fs.read(FIRST))
    assert segments.hold_back()
    marks = [place for place in range(len(whole)) if whole.startswith(RECORD, place)]
    for number in (1, len(marks) - 1) if ended else (len(marks) - 1,):
        whole[marks[number] + 6] ^= 1
    fs.create(FIRST, bytes(whole))
    assert held(fs) == [HELD]
    return fs


def test_13_what_was_moved_before_a_crash_is_still_there_when_the_rest_is_moved() -> None:
    """The second move adds to the file of the first, and the file goes when its last change is saved, not before."""
    fs = crashed_in_between(ended=False)
    segments, contents = opened(fs)
    assert pending(contents) == {("default", "x"): [2], ("default", "a"): [1]}
    assert segments.hold_back()
    assert pending(opened_only(fs)) == {("default", "x"): [2], ("default", "a"): [1]}
    segments.write([saved("a", 1)], sync=True)
    segments.trim()
    assert held(fs) == [HELD]
    assert pending(opened_only(fs)) == {("default", "x"): [2]}
    segments.write([saved("x", 2)], sync=True)
    segments.trim()
    assert held(fs) == []


def test_13_a_session_that_is_moved_twice_is_counted_once() -> None:
    """Its later change decides when the file may go: not with the mark of its earlier one, and not after a restart only."""
    fs = crashed_in_between(ended=True)
    segments, contents = opened(fs)
    assert pending(contents) == {("default", "x"): [2, 1], ("default", "a"): [1]}
    assert segments.hold_back()
    assert pending(opened_only(fs)) == {("default", "x"): [1, 2], ("default", "a"): [1]}
    segments.write([saved("x", 1), saved("a", 1)], sync=True)
    segments.trim()
    assert pending(opened_only(fs)) == {("default", "x"): [2]}
    segments.write([saved("x", 2)], sync=True)
    segments.trim()
    assert held(fs) == []


@pytest.mark.parametrize("damage", ["decayed", "unreadable"])
def test_13_a_held_file_that_cannot_be_read_is_not_written_over(damage: str) -> None:
    """What the rest of it holds would be lost. The segment waits for the next start."""
    fs = crashed_in_between(ended=False)
    if damage == "unreadable":
        fs.fail("read", errno.EIO, path=HELD)
    segments, _ = opened(fs)
    if damage == "decayed":
        flip(fs, HELD, SEGMENT_HEADER_BYTES + 8)
    before = fs.read(HELD)
    assert not segments.hold_back()
    assert fs.read(HELD) == before
    found = pending(opened_only(fs))
    assert found[("default", "a")] == [1]
    assert found[("default", "x")] == [2], "of a damaged file the segment still has it"


@pytest.mark.parametrize("place", [0, SEGMENT_HEADER_BYTES + 8])
def test_13_a_segment_that_decays_is_not_moved(place: int) -> None:
    """In its header or in a record: it stays as it is, and the next start says what is lost and has the rest."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("x", seq, b"<words of x>") for seq in (1, 2)], sync=True)
    segments.rotate()
    flip(fs, FIRST, place)
    before = fs.read(FIRST)
    assert not segments.hold_back()
    assert held(fs) == []
    assert fs.read(FIRST) == before
    again, contents = opened(fs)
    assert pending(contents)[("default", "x")] == ([1, 2] if place == 0 else [2])
    assert len(again.losses()) == 1


def test_13_a_decayed_segment_with_the_mark_of_what_is_held_stays() -> None:
    """Two sessions are held and one of them is deleted. While the mark cannot be read and so not be carried out, it is not
    removed either: the deleted session does not come back.
    """
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("x", 1, b"<x>"), changes("y", 1, b"<y>")], sync=True)
    segments.hold_back()
    segments.write([gone("x"), changes("a", 1, b"<words of a>"), saved("a", 1)], sync=True)
    segments.rotate()
    second = f"{FOLDER}/00000002.journal"
    flip(fs, second, fs.read(second).index(b"<words of a>"))
    segments.trim()
    assert fs.has_name(second)
    assert pending(opened(fs)[1]) == {("default", "y"): [1]}
