"""What is still read from a damaged segment, and what is reported about the rest."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal.record import SEGMENT_HEADER_BYTES, RecordEntry, SegmentHeader
from sessiond.journal.scanner import Scan, scan
from tests.journal.builders import HEADER, changes, saved, segment

entries = st.builds(changes, st.sampled_from("abc"), st.integers(1, 9), st.binary(max_size=60))
batches = st.lists(st.lists(entries, min_size=1, max_size=3), min_size=1, max_size=5)


def _entries(found: Scan) -> list[RecordEntry]:
    return [record.entry for record in found.records]


@given(batches)
def test_a_sound_segment_gives_all_its_records(given_batches: list[list[RecordEntry]]) -> None:
    """The writer's records are read in order, without any gap."""
    data, _ = segment(given_batches)
    found = scan(data, HEADER, last=True)
    assert _entries(found) == [entry for batch in given_batches for entry in batch]
    assert found.gaps == []
    assert found.last_lsn == len(found.records)


@given(st.binary(max_size=500), st.booleans())
def test_any_bytes_give_a_scan(data: bytes, last: bool) -> None:
    """Bytes that are not journal give no record, and every one of them is accounted for."""
    found = scan(data, HEADER, last=last)
    assert found.records == []
    assert [(gap.start, gap.end) for gap in found.gaps] == (
        [(SEGMENT_HEADER_BYTES, len(data))] if len(data) > SEGMENT_HEADER_BYTES else []
    )


@given(batches, st.data())
def test_a_cut_segment_gives_the_records_before_the_cut(
    given_batches: list[list[RecordEntry]], data: st.DataObject
) -> None:
    """Cut anywhere, the last segment gives all records that are whole, and the rest is torn, never corrupt."""
    raw, offsets = segment(given_batches)
    cut = data.draw(st.integers(SEGMENT_HEADER_BYTES, len(raw)))
    found = scan(raw[:cut], HEADER, last=True)
    ends = [*offsets[1:], len(raw)]
    whole = sum(1 for end in ends if end <= cut)
    assert _entries(found) == [entry for batch in given_batches for entry in batch][:whole]
    assert [gap for gap in found.gaps if not gap.torn] == []
    assert bool(found.gaps) == (cut not in (SEGMENT_HEADER_BYTES, *ends))


@given(batches, st.data())
def test_a_turned_bit_is_never_passed_over(given_batches: list[list[RecordEntry]], data: st.DataObject) -> None:
    """One wrong bit costs the one record that it is in; the others are given, and the gap is told: corruption where a
    later record proves that it was synced, else torn; in a segment that is not the last always corruption.
    """
    raw, offsets = segment(given_batches)
    bit = data.draw(st.integers(SEGMENT_HEADER_BYTES * 8, len(raw) * 8 - 1))
    broken = bytearray(raw)
    broken[bit // 8] ^= 1 << bit % 8
    hit = max(place for place, offset in enumerate(offsets) if offset <= bit // 8)
    everything = [entry for batch in given_batches for entry in batch]
    for last in (True, False):
        found = scan(bytes(broken), HEADER, last=last)
        assert _entries(found) == everything[:hit] + everything[hit + 1 :]
        assert [gap.start for gap in found.gaps] == [offsets[hit]]
        in_last_batch = hit >= len(everything) - len(given_batches[-1])
        assert found.gaps[0].torn == (last and in_last_batch)


@given(batches, st.binary(min_size=1, max_size=80))
def test_a_torn_end_is_no_corruption(given_batches: list[list[RecordEntry]], end: bytes) -> None:
    """Whatever a crash leaves behind the last record is torn, but for zeros: they are room for more."""
    raw, _ = segment(given_batches)
    found = scan(raw + end, HEADER, last=True)
    assert _entries(found) == [entry for batch in given_batches for entry in batch]
    gaps = [(len(raw), len(raw) + len(end), True)] if any(end) else []
    assert [(gap.start, gap.end, gap.torn) for gap in found.gaps] == gaps


@pytest.mark.parametrize("length", [1, 39, 40, 41, 5000])
def test_zeros_at_the_end_are_room(length: int) -> None:
    """In the last segment alone, and not where a record is known to have been there."""
    raw, _ = segment([[changes("a", 1)]])
    found = scan(raw + bytes(length), HEADER, last=True)
    assert (found.gaps, found.end, len(found.records)) == ([], len(raw), 1)
    known = scan(raw + bytes(length), HEADER, last=True, durable=2)
    assert [gap.torn for gap in known.gaps] == [False]
    closed = scan(raw + bytes(length), HEADER, last=False)
    assert [gap.torn for gap in closed.gaps] == [False]


def test_a_reordered_batch_is_torn() -> None:
    """When of one batch the first block did not reach the disk and the second did, that is a crash, not corruption."""
    raw, offsets = segment([[changes("a", 1)], [changes("a", 2, b"x" * 50), changes("b", 1)]])
    holed = raw[: offsets[1]] + bytes(offsets[2] - offsets[1]) + raw[offsets[2] :]
    found = scan(holed, HEADER, last=True)
    assert [gap.torn for gap in found.gaps] == [True]
    assert _entries(found) == [changes("a", 1), changes("b", 1)]


def test_the_same_hole_before_a_later_batch_is_corruption() -> None:
    """As soon as anything was written after its sync, the same hole is a loss, and is reported as one."""
    raw, offsets = segment([[changes("a", 1)], [changes("a", 2), changes("b", 1)], [saved("a", 2)]])
    holed = raw[: offsets[1]] + bytes(offsets[2] - offsets[1]) + raw[offsets[2] :]
    assert [gap.torn for gap in scan(holed, HEADER, last=True).gaps] == [False]


def test_a_record_is_never_given_twice() -> None:
    """A copy of older records behind the newer ones, as a block that was used before, is not taken for new ones."""
    raw, offsets = segment([[changes("a", 1)], [changes("a", 2)]])
    found = scan(raw + raw[offsets[0] :], HEADER, last=True)
    assert [record.lsn for record in found.records] == [1, 2]
    assert [gap.reason for gap in found.gaps] == ["lsn goes back"]


def test_missing_records_are_told() -> None:
    """Lsns that do not follow on the segment before, or on each other, are a gap even where no byte is broken."""
    raw, offsets = segment([[changes("a", 1)], [changes("a", 2)], [changes("a", 3)]], SegmentHeader(b"i" * 16, 2, 11))
    header = SegmentHeader(b"i" * 16, 2, 11)
    assert scan(raw, header, last=False, after=10).gaps == []
    (before,) = scan(raw, header, last=False, after=7).gaps
    assert (before.reason, before.torn) == ("records 8 to 10 are missing", False)
    (inside,) = scan(raw[: offsets[1]] + raw[offsets[2] :], header, last=True, after=10).gaps
    assert (inside.reason, inside.torn) == ("records 12 to 12 are missing", False)


def test_hostile_bytes_cost_no_more_than_they_weigh() -> None:
    """A megabyte of false markers is scanned about as fast as a megabyte of anything, not in its square."""
    raw, _ = segment([[changes("a", 1)]])
    began = time.process_time()
    found = scan(raw + b"\xffREC" * 100_000, HEADER, last=True)
    assert len(found.records) == 1
    assert time.process_time() - began < 2
