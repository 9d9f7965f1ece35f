"""The findings about the folders of the daemon: whether they are private and writable, and on which file system they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial

from sessiond.doctor.finding import Finding
from sessiond.doctor.wording import unpromised_in_words
from sessiond.endpoint import Places, privacy_problem
from sessiond.fs.network import unpromised
from sessiond.fs.scratch import left_behind

MOUNT_IT = "mount that file system so that it can be written to"
_WRITTEN = {
    "data": "sessions cannot be saved",
    "cache": "searches cannot find anything new",
    "log": "nothing is logged",
}
"""Folders that must be writable, and the consequence if they are not."""


def examine_folders(where: Places) -> Iterator[Finding]:
    """Yield the daemon's own folders: private if they exist, and writable or possible to create."""
    for name in ("data", "config", "cache", "run", "log"):
        path = getattr(where, name)
        if name in _WRITTEN and (held := _unwritable(path)) is not None:
            unusable = f"{_WRITTEN[name]}: {held} is not writable"
            hint = f"check the mode and owner of {held}, or set SESSIOND_HOME to a folder of yours"
            if os.statvfs(held).f_flag & os.ST_RDONLY:
                unusable, hint = f"{_WRITTEN[name]}: {held} is on a file system that is read-only", MOUNT_IT
            yield Finding(f"{name} folder {path}", unusable, hint)
            continue
        if not os.path.lexists(path):
            continue
        problem = None if name == "config" else privacy_problem(os.path.realpath(path))
        mend = partial(_close_folder, path) if problem else None
        yield Finding(f"{name} folder {path}", problem, f"chmod 700 {path}" if problem else None, mend)


def examine_left_behind() -> Iterator[Finding]:
    """Yield the temporary folders that a killed process left."""
    for path in left_behind():
        problem = "it was left by a sessiond that was killed, and may hold words of sessions"
        hint = "`sessiond doctor --repair` removes it; so does the next start of the daemon"
        yield Finding(path, problem, hint, partial(_remove, path))


def note_unpromised(paths: list[str]) -> Iterator[Finding]:
    """Yield notes, not problems: nothing here could repair them, and the rest is checked as usual."""
    for path in paths:
        kind = unpromised(path)
        if kind is not None:
            hint = "move it to a local disk, or keep a backup"
            yield Finding(f"note: {unpromised_in_words(path, kind)}", hint=hint)


def _unwritable(path: str) -> str | None:
    """The folder that would have to be writable but is not: `path` itself, or the one it would be created in."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    able = os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
    return None if able else path


def _close_folder(path: str) -> str | None:
    os.chmod(os.path.realpath(path), 0o700)
    return None if privacy_problem(os.path.realpath(path)) else "its mode is now 0700"


def _remove(path: str) -> str | None:
    shutil.rmtree(path)
    return "it is removed"
