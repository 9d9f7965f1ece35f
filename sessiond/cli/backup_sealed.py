"""Encrypted backups: what `sessiond backup` does around the daemon's copy.

The daemon copies into a temporary folder that only its user can read; the command seals that folder into one file and removes
it. So the place of the backup, a memory stick or a server, never has anything that can be read without the key.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from sessiond.cli.output import say
from sessiond.errors import AlreadyExists
from sessiond.fs import RealFileSystem
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
    with _scratch() as folder:
        yield f"{folder}/{_NAME}"
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
    with _scratch() as folder:
        unseal(path, keys, folder)
        yield folder


def decrypt(path: str, target: str, key_file: str) -> None:
    """Make the folder `target`, complete or not at all. AlreadyExists, BadFile, ConfigError."""
    need_extra()
    from sessiond.backups.sealed import unseal

    keys = read_keys(key_file)
    if os.path.lexists(target):
        raise AlreadyExists(f"{target} already exists", hint="choose another name", path=target)
    folder = tempfile.mkdtemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
    try:
        unseal(path, keys, folder)
        RealFileSystem().replace(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    say(f"decrypted into {target}; `sessiond backup --verify {target}` checks it")


@contextmanager
def _scratch() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="sessiond-backup-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
