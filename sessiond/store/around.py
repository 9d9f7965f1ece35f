"""What a folder store needs of what is around it: the journal, and threads for what waits for the disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

Run: TypeAlias = Callable[..., Awaitable[Any]]
"""Has a function called with its arguments on a thread; answers what it returns."""


class Marks(Protocol):
    """What the journal is told."""

    def note_saved(self, store: str, session: str, seq: int) -> None: ...

    def note_gone(self, store: str, session: str) -> Awaitable[None]: ...


class Journal(Marks, Protocol):
    """What a folder store needs of the journal; `journal.writer.JournalWriter` is it."""

    def check(self) -> None:
        """ReadOnly where the disk failed: nothing may be acknowledged any more, what needs no journal neither."""

    def commit(self, store: str, session: str, seq: int, payload: bytes) -> Awaitable[int]:
        """Resolves with the record's lsn when durable. ReadOnly, Indeterminate."""

    def purge(self, store: str, session: str) -> Awaitable[None]: ...
