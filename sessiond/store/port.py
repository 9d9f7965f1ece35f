"""The port between the service and whatever keeps sessions: a folder behind the journal, memory, one day a database.

The service knows neither journal nor files: it asks for a session, commits changes to it, and is told when somebody
else changed it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import Session, SessionInfo


class FileWarning(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a file that could not be understood and was left as it is. `line` is 1-based or None."""

    path: str
    line: int | None
    message: str


class Loaded(msgspec.Struct):
    session: Session
    warnings: list[FileWarning]


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """The session's file is current. `bytes` is its size, `saved_at` RFC 3339."""

    local_id: str
    path: str
    bytes: int
    saved_at: str


class Listed(msgspec.Struct, frozen=True):
    """One session of a scan: enough to see whether what an index knows of it still counts."""

    local_id: str
    path: str
    fingerprint: str


class Trashed(msgspec.Struct, frozen=True):
    """A session in the trash. `trash_id` is its id on the wire less the store; `info` is as it was."""

    trash_id: str
    deleted_at: str
    info: SessionInfo
    reason: str
    """`deleted`, `cleared`, `truncated` or `edited`."""


class Incoming(Protocol):
    """A whole new session on its way in, a part at a time. Nobody sees it before `finish`. ReadOnly, after which only
    `abandon` is left to do.
    """

    async def add(self, messages: Sequence[Message]) -> None:
        """The next ones, by their seqs."""

    async def finish(self, session: Session) -> Saved:
        """Durable when answered. `session`: everything but the messages. AlreadyExists."""

    async def abandon(self) -> None:
        """Nothing is left of it."""

    def messages(self) -> AsyncIterator[list[Message]]:
        """After `finish`: the messages once more, a part at a time."""


class Reloaded(msgspec.Struct):
    """Somebody else changed the session and it was merged; `session` replaces what the service holds."""

    session: Session
    warnings: list[FileWarning]


class Appeared(msgspec.Struct):
    local_id: str


class Vanished(msgspec.Struct):
    """Deleted by somebody else; what was known lies in the trash."""

    local_id: str


class WasSaved(msgspec.Struct):
    saved: Saved


class HealthChanged(msgspec.Struct):
    """`problem` None: well again. Otherwise `kind` is `readOnly` or `unavailable`."""

    kind: str | None
    problem: str | None


Event: TypeAlias = Reloaded | Appeared | Vanished | WasSaved | HealthChanged


class Store(Protocol):
    """One mounted store. Every method may raise Unavailable (out of reach) and those that write ReadOnly."""

    name: str
    format: str
    path: str

    @property
    def problem(self) -> HealthChanged | None: ...

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """`listener` is called on the loop, in order, never re-entrantly from a call of this store."""

    async def scan(self) -> AsyncIterator[list[Listed]]:
        """All sessions, in batches."""
        yield []

    async def load(self, local_id: str, *, whole: bool = True) -> Loaded:
        """Every durable change in it. SessionNotFound, BadFile. The store keeps the session in mind until `release`.

        `whole` False: the oldest messages of a large one may not be in memory yet (`Session.absent`). What is told of it then
        is provisional: the caller has the whole loaded soon.
        """

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        """Look whether none of the absent messages has one of these ids, and note it in `session`. False where that is not certain."""

    async def exists(self, local_id: str) -> bool: ...

    async def commit(self, session: Session, changes: Sequence[Change]) -> None:
        """Make changes durable, all or none, and then apply them to `session`. One call after the other for one
        session. ReadOnly (nothing is there), Indeterminate (may or may not be there), Conflict (`session` is no longer
        the current one: load it again).
        """

    async def begin(self, local_id: str, created_at: str) -> Session:
        """A new, empty session, known to nobody till its first commit. AlreadyExists."""

    async def put(self, session: Session) -> Saved:
        """A whole new session at once, durable when answered (fork, restore, import, move). AlreadyExists."""

    def receive(self, local_id: str, created_at: str) -> Incoming | None:
        """As `put`, for a session that is too large for memory; None where this store can take it as a whole only."""

    async def look(self, local_id: str) -> Listed | None:
        """One session of a scan; None where there is none."""

    def dirty(self, local_id: str) -> bool:
        """Whether the session file is behind."""

    def dirty_count(self) -> int: ...

    def dirty_ids(self) -> list[str]:
        """The sessions whose file is behind, open or not."""

    def file_path(self, local_id: str) -> str: ...

    def fingerprint(self, local_id: str) -> str | None:
        """Of the session as it stands with all commits, or None where unknown."""

    async def save(self, local_id: str) -> Saved | None:
        """Bring the file up to date. None where there is nothing to save (it was current, or the session is blank)."""

    async def release(self, local_id: str) -> None:
        """The service let go of the session object."""

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        """Put a copy of the session into the trash under `trash_id`."""

    async def delete(self, local_id: str, *, permanent: bool) -> None:
        """Into the trash, or gone for ever, out of the journal too."""

    async def trash(self) -> list[Trashed]: ...

    async def restore(self, trash_id: str, new_id: str) -> Loaded:
        """Out of the trash, under `new_id`. SessionNotFound; AlreadyExists while the id is in use."""

    async def purge(self, trash_id: str) -> None: ...

    async def close(self) -> None:
        """Save everything and let go of the folder."""
