"""Installing, removing and describing the service."""

from __future__ import annotations

import os
from typing import NamedTuple

from sessiond.autostart.definition import WRITTEN, Definition, Manager
from sessiond.errors import SessiondError
from sessiond.fs import RealFileSystem, atomic_write

_FILE_MODE = 0o644
_MAX_BYTES = 64 * 1024
"""More of a file than this need not be read to see whether it is ours."""


class Result(NamedTuple):
    """The outcome: whether the file changed, and what the service manager could not do, if anything."""

    changed: bool
    problem: str | None


class State(NamedTuple):
    """`file` is "missing", "foreign" (somebody else wrote it), "outdated" (for another command or home) or "current"."""

    file: str
    running: bool | None


def install(manager: Manager, definition: Definition, *, force: bool, start: bool) -> Result:
    """Write the file, and start the service unless `start` is false. SessiondError for a file that is not ours, unless `force`."""
    text = manager.text(definition).encode()
    before = _read(manager.path)
    _refuse_foreign(manager, before, force=force)
    changed = before != text
    if changed:
        fs = RealFileSystem()
        fs.make_dirs(os.path.dirname(manager.path))
        atomic_write(fs, manager.path, text, _FILE_MODE)
    if not start:
        return Result(changed, None)
    try:
        manager.start(changed=changed)
    except SessiondError as error:
        return Result(changed, error.message)
    return Result(changed, None)


def remove(manager: Manager, *, force: bool) -> Result:
    """Stop the service and remove its file. `changed` is false if the file was not there. SessiondError for a file that is not ours."""
    before = _read(manager.path)
    if before is None:
        return Result(False, None)
    _refuse_foreign(manager, before, force=force)
    problems = []
    try:
        manager.stop()
    except SessiondError as error:  # in a session without a service manager the file can still go
        problems.append(error.message)
    RealFileSystem().remove(manager.path)
    try:
        manager.forget()
    except SessiondError as error:
        problems.append(error.message)
    return Result(True, problems[0] if problems else None)


def state(manager: Manager, definition: Definition) -> State:
    before = _read(manager.path)
    if before is None:
        return State("missing", None)
    if not _is_ours(before):
        return State("foreign", manager.running())
    return State("current" if before == manager.text(definition).encode() else "outdated", manager.running())


def _read(path: str) -> bytes | None:
    """The file that the service manager would read; None if it does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except FileNotFoundError:
        if os.path.islink(path):
            raise SessiondError(f"{path} is a link to a file that does not exist", hint="remove the link") from None
        return None


def _is_ours(content: bytes) -> bool:
    return WRITTEN.encode() in content


def _refuse_foreign(manager: Manager, before: bytes | None, *, force: bool) -> None:
    if before is not None and not _is_ours(before) and not force:
        raise SessiondError(f"{manager.path} was not written by sessiond", hint="use --force to replace or remove it")
