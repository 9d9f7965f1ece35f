"""Records and segments for tests, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessiond.journal.record import (
    Record,
    RecordEntry,
    RecordKind,
    SegmentHeader,
    encode_record,
    encode_segment_header,
)

ID = bytes(range(16))
HEADER = SegmentHeader(ID, 1, 1)


def changes(session: str, seq: int, payload: bytes = b"[]", store: str = "default") -> RecordEntry:
    return RecordEntry(RecordKind.CHANGES, store, session, seq, payload)


def saved(session: str, seq: int, store: str = "default") -> RecordEntry:
    return RecordEntry(RecordKind.SAVED, store, session, seq)


def gone(session: str, store: str = "default") -> RecordEntry:
    return RecordEntry(RecordKind.GONE, store, session)


def segment(batches: Iterable[Sequence[RecordEntry]], header: SegmentHeader = HEADER) -> tuple[bytes, list[int]]:
    """A segment as the writer makes it, each batch synced before the next; and where each record begins."""
    data, offsets, lsn = bytearray(encode_segment_header(header)), [], header.first_lsn
    for batch in batches:
        synced = len(data)
        for entry in batch:
            offsets.append(len(data))
            data += encode_record(Record(lsn, entry, len(data) - synced), header.seed)
            lsn += 1
    return bytes(data), offsets
