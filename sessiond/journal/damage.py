"""Notes about what a damaged journal has lost, next to the copies in `damaged/`, until a person acknowledges them.

A note is named after the damaged bytes, so writing it twice does no harm, and an acknowledged one is not reported again when
the same damage is found again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from zlib import crc32

import msgspec

from sessiond.fs import FileSystem, is_temporary
from sessiond.journal.record import Record
from sessiond.ready import ready

_SUFFIX = ".json"


class Loss(msgspec.Struct, frozen=True, rename="camel"):
    """One stretch of the journal that was once durable and could not be read."""

    path: str
    """Where the bytes are kept; the damaged file itself if they could not be copied."""
    records: int
    """How many are known to be missing. 0: all records could be read despite the damage."""
    reason: str
    since: str = ""
    """RFC 3339; empty until it is noted."""
    acknowledged: str | None = None
    """RFC 3339, when a person acknowledged it."""

    def __str__(self) -> str:
        """For people, on one line."""
        lost = f"{self.records} record{'' if self.records == 1 else 's'} lost"
        return f"{self.reason}; {lost if self.records else 'no record is known to be lost'}; see {self.path}"


ready(Loss)


def damaged_folder(folder: str) -> str:
    return posixpath.join(folder, "damaged")


def is_note(name: str) -> bool:
    return name.endswith(_SUFFIX) and not is_temporary(name)


def note_path(folder: str, number: int, loss: Loss) -> str:
    """The path of the note for a loss in segment `number`."""
    copies = damaged_folder(folder)
    if posixpath.dirname(loss.path) == copies:
        return loss.path + _SUFFIX
    name = crc32(f"{loss.path} {loss.reason}".encode("utf-8", "surrogateescape"))
    return posixpath.join(copies, f"{number:08d}-lost-{name:08x}{_SUFFIX}")


def encode_loss(loss: Loss) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(loss, path=posixpath.basename(loss.path))) + b"\n"


def read_losses(fs: FileSystem, folder: str) -> dict[str, Loss]:
    """Every note, by its path, including acknowledged ones. OSError."""
    copies = damaged_folder(folder)
    found: dict[str, Loss] = {}
    if (stat := fs.stat(copies)) is None or not stat.is_dir:
        return found
    for name in sorted(filter(is_note, fs.list_dir(copies))):
        path = posixpath.join(copies, name)
        kept = name.removesuffix(_SUFFIX)
        try:
            loss = msgspec.json.decode(fs.read(path), type=Loss)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            loss = Loss(kept, 0, "the note of this damage cannot be read")
        base = (
            copies
            if loss.path == kept
            else posixpath.join(folder, "../held")
            if loss.path.endswith(".held")
            else folder
        )
        found[path] = msgspec.structs.replace(loss, path=posixpath.normpath(posixpath.join(base, loss.path)))
    return found


def missing(records: Sequence[Record], first: int, last: int) -> int:
    """Return how many lsns from `first` to `last` none of these records has or covers."""
    return max(0, last - first + 1 - sum(record.lsn - max(record.first_lsn, first) + 1 for record in records))
