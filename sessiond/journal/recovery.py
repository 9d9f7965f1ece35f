"""Reads what the journal's folder holds at the start, and plans the repairs before anything is written to it. Reads only.

The repairs are a list of steps for `Segments`, each of which may be done twice, so that a crash between any two of them does
no harm, and on a full disk they only wait. What cannot be read is copied to `damaged/` before its segment is rewritten.

The last segment is rewritten even if it is sound: what the page cache shows after a failed sync, or after a kill in the
middle of one, may not be on the disk, and a later sync of the same pages proves nothing (docs/formats/journal.md).
"""

from __future__ import annotations

import posixpath
import re
from typing import TypeAlias
from zlib import crc32

import msgspec

from sessiond.errors import BadFile
from sessiond.fs import FileSystem, is_temporary
from sessiond.journal.damage import Loss, damaged_folder, missing, note_path, read_losses
from sessiond.journal.held import encode_held, held_folder, held_numbers, held_path, scan_held
from sessiond.journal.record import (
    HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    VERSION,
    Record,
    SegmentHeader,
    Synced,
    decode_segment_header,
    decode_synced,
    encode_segment,
)
from sessiond.journal.scanner import Gap, Scan, scan

_NAME = re.compile(r"([0-9]{8,16})\.journal")


class DamagedRange(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` (excluded) of a segment could not be read."""

    path: str
    start: int
    end: int
    reason: str
    torn: bool
    """It was being written when the machine stopped, as after any crash; otherwise something is lost."""
    copy: str | None
    """Where the bytes are kept."""

    def __str__(self) -> str:
        """For a log, on one line."""
        loss = "as after a crash" if self.torn else "something is lost"
        kept = f"; kept in {self.copy}" if self.copy else ""
        return f"{self.path}, bytes {self.start} to {self.end}: {self.reason}, {loss}{kept}"


class Copy(msgspec.Struct, frozen=True):
    """Keep bytes that cannot be read."""

    path: str
    data: bytes


class Rewrite(msgspec.Struct, frozen=True):
    """Rewrite a segment durably, in one step."""

    path: str
    data: bytes


class Remove(msgspec.Struct, frozen=True):
    path: str


class RecordLoss(msgspec.Struct, frozen=True):
    """Note a loss, unless it was noted before."""

    path: str
    loss: Loss


Repair: TypeAlias = Copy | RecordLoss | Rewrite | Remove


class SegmentFile(msgspec.Struct):
    number: int
    path: str
    size: int
    first_lsn: int
    readable: bool = True


class Contents(msgspec.Struct):
    segments: list[SegmentFile]
    held: list[SegmentFile]
    records: list[tuple[int, Record]]
    """Segment number and record, by lsn. Held records come first, under the negative number of their file."""
    repairs: list[Repair]
    damage: list[DamagedRange]
    losses: dict[str, Loss]
    """Everything lost now and earlier, by the path of its note, including acknowledged losses."""
    journal_id: bytes | None
    """None if there are no segments."""
    last_lsn: int
    synced_lsn: int
    """Records up to this lsn are known to be on the disk."""
    writable: bool
    """Whether the last segment may be appended to after repairs."""


def segment_path(folder: str, number: int) -> str:
    return posixpath.join(folder, f"{number:08d}.journal")


def synced_path(folder: str) -> str:
    return posixpath.join(folder, "synced")


def copy_path(folder: str, number: int, start: int, data: bytes, *, torn: bool) -> str:
    """Return where bytes of a segment are set aside: the same bytes go to the same place, so doing it twice does no harm."""
    name = f"{number:08d}-{'torn' if torn else 'corrupt'}-{start}-{crc32(data):08x}"
    return posixpath.join(damaged_folder(folder), name)


def read_journal(fs: FileSystem, folder: str, damaged_copies: int) -> Contents:
    """BadFile if a newer version wrote the journal. Other problems are in `damage`.

    If more than `damaged_copies` torn ends were kept at earlier starts, the oldest are removed.
    """
    reader = _Reader(fs, folder, damaged_copies)
    reader.read()
    return reader.contents


class _Reader:
    def __init__(self, fs: FileSystem, folder: str, damaged_copies: int) -> None:
        self._fs = fs
        self._folder = folder
        self._damaged_copies = damaged_copies
        self.contents = Contents([], [], [], [], [], {}, None, 0, 0, writable=False)
        self._synced: Synced | None = None

    def read(self) -> None:
        names = self._fs.list_dir(self._folder)
        self._tidy(names)
        self.contents.losses = read_losses(self._fs, self._folder)
        self._synced = self._what_was_synced(names)
        numbers = sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
        headers = {number: self._header(number) for number in numbers}
        if numbers and self._is_stillborn(numbers[-1], headers[numbers[-1]]):
            self.contents.repairs.append(Remove(segment_path(self._folder, numbers.pop())))
        self.contents.journal_id = next((header.journal_id for number in numbers if (header := headers[number])), None)
        self._held()
        aside = self.contents.last_lsn
        self.contents.last_lsn = 0
        for place, number in enumerate(numbers):
            following = headers[numbers[place + 1]] if place + 1 < len(numbers) else None
            self._segment(number, headers[number], following, last=number == numbers[-1])
        if not numbers and self._synced is not None:
            self._all_gone(self._synced)
        if not self.contents.segments:
            self.contents.last_lsn = max(self.contents.last_lsn, aside)
        self._twice_there()
        if self._synced is not None and self._synced.journal_id == self.contents.journal_id:
            self.contents.synced_lsn = self._synced.lsn

    def _what_was_synced(self, names: list[str]) -> Synced | None:
        if "synced" not in names:
            return None
        try:
            return decode_synced(self._fs.read(synced_path(self._folder)))
        except OSError:
            return None  # only a hint

    def _tidy(self, names: list[str]) -> None:
        """Remove what earlier crashes left behind."""
        leftovers = [posixpath.join(self._folder, name) for name in names if is_temporary(name)]
        copies = damaged_folder(self._folder)
        if "damaged" in names and (stat := self._fs.stat(copies)) is not None and stat.is_dir:
            kept = self._fs.list_dir(copies)
            torn = sorted(name for name in kept if "-torn-" in name and not is_temporary(name))
            old = torn[: max(0, len(torn) - self._damaged_copies)]
            leftovers += [posixpath.join(copies, name) for name in (*filter(is_temporary, kept), *old)]
        self.contents.repairs.extend(map(Remove, leftovers))

    # What is held

    def _held(self) -> None:
        """Read before the segments, because it is older."""
        stat = self._fs.stat(held_folder(self._folder))
        names = self._fs.list_dir(held_folder(self._folder)) if stat is not None and stat.is_dir else []
        leftovers = [posixpath.join(held_folder(self._folder), name) for name in names if is_temporary(name)]
        self.contents.repairs.extend(map(Remove, leftovers))
        for number in held_numbers(names):
            path = held_path(self._folder, number)
            try:
                self._held_file(number, path, self._fs.read(path))
            except OSError as error:
                stat = self._fs.stat(path)
                size = stat.size if stat is not None else 0
                self.contents.held.append(SegmentFile(number, path, size, 0, readable=False))
                self._lost(number, path, size, f"cannot be read: {error.strerror}", 1)

    def _held_file(self, number: int, path: str, data: bytes) -> None:
        contents = self.contents
        header = self._sound_header(number, path)
        likely = header or self._likely_header(data, number, None)
        found = scan_held(data, likely)
        if header is None:
            found.gaps.insert(0, Gap(0, SEGMENT_HEADER_BYTES, "bad segment header", torn=False))
        if found.gaps:
            self._keep(number, path, data, found, 1)  # it is unknown how much of the rest was VOID
            data = encode_held(likely, found.records, found.last_lsn)
            contents.repairs.append(Rewrite(path, data))
        contents.journal_id = contents.journal_id or likely.journal_id
        contents.held.append(SegmentFile(number, path, len(data), likely.first_lsn))
        contents.records.extend((-number, record) for record in found.records)
        contents.last_lsn = max(contents.last_lsn, found.last_lsn)

    def _twice_there(self) -> None:
        """A segment whose pending part was moved, but which was not removed. If it is undamaged it counts."""
        contents = self.contents
        damaged = {damage.path for damage in contents.damage}
        whole = {one.number for one in contents.segments if one.path not in damaged}
        for one in [one for one in contents.held if one.number in whole]:
            contents.repairs.append(Remove(one.path))
            contents.held.remove(one)
            contents.records = [(number, record) for number, record in contents.records if number != -one.number]
        there = {(-number, record.lsn) for number, record in contents.records if number < 0}
        contents.records = [found for found in contents.records if (found[0], found[1].lsn) not in there]

    # Segments

    def _header(self, number: int) -> SegmentHeader | None:
        return self._sound_header(number, segment_path(self._folder, number))

    def _sound_header(self, number: int, path: str) -> SegmentHeader | None:
        try:
            header = decode_segment_header(self._fs.read(path, 0, SEGMENT_HEADER_BYTES))
        except OSError:
            return None
        if isinstance(header, int):
            raise BadFile(
                f"the journal {path} has version {header}, this program reads version {VERSION}",
                hint="A newer sessiond wrote it: start that one, or let it save everything with `sessiond stop`.",
                path=path,
                line=None,
            )
        return header if header is None or header.number == number else None

    def _is_stillborn(self, number: int, header: SegmentHeader | None) -> bool:
        """Return whether a crash interrupted rotation: no record is written before the header is synced, so the segment was empty."""
        stat = self._fs.stat(segment_path(self._folder, number))
        if self._synced is not None and self._synced.number >= number:
            return False
        return header is None and stat is not None and stat.is_file and stat.size <= SEGMENT_HEADER_BYTES

    def _segment(
        self, number: int, header: SegmentHeader | None, following: SegmentHeader | None, *, last: bool
    ) -> None:
        contents, path = self.contents, segment_path(self._folder, number)
        after = contents.last_lsn if contents.segments else self._before(header)
        try:
            data = self._fs.read(path)
        except OSError as error:
            self._unreadable(number, path, following, error)
            return
        likely = header or self._likely_header(data, number, after)
        # A crash does not break a header that is followed by records, so nothing in such a segment is merely torn.
        durable = self._durable(likely) if last else 0
        found = scan(data, likely, last=last and header is not None, after=after, durable=durable)
        if header is None:
            found.gaps.insert(0, Gap(0, SEGMENT_HEADER_BYTES, "bad segment header", torn=False))
            contents.journal_id = likely.journal_id
        through = max(found.last_lsn, durable)
        if following is not None and following.first_lsn - 1 > through:
            if not (found.gaps and found.gaps[-1].end == len(data)):  # otherwise their place is known
                lost = f"records {through + 1} to {following.first_lsn - 1} are missing"
                found.gaps.append(Gap(len(data), len(data), lost, torn=False))
            through = following.first_lsn - 1
        fresh, first_lsn = data[: found.end], likely.first_lsn
        if found.gaps:
            first_lsn = first_lsn if after is None else after + 1
            fresh = encode_segment(SegmentHeader(likely.journal_id, number, first_lsn), found.records, through)
            gone = missing(found.records, likely.first_lsn if after is None else after + 1, through)
            self._keep(number, path, data, found, gone)
        if found.gaps or last:
            contents.repairs.append(Rewrite(path, fresh))
        contents.segments.append(SegmentFile(number, path, len(fresh), first_lsn))
        contents.records.extend((number, record) for record in found.records)
        contents.last_lsn = through
        contents.writable = last

    def _before(self, header: SegmentHeader | None) -> int | None:
        """The lsn before the first segment that must exist, if that is known not to be this one."""
        synced = self._synced
        if synced is None or header is None or synced.journal_id != header.journal_id:
            return None
        return synced.first_lsn - 1 if synced.first_lsn < header.first_lsn else None

    def _durable(self, header: SegmentHeader) -> int:
        synced = self._synced
        return synced.lsn if synced is not None and synced.journal_id == header.journal_id else 0

    def _likely_header(self, data: bytes, number: int, after: int | None) -> SegmentHeader:
        """Return what a damaged header must have contained: the journal's id is in the other segments, or still legible here."""
        legible = data[16:32].ljust(16, b"\0")
        best, records = SegmentHeader(self.contents.journal_id or legible, number, (after or 0) + 1), 0
        for journal_id in {best.journal_id, legible}:
            header = SegmentHeader(journal_id, number, 1)
            found = scan(data, header, last=False).records
            if len(found) > records:
                first_lsn = found[0].first_lsn if after is None else after + 1
                best, records = SegmentHeader(journal_id, number, first_lsn), len(found)
        return best

    def _keep(self, number: int, path: str, data: bytes, found: Scan, lost: int) -> None:
        """Copy what will be cut: a torn end, or the whole of a damaged segment."""
        torn_only = all(gap.torn for gap in found.gaps)
        start = found.gaps[0].start if torn_only else 0
        kept = data[start:]
        copy = None
        if kept.strip(b"\0"):
            copy = copy_path(self._folder, number, start, kept, torn=torn_only)
            self.contents.repairs.append(Copy(copy, kept))
        for gap in found.gaps:
            self.contents.damage.append(DamagedRange(path, gap.start, gap.end, gap.reason, gap.torn, copy))
        if not torn_only:
            reason = "; ".join(gap.reason for gap in found.gaps if not gap.torn)
            self._note(number, Loss(copy or path, lost, f"{posixpath.basename(path)}: {reason}"))

    def _note(self, number: int, loss: Loss) -> None:
        note = note_path(self._folder, number, loss)
        if note not in self.contents.losses:
            self.contents.losses[note] = loss
            self.contents.repairs.append(RecordLoss(note, loss))

    def _all_gone(self, synced: Synced) -> None:
        """All segments are missing, although records of the journal were synced."""
        contents, path = self.contents, segment_path(self._folder, synced.number)
        if synced.lsn >= synced.first_lsn:
            reason = f"all segments are missing, with the records {synced.first_lsn} to {synced.lsn}"
            contents.damage.append(DamagedRange(path, 0, 0, reason, torn=False, copy=None))
            self._note(synced.number, Loss(path, synced.lsn - synced.first_lsn + 1, reason))
        contents.journal_id, contents.last_lsn = synced.journal_id, synced.lsn

    def _lost(self, number: int, path: str, size: int, reason: str, records: int) -> None:
        self.contents.damage.append(DamagedRange(path, 0, size, reason, torn=False, copy=None))
        self._note(number, Loss(path, records, f"{posixpath.basename(path)}: {reason}"))

    def _unreadable(self, number: int, path: str, following: SegmentHeader | None, error: OSError) -> None:
        """It is left as it is. It cannot hold more records than fit into it, so later lsns are chosen above theirs."""
        stat = self._fs.stat(path)
        size = stat.size if stat is not None else 0
        contents = self.contents
        first_lsn = contents.last_lsn + 1
        gone = following.first_lsn - first_lsn if following else 1
        self._lost(number, path, size, f"cannot be read: {error.strerror}", gone)
        contents.segments.append(SegmentFile(number, path, size, first_lsn, readable=False))
        contents.last_lsn = following.first_lsn - 1 if following else contents.last_lsn + size // (HEADER_BYTES + 1)
        contents.writable = False
