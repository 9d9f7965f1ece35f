"""What `doctor` finds in the journal, and what of that somebody has to know."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from sessiond.cli.findings import Finding
from sessiond.cli.output import local_time
from sessiond.errors import SessiondError
from sessiond.fs import FileSystem
from sessiond.journal import Damage, Loss
from sessiond.journal.recovery import Contents, read_journal
from sessiond.journal.segments import Segments
from sessiond.limits import Limits


def examine_journal(fs: FileSystem, folder: str, limits: Limits, *, repairing: bool) -> Iterator[Finding]:
    """Only while no daemon writes to it: an end that is being written looks torn."""
    try:
        contents = read_journal(fs, folder, limits.damaged_copies)
    except SessiondError as error:
        yield Finding(f"journal {folder}", error.message, error.hint)
        return
    except OSError as error:
        yield Finding(f"journal {folder}", str(error), "look at its mode and owner, and at the disk")
        return
    yield Finding(f"journal {folder}, {len(contents.records)} records")
    if contents.held:
        held = [record.entry.store for number, record in contents.records if number < 0]
        stores = ", ".join(sorted(set(held)))
        yield Finding(f"held back, {len(held)} records of what could not be saved yet (stores: {stores})")
    surgeon = _Surgeon(fs, folder, limits)
    for damage in contents.damage:
        yield _damage(damage, contents, surgeon)
    now = set() if repairing else {damage.copy or damage.path for damage in contents.damage}  # they were named just now
    for loss in contents.losses.values():
        if loss.acknowledged is None and loss.path not in now:
            yield lost(loss)


def _damage(damage: Damage, contents: Contents, surgeon: _Surgeon) -> Finding:
    where = f"{damage.path}, bytes {damage.start} to {damage.end}"
    known = {loss.path for loss in contents.losses.values() if loss.acknowledged is not None}
    if damage.torn:
        return Finding(f"{where}: {damage.reason}, as any crash may leave it")
    if (damage.copy or damage.path) in known:
        return Finding(f"{where}: {damage.reason}, which was acknowledged")
    if damage.copy is None:
        hint = (
            "the file is left as it is, and so are the ones after it: look after the disk, or restore it from a backup"
        )
        return Finding(where, damage.reason, hint)
    hint = (
        f"all other records are served; the next start, or `sessiond doctor --repair`, keeps these bytes as {damage.copy} and goes on "
        "without them. What was in them and is in no session file is lost: compare with a backup"
    )
    return Finding(where, damage.reason, hint, partial(surgeon.mend, damage))


def lost(loss: Loss) -> Finding:
    """What is gone, and nothing here can bring back."""
    since = f", since {local_time(loss.since)}" if loss.since else ""
    hint = (
        "compare with a backup what the sessions of that time hold; `sessiond doctor --acknowledge` when you know of it"
    )
    return Finding(f"journal damage{since}", str(loss), hint)


def acknowledge(fs: FileSystem, folder: str) -> int:
    """Somebody knows of everything that is lost; how much that was. No daemon may run. SessiondError."""
    if fs.stat(folder) is None:
        return 0
    segments = Segments(fs, folder, Limits(), time.time)
    try:
        segments.recover(_new_id)
        return segments.acknowledge()
    except OSError as error:
        raise SessiondError(f"the journal cannot be written: {error}", hint="look after the disk") from error
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

    def mend(self, damage: Damage) -> str | None:
        if self._done is None:
            segments = Segments(self._fs, self._folder, self._limits, time.time)
            contents = segments.recover(_new_id)
            state = segments.state
            segments.close()
            if state is not None:
                raise OSError(f"the journal cannot be written: {state.reason}")
            self._done = contents
        return f"taken out; the segment as it was is {damage.copy}. Compare with a backup what the sessions of that time hold"
