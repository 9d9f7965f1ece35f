"""One record and one segment header, to bytes and back. docs/formats/journal.md describes the layout.

Nothing is trusted before its sum is checked: the header's sum covers the length, so a length is bounded before anything is
sliced by it. Decoding returns what it found, or a short reason; it never raises.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from zlib import crc32

import msgspec

MAGIC = b"sessiond"
VERSION = 1
MARKER = b"\xffREC"
"""0xFF never occurs in UTF-8 text, so text is not taken for a record during the search for the next one."""
MAX_BODY_BYTES = 128 * 1024 * 1024
"""A limit of the format, not of the configuration: a record remains readable when a setting is lowered later."""
MAX_STORE_BYTES = 255
MAX_SESSION_BYTES = 65_535

_SEGMENT_REST = struct.Struct("<16sQQ")
_VERSION = struct.Struct("<I")
_HEADER = struct.Struct("<4sI")
_SYNCED = struct.Struct("<16sQQQ")
_REST = struct.Struct("<IIQQIBBH")
SEGMENT_HEADER_BYTES = 8 + 4 + 4 + _SEGMENT_REST.size
HEADER_BYTES = _HEADER.size + _REST.size


class RecordKind(enum.IntEnum):
    VOID = 0
    """Covers `seq` consecutive lsns, the last of them its own, whose records were removed."""
    CHANGES = 1
    """A batch of changes of one session; `seq` is the session's after the last of them."""
    SAVED = 2
    """Every change of the session with a seq up to this one is durable in its file."""
    GONE = 3
    """Earlier records no longer belong to the session."""


class RecordEntry(msgspec.Struct, frozen=True):
    """A record before it has a place in the journal. `payload` is opaque here; only CHANGES has one."""

    kind: RecordKind
    store: str
    session: str
    seq: int = 0
    payload: bytes = b""


class Record(msgspec.Struct, frozen=True):
    lsn: int
    entry: RecordEntry
    back: int = 0
    """How many bytes this begins after the place up to which the segment was synced when it was written."""

    @property
    def first_lsn(self) -> int:
        return self.lsn - self.entry.seq + 1 if self.entry.kind is RecordKind.VOID else self.lsn


class SegmentHeader(msgspec.Struct, frozen=True):
    journal_id: bytes
    """16 bytes, the same in all segments of a journal."""
    number: int
    first_lsn: int
    """The lsn of the first record that this segment has or will have."""

    @property
    def seed(self) -> int:
        """The start value of this segment's sums: a record of another journal or segment is not valid here."""
        return crc32(_SEGMENT_REST.pack(self.journal_id, self.number, 0))


def encode_segment_header(header: SegmentHeader) -> bytes:
    rest = _VERSION.pack(VERSION) + _SEGMENT_REST.pack(header.journal_id, header.number, header.first_lsn)
    return MAGIC + _VERSION.pack(crc32(rest)) + rest


def decode_segment_header(data: bytes) -> SegmentHeader | int | None:
    """The header at the start of a segment; the version number if it is sound but of another version; None if it is damaged."""
    if len(data) < SEGMENT_HEADER_BYTES or not data.startswith(MAGIC):
        return None
    rest = data[12:SEGMENT_HEADER_BYTES]
    if crc32(rest) != _VERSION.unpack_from(data, 8)[0]:
        return None
    version: int = _VERSION.unpack_from(rest)[0]
    if version != VERSION:
        return version
    return SegmentHeader(*_SEGMENT_REST.unpack_from(rest, 4))


class Synced(msgspec.Struct, frozen=True):
    """The part of the journal that was certainly on the disk: every record of this journal from `first_lsn` to `lsn`."""

    journal_id: bytes
    number: int
    """The number of the segment that was written to then."""
    first_lsn: int
    """The first lsn of the oldest segment that was still needed."""
    lsn: int


def encode_synced(synced: Synced) -> bytes:
    rest = _SYNCED.pack(synced.journal_id, synced.number, synced.first_lsn, synced.lsn)
    return MAGIC + _VERSION.pack(crc32(rest)) + rest


def decode_synced(data: bytes) -> Synced | None:
    """None if it is incomplete: a crash may leave any part of it, because it is never synced itself."""
    rest = data[12:]
    if not data.startswith(MAGIC) or len(rest) != _SYNCED.size or crc32(rest) != _VERSION.unpack_from(data, 8)[0]:
        return None
    return Synced(*_SYNCED.unpack(rest))


def check_entry(entry: RecordEntry) -> str | None:
    """A short reason why an entry cannot be a record, or None."""
    if not entry.session:
        return "no session named"
    if not 0 <= entry.seq < 2**64:
        return "seq out of range"
    if len(entry.store.encode()) > MAX_STORE_BYTES or len(entry.session.encode()) > MAX_SESSION_BYTES:
        return "name too long"
    if body_bytes(entry) > MAX_BODY_BYTES:
        return "payload too long"
    return None


def body_bytes(entry: RecordEntry) -> int:
    return len(entry.store.encode()) + len(entry.session.encode()) + len(entry.payload)


def encode_record(record: Record, seed: int) -> bytes:
    """The record's bytes. The entry must have passed `check_entry`."""
    entry = record.entry
    store, session = entry.store.encode(), entry.session.encode()
    body = b"".join((store, session, entry.payload)) or b"\0"  # a body is never empty: zeros are not a record
    rest = _REST.pack(
        len(body), crc32(body, seed), record.lsn, entry.seq, record.back, entry.kind, len(store), len(session)
    )
    return b"".join((_HEADER.pack(MARKER, crc32(rest, seed)), rest, body))


def decode_record(data: bytes, offset: int, seed: int) -> tuple[Record, int] | str:
    """The record at `offset` and its end, or a short reason why it is not valid."""
    if offset + HEADER_BYTES > len(data):
        return "short header"
    marker, header_sum = _HEADER.unpack_from(data, offset)
    if marker != MARKER:
        return "no record"
    if crc32(data[offset + _HEADER.size : offset + HEADER_BYTES], seed) != header_sum:
        return "bad header sum"
    length, body_sum, lsn, seq, back, kind, store_bytes, session_bytes = _REST.unpack_from(data, offset + _HEADER.size)
    start, end = offset + HEADER_BYTES, offset + HEADER_BYTES + length
    if not store_bytes + session_bytes <= length <= MAX_BODY_BYTES or length == 0:
        return "bad length"
    if end > len(data):
        return "short body"
    body = data[start:end]
    if crc32(body, seed) != body_sum:
        return "bad body sum"
    names_end = store_bytes + session_bytes
    try:
        store, session = body[:store_bytes].decode(), body[store_bytes:names_end].decode()
        entry = RecordEntry(RecordKind(kind), store, session, seq, b"" if kind == RecordKind.VOID else body[names_end:])
    except ValueError:  # includes UnicodeDecodeError
        return "unknown kind or bad name"
    record = Record(lsn, entry, back)
    return (record, end) if 0 < record.first_lsn <= lsn else "bad lsn"


def encode_segment(header: SegmentHeader, records: Iterable[Record], last_lsn: int) -> bytes:
    """A whole segment, to be rewritten in one step. VOID covers lsns up to `last_lsn` that are not given."""
    parts = [encode_segment_header(header)]
    lsn = header.first_lsn - 1
    for record in (*records, None):
        missing = (last_lsn if record is None else record.first_lsn - 1) - lsn
        if missing > 0:
            lsn += missing
            parts.append(encode_record(Record(lsn, RecordEntry(RecordKind.VOID, "", "", missing)), header.seed))
        if record is not None:
            lsn = record.lsn
            parts.append(encode_record(Record(lsn, record.entry), header.seed))
    return b"".join(parts)
