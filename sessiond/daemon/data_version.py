"""Which version of the data folder's layout this is. One that a newer sessiond made is not touched: who knows what it holds."""

from __future__ import annotations

import logging

from sessiond.endpoint import Places
from sessiond.errors import ConfigError
from sessiond.fs import FileSystem, atomic_write

FORMAT = 2
"""Grows when an older sessiond would do harm in the folder; what each file holds has versions of its own.

2: `data/held`. An older one would not see the words that are there, and give their seqs to others.
"""
_BYTES = 32
_log = logging.getLogger(__name__)


def check_vintage(fs: FileSystem, where: Places) -> None:
    """ConfigError where a newer version made the folder. Reads only."""
    path = _path(where)
    if fs.stat(path) is None:
        return
    said = fs.read(path, 0, _BYTES).decode("ascii", "replace").strip()
    # What is not a number is damage; the files themselves tell then.
    if said.isdecimal() and int(said) > FORMAT:
        raise ConfigError(
            f"{where.data} is of format {said}, this sessiond knows format {FORMAT}: a newer one made it",
            hint="start that newer version; nothing was changed",
        )


def mark_vintage(fs: FileSystem, where: Places) -> None:
    """Say for later versions which one this is."""
    path, content = _path(where), b"%d\n" % FORMAT
    try:
        if fs.stat(path) is None or fs.read(path, 0, _BYTES) != content:
            atomic_write(fs, path, content)
    except OSError as error:  # a full disk; it is written at another start
        _log.warning("%s could not be written: %s", path, error)


def _path(where: Places) -> str:
    return where.data + "/format"
