"""The journal on the disk, used by one thread: the state machine of its segments.

    unmended --mend--> ready --a write failed and was cut off again--> full --there is space--> ready
       any --a sync failed, or a cut--> failed

ready     records are appended to the last segment and synced.
full      changes are refused until there is space beyond the reserve; marks (SAVED, GONE) are still tried, because the
          reserve has been given up for them.
unmended  what a crash left has been read, but the disk had no space for repairing it: nothing is written, segments that
          are not needed may be removed.
failed    final: a failed sync is not repeated, because its success would mean nothing. Nothing is changed any longer. The
          same if the folder was moved away: another journal may be at the path, and its segments have the same names.

A new segment counts only when its header and its name are synced. Old ones are removed only when no session needs them,
oldest first and each removal synced before the next. So the segments that exist are always a contiguous end of the whole
journal.
"""

from __future__ import annotations

import contextlib
import errno
import posixpath
import random
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NoReturn

import msgspec

from sessiond.errors import Indeterminate, ReadOnly
from sessiond.fs import DiskFailed, FileSystem, LogFile, atomic_write
from sessiond.journal.damage import Loss, damaged_folder, encode_loss
from sessiond.journal.hint import SyncedHint
from sessiond.journal.holding import HeldFiles
from sessiond.journal.purge import purge_steps
from sessiond.journal.record import (
    HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Record,
    RecordEntry,
    RecordKind,
    SegmentHeader,
    Synced,
    body_bytes,
    encode_record,
    encode_segment_header,
)
from sessiond.journal.recovery import (
    Contents,
    Copy,
    RecordLoss,
    Remove,
    Repair,
    Rewrite,
    SegmentFile,
    read_journal,
    segment_path,
)
from sessiond.journal.replay import Key, SegmentLedger
from sessiond.journal.room import Room
from sessiond.limits import Limits
from sessiond.model.values import timestamp

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ROOMY = 4
"""The reserve is created again when this many times its size is free."""


class ReadOnlyState(msgspec.Struct, frozen=True):
    reason: str
    since: str
    """RFC 3339."""
    final: bool
    """True: until the daemon is restarted. False: writing resumes by itself once there is space."""


class JournalExtent(msgspec.Struct, frozen=True):
    """The journal at one moment."""

    lsn: int
    files: list[tuple[str, int | None]]
    """Path, and how many of its bytes belong to that moment (None: all)."""


class Segments:
    """Not thread-safe, except `check`, `oldest_pending` and reading the plain attributes."""

    def __init__(self, fs: FileSystem, folder: str, limits: Limits, clock: Callable[[], float]) -> None:
        self._fs = fs
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._files: list[SegmentFile] = []
        self._repairs: list[Repair] = []
        self._journal_id = b""
        self._seed = 0
        self._log: LogFile | None = None
        self._identity: tuple[int, int] | None = None
        """Device and inode of the last segment."""
        self._synced = 0
        """How many bytes of the last segment are known to be on the disk."""
        self._hint = SyncedHint(fs, folder)
        self._synced_lsn = 0
        self._rotate_next = False
        self._room = Room(limits)
        self._has_reserve = False
        self._holds = 0
        self._ledger = SegmentLedger()
        self._ledger_lock = Lock()
        self._held = HeldFiles(fs, folder, self._ledger, self._ledger_lock)
        self._losses: dict[str, Loss] = {}
        self.lsn = 0
        self.state: ReadOnlyState | None = None

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self._files)

    @property
    def held_bytes(self) -> int:
        return self._held.total_bytes

    def oldest_pending(self) -> list[Key]:
        with self._ledger_lock:
            return self._ledger.oldest_pending()

    def losses(self) -> list[Loss]:
        """Return what was durable and is lost, until it is acknowledged."""
        return [loss for loss in list(self._losses.values()) if loss.acknowledged is None]

    # The start

    def recover(self, new_id: Callable[[], bytes]) -> Contents:
        """Read the journal, repair it as far as the disk permits, get ready for `write`. BadFile: a newer version wrote it."""
        trouble: OSError | None = None
        try:
            self._fs.make_dirs(self._folder)
        except OSError as error:
            if self._fs.stat(self._folder) is None:
                raise
            trouble = error  # what is there can still be read
        contents = read_journal(self._fs, self._folder, self._limits.damaged_copies)
        self._files = contents.segments
        self._repairs = contents.repairs
        self._losses = {path: self._dated(loss) for path, loss in contents.losses.items()}
        self._journal_id = contents.journal_id or new_id()
        self._synced_lsn = contents.synced_lsn
        self.lsn = contents.last_lsn
        self._held.take_over(contents.held, [record for number, record in contents.records if number < 0])
        for number, record in contents.records:
            self._note(record.entry, number)
        self._rotate_next = not contents.writable
        self._has_reserve = self._fs.stat(self._reserve_path) is not None
        with contextlib.suppress(ReadOnly):
            if trouble is not None:
                self._refuse(trouble)
            self._mend()
            self._keep_reserve()
        return contents

    def _mend(self) -> None:
        """Carry out the repairs. ReadOnly if the disk has no space for them; they are tried again later."""
        try:
            while self._repairs:
                self._repair(self._repairs[0])
                self._repairs.pop(0)
            if self._rotate_next or not self._files:
                self._begin_segment()
            elif self._log is None:
                self._open_last()
        except OSError as error:
            self._refuse(error)

    def _repair(self, repair: Repair) -> None:
        match repair:
            case Remove(path=path):
                with contextlib.suppress(FileNotFoundError):
                    self._fs.remove(path)
                self._fs.sync_dir(posixpath.dirname(path))
            case Copy(path=path, data=data):
                self._fs.make_dirs(damaged_folder(self._folder))
                atomic_write(self._fs, path, data)
            case RecordLoss(path=path, loss=loss):
                self._losses.setdefault(path, self._dated(loss))
                self._write_loss(path)
            case Rewrite(path=path, data=data):
                atomic_write(self._fs, path, data)

    def _open_last(self) -> None:
        last = self._files[-1]
        self._log = self._fs.open_log(last.path)
        self._identity = self._identity_of(last.path)
        self._synced = self._log.size
        self._room.begin(self._log)
        self._seed = SegmentHeader(self._journal_id, last.number, 0).seed
        self._synced_lsn = self.lsn
        self._hint.give(self._known())

    # Writing

    def write(
        self, entries: Sequence[RecordEntry], *, sync: bool, durable: Callable[[int], None] = lambda _: None
    ) -> int:
        """Append records, and if `sync` make them and all earlier ones durable. Returns the lsn of the first of them;
        `durable` is called with it as soon as they are durable.

        ReadOnly: nothing was written. Indeterminate: the records may or may not be there, and nothing more can be written.
        """
        needed = sum(HEADER_BYTES + body_bytes(entry) for entry in entries)
        changes = any(entry.kind is RecordKind.CHANGES for entry in entries)
        log = self._ready(needed, changes=changes)
        try:
            if self.state is None:  # otherwise the disk is full, and what is left is for marks
                self._room.take(log, needed)
        except DiskFailed as error:
            self._refuse(error)
        start, first = log.size, self.lsn + 1
        try:
            log.write(self._encode(entries, start, first))
        except OSError as error:
            self._cut_back(log, start, error)
        if sync:
            self._sync(log)
        self.lsn += len(entries)
        self._files[-1].size = log.size
        if changes:
            self.state = None
        if sync:
            self._synced_lsn = self.lsn
            self._hint.give(self._known())
        durable(first)
        self._apply(entries)
        return first

    def _end_segment(self, log: LogFile) -> None:
        """Sync the segment and cut off its room, which only the last one may have. OSError, Indeterminate."""
        if self._room.cut(log) or self._synced != log.size:
            self._sync(log)

    def _known(self, oldest: int = 0) -> Synced:
        """Return what must be on the disk, from segment `oldest` on."""
        return Synced(self._journal_id, self._files[-1].number, self._files[oldest].first_lsn, self._synced_lsn)

    def _encode(self, entries: Sequence[RecordEntry], offset: int, lsn: int) -> bytes:
        parts: list[bytes] = []
        for entry in entries:
            parts.append(encode_record(Record(lsn, entry, offset - self._synced), self._seed))
            offset += len(parts[-1])
            lsn += 1
        return b"".join(parts)

    def _apply(self, entries: Sequence[RecordEntry]) -> None:
        number = self._files[-1].number if self._files else 0
        with self._ledger_lock:
            for entry in entries:
                self._note(entry, number)

    def _note(self, entry: RecordEntry, number: int) -> None:
        self._ledger.apply(entry, number)
        self._held.note(entry, number)

    def count_saved(self, entries: Sequence[RecordEntry]) -> None:
        """SAVED marks that could not be written still count for trimming: they only save work."""
        self._apply([entry for entry in entries if entry.kind is RecordKind.SAVED])

    def _ready(self, needed: int, *, changes: bool) -> LogFile:
        self.check()
        if self._log is None:
            self._mend()
        elif self.state is not None and changes:
            self._refuse_without_room(self.state, needed)
        self._keep_reserve()
        log = self._last_log()
        full = log.size > SEGMENT_HEADER_BYTES and log.size + needed > self._limits.segment_bytes
        if full or self._rotate_next:
            self.rotate()
        return self._last_log()

    def check(self) -> None:
        """ReadOnly if the disk failed. For any thread."""
        state = self.state
        if state is not None and state.final:
            raise ReadOnly("the journal is read-only", reason=state.reason, hint=_RESTART)

    def _last_log(self) -> LogFile:
        assert self._log is not None
        return self._log

    def _sync(self, log: LogFile) -> None:
        try:
            log.sync()
        except OSError as error:
            self.fail(error)
            raise _indeterminate("the disk failed while this was being made durable", error) from error
        self._synced = log.size

    def _cut_back(self, log: LogFile, start: int, error: OSError) -> NoReturn:
        """After a failed write: make sure that nothing of it remains, or give up."""
        try:
            log.truncate(start)
            log.sync()
        except OSError as second:
            self.fail(second)
            raise _indeterminate("the disk failed while this was being written", error) from second
        self._synced = start
        self._room.begin(log)
        self._rotate_next = error.errno == errno.EFBIG  # the next segment begins small
        self._refuse(error)

    def try_again(self) -> None:
        """Find out whether a full disk has room again, though nobody writes: a new segment shows it. ReadOnly."""
        if self.state is None or self.state.final:
            return
        if self._log is None:
            self._mend()
        self._refuse_without_room(self.state, 0)
        self._keep_reserve()
        try:
            self._check_in_place()
            self._end_segment(self._last_log())
            self._begin_segment()
        except OSError as error:
            self._refuse(error)
        self.state = None

    # Rotation and trimming

    def rotate(self) -> None:
        """Begin a new segment, unless the last one is empty. ReadOnly, Indeterminate as in `write`."""
        self.check()
        if self._log is None:
            self._mend()
        log = self._last_log()
        if log.size > SEGMENT_HEADER_BYTES:
            try:
                self._check_in_place()
                self._end_segment(log)
                self._begin_segment()
            except OSError as error:
                self._refuse(error)

    def _begin_segment(self) -> None:
        number = self._files[-1].number + 1 if self._files else self._held.last_number + 1
        path = segment_path(self._folder, number)
        header = SegmentHeader(self._journal_id, number, self.lsn + 1)
        log = self._fs.open_log(path)
        try:
            log.truncate(0)  # remains of an earlier attempt that failed
            log.write(encode_segment_header(header))
            log.sync()
            self._fs.sync_dir(self._folder)
        except BaseException:
            log.close()
            with contextlib.suppress(OSError):
                self._fs.remove(path)
            raise
        if self._log is not None:
            self._log.close()
        self._log, self._synced, self._seed = log, log.size, header.seed
        self._identity = self._identity_of(path)
        self._room.begin(log)
        self._files.append(SegmentFile(number, path, log.size, header.first_lsn))
        self._rotate_next = False

    def trim(self) -> None:
        """Remove the oldest segments that no session needs. What cannot be removed now is removed another time."""
        if self._holds or (self.state is not None and self.state.final):
            return
        try:
            self._check_in_place()
            self._held.release()
            while len(self._files) > 1:
                oldest = self._files[0]
                with self._ledger_lock:
                    if self._ledger.needs(oldest.number) or not oldest.readable:  # it may be needed
                        return
                if not self._held.end(oldest):
                    return
                self._repairs = [repair for repair in self._repairs if repair.path != oldest.path]
                self._hint.give_for_certain(self._known(oldest=1))
                self._repair(Remove(oldest.path))
                self._files.pop(0)
        except DiskFailed as error:
            self.fail(error)
        except OSError:
            return

    # Changes that cannot be saved for long

    def hold_back(self) -> bool:
        """Move the changes that the oldest segment is kept for to a held file, so that the segment can be removed. Returns
        whether one was. ReadOnly, Indeterminate.
        """
        self.check()
        if self._holds or self._log is None:
            return False
        if len(self._files) == 1:
            self.rotate()
        before = len(self._files)
        try:
            if before > 1 and self._files[0].readable:
                self._held.put_aside(self._files[0], [file.number for file in self._files])
        except OSError as error:
            self._refuse(error)
        self.trim()
        return len(self._files) < before

    def hold(self) -> JournalExtent:
        """Hold what may be copied, and return it: until `let_go` no segment is removed, and none of these bytes change. The caller must make
        sure that nothing is purged meanwhile.
        """
        self._holds += 1
        # Until it is repaired, the files contain more than what counts; the next start repairs a copy too.
        whole = self._log is None
        return JournalExtent(self.lsn, [(file.path, None if whole else file.size) for file in self._files])

    def let_go(self) -> None:
        self._holds -= 1

    def purge(self, store: str, session: str) -> None:
        """Remove every byte of a session. ReadOnly, Indeterminate: some may still be there; it may be repeated."""
        self.write([RecordEntry(RecordKind.GONE, store, session)], sync=True)
        self.rotate()
        self.trim()
        try:
            older = self._held.readable() + self._files[:-1]
            for file, step in purge_steps(self._fs, self._folder, older, (store, session)):
                self._repair(step)
                if file is not None and isinstance(step, Rewrite):
                    file.size = len(step.data)
        except OSError as error:
            self._refuse(error)

    def close(self) -> None:
        """Leave as little behind as possible: an empty segment if nothing is pending. Errors are left to the next start."""
        if self._log is None:
            return
        with contextlib.suppress(ReadOnly, Indeterminate, OSError):
            if self.state is None:
                if not self.oldest_pending():
                    self.rotate()
                self.trim()
                self._end_segment(self._last_log())
        self._last_log().close()
        self._log = None
        self._hint.close()

    # Damage

    def acknowledge(self) -> int:
        """Acknowledge all losses, so that nobody reports them again. Returns how many there were. ReadOnly."""
        self.check()
        known = [path for path, loss in self._losses.items() if loss.acknowledged is None]
        for path in known:
            before = self._losses[path]
            self._losses[path] = msgspec.structs.replace(before, acknowledged=self._now())
            try:
                self._write_loss(path)
            except OSError as error:
                self._losses[path] = before
                self._refuse(error)
        return len(known)

    def _write_loss(self, path: str) -> None:
        self._fs.make_dirs(damaged_folder(self._folder))
        atomic_write(self._fs, path, encode_loss(self._losses[path]))

    def _dated(self, loss: Loss) -> Loss:
        return loss if loss.since else msgspec.structs.replace(loss, since=self._now())

    # Free space

    @property
    def _reserve_path(self) -> str:
        return posixpath.join(self._folder, "reserve")

    def _keep_reserve(self) -> None:
        size = self._limits.reserve_bytes
        if self._has_reserve or not size or self._free() < _ROOMY * size:
            return
        with contextlib.suppress(OSError):
            # Not zeros: a file system that compresses would not reserve any space for them.
            self._fs.create(self._reserve_path, random.Random(size).randbytes(size))  # noqa: S311
            self._has_reserve = True

    def _give_up_reserve(self) -> None:
        if self._has_reserve:
            with contextlib.suppress(OSError):
                self._fs.remove(self._reserve_path)
                self._has_reserve = False

    def _refuse_without_room(self, state: ReadOnlyState, needed: int) -> None:
        """Changes must not use up the space that was freed for marks."""
        if self._free() < needed + 2 * self._limits.reserve_bytes:
            raise ReadOnly("the journal's disk is full", reason=state.reason, hint=_MAKE_ROOM)

    def _free(self) -> int:
        try:
            return self._fs.free_bytes(self._folder)
        except OSError:
            return 0

    def _refuse(self, error: OSError) -> NoReturn:
        """Raise ReadOnly: nothing of the request was written."""
        if isinstance(error, DiskFailed):
            self.fail(error)
        elif self.state is None:
            self.state = ReadOnlyState(_reason(error), self._now(), final=False)
        if error.errno in _NO_ROOM:
            self._give_up_reserve()
        hint = _RESTART if isinstance(error, DiskFailed) else _MAKE_ROOM
        raise ReadOnly("the journal cannot be written", reason=_reason(error), hint=hint) from error

    def _check_in_place(self) -> None:
        """DiskFailed if the last segment's path leads to another file, or to none: then everything there is somebody else's."""
        if self._log is not None and self._identity_of(self._files[-1].path) != self._identity:
            raise DiskFailed(errno.ENOENT, "it was moved or replaced by another program", self._folder)

    def _identity_of(self, path: str) -> tuple[int, int] | None:
        found = self._fs.stat(path)
        return None if found is None else (found.dev, found.ino)

    def fail(self, error: BaseException) -> None:
        """The state of the disk is unknown: nothing is written any longer."""
        self.state = ReadOnlyState(_reason(error), self._now(), final=True)

    def _now(self) -> str:
        return timestamp(int(self._clock() * 1000))


_MAKE_ROOM = (
    "Nothing that was acknowledged is lost, and reading works. Writing resumes by itself once there is free space."
)
_RESTART = "Nothing that was acknowledged is lost, and reading works. Repair the disk, then restart the daemon."


_RETRY = (
    "The change may or may not be stored. Repair the disk, restart the daemon, then send it again with the same id."
)


def _indeterminate(what: str, error: BaseException) -> Indeterminate:
    return Indeterminate(what, reason=_reason(error), hint=_RETRY)


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
