"""`manifest.json` of a backup: what is in it, so that it can be proved later."""

from __future__ import annotations

import msgspec

MANIFEST = "manifest.json"
VERSION = 1
DATA, CONFIG, STORES = "data", "config", "stores"
"""The folders of a backup: as in SESSIOND_HOME, and one a store that lies elsewhere."""


class StoreCopied(msgspec.Struct, rename="camel"):
    """One store."""

    name: str
    format: str
    path: str
    """Where it was."""
    sessions: int
    unreadable: list[str]
    """Ids of sessions whose files could not be understood when they were copied. They are in the copy as they were."""


class NotCopied(msgspec.Struct, rename="camel"):
    path: str
    message: str
    line: int | None = None


class Manifest(msgspec.Struct, rename="camel"):
    version: int
    made_by: str
    """Of sessiond."""
    created_at: str
    data_dir: str
    lsn: int
    records: int
    """In the journal's copy."""
    stores: list[StoreCopied]
    trash: dict[str, int]
    """Store -> entries of its trash."""
    files: int
    """Beside this one and the sums."""
    bytes: int
    warnings: list[NotCopied] = []


def folder_of(store: str, default: str = "default") -> str:
    """Where a store's files lie in a backup."""
    return f"{DATA}/sessions" if store == default else f"{STORES}/{store}"
