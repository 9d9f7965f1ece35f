"""Changes that cannot be saved for long are moved out of the journal; none of them is lost, doubled or comes back."""

from __future__ import annotations

import random

import pytest

from sessiond.journal import Key
from sessiond.journal.record import SEGMENT_HEADER_BYTES
from sessiond.journal.recovery import Contents, read_journal
from sessiond.journal.replay import replay
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from tests.fakes.crashfs import CrashFS
from tests.journal.builders import ID, changes, gone, saved

FOLDER = "/data/journal"
LIMITS = Limits(segment_bytes=400, reserve_bytes=32)
AWAY = ("x", "y")
"""Sessions that can be saved seldom."""


def opened(fs: CrashFS) -> tuple[Segments, Contents]:
    segments = Segments(fs, FOLDER, LIMITS, lambda: 0.0)
    return segments, segments.recover(lambda: ID)


def pending(contents: Contents) -> dict[Key, list[int]]:
    found = replay(record for _, record in contents.records)
    return {key: [record.entry.seq for record in records] for key, records in found.items()}


def held(fs: CrashFS) -> list[str]:
    return [path for path in fs.tree() if path.startswith("/data/held/")]


def filled(fs: CrashFS) -> Segments:
    """One change of x that nobody can save, and a journal that has gone on since."""
    segments, _ = opened(fs)
    segments.write([changes("x", 1, b"<words of x>")], sync=True)
    for seq in range(1, 30):
        segments.write([changes("a", seq, b"<a>" * 20)], sync=True)
    segments.write([saved("a", 29)], sync=True)
    return segments


def test_13_one_change_that_cannot_be_saved_does_not_keep_the_journal() -> None:
    """It is in a separate file, all else is trimmed, and the next start finds it."""
    fs = CrashFS()
    segments = filled(fs)
    segments.trim()
    before = segments.total_bytes
    assert before > 2000
    assert segments.oldest_pending() == [("default", "x")]
    assert segments.hold_back()
    assert segments.total_bytes < 500
    assert segments.oldest_pending() == []
    assert held(fs) == ["/data/held/00000001.held"]
    _, contents = opened(fs)
    assert pending(contents) == {("default", "x"): [1]}
    assert contents.damage == []


@pytest.mark.parametrize("mark", [saved("x", 1), gone("x")])
def test_13_a_held_file_goes_with_its_last_change(mark) -> None:
    """Saved or deleted, nothing of it is left, now or after a restart."""
    fs = CrashFS()
    segments = filled(fs)
    segments.hold_back()
    segments.write([mark], sync=True)
    segments.trim()
    assert held(fs) == []
    assert pending(opened(fs)[1]) == {}


def test_13_what_ended_does_not_come_back_when_its_mark_is_trimmed() -> None:
    """Two sessions share a held file. One is deleted, and the segment with the mark goes long before the file does."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("x", 1, b"<x>"), changes("y", 1, b"<y>"), changes("y", 2, b"<y>")], sync=True)
    segments.hold_back()
    segments.write([gone("x"), saved("y", 1)], sync=True)
    for seq in range(1, 30):
        segments.write([changes("a", seq, b"<a>" * 20), saved("a", seq)], sync=True)
    segments.trim()
    assert segments.total_bytes < 1000
    assert pending(opened(fs)[1]) == {("default", "y"): [2]}


def test_13_a_permanent_delete_reaches_what_is_held() -> None:
    """No byte of it is left, and what others have in the same file stays."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("xavier", 1, b"<secret>"), changes("y", 1, b"<y>")], sync=True)
    segments.hold_back()
    segments.purge("default", "xavier")
    assert not any(b"secret" in data or b"xavier" in data for data in fs.tree().values())
    assert pending(opened(fs)[1]) == {("default", "y"): [1]}


def test_13_nothing_is_moved_while_a_backup_copies() -> None:
    """The copy would have it twice, or not at all."""
    fs = CrashFS()
    segments = filled(fs)
    segments.hold()
    assert not segments.hold_back()
    assert held(fs) == []
    segments.let_go()
    assert segments.hold_back()


@pytest.mark.parametrize("seed", range(40))
def test_13_a_damaged_held_file_is_told(seed: int) -> None:
    """Whatever happens to its bytes: what was held is there, or is reported as damage, at every start until it is acknowledged."""
    rng = random.Random(f"held {seed}")
    fs = CrashFS()
    segments, _ = opened(fs)
    for seq in range(1, 6):
        segments.write([changes("x", seq, b"<x>"), changes("y", seq, b"<y>" * rng.randrange(9))], sync=True)
    segments.hold_back()
    path = rng.choice(held(fs))
    data = bytearray(fs.read(path))
    place = rng.randrange(len(data))
    match rng.choice(("flip", "cut", "zero")):
        case "flip":
            data[place] ^= 1 << rng.randrange(8)
        case "cut":
            del data[place:]
        case "zero":
            data[place:] = bytes(len(data) - place)
    intact = pending(opened(fs)[1])
    fs.poke(path, bytes(data))
    segments, contents = opened(fs)
    if pending(contents) != intact:
        assert segments.losses()
    assert [damage for damage in contents.damage if damage.torn] == []
    again, after = opened(fs)
    assert pending(after) == pending(contents)
    assert [one.path for one in again.losses()] == [one.path for one in segments.losses()]
    assert after.damage == []
    again.acknowledge()
    assert opened(fs)[0].losses() == []


def test_13_a_held_file_that_ends_too_early_is_told() -> None:
    """Cut between two records it looks whole, and is not."""
    fs = CrashFS()
    segments, _ = opened(fs)
    segments.write([changes("x", seq, b"<x>") for seq in (1, 2, 3)], sync=True)
    segments.hold_back()
    [path] = held(fs)
    data = fs.read(path)
    for _ in range(2):
        data = data[: data.rfind(b"\xffREC")]
        fs.poke(path, data)
        assert opened(fs)[0].losses()


@pytest.mark.parametrize("seed", range(60))
def test_13_any_life_with_sessions_out_of_reach(seed: int) -> None:
    """Commits, saves, deletes, moves, restarts: what is pending is what was committed and neither saved nor deleted since."""
    rng = random.Random(f"away {seed}")
    fs = CrashFS(seed=seed)
    segments, _ = opened(fs)
    seqs: dict[str, int] = {}
    due: dict[str, list[int]] = {}
    for _ in range(rng.randint(20, 120)):
        one = rng.choice(("a", "b", *AWAY))
        what = rng.random()
        if what < 0.5:
            seqs[one] = seqs.get(one, 0) + 1
            segments.write([changes(one, seqs[one], b"<w>" * rng.randrange(20))], sync=True)
            due.setdefault(one, []).append(seqs[one])
        elif what < (0.6 if one in AWAY else 0.75) and due.get(one):
            through = rng.choice(due[one])
            segments.write([saved(one, through)], sync=True)
            segments.trim()
            due[one] = [seq for seq in due[one] if seq > through]
        elif what < 0.8 and due.get(one):
            segments.write([gone(one)], sync=True)
            due.pop(one)
        elif what < 0.92:
            segments.hold_back()
        else:
            if rng.random() < 0.5:
                segments.close()
            segments, contents = opened(fs)
            assert contents.damage == []
        wanted = {("default", session): left for session, left in due.items() if left}
        assert pending(opened_only(fs)) == wanted
    while segments.hold_back():
        pass
    assert segments.oldest_pending() == []
    assert segments.total_bytes == SEGMENT_HEADER_BYTES


def opened_only(fs: CrashFS) -> Contents:
    """What the next start would find, without repairing anything."""
    return read_journal(fs, FOLDER, 8)
