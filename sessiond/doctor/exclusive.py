"""The data folder to oneself: its lock, so that no daemon starts while files are repaired."""

from __future__ import annotations

import errno
import time

from sessiond.client import requests
from sessiond.doctor.finding import Ask
from sessiond.doctor.folders import MOUNT_IT
from sessiond.doctor.journal import acknowledge
from sessiond.endpoint import Places
from sessiond.errors import SessiondError
from sessiond.fs import FileSystem, Lock

_ENDING_S = 3.0
"""How long to wait for a daemon that is ending."""


def lock_data(fs: FileSystem, where: Places, ask: Ask) -> Lock | None:
    """Take the lock. Returns None if the data folder does not exist yet. SessiondError if a daemon is running."""
    if fs.stat(where.data) is None:
        return None
    ends = time.monotonic() + _ENDING_S
    while True:
        try:
            return fs.lock(where.lock_file)
        except OSError as error:
            if error.errno == errno.EROFS:
                raise SessiondError(f"{where.data} is on a file system that is read-only", hint=MOUNT_IT) from None
            if not isinstance(error, BlockingIOError):
                raise
            # A daemon that could not start holds the lock until it is gone, and answers nobody.
            if time.monotonic() > ends or _responds(ask):
                raise SessiondError(
                    "the daemon is running; stop it before repairing files", hint="run `sessiond stop` first"
                ) from None
        time.sleep(0.05)


def _responds(ask: Ask) -> bool:
    try:
        return ask(requests.status()) is not None
    except (SessiondError, OSError):
        return True


def acknowledge_losses(fs: FileSystem, where: Places, ask: Ask, *, locked: bool) -> int:
    """Acknowledge everything that a damaged journal has lost, and return how many losses. `locked`: the caller has the lock.
    SessiondError.
    """
    answer = None if locked else ask(requests.acknowledge())
    if answer is not None:
        return answer.value.acknowledged
    lock = None if locked else lock_data(fs, where, ask)
    try:
        return acknowledge(fs, where.data + "/journal")
    finally:
        if lock is not None:
            lock.release()
