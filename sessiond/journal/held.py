"""Held files: changes that stay unsaved for a long time, moved out of the journal. docs/formats/journal.md describes the
format.

`data/held/N.held` holds the changes of segment N that were still pending when that segment was removed. It is a segment of
the same number, with VOID for the rest and at its end, so that a file that was cut is recognised. It remains until each of
its changes is saved or gone.

A mark (SAVED, GONE) for held changes stays in the journal, and must not be removed before them. So before a segment with
such marks is removed, the held files are rewritten without the changes that the marks ended.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from sessiond.fs import FileSystem
from sessiond.journal.record import Record, RecordKind, SegmentHeader, decode_segment_header, encode_segment
from sessiond.journal.replay import Key, replay
from sessiond.journal.scanner import Gap, Scan, scan

_NAME = re.compile(r"([0-9]{8,16})\.held")


def held_folder(folder: str) -> str:
    """The folder of the held files, next to the journal's."""
    return posixpath.join(posixpath.dirname(folder), "held")


def held_path(folder: str, number: int) -> str:
    return posixpath.join(held_folder(folder), f"{number:08d}.held")


def held_numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def key_of(record: Record) -> Key:
    return record.entry.store, record.entry.session


def encode_held(header: SegmentHeader, records: Iterable[Record], last_lsn: int) -> bytes:
    kept = [record for record in records if record.entry.kind is not RecordKind.VOID]
    before_end = kept[-1].lsn if kept else header.first_lsn - 1
    return encode_segment(header, kept, max(last_lsn, before_end + 1))


def scan_held(data: bytes, header: SegmentHeader) -> Scan:
    found = scan(data, header, last=False)
    if not found.records or found.records[-1].entry.kind is not RecordKind.VOID:
        found.gaps.append(Gap(len(data), len(data), "its end is missing", torn=False))
    kept = [one for one in found.records if one.entry.kind is not RecordKind.VOID]
    return Scan(kept, found.gaps, found.last_lsn, found.end)


class UndamagedFile:
    """A closed segment or a held file that was read and is undamaged. `records`: without VOID."""

    def __init__(self, header: SegmentHeader, found: Scan) -> None:
        self.header = header
        self.records = [record for record in found.records if record.entry.kind is not RecordKind.VOID]
        self.last_lsn = found.last_lsn

    @classmethod
    def read(cls, fs: FileSystem, path: str) -> UndamagedFile | None:
        """None if it is damaged: it is left as it is, and the next start reports it. OSError."""
        data = fs.read(path)
        header = decode_segment_header(data)
        if not isinstance(header, SegmentHeader):
            return None
        found = scan(data, header, last=False)
        return None if found.gaps else cls(header, found)

    def held(self, records: Iterable[Record]) -> bytes:
        """The bytes of a held file with only these records of it."""
        return encode_held(self.header, records, self.last_lsn)


def pending_in(*parts: Sequence[Record]) -> set[int]:
    """The lsns of the changes that are pending according to these records alone. `parts`: oldest first."""
    found = replay(record for part in parts for record in part)
    return {record.lsn for records in found.values() for record in records}


def without_ended(files: Iterable[tuple[int, UndamagedFile]], going: UndamagedFile) -> Iterator[tuple[int, bytes]]:
    """The new content of the held files before `going` is removed, a segment whose marks end some of their changes: number
    and content. Files that stay the same are left out.
    """
    for number, one in files:
        kept_lsns = pending_in(one.records, going.records)
        kept = [record for record in one.records if record.lsn in kept_lsns]
        if len(kept) < len(one.records):
            yield number, one.held(kept)
