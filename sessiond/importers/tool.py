"""The facts that an importer declares about its tool, besides how to read it: how it was verified, and where the tool keeps its files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

Verified: TypeAlias = Literal["run", "real files", "documented"]
"""`run`: the tool itself wrote the files of a test. `real files`: it was tried on files that the tool wrote elsewhere.
`documented`: it was written from documents, from the tool's source or from other readers, and tried on made-up files.
"""

_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


class Tool:
    """The base of an importer. A subclass sets `name` and has `recognise` and `read` (see `record.Importer`)."""

    name: str
    verified: Verified = "documented"
    experimental = True
    """Whether it has not yet been tried on a real file: true for those that are only `documented`."""

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        """Files and folders where the tool keeps its sessions, whether or not they exist. Empty if only the user knows."""
        return []

    def is_part(self, path: str) -> bool:
        """Return whether the file is a part of one of the tool's sources. Another file is the one to import."""
        return False


def in_config(home: str, env: Mapping[str, str], *names: str) -> list[str]:
    """A path in each folder where programs keep their configuration and data on Linux and macOS."""
    config = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    bases = (config, data, os.path.join(home, "Library", "Application Support"))
    return [os.path.join(base, *names) for base in bases]


def in_editors(home: str, env: Mapping[str, str], *names: str, editors: Iterable[str] = _EDITORS) -> list[str]:
    """A path in the user's folder of VS Code and of each editor that is made from it."""
    return [path for editor in editors for path in in_config(home, env, editor, "User", *names)]


def in_state(home: str, env: Mapping[str, str], *names: str) -> list[str]:
    """A path in the folders where programs keep their data and their state on Linux."""
    data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    state = env.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return [os.path.join(base, *names) for base in (data, state)]
