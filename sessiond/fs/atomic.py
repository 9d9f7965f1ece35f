"""Replaces a whole file so that a crash leaves the old one or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import os

from sessiond.fs.port import FileSystem, Stat

_TRIES = 100
"""How many temporary names may be taken by leftovers of crashes before this gives up."""


def atomic_write(fs: FileSystem, path: str, data: bytes, mode: int = 0o600, *, follow: bool = True) -> Stat:
    """Replace a whole file durably: temporary file, sync, rename, folder sync. For files that only we write.

    A link is resolved and remains a link; without `follow` the file takes its place. DiskFailed: either the old or the new
    content is there; any other OSError: the old content is.
    """
    target = fs.real_path(path) if follow else path
    folder = os.path.dirname(target)
    temporary, stat = _create_beside(fs, target, data, mode)
    try:
        fs.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            fs.remove(temporary)
        raise
    fs.sync_dir(folder)
    return stat


def is_temporary(name: str) -> bool:
    """Return whether a name is one of `atomic_write`'s, which a crash may leave behind; the folder's owner may remove it."""
    return name.startswith(".") and name.endswith(".tmp~")


def _create_beside(fs: FileSystem, target: str, data: bytes, mode: int) -> tuple[str, Stat]:
    """Create it in the same folder, so that the rename remains within one file system."""
    folder, name = os.path.split(target)
    short = os.fsencode(name)[:200].decode(errors="ignore")  # a name may have at most 255 bytes
    for attempt in range(_TRIES):
        temporary = os.path.join(folder, f".{short}.{attempt}.tmp~")
        try:
            return temporary, fs.create(temporary, data, mode)
        except FileExistsError:
            continue
    raise FileExistsError(f"{_TRIES} leftover temporary files next to {target}; remove them")
