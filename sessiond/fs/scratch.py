"""Private folders for a while, in the folder for temporary files. They may hold words of sessions, so they must not stay there.

A process removes its folders when it is done. One that is killed cannot, so each folder is locked while its process lives, and
the next daemon or backup of the same home removes those that nobody has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from zlib import crc32

from sessiond.endpoint import places

_ATTEMPTS = 10
"""How often a new folder may be taken for one that was left behind, before it is locked."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def scratch_folder() -> Iterator[str]:
    """Make an empty folder that only its user can enter, and remove it at the end. OSError."""
    path, lock = _made()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def left_behind() -> Iterator[str]:
    """Yield the folders of killed processes, each locked until the next one is asked for."""
    folder, prefix = tempfile.gettempdir(), _prefix()
    with suppress(OSError):
        for name in [name for name in os.listdir(folder) if name.startswith(prefix)]:
            with suppress(OSError), _opened(os.path.join(folder, name)) as descriptor:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield os.path.join(folder, name)


def remove_left_behind() -> None:
    """Remove the folders of killed processes, as far as that is possible."""
    for path in left_behind():
        shutil.rmtree(path, ignore_errors=True)


def _made() -> tuple[str, int]:
    """Make a folder. Its path, and the descriptor that has it locked."""
    for _ in range(_ATTEMPTS):
        path = tempfile.mkdtemp(prefix=_prefix())
        with suppress(FileNotFoundError, BlockingIOError), _opened(path) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:  # this disk has no such locks, so nobody takes the folder for one that was left behind
                pass
            if os.path.isdir(path):
                return path, os.dup(descriptor)  # it shares the lock
    raise FileNotFoundError(f"{path} was removed as soon as it was made")


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _prefix() -> str:
    return f"sessiond-{os.geteuid()}-{crc32(os.fsencode(places().data)):08x}-"
