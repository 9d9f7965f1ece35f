"""One record, one header: to bytes and back; nothing else is taken for one."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal.record import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    SEGMENT_HEADER_BYTES,
    Record,
    RecordEntry,
    RecordKind,
    SegmentHeader,
    check_entry,
    decode_record,
    decode_segment_header,
    encode_record,
    encode_segment,
    encode_segment_header,
)
from sessiond.journal.scanner import scan
from tests.journal.builders import HEADER, changes, saved

_DOCUMENT = Path(__file__).parents[2] / "docs" / "formats" / "journal.md"

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
entries = st.builds(
    RecordEntry,
    st.sampled_from([RecordKind.CHANGES, RecordKind.SAVED, RecordKind.GONE]),
    names,
    names,
    st.integers(0, 2**64 - 1),
    st.binary(max_size=200),
)
records = st.builds(Record, st.integers(1, 2**64 - 1), entries, st.integers(0, 2**32 - 1))
seeds = st.integers(0, 2**32 - 1)


@given(records, seeds, st.binary(max_size=50), st.binary(max_size=50))
def test_a_record_comes_back(record: Record, seed: int, before: bytes, after: bytes) -> None:
    """Whatever a record holds and wherever it stands, it is read as it was written, and its end is known."""
    encoded = encode_record(record, seed)
    assert decode_record(before + encoded + after, len(before), seed) == (record, len(before) + len(encoded))


@given(records, seeds, st.data())
def test_one_wrong_bit_is_seen(record: Record, seed: int, data: st.DataObject) -> None:
    """A record with any one bit flipped is not a record."""
    encoded = bytearray(encode_record(record, seed))
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    assert isinstance(decode_record(bytes(encoded), 0, seed), str)


@given(records, seeds, st.data())
def test_a_cut_record_is_none(record: Record, seed: int, data: st.DataObject) -> None:
    """A record whose end is missing is not a record, wherever it is cut."""
    encoded = encode_record(record, seed)
    assert isinstance(decode_record(encoded[: data.draw(st.integers(0, len(encoded) - 1))], 0, seed), str)


@given(records, st.lists(seeds, min_size=2, max_size=2, unique=True))
def test_a_record_of_another_segment_is_none(record: Record, two: list[int]) -> None:
    """The same bytes under another segment's seed are not a record."""
    assert isinstance(decode_record(encode_record(record, two[0]), 0, two[1]), str)


@given(st.binary(max_size=300), st.integers(0, 300), seeds)
def test_any_bytes_are_read_without_harm(data: bytes, offset: int, seed: int) -> None:
    """Bytes that are not a record give a short reason, never an exception."""
    assert isinstance(decode_record(data, offset, seed), str)
    assert decode_segment_header(data) is None


def test_zeros_are_no_record() -> None:
    """A stretch of zeros, as after a crash, is neither a record nor a header."""
    assert isinstance(decode_record(bytes(4096), 0, 0), str)
    assert decode_segment_header(bytes(4096)) is None


def _with_length(length: int) -> bytes:
    rest = struct.pack("<IIQQIBBH", length, 0, 1, 1, 0, 1, 1, 1)
    return b"\xffREC" + struct.pack("<I", crc32(rest, 7)) + rest


def test_a_length_is_bounded_before_it_is_used() -> None:
    """A header that claims more than the format allows, or less than its names, is refused although its sum is right."""
    assert decode_record(_with_length(MAX_BODY_BYTES + 1), 0, 7) == "bad length"
    assert decode_record(_with_length(2**32 - 1), 0, 7) == "bad length"
    assert decode_record(_with_length(0), 0, 7) == "bad length"
    assert decode_record(_with_length(1) + b"x" * 10, 0, 7) == "bad length"
    assert decode_record(_with_length(MAX_BODY_BYTES), 0, 7) == "short body"


def test_an_unknown_kind_is_no_record() -> None:
    """A record of a kind that this version does not know is not taken for something else."""
    rest = struct.pack("<IIQQIBBH", 2, crc32(b"ss", 7), 1, 1, 0, 9, 1, 1)
    raw = b"\xffREC" + struct.pack("<I", crc32(rest, 7)) + rest + b"ss"
    assert decode_record(raw, 0, 7) == "unknown kind or bad name"


def test_what_cannot_be_recorded_is_said_before() -> None:
    """Names and numbers that do not fit into a record are refused at the door."""
    assert check_entry(changes("s", 1)) is None
    assert check_entry(changes("s", 2**64)) == "seq out of range"
    assert check_entry(changes("", 1)) == "no session named"
    assert check_entry(changes("s", 1, store="x" * 256)) == "name too long"
    assert check_entry(changes("s" * 65_536, 1)) == "name too long"
    assert check_entry(changes("s", 1, b"x" * MAX_BODY_BYTES)) == "payload too long"


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.data())
def test_a_segment_header_comes_back_or_is_none(id_: bytes, number: int, lsn: int, data: st.DataObject) -> None:
    """A segment header is read as it was written; with a flipped bit, or cut, it is invalid."""
    header = SegmentHeader(id_, number, lsn)
    encoded = encode_segment_header(header)
    assert len(encoded) == SEGMENT_HEADER_BYTES
    assert decode_segment_header(encoded + b"more") == header
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    broken = bytearray(encoded)
    broken[bit // 8] ^= 1 << bit % 8
    assert decode_segment_header(bytes(broken)) is None
    assert decode_segment_header(encoded[: data.draw(st.integers(0, len(encoded) - 1))]) is None


def test_another_version_is_told_from_damage() -> None:
    """A sound header of a version that is not ours gives that version, so that nobody mends what is not broken."""
    rest = struct.pack("<I16sQQ", 2, b"x" * 16, 1, 1)
    assert decode_segment_header(b"sessiond" + struct.pack("<I", crc32(rest)) + rest) == 2


def test_records_taken_out_leave_no_hole() -> None:
    """A segment written again without some of its records reads without a gap and still counts their lsns."""
    kept = [Record(12, changes("a", 1)), Record(15, changes("a", 2))]
    found = scan(encode_segment(SegmentHeader(b"i" * 16, 3, 10), kept, 20), SegmentHeader(b"i" * 16, 3, 10), last=True)
    assert [record for record in found.records if record.entry.kind is not RecordKind.VOID] == kept
    assert [(record.first_lsn, record.lsn) for record in found.records] == [
        (10, 11),
        (12, 12),
        (13, 14),
        (15, 15),
        (16, 20),
    ]
    assert (found.gaps, found.last_lsn) == ([], 20)


def test_the_document_shows_the_real_bytes() -> None:
    """The journal in docs/formats/journal.md is byte for byte what the code writes and reads."""
    lines = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} ?)+)", _DOCUMENT.read_text(), re.MULTILINE)
    data = bytes.fromhex("".join(lines))
    shown = [changes("demo", 1, b'[{"kind":"updated","seq":1}]'), changes("a", 7, store="lisp"), saved("demo", 1)]
    assert decode_segment_header(data) == HEADER
    found = scan(data, HEADER, last=True)
    assert found.gaps == []
    assert [record.entry for record in found.records] == shown
    assert [record.back for record in found.records] == [0, 79, 0]
    assert encode_segment_header(HEADER) + b"".join(encode_record(r, HEADER.seed) for r in found.records) == data
    assert (SEGMENT_HEADER_BYTES, HEADER_BYTES) == (0x30, 0x28)
