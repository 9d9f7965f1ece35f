"""What the journal's folder holds at the start, and what must be mended before anything is written to it. Reads only.

Mending is a list of steps for `Segments`, each of which may be done twice, so that a crash between any two of them
does no harm, and a full disk only means that they wait. What cannot be read is copied to `damaged/` before its segment
is written anew.

The last segment is written anew even if it is sound: what the page cache shows after a failed sync, or after a kill in
the middle of one, may not be on the disk, and a later sync of the same pages proves nothing (docs/formats/journal.md).
"""

from __future__ import annotations

import posixpath
import re
from typing import TypeAlias
from zlib import crc32

import msgspec

from sessiond.errors import BadFile
from sessiond.fs import FileSystem, is_temporary
from sessiond.journal.record import (
    HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    VERSION,
    Record,
    SegmentHeader,
    decode_segment_header,
    encode_segment,
)
from sessiond.journal.scanner import Gap, Scan, scan

_NAME = re.compile(r"([0-9]{8,16})\.journal")


class Damage(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` (excluded) of a segment could not be read."""

    path: str
    start: int
    end: int
    reason: str
    torn: bool
    """It was being written when the machine stopped, as any crash may leave it; if not, something is lost."""
    copy: str | None
    """Where the bytes are kept."""

    def __str__(self) -> str:
        """For a log, on one line."""
        loss = "as a crash may leave it" if self.torn else "something is lost"
        kept = f"; kept in {self.copy}" if self.copy else ""
        return f"{self.path}, bytes {self.start} to {self.end}: {self.reason}, {loss}{kept}"


class Copy(msgspec.Struct, frozen=True):
    """Keep bytes that cannot be read."""

    path: str
    data: bytes


class Rewrite(msgspec.Struct, frozen=True):
    """Write a segment anew, durably, at one stroke."""

    path: str
    data: bytes


class Remove(msgspec.Struct, frozen=True):
    path: str


Repair: TypeAlias = Copy | Rewrite | Remove


class SegmentFile(msgspec.Struct):
    number: int
    path: str
    size: int
    first_lsn: int
    readable: bool = True


class Contents(msgspec.Struct):
    segments: list[SegmentFile]
    records: list[tuple[int, Record]]
    """Segment number and record, by lsn."""
    repairs: list[Repair]
    damage: list[Damage]
    journal_id: bytes | None
    """None where no segment is there."""
    last_lsn: int
    writable: bool
    """Whether the last segment, once mended, may be appended to."""


def segment_path(folder: str, number: int) -> str:
    return posixpath.join(folder, f"{number:08d}.journal")


def damaged_folder(folder: str) -> str:
    return posixpath.join(folder, "damaged")


def copy_path(folder: str, number: int, start: int, data: bytes, *, torn: bool) -> str:
    """Where bytes of a segment are kept aside: the same bytes at the same place, so doing it twice does no harm."""
    name = f"{number:08d}-{'torn' if torn else 'corrupt'}-{start}-{crc32(data):08x}"
    return posixpath.join(damaged_folder(folder), name)


def read_journal(fs: FileSystem, folder: str, damaged_copies: int) -> Contents:
    """BadFile where a newer version wrote the journal. Other trouble is in `damage`.

    Of torn ends that were kept at earlier starts the oldest are given up where there are more than `damaged_copies`.
    """
    reader = _Reader(fs, folder, damaged_copies)
    reader.read()
    return reader.contents


class _Reader:
    def __init__(self, fs: FileSystem, folder: str, damaged_copies: int) -> None:
        self._fs = fs
        self._folder = folder
        self._damaged_copies = damaged_copies
        self.contents = Contents([], [], [], [], None, 0, writable=False)

    def read(self) -> None:
        names = self._fs.list_dir(self._folder)
        self._tidy(names)
        numbers = sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
        headers = {number: self._header(number) for number in numbers}
        if numbers and self._is_stillborn(numbers[-1], headers[numbers[-1]]):
            self.contents.repairs.append(Remove(segment_path(self._folder, numbers.pop())))
        self.contents.journal_id = next((header.journal_id for number in numbers if (header := headers[number])), None)
        for place, number in enumerate(numbers):
            following = headers[numbers[place + 1]] if place + 1 < len(numbers) else None
            self._segment(number, headers[number], following, last=number == numbers[-1])

    def _tidy(self, names: list[str]) -> None:
        """What earlier crashes left behind."""
        leftovers = [posixpath.join(self._folder, name) for name in names if is_temporary(name)]
        copies = damaged_folder(self._folder)
        if "damaged" in names and (stat := self._fs.stat(copies)) is not None and stat.is_dir:
            kept = self._fs.list_dir(copies)
            torn = sorted(name for name in kept if "-torn-" in name and not is_temporary(name))
            old = torn[: max(0, len(torn) - self._damaged_copies)]
            leftovers += [posixpath.join(copies, name) for name in (*filter(is_temporary, kept), *old)]
        self.contents.repairs.extend(map(Remove, leftovers))

    def _header(self, number: int) -> SegmentHeader | None:
        path = segment_path(self._folder, number)
        try:
            header = decode_segment_header(self._fs.read(path, 0, SEGMENT_HEADER_BYTES))
        except OSError:
            return None
        if isinstance(header, int):
            raise BadFile(
                f"the journal {path} is of version {header}, this program reads version {VERSION}",
                hint="A newer sessiond wrote it: start that one, or let it save everything with `sessiond stop`.",
                path=path,
                line=None,
            )
        return header if header is None or header.number == number else None

    def _is_stillborn(self, number: int, header: SegmentHeader | None) -> bool:
        """A crash in the middle of rotation: no record is written before the header is synced, so nothing was in it."""
        stat = self._fs.stat(segment_path(self._folder, number))
        return header is None and stat is not None and stat.is_file and stat.size <= SEGMENT_HEADER_BYTES

    def _segment(
        self, number: int, header: SegmentHeader | None, following: SegmentHeader | None, *, last: bool
    ) -> None:
        contents, path = self.contents, segment_path(self._folder, number)
        after = contents.last_lsn if contents.segments else None
        try:
            data = self._fs.read(path)
        except OSError as error:
            self._unreadable(number, path, following, error)
            return
        likely = header or self._likely_header(data, number, after)
        # A crash does not break a header behind which there are records; nothing in such a segment is merely torn.
        found = scan(data, likely, last=last and header is not None, after=after)
        if header is None:
            found.gaps.insert(0, Gap(0, SEGMENT_HEADER_BYTES, "bad segment header", torn=False))
            contents.journal_id = likely.journal_id
        through = found.last_lsn
        if following is not None and following.first_lsn - 1 > through:
            if not (found.gaps and found.gaps[-1].end == len(data)):  # otherwise it is known where they were
                lost = f"records {through + 1} to {following.first_lsn - 1} are missing"
                found.gaps.append(Gap(len(data), len(data), lost, torn=False))
            through = following.first_lsn - 1
        fresh, first_lsn = data, likely.first_lsn
        if found.gaps:
            first_lsn = first_lsn if after is None else after + 1
            fresh = encode_segment(SegmentHeader(likely.journal_id, number, first_lsn), found.records, through)
            self._keep(number, path, data, found)
        if found.gaps or last:
            contents.repairs.append(Rewrite(path, fresh))
        contents.segments.append(SegmentFile(number, path, len(fresh), first_lsn))
        contents.records.extend((number, record) for record in found.records)
        contents.last_lsn = through
        contents.writable = last

    def _likely_header(self, data: bytes, number: int, after: int | None) -> SegmentHeader:
        """What a damaged header must have said: the journal's id is in the other segments, or still legible here."""
        legible = data[16:32].ljust(16, b"\0")
        best, records = SegmentHeader(self.contents.journal_id or legible, number, (after or 0) + 1), 0
        for journal_id in {best.journal_id, legible}:
            header = SegmentHeader(journal_id, number, 1)
            found = scan(data, header, last=False).records
            if len(found) > records:
                first_lsn = found[0].first_lsn if after is None else after + 1
                best, records = SegmentHeader(journal_id, number, first_lsn), len(found)
        return best

    def _keep(self, number: int, path: str, data: bytes, found: Scan) -> None:
        """Copy aside what will be cut: of a torn end that end, of a damaged segment all of it."""
        torn_only = all(gap.torn for gap in found.gaps)
        start = found.gaps[0].start if torn_only else 0
        kept = data[start:]
        copy = None
        if kept.strip(b"\0"):
            copy = copy_path(self._folder, number, start, kept, torn=torn_only)
            self.contents.repairs.append(Copy(copy, kept))
        for gap in found.gaps:
            self.contents.damage.append(Damage(path, gap.start, gap.end, gap.reason, gap.torn, copy))

    def _unreadable(self, number: int, path: str, following: SegmentHeader | None, error: OSError) -> None:
        """Left as it is. No more records can be in it than there is room for, so later lsns are greater than theirs."""
        stat = self._fs.stat(path)
        size = stat.size if stat is not None else 0
        contents = self.contents
        first_lsn = contents.last_lsn + 1
        contents.damage.append(Damage(path, 0, size, f"cannot be read: {error.strerror}", torn=False, copy=None))
        contents.segments.append(SegmentFile(number, path, size, first_lsn, readable=False))
        contents.last_lsn = following.first_lsn - 1 if following else contents.last_lsn + size // (HEADER_BYTES + 1)
        contents.writable = False
