"""What the folder store keeps in mind of one session between its calls."""

from __future__ import annotations

import asyncio

from sessiond.formats.base import Problem
from sessiond.model.changes import Change
from sessiond.model.session import Session
from sessiond.store.files import Print


class Tracked:
    """`io` is held by whoever reads or writes the files; `gate` by whoever changes `session` (a commit, or the end of a
    merge).
    """

    __slots__ = (
        "changed_at", "dirty_since", "gate", "io", "local_id", "pending", "prints", "problems", "recovered", "retry_at", "rewrite", "session",
    )  # fmt: skip

    def __init__(self, local_id: str) -> None:
        self.local_id = local_id
        self.session: Session | None = None
        self.pending: list[Change] = []
        """Durable in the journal, not in the file yet."""
        self.prints: dict[str, Print] = {}
        """The versions of the files that `session` less `pending` stands for."""
        self.problems: list[Problem] = []
        self.recovered = False
        """`pending` came from the journal at start: a save may have been cut short."""
        self.rewrite = False
        """The file lacks something that an append cannot give it."""
        self.dirty_since: float | None = None
        self.changed_at = 0.0
        self.retry_at = 0.0
        self.io = asyncio.Lock()
        self.gate = asyncio.Lock()

    @property
    def dirty(self) -> bool:
        return bool(self.pending) or self.rewrite

    def changed(self, now: float) -> None:
        self.changed_at = now
        if self.dirty_since is None:
            self.dirty_since = now

    def current(self) -> None:
        """The file has everything."""
        self.rewrite = False
        self.recovered = False
        self.dirty_since = None
