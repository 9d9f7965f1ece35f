"""Encrypted backups: what `sessiond backup` does around the daemon's copy.

The daemon copies into a temporary folder that only its user can read; the command seals that folder into one file and removes
it. So the place of the backup, a memory stick or a server, never has anything that can be read without the key.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from sessiond.cli.ending import OrderlyEnd
from sessiond.cli.output import say
from sessiond.errors import AlreadyExists, SessiondError
from sessiond.fs import RealFileSystem
from sessiond.fs.scratch import scratch_folder
from sessiond.hub.keys import read_keys
from sessiond.hub.opening import need_extra

_NAME = "backup"


@contextmanager
def made(path: str, key_file: str | None) -> Iterator[str]:
    """Yield where the daemon is to copy to: `path` itself without a key, else a folder that becomes the encrypted file `path`."""
    if key_file is None:
        yield path
        return
    need_extra()
    from sessiond.backups.sealed import must_be_free, seal_folder

    keys = read_keys(key_file)
    must_be_free(path)
    with OrderlyEnd() as end, scratch_folder() as folder, end.interruptible():
        yield f"{folder}/{_NAME}"
        with _room(path):
            seal_folder(RealFileSystem(), f"{folder}/{_NAME}", path, keys[-1])


@contextmanager
def opened(path: str, key_file: str | None) -> Iterator[str]:
    """The folder of a backup, for as long as it is needed."""
    if key_file is None:
        if os.path.isfile(path):
            raise click.UsageError(f"{path} is a file: give --key-file if it is an encrypted backup")
        yield path
        return
    need_extra()
    from sessiond.backups.sealed import unseal

    keys = read_keys(key_file)
    with OrderlyEnd() as end, scratch_folder() as folder, end.interruptible():
        with _room(folder):
            unseal(path, keys, folder)
        yield folder


def decrypt(path: str, target: str, key_file: str) -> None:
    """Make the folder `target`, complete or not at all. AlreadyExists, BadFile, ConfigError."""
    need_extra()
    from sessiond.backups.sealed import unseal

    keys = read_keys(key_file)
    if os.path.lexists(target):
        raise AlreadyExists(f"{target} already exists", hint="choose another name", path=target)
    with OrderlyEnd() as end:
        folder = tempfile.mkdtemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
        try:
            with end.interruptible(), _room(target):
                unseal(path, keys, folder)
            RealFileSystem().replace(folder, target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    say(f"decrypted into {target}; `sessiond backup --verify {target}` checks it")


@contextmanager
def _room(path: str) -> Iterator[None]:
    """Name `path` in the error for a full disk: the error of a failed write names no file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        hint = "free some space there or choose another disk; nothing of it is left"
        raise SessiondError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
