"""Telling a session file that decayed from one that somebody edited, as far as that can be told. Pure."""

from __future__ import annotations

from sessiond.formats.base import Problem, Unlike
from sessiond.formats.checksum import flipped_bit
from sessiond.limits import MIB
from sessiond.store.files import Print

_SAVE_NS = 2_000_000_000
"""A save writes the sidecar and then the main file. Who writes the main file later than this after the sidecar is somebody else."""
SEARCHED_BYTES = 4 * MIB
"""While a client waits, one flipped bit is looked for in files up to this length; `doctor` looks through any."""


def written_since(main: Print, side: Print | None) -> bool:
    """Whether somebody wrote the main file after our last save, by its time."""
    return side is None or main[2] - side[2] > _SAVE_NS


def apart(main: Print, side: Print | None) -> bool:
    """Whether the two files cannot be of one save of ours, by their times."""
    return side is None or abs(main[2] - side[2]) > _SAVE_NS


def judge(path: str, content: bytes, unlike: Unlike, main: Print, side: Print | None, searched: int) -> Problem | None:
    """What to tell of a file whose sum is another one. None: somebody wrote it since, and that is his will."""
    bit = flipped_bit(content, unlike) if len(content) <= searched else None
    if bit is not None:
        line = content.count(b"\n", 0, bit[0]) + 1
        said = f"one bit is not as it was written (byte {bit[0]}): `sessiond doctor --repair` turns it back and keeps a copy"
        return Problem(path, line, said)
    if len(content) != unlike.size or written_since(main, side):  # a disk that decays makes nothing longer or shorter
        return None
    said = (
        "its bytes are not those that were written, though nobody has written it since: the disk has damaged it. "
        "Restore it from a backup, or `touch` it to take it as it is"
    )
    return Problem(path, None, said)
