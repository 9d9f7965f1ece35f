"""Tells a session file that decayed from one that was edited, as far as possible. Pure."""

from __future__ import annotations

from sessiond.formats.base import Problem, Unlike
from sessiond.formats.checksum import flipped_bit
from sessiond.limits import MIB
from sessiond.store.files import Print

_SAVE_NS = 2_000_000_000
"""A save writes the sidecar and then the main file. If the main file was written later than this after the sidecar, another
program wrote it.
"""
SEARCHED_BYTES = 4 * MIB
"""While a client waits, a flipped bit is searched for in files up to this length; `doctor` searches files of any length."""


def written_since(main: Print, side: Print | None) -> bool:
    """Return whether another program wrote the main file after our last save, by its time."""
    return side is None or main[2] - side[2] > _SAVE_NS


def apart(main: Print, side: Print | None) -> bool:
    """Return whether the two files cannot be from one save of ours, by their times."""
    return side is None or abs(main[2] - side[2]) > _SAVE_NS


def judge(path: str, content: bytes, unlike: Unlike, main: Print, side: Print | None, searched: int) -> Problem | None:
    """The problem to report for a file whose sum differs. None: another program wrote it since, which is allowed."""
    bit = flipped_bit(content, unlike) if len(content) <= searched else None
    if bit is not None:
        line = content.count(b"\n", 0, bit[0]) + 1
        said = (
            f"one bit is not as it was written (byte {bit[0]}): `sessiond doctor --repair` restores it and keeps a copy"
        )
        return Problem(path, line, said)
    if len(content) != unlike.size or written_since(main, side):  # decay of a disk does not change a file's length
        return None
    said = (
        "its bytes are not those that were written, and no program has written it since: the disk has damaged it. "
        "Restore it from a backup, or `touch` it to accept it as it is"
    )
    return Problem(path, None, said)
