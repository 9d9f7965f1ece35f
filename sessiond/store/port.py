"""The port between the service and whatever keeps sessions: a folder behind the journal, memory, one day a database.

A store is passive. It reads, it makes durable, and it says what changed outside. It never replaces a session behind its
owner's back, and it takes no locks: for each session there is one `OpenSession` in the service, which holds the
session's `Stored` and calls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from sessiond.journal.writer import OnDurable
from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import Session, SessionInfo


class OutsideChange(Exception):
    """A file is not the version that was seen last: merge it before anything is written."""


class FileWarning(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a file that could not be understood and was left as it is."""

    path: str
    line: int | None
    """1-based; null where there are no lines."""
    message: str


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
        """Durable when this returns. `session`: everything but the messages. AlreadyExists. The owner of the id calls it."""

    async def abandon(self) -> None:
        """Remove every trace of it."""

    def messages(self) -> AsyncIterator[list[Message]]:
        """After `finish`: the messages once more, a part at a time."""


class Touched(msgspec.Struct, frozen=True):
    """Somebody may have written these sessions' files. Only a hint. `all_open`: those of every session in memory, too.
    `everything`: any file, so what a scan finds is to be compared with what is known.
    """

    local_ids: frozenset[str]
    all_open: bool = False
    everything: bool = False


class Recovered(msgspec.Struct, frozen=True):
    """The journal holds changes of these sessions that their files lack: they want an owner that saves them."""

    local_ids: list[str]


class StoreProblem(msgspec.Struct, frozen=True, rename="camel"):
    """Why a store cannot be reached or written."""

    kind: Literal["unavailable", "readOnly", "saveFailed"]
    """`saveFailed`: of one session, which is tried again."""
    message: str


class HealthChanged(msgspec.Struct, frozen=True):
    """`problem` None: well again."""

    problem: StoreProblem | None


class WatchChanged(msgspec.Struct, frozen=True):
    """`problem`: why what others write is noticed only when the files are compared, every now and then; None: at once again."""

    problem: str | None


Event: TypeAlias = Touched | Recovered | HealthChanged | WatchChanged


Complete: TypeAlias = Callable[[], Awaitable[Session | None]]
"""Puts in place what `Stored.read_rest` read. As `Stored.merge`: the session with all its messages, or another one where the
partial load had shown something else.
"""


class Stored(Protocol):
    """One session as its store keeps it. Only the session's owner calls it.

    The owner calls `commit` one at a time. It calls everything else one at a time too, and of that only `changed`,
    `save` and `read_rest` while a `commit` is under way.
    """

    local_id: str

    @property
    def dirty(self) -> bool:
        """Whether the file is behind the journal."""

    @property
    def size(self) -> int:
        """Of the main file as it was seen last, in bytes; 0 where there is none."""

    @property
    def fingerprint(self) -> str | None:
        """Of the files as they stand with all commits; None while they are behind."""

    def warnings(self) -> list[FileWarning]: ...

    async def exists(self) -> bool: ...

    async def read(self, *, whole: bool) -> Session:
        """Every durable change in it. SessionNotFound, BadFile, Unavailable.

        `whole` False: the oldest messages of a large one may be absent (`Session.absent`). What is told of it then is
        provisional: the owner merges the whole soon.
        """

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        """Look whether none of the absent messages has one of these ids, and note it in `session`. False where that is
        not certain.
        """

    async def read_rest(self, session: Session) -> Complete:
        """Read and decode the files of a session with absent messages, while commits go on. BadFile."""

    async def changed(self) -> bool:
        """Whether somebody else wrote the files. Returns when they have stood still for a moment."""

    async def merge(self, session: Session) -> Session | None:
        """What the session is now. The same object: nothing happened. None: somebody removed it, it lies in the trash."""

    async def commit(self, session: Session, changes: list[Change], on_durable: OnDurable | None = None) -> None:
        """Make changes durable, all or none, then apply them. `on_durable` is called in between, by whichever thread knows
        first, or not at all. ReadOnly (nothing is there), Indeterminate (may or may not
        be there), TooLarge.
        """

    async def cut(self, session: Session, change: Change) -> Session:
        """Make a change durable that takes messages away. The session as it is after it; `session` stays as it was, and
        nobody may change it meanwhile. Errors as `commit`.
        """

    async def begin(self) -> None:
        """Before the first commit of a new session: AlreadyExists where there is one."""

    async def put(self, session: Session) -> Saved:
        """A whole new session at once, durable when this returns (fork, import, move). AlreadyExists."""

    async def save(self, session: Session) -> Saved | None:
        """Bring the file up to date. None where there was nothing to do. OutsideChange: merge, then try again."""

    def save_even_blank(self) -> None:
        """The next `save` writes a session with nothing in it, too, so that the journal need not be kept for it."""

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        """Put a copy of the session into the trash under `trash_id`."""

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        """Into the trash; `permanent`: not even there, and `erase` takes out what is left elsewhere. `session` None: its files could
        not be understood.
        """

    async def erase(self) -> set[str]:
        """Of a session that is gone, and of all that had its id before: take every word out of trash and journal. The ids that
        what lay in the trash had when it lived, none if nothing did. It may be repeated.
        """

    async def strike_out(self) -> None:
        """Take every word of it out of the journal, unless its files are behind that."""

    async def remove(self) -> None:
        """Files and journal know nothing of it any more; the trash stays as it is."""

    async def restore(self) -> Session:
        """Out of the trash under its own id. SessionNotFound, AlreadyExists."""


class Store(Protocol):
    """One mounted store. What reads or writes may raise Unavailable (out of reach); what writes ReadOnly, too."""

    name: str
    format: str
    taken_state_keys: frozenset[str]
    """Keys that its files use for something else, so no state can have them."""
    path: str

    @property
    def problem(self) -> StoreProblem | None: ...

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """`listener` is called on the loop, in order, never from within a call of this store."""

    def recovered(self) -> list[str]:
        """Sessions of which the journal holds changes that nobody has taken over by `session` yet."""

    def session(self, local_id: str) -> Stored:
        """For the one owner of the session. No I/O, and no error: there need not be such a session."""

    async def scan(self) -> AsyncIterator[list[Listed]]:
        """All sessions that have a file, in batches."""
        yield []

    async def look(self, local_id: str) -> Listed | None:
        """One session of a scan; None where there is none."""

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        """What lists show of sessions that nobody has in memory, as far as their files tell; those that cannot be read are left
        out. Provisional: nothing is merged, numbered or remembered. `session_id` is the local id.
        """

    def file_path(self, local_id: str) -> str: ...

    def receive(self, local_id: str, created_at: str) -> Incoming | None:
        """For a session that is too large for memory; None where this store can take it as a whole only."""

    async def trash(self) -> list[Trashed]: ...
