"""The port between the service and the code that keeps sessions: in a folder behind the journal, in memory, one day in a
database.

A store is passive. It reads sessions, makes changes durable, and reports outside edits. It never replaces a session behind
its owner's back, and it takes no locks: for each session there is one `OpenSession` in the service, which holds the
session's `Stored` and calls it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from sessiond.journal.writer import OnDurable
from sessiond.model.changes import Change, Extended
from sessiond.model.message import Message
from sessiond.model.session import Session, SessionInfo

__all__ = ["OnDurable"]  # declared where it is called


class OutsideChange(Exception):
    """A file is not the version that was seen last: merge it before anything is written."""


class FileWarning(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a file that could not be understood and was left as it is."""

    path: str
    line: int | None
    """1-based; null if the file has no lines."""
    message: str


class SavedSession(msgspec.Struct, frozen=True, rename="camel"):
    """The session's file is current. `bytes` is its size, `saved_at` RFC 3339."""

    local_id: str
    path: str
    bytes: int
    saved_at: str


class Listed(msgspec.Struct, frozen=True):
    """One session of a scan: enough to see whether its entry in an index is still valid."""

    local_id: str
    path: str
    fingerprint: str


class Trashed(msgspec.Struct, frozen=True):
    """A session in the trash. `trash_id` is its id on the wire without the store; `info` is as it was."""

    trash_id: str
    deleted_at: str
    info: SessionInfo
    reason: str
    """`deleted`, `cleared`, `truncated` or `edited`."""


class IncomingSession(Protocol):
    """A whole new session that is stored a part at a time. Nobody sees it before `finish`. After ReadOnly, only `abandon`
    may follow.
    """

    async def add(self, messages: Sequence[Message]) -> None:
        """Add the next messages, in the order of their seqs."""

    async def finish(self, session: Session) -> SavedSession:
        """Durable when this returns. `session`: everything except the messages. AlreadyExists. Only the owner of the id calls this."""

    async def abandon(self) -> None:
        """Remove every trace of it."""

    def messages(self) -> AsyncIterator[list[Message]]:
        """After `finish`: the messages again, a part at a time."""


class Touched(msgspec.Struct, frozen=True):
    """Another program may have written these sessions' files. Only a hint. `all_open`: also those of every session in
    memory. `everything`: any file, so the result of a scan must be compared with what is known.
    """

    local_ids: frozenset[str]
    all_open: bool = False
    everything: bool = False


class Arrived(msgspec.Struct, frozen=True):
    """Other machines have changed these sessions, or what waited may be pushed: whoever has them must merge. `taken` is called once
    that is done, or has failed.
    """

    local_ids: list[str]
    taken: Callable[[], None] | None = None


class Erased(msgspec.Struct, frozen=True):
    """Another machine has deleted this session for ever: no trace of it may stay on this one."""

    local_id: str


class Announced(msgspec.Struct, frozen=True):
    """Other machines have these sessions, and nothing of them is here but what lists show. `session_id` is the local id."""

    infos: list[SessionInfo]


class Recovered(msgspec.Struct, frozen=True):
    """The journal holds changes of these sessions that their files lack: they need an owner that saves them."""

    local_ids: list[str]


class StoreProblem(msgspec.Struct, frozen=True, rename="camel"):
    """The reason why a store cannot be reached or written."""

    kind: Literal["unavailable", "readOnly", "saveFailed"]
    """`saveFailed`: the save of one session failed and is tried again."""
    message: str


class HubStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The facts that a shared store knows of its hub. `since`: since when it is in this state (RFC 3339). `pending`: changes that are durable
    here and not on the hub. `lag`: changes that are on the hub and not here, as far as is known. `problem`: why it cannot be
    reached, or what is wrong with it.
    """

    state: Literal["online", "offline"]
    since: str
    pending: int
    lag: int
    problem: str | None


class HealthChanged(msgspec.Struct, frozen=True):
    """`problem` None: the store can be used again."""

    problem: StoreProblem | None


class WatchChanged(msgspec.Struct, frozen=True):
    """`problem`: why outside edits are noticed only when the files are compared, now and then; None: they are noticed at once again."""

    problem: str | None


Event: TypeAlias = Touched | Arrived | Erased | Announced | Recovered | HealthChanged | WatchChanged


Complete: TypeAlias = Callable[[], Awaitable[Session | None]]
"""Puts in place what `Stored.read_rest` read. As `Stored.merge`: the session with all its messages, or another one where the
partial load had shown something else.
"""


class Stored(Protocol):
    """One session as its store keeps it. Only the session's owner calls it.

    The owner makes one call of `commit` at a time. It makes one other call at a time too, and only `changed`, `save` and
    `read_rest` while a `commit` is under way.
    """

    local_id: str

    @property
    def dirty(self) -> bool:
        """True if the file is behind the journal."""

    @property
    def size(self) -> int:
        """Size of the main file when it was last seen, in bytes; 0 if it does not exist."""

    shortens: bool
    """It can be saved while its oldest messages are absent, once all of it was checked."""

    @property
    def fingerprint(self) -> str | None:
        """Identifies the present files with all commits; None while they are behind."""

    def warnings(self) -> list[FileWarning]: ...

    @property
    def provisional(self) -> int:
        """The number of the session's last changes that are durable here, and not yet where the store is shared."""

    def waits(self, seq: int) -> bool:
        """Return whether the change that gave this seq is provisional."""

    def told(self) -> list[Change]:
        """Changes that `merge` has applied in place since the last call: those of other machines."""

    async def agree(self) -> None:
        """Unavailable if nobody can say now which seq the session really has."""

    fetched: bool
    """The last `read` has brought it to this machine: no index has it."""

    moved_to: str | None
    """The local id under which the session goes on, after `merge` has returned None; None: it is gone."""

    @property
    def gathers(self) -> bool:
        """True if text that streams in is gathered before it is committed."""

    @property
    def gathered(self) -> Extended | None:
        """Text that `gather` made durable, and that is not a part of the session yet."""

    async def gather(self, change: Extended) -> None:
        """Make text of a streamed message durable here, in the place of what is gathered, with which it begins. Errors as in
        `commit`; what was gathered before remains.
        """

    async def share(self, session: Session, *, later: bool = False) -> Change:
        """Commit what is gathered, and return the change that it makes. Where that is not possible, or `later`, it is
        provisional. OutsideChange as in `commit`.
        """

    async def orphans(self, session: Session) -> list[str]:
        """Called after `read`: messages that are being streamed by nobody, because whoever began is gone."""

    async def exists(self) -> bool: ...

    async def read(self, *, whole: bool) -> Session:
        """The session with every durable change. SessionNotFound, BadFile, Unavailable.

        `whole` False: the oldest messages of a large one may be absent (`Session.absent`). Its content is then provisional:
        the owner soon merges the whole.
        """

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        """Check that no absent message has one of these ids, and note that in `session`. False if it is not certain."""

    async def check(self, session: Session) -> bool:
        """Read the file of a partial load to its end without keeping it, while commits go on: `session.is_checked` then. False
        if the rest must be read, as for all but the largest files.
        """

    async def read_rest(self, session: Session) -> Complete:
        """Read and decode the files of a session with absent messages, while commits go on. BadFile."""

    async def changed(self) -> bool:
        """Return whether another program wrote the files, as soon as they have not changed for a moment."""

    async def merge(self, session: Session) -> Session | None:
        """The session as it is now. The same object: nothing happened. None: its file was removed, and it is in the
        trash, or it has another id (`moved_to`).
        """

    async def commit(
        self, session: Session, changes: list[Change], on_durable: OnDurable | None = None, *, agreed: bool = False
    ) -> None:
        """Make changes durable, all or none, then apply them. `on_durable` is called in between, by the thread that knows
        first, or not at all. `agreed`: the changes depend on the session's seq. ReadOnly (nothing is stored), Indeterminate
        (may or may not be stored), TooLarge, OutsideChange: somebody else was first; merge, then plan again.
        """

    async def cut(self, session: Session, changes: list[Change]) -> Session:
        """Make changes durable, all or none, that remove messages. Returns the session after them; `session` remains as it
        was, and nothing may change it meanwhile. Errors as in `commit`.
        """

    async def begin(self) -> None:
        """Called before the first commit of a new session: AlreadyExists if the session exists."""

    async def put(self, session: Session) -> SavedSession:
        """Store a whole new session, durable when this returns (fork, import, move). AlreadyExists.

        `session` is the caller's own copy: its messages get the name of the author that the store gives them.
        """

    async def save(self, session: Session) -> SavedSession | None:
        """Bring the file up to date. None if there was nothing to do. OutsideChange: merge, then try again. Absent: all of the
        session must be in memory.
        """

    def save_even_blank(self) -> None:
        """Let the next `save` write the session even if it is empty, so that the journal need not be kept for it."""

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        """Put a copy of the session into the trash under `trash_id`."""

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        """Move it into the trash; `permanent`: not even there, and `erase` removes what is left elsewhere. `session` None:
        its files could not be understood.
        """

    async def erase(self) -> set[str]:
        """Remove every word of a deleted session, and of all that had its id before, from trash and journal. Returns the ids
        that the entries in the trash had as sessions; empty if there were no entries. May be repeated.
        """

    async def strike_out(self) -> None:
        """Remove every word of it from the journal, unless its files are behind the journal."""

    async def remove(self) -> None:
        """Remove it from files and journal; the trash remains as it is."""

    async def restore(self) -> Session:
        """Bring it back from the trash under its own id. SessionNotFound, AlreadyExists."""


class Store(Protocol):
    """One mounted store. Every method that reads or writes may raise Unavailable (cannot be reached); those that write also ReadOnly."""

    name: str
    format: str
    shared: bool
    """Other machines write its sessions too."""
    taken_state_keys: frozenset[str]
    """Keys that its files use for something else, so state cannot use them."""
    path: str

    @property
    def problem(self) -> StoreProblem | None: ...

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """`listener` is called on the loop, in order, never from within a call of this store."""

    def hub_status(self) -> HubStatus:
        """Only of a shared store."""

    def hurry(self, attended: Callable[[str], bool]) -> None:
        """Only of a shared store. Changes of other machines are fetched at once where this holds (a client has the session with
        this local id open), and some at a time elsewhere.
        """

    def announced(self) -> list[SessionInfo]:
        """Sessions of which nothing is here but what lists show. `Stored.read` fetches them."""

    @property
    def unfetched(self) -> int:
        """The number of sessions of which nothing is here but what lists show."""

    @property
    def fetching(self) -> bool:
        """True while they are being fetched, so that a search will find more soon."""

    def recovered(self) -> list[str]:
        """Sessions with changes in the journal that nobody has taken over by `session` yet."""

    def session(self, local_id: str) -> Stored:
        """For the session's owner. Does no I/O and raises no error: the session need not exist."""

    async def scan(self) -> AsyncIterator[list[Listed]]:
        """All sessions that have a file, in batches."""
        yield []

    async def look(self, local_id: str) -> Listed | None:
        """One session of a scan; None if it has no file."""

    async def heads(self, local_ids: Sequence[str]) -> list[SessionInfo]:
        """Return what lists show of sessions that are not in memory, according to their files; those that cannot be read are left
        out. Provisional: nothing is merged, numbered or remembered. `session_id` is the local id.
        """

    def file_path(self, local_id: str) -> str: ...

    def receive(self, local_id: str, created_at: str) -> IncomingSession | None:
        """For a session that is too large for memory; None if this store can only take it as a whole."""

    async def trash(self) -> list[Trashed]: ...


class OfThisMachine:
    """The part of `Stored` for a session that only this machine writes: the seq in memory is the session's, and nothing is
    provisional.
    """

    fetched = False
    moved_to: str | None = None
    shortens = False
    # Not properties: each append looks at them several times.
    gathers = False
    gathered: Extended | None = None

    @property
    def provisional(self) -> int:
        return 0

    def waits(self, seq: int) -> bool:
        return False

    def told(self) -> list[Change]:
        return []

    async def agree(self) -> None:
        pass

    async def check(self, session: Session) -> bool:
        return False

    async def gather(self, change: Extended) -> None:
        raise AssertionError("the journal takes every change at once")

    async def share(self, session: Session, *, later: bool = False) -> Change:
        raise AssertionError("the journal takes every change at once")

    async def orphans(self, session: Session) -> list[str]:
        return [message.id for message in session.streaming()]


class StoreOfThisMachine:
    """The same for `Store`."""

    shared = False

    def hub_status(self) -> HubStatus:
        raise AssertionError("a store of one machine has no hub")

    def hurry(self, attended: Callable[[str], bool]) -> None:
        raise AssertionError("a store of one machine has no hub")

    def announced(self) -> list[SessionInfo]:
        return []

    @property
    def unfetched(self) -> int:
        return 0

    @property
    def fetching(self) -> bool:
        return False
