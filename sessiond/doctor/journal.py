"""The findings about the journal, and the losses that it reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from sessiond.doctor.finding import Finding
from sessiond.errors import SessiondError
from sessiond.fs import FileSystem
from sessiond.journal import DamagedRange, Loss
from sessiond.journal.recovery import Contents, read_journal
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from sessiond.words import local_time


def examine_journal(fs: FileSystem, folder: str, limits: Limits, *, repairing: bool) -> Iterator[Finding]:
    """The findings about the journal. Call this only while no daemon writes to it: an end that is being written looks torn."""
    try:
        contents = read_journal(fs, folder, limits.damaged_copies)
    except SessiondError as error:
        yield Finding(f"journal {folder}", error.message, error.hint)
        return
    except OSError as error:
        yield Finding(f"journal {folder}", str(error), "check its mode and owner, and the disk")
        return
    yield Finding(f"journal {folder}, {len(contents.records)} records")
    if contents.held:
        held = [record.entry.store for number, record in contents.records if number < 0]
        stores = ", ".join(sorted(set(held)))
        yield Finding(f"held back: {len(held)} records that could not be saved yet (stores: {stores})")
    surgeon = _Surgeon(fs, folder, limits)
    for damage in contents.damage:
        yield _damage(damage, contents, surgeon)
    now = set() if repairing else {damage.copy or damage.path for damage in contents.damage}  # reported just now
    for loss in contents.losses.values():
        if loss.acknowledged is None and loss.path not in now:
            yield lost(loss)


def _damage(damage: DamagedRange, contents: Contents, surgeon: _Surgeon) -> Finding:
    where = f"{damage.path}, bytes {damage.start} to {damage.end}"
    known = {loss.path for loss in contents.losses.values() if loss.acknowledged is not None}
    if damage.torn:
        return Finding(f"{where}: {damage.reason}, as after any crash")
    if (damage.copy or damage.path) in known:
        return Finding(f"{where}: {damage.reason} (acknowledged)")
    if damage.copy is None:
        hint = "this file and the ones after it are left as they are: check the disk, or restore them from a backup"
        return Finding(where, damage.reason, hint)
    hint = (
        f"all other records can be read; the next start, or `sessiond doctor --repair`, keeps the whole file as {damage.copy} and goes on "
        "without these bytes. Anything in them that is not in a session file is lost: compare with a backup"
    )
    return Finding(where, damage.reason, hint, partial(surgeon.mend, damage))


def lost(loss: Loss) -> Finding:
    """A loss that nothing here can undo."""
    since = f", since {local_time(loss.since)}" if loss.since else ""
    hint = "compare the sessions of that time with a backup; `sessiond doctor --acknowledge` stops this report"
    return Finding(f"journal damage{since}", str(loss), hint)


def acknowledge(fs: FileSystem, folder: str) -> int:
    """Mark all losses as acknowledged; returns how many there were. No daemon may be running. SessiondError."""
    if fs.stat(folder) is None:
        return 0
    segments = Segments(fs, folder, Limits(), time.time)
    try:
        segments.recover(_new_id)
        return segments.acknowledge()
    except OSError as error:
        raise SessiondError(f"the journal cannot be written: {error}", hint="check the disk") from error
    finally:
        segments.close()


def _new_id() -> bytes:
    return os.urandom(16)


class _Surgeon:
    """Does what the next start would do, once."""

    def __init__(self, fs: FileSystem, folder: str, limits: Limits) -> None:
        self._fs = fs
        self._folder = folder
        self._limits = limits
        self._done: Contents | None = None

    def mend(self, damage: DamagedRange) -> str | None:
        if self._done is None:
            segments = Segments(self._fs, self._folder, self._limits, time.time)
            contents = segments.recover(_new_id)
            state = segments.state
            segments.close()
            if state is not None:
                raise OSError(f"the journal cannot be written: {state.reason}")
            self._done = contents
        return (
            f"removed; the original segment is kept as {damage.copy}. Compare the sessions of that time with a backup"
        )
