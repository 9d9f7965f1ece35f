"""Finds which file system a path is on, and whether it is one without guarantees: one kept by another machine or by a program."""

from __future__ import annotations

import os
import re

MOUNTS = "/proc/self/mountinfo"
_REMOTE = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "coda",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "smbfs",
    "vboxsf",
    "virtiofs",
}
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def file_system_of(path: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system that a path is or would be on; None if this system does not say."""
    try:
        with open(mounts, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    wanted = os.fsencode(os.path.realpath(path))
    best, found = -1, None
    for line in lines:
        before, _, after = line.partition(b" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = _ESCAPED.sub(lambda escaped: bytes([int(escaped[1], 8)]), fields[4])
        inside = wanted == point or wanted.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= best:  # if several are mounted at one place, the last one is on top
            best, found = len(point), after.split()[0].decode("ascii", "replace")
    return found


def unpromised(path: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system that a path is on, if its locks, syncs and renames depend on another machine or a program."""
    kind = file_system_of(path, mounts)
    if kind is None:
        return None
    return kind if kind in _REMOTE or kind == "fuse" or kind.startswith("fuse.") else None
