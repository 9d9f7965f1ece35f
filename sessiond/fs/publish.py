"""New files in folders that are not ours: a file gets its name only once its bytes are on the disk.

A process that is killed at any moment leaves the whole file or nothing. An existing file is never touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets

_MODE = 0o600
_NOT_THERE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What kernels and file systems say that know no file without a name."""


def publish(path: str, data: bytes, mode: int = _MODE) -> None:
    """Make a file. FileExistsError if the name is taken; any other OSError leaves nothing. The folder must exist. Blocks."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _publish_without_a_name(folder, os.path.basename(path), data, mode):
            _publish_by_a_link(path, data, mode)
        try:
            os.fsync(folder)
        except OSError:
            os.unlink(os.path.basename(path), dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _publish_without_a_name(folder: int, name: str, data: bytes, mode: int) -> bool:
    """Publish a file that has no name before. Return whether the kernel and the file system know files without a name."""
    try:
        fd = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=folder)
    except AttributeError:
        return False
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        return False
    try:
        _write(fd, data)
        # With a descriptor of the folder, Python has the kernel follow the link that /proc shows.
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
    except FileNotFoundError:  # no /proc
        return False
    finally:
        os.close(fd)
    return True


def _publish_by_a_link(path: str, data: bytes, mode: int) -> None:
    """Publish a file that must have a name from the start: a hidden one first. A kill may leave that, and nothing else."""
    hidden = os.path.join(os.path.dirname(path), f".sessiond-{secrets.token_hex(8)}.tmp")
    fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        try:
            _write(fd, data)
        finally:
            os.close(fd)
        os.link(hidden, path)
    finally:
        os.unlink(hidden)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(path: str) -> list[str]:
    """Make a folder and those above it, for the user only. Returns those that were made, the innermost last. OSError."""
    made: list[str] = []
    missing = path = os.path.abspath(path)  # above a relative path there is no folder to end at
    while not os.path.isdir(missing):
        made.insert(0, missing)
        missing = os.path.dirname(missing)
    for folder in made:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            _sync_folder(os.path.dirname(folder))
    return made


def withdraw(path: str | None, folders: list[str]) -> None:
    """Take a file back, and the folders that were made for it, if they are empty."""
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
