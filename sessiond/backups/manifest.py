"""`manifest.json` of a backup: its content, so that it can be verified later."""

from __future__ import annotations

import msgspec

MANIFEST = "manifest.json"
VERSION = 1
DATA, CONFIG, STORES = "data", "config", "stores"
"""The folders of a backup: as in SESSIOND_HOME, and one for each store that is elsewhere."""
SHARED = f"{DATA}/shared"
"""The folder of replicas of shared stores, and their ledgers."""


class StoreCopied(msgspec.Struct, rename="camel"):
    """One store."""

    name: str
    format: str
    path: str
    """Its original place."""
    sessions: int
    unreadable: list[str]
    """Ids of sessions whose files could not be understood when they were copied. They are in the copy unchanged."""
    shared: bool = False
    waiting: int = 0
    """Of a shared store: changes in the copy of its ledger that its hub had not acknowledged."""


class NotCopied(msgspec.Struct, rename="camel"):
    path: str
    message: str
    line: int | None = None


class Manifest(msgspec.Struct, rename="camel"):
    version: int
    made_by: str
    """The version of sessiond."""
    created_at: str
    data_dir: str
    lsn: int
    records: int
    """How many records the journal's copy has."""
    stores: list[StoreCopied]
    trash: dict[str, int]
    """Store -> entries of its trash."""
    files: int
    """How many files there are besides this one and the sums."""
    bytes: int
    warnings: list[NotCopied] = []


def folder_of(store: str, default: str = "default", *, shared: bool = False) -> str:
    """Return where a store's files are in a backup."""
    if shared:
        return f"{SHARED}/{store}"
    return f"{DATA}/sessions" if store == default else f"{STORES}/{store}"


def ledger_of(store: str) -> str:
    """Return where the ledger of a shared store is in a backup."""
    return f"{SHARED}/{store}.ledger"
