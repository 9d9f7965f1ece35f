"""The bytes of one segment -> its records, and what is wrong with them. Never raises, never skips anything silently.

A stretch that cannot be read is one of two things. Every record says how far the file had been synced when it was written
(`back`), so the good records prove that everything up to `synced_to` was once durable. Broken bytes before that place are
**corruption**: they were there, may have been acknowledged, and are lost. The same holds for lsns up to `durable`, which are
known from elsewhere to have been synced. Broken bytes after both are **torn** instead: they were being written when the
machine stopped, as any crash may leave them. Only the last segment can be torn, because a new one begins only when the whole
old one is synced. Zeros up to its end are neither: they are room for records to come.
"""

from __future__ import annotations

import msgspec

from sessiond.journal.record import (
    MARKER,
    SEGMENT_HEADER_BYTES,
    Record,
    SegmentHeader,
    decode_record,
)


class Gap(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` (excluded) of a segment hold no record. If equal, records are missing without a trace."""

    start: int
    end: int
    reason: str
    torn: bool


class Scan(msgspec.Struct):
    records: list[Record]
    gaps: list[Gap]
    last_lsn: int
    """The lsn of the last record, or if there is none, of the last one before this segment."""
    end: int
    """Where the room for more records begins."""


def scan(data: bytes, header: SegmentHeader, *, last: bool, after: int | None = None, durable: int = 0) -> Scan:
    """All records after the segment's header, in order, each with a greater lsn than the one before.

    `after` is the last lsn of the segments before this one (None: this is the first); if the records do not continue from
    it, that is a gap. `durable`: the lsn up to which records of the last segment were synced; if any up to that one are
    missing, that is a gap too.
    """
    found = _Findings(header.first_lsn - 1 if after is None else after)
    found.expect(header.first_lsn, SEGMENT_HEADER_BYTES)
    offset = min(SEGMENT_HEADER_BYTES, len(data))
    while offset < len(data):
        if last and not data[offset] and data.count(0, offset) == len(data) - offset:
            break
        decoded = decode_record(data, offset, header.seed)
        if isinstance(decoded, str) or decoded[0].first_lsn <= found.last_lsn:
            reason = decoded if isinstance(decoded, str) else "lsn goes back"
            start, offset = offset, _next_record(data, offset + 1, header.seed, found.last_lsn)
            found.note(start, offset, reason)
        else:
            record, end = decoded
            found.add(record, offset)
            offset = end
    synced_to = found.synced_to if last else len(data) + 1
    if last:
        found.expect(durable + 1, offset)
    gaps = [
        Gap(gap.start, gap.end, gap.reason, synced_to <= gap.start < gap.end and durable <= lsn)
        for gap, lsn in zip(found.gaps, found.lsns, strict=True)
    ]
    return Scan(found.records, gaps, found.last_lsn, offset)


class _Findings:
    def __init__(self, last_lsn: int) -> None:
        self.records: list[Record] = []
        self.gaps: list[Gap] = []
        self.lsns: list[int] = []
        """The last lsn before each gap."""
        self.last_lsn = last_lsn
        self.synced_to = 0

    def expect(self, lsn: int, offset: int) -> None:
        """The next record's first lsn must be this one."""
        if lsn > self.last_lsn + 1:
            if not (self.gaps and self.gaps[-1].end == offset):  # otherwise it is known where they were
                missing = f"records {self.last_lsn + 1} to {lsn - 1} are missing"
                self.note(offset, offset, missing)
            self.last_lsn = lsn - 1

    def note(self, start: int, end: int, reason: str) -> None:
        self.gaps.append(Gap(start, end, reason, torn=False))
        self.lsns.append(self.last_lsn)

    def add(self, record: Record, offset: int) -> None:
        self.expect(record.first_lsn, offset)
        self.records.append(record)
        self.last_lsn = record.lsn
        self.synced_to = max(self.synced_to, offset - record.back)


def _next_record(data: bytes, offset: int, seed: int, last_lsn: int) -> int:
    """Return where the next good record begins, or the end."""
    while (offset := data.find(MARKER, offset)) >= 0:
        # The header's sum is checked first, so a false marker costs only the summing of 40 bytes.
        decoded = decode_record(data, offset, seed)
        if not isinstance(decoded, str) and decoded[0].first_lsn > last_lsn:
            return offset
        offset += 1
    return len(data)
