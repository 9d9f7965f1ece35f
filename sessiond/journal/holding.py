"""The held files of a running journal: created, rewritten and removed on the journal's thread."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterable, Sequence
from threading import Lock

from sessiond.fs import FileSystem, atomic_write
from sessiond.journal.held import UndamagedFile, held_folder, held_path, key_of, pending_in, without_ended
from sessiond.journal.record import Record, RecordEntry, RecordKind
from sessiond.journal.recovery import SegmentFile
from sessiond.journal.replay import Key, SegmentLedger


class HeldFiles:
    """`lock` is that of `ledger`. Every method that changes a file may raise OSError; nothing is lost then, and the call may be repeated."""

    def __init__(self, fs: FileSystem, folder: str, ledger: SegmentLedger, lock: Lock) -> None:
        self._fs = fs
        self._folder = folder
        self._ledger = ledger
        self._lock = lock
        self._files: dict[int, SegmentFile] = {}
        self._keys: set[Key] = set()
        """Keys whose changes are or were there."""
        self._ending: set[int] = set()
        """Segments that may have marks of such keys."""

    def take_over(self, files: Iterable[SegmentFile], records: Iterable[Record]) -> None:
        """Take what recovery found at the start."""
        self._files = {file.number: file for file in files}
        self._keys = {key_of(record) for record in records}

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in list(self._files.values()))

    @property
    def last_number(self) -> int:
        return max(self._files, default=0)

    def readable(self) -> list[SegmentFile]:
        return [file for file in self._files.values() if file.readable]

    def note(self, entry: RecordEntry, segment: int) -> None:
        """A record was written to that segment."""
        if entry.kind is not RecordKind.CHANGES and (entry.store, entry.session) in self._keys:
            self._ending.add(segment)

    def put_aside(self, segment: SegmentFile, all_segments: Sequence[int]) -> None:
        """Move what is pending in a closed segment to a held file, durably. The segment itself remains."""
        with self._lock:
            needed_by = self._ledger.needed_by(segment.number)
        sound = UndamagedFile.read(self._fs, segment.path) if needed_by else None
        if sound is None:
            return  # nothing needs it, or it is damaged and remains where it is
        pending = pending_in(sound.records)
        kept = {one.lsn: one for one in sound.records if one.lsn in pending and key_of(one) in needed_by}
        file = self._files.get(segment.number)
        if file is not None:  # an earlier crash came in between, and the segment was damaged then
            earlier = UndamagedFile.read(self._fs, file.path) if file.readable else None
            if earlier is None:
                return  # what can still be read of it is not written over
            kept |= {one.lsn: one for one in earlier.records}
        path = held_path(self._folder, segment.number)
        data = sound.held([kept[lsn] for lsn in sorted(kept)])
        self._fs.make_dirs(held_folder(self._folder))
        atomic_write(self._fs, path, data)
        self._files[segment.number] = SegmentFile(segment.number, path, len(data), segment.first_lsn)
        self._keys |= needed_by
        with self._lock:
            self._ledger.moved(segment.number, needed_by)
        self._ending.update(all_segments)  # marks of these keys may have been written before

    def release(self) -> None:
        """Remove what nothing needs any longer."""
        for file in self.readable():
            with self._lock:
                needed = self._ledger.needs(-file.number)
            if not needed:
                self._remove(file)
        if not self._files:
            self._keys.clear()
            self._ending.clear()

    def end(self, segment: SegmentFile) -> bool:
        """A segment is about to be removed: rewrite files without the changes that its marks end. False if it has to remain."""
        if segment.number not in self._ending:
            return True
        going = UndamagedFile.read(self._fs, segment.path)
        if going is None:
            return False
        found = [(file.number, UndamagedFile.read(self._fs, file.path)) for file in self.readable()]
        sound = [(number, one) for number, one in found if one is not None and number != segment.number]
        for number, data in without_ended(sound, going):
            file = self._files[number]
            atomic_write(self._fs, file.path, data)
            file.size = len(data)
        self._ending.discard(segment.number)
        return True

    def _remove(self, file: SegmentFile) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.remove(file.path)
        self._fs.sync_dir(posixpath.dirname(file.path))
        del self._files[file.number]
