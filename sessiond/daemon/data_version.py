"""The version of the data folder's layout. A folder of a newer sessiond is not touched: its content is unknown."""

from __future__ import annotations

import logging

from sessiond.endpoint import Places
from sessiond.errors import ConfigError
from sessiond.fs import FileSystem, atomic_write

FORMAT = 3
"""Increased when an older sessiond would do harm in the folder; the content of each file has its own version.

2: `data/held`. An older sessiond would not see the changes there, and would give their seqs to others.
3: `imports.db` says what was removed of other tools' sessions. An older sessiond would take it for damaged and throw it away.
"""
_BYTES = 32
_log = logging.getLogger(__name__)


def check_vintage(fs: FileSystem, where: Places) -> None:
    """ConfigError if a newer version made the folder. Reads only."""
    path = _path(where)
    if fs.stat(path) is None:
        return
    said = fs.read(path, 0, _BYTES).decode("ascii", "replace").strip()
    # Anything but a number is damage, which shows in the files themselves.
    if said.isdecimal() and int(said) > FORMAT:
        raise ConfigError(
            f"{where.data} has format {said}, this sessiond knows format {FORMAT}: a newer version wrote it",
            hint="start that newer version; nothing was changed",
        )


def mark_vintage(fs: FileSystem, where: Places) -> None:
    """Record this version for later ones."""
    path, content = _path(where), b"%d\n" % FORMAT
    try:
        if fs.stat(path) is None or fs.read(path, 0, _BYTES) != content:
            atomic_write(fs, path, content)
    except OSError as error:  # a full disk; a later start writes it
        _log.warning("%s could not be written: %s", path, error)


def _path(where: Places) -> str:
    return where.data + "/format"
