"""The interface that every format offers to the store, and the values that pass between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from sessiond.model.changes import Appended, Change, Extended, Finished
from sessiond.model.message import Message
from sessiond.model.session import Session, SessionInfo

Files: TypeAlias = Mapping[str, bytes]
"""Path relative to the store's folder, with `/` -> content. Contains only files that exist."""


TAIL_BYTES = 256


class Problem(msgspec.Struct, frozen=True):
    """Something in a file that could not be understood. `line` is 1-based, or None if there are no lines."""

    path: str
    line: int | None
    message: str
    fatal: bool = False
    """The session cannot be read at all (`badFile`). Its files are then never written."""
    intact: bool = False
    """Nothing is damaged: a repair must leave what is there, such as a line of a newer version."""


class Unlike(msgspec.Struct, frozen=True):
    """The bytes of a main file differ from those written last: somebody edited them, or the disk damaged them."""

    size: int
    """How many bytes the sum covers."""
    expected: int
    """CRC-32 of those bytes as they were written."""


class Decoded(msgspec.Struct):
    """A session as read from its files."""

    session: Session
    problems: list[Problem]
    through: int = 0
    """Every change with a seq up to this one is in the files (or was there until somebody removed it)."""
    beyond: frozenset[int] = frozenset()
    """Seqs of single changes above `through` that are also in the files (a crash cut an append short)."""
    touched: dict[str, int] = {}
    """Message id -> seq of the newest change contained in the one line that the file has for the message."""
    renumbered: bool = False
    """Some messages or notes had no seq and have been given one: the writes of `adopt_numbering` must be durable before
    anyone is told.
    """
    unlike: Unlike | None = None
    """Set until somebody confirms that the file is meant to be as it is: until then `adopt_numbering` leaves its sum alone."""
    dropped: list[Message] = []
    """Messages that only the daemon has had, and that another program's version of the main file does not bring back.
    They go into the trash before `adopt_numbering` forgets them.
    """
    incomplete: bool = False
    """The files lack something that they must contain (an old copy overwrote newer messages): rewrite them."""

    @property
    def fatal(self) -> Problem | None:
        return next((problem for problem in self.problems if problem.fatal), None)

    def holds(self, change: Change) -> bool:
        if change.seq <= self.through:
            return True
        if isinstance(change, Appended):
            # Each of its messages has its own line, and a crash may have left any of them.
            return all(wire["seq"] in self.beyond for wire in change.messages)
        if change.seq in self.beyond:
            return True
        return isinstance(change, (Extended, Finished)) and change.seq <= self.touched.get(change.message_id, 0)


class Write(msgspec.Struct, frozen=True):
    """One durable step on one file. Steps are done in order, each synced before the next begins."""

    path: str
    data: bytes
    how: Literal["append", "replace", "remove"]


class Tail(msgspec.Struct, frozen=True):
    """The facts that a format must know about the main file to append to it without reading it."""

    exists: bool
    size: int = 0
    end: bytes = b""
    """Its last bytes, at most TAIL_BYTES."""

    @property
    def last_byte(self) -> bytes:
        return self.end[-1:]


class InParts(Protocol):
    """A new session's files, written a part at a time, so that its messages are never all in memory."""

    beginning: bytes

    def messages(self, messages: Sequence[Message]) -> bytes: ...

    def ending(self, session: Session) -> bytes:
        """`session`: everything but its messages, with the seq and time of the last change."""

    def beside(self, session: Session, glanced_from: int) -> Sequence[Write]:
        """Writes of other files, after the main one. `glanced_from`: size in bytes from which a file gets a partial load."""

    def read(self, lines: bytes) -> list[Message]:
        """The messages among whole lines of such a file."""


class Check(Protocol):
    """Checks that a large main file is what was written, without keeping it."""

    def take(self, part: bytes, before: int) -> list[str]:
        """Return the ids of messages in the next `part` with a seq below `before`. ValueError for a line that we did not write."""

    @property
    def agrees(self) -> bool:
        """True if the bytes taken are those that were written when the sidecar was."""


class PartialLoad(msgspec.Struct, frozen=True):
    """Loading a large session from its sidecar and the end of its file, before the whole file is read."""

    load: Callable[[str, bytes | None, int, bytes, int | None], Decoded | None]
    """(local id, sidecar, bytes of the main file, its last bytes, seq of the first change that only the journal has). None
    where the file must be read whole.
    """
    remember: Callable[[Sequence[Write], Session, int], Sequence[Write]]
    """(writes of a save, the session, least bytes of the main file) -> the writes, with what `load` needs in the sidecar."""
    check: Callable[[bytes | None], Check]
    """(the sidecar) -> a check of the main file."""


class Abilities(msgspec.Struct, frozen=True):
    """The things that a format can do beyond what all must."""

    sessions_under: Callable[[str], list[str] | None] | None = None
    """Sessions are in folders: (relative folder) -> the local ids that `find` would see there, were all its files there.
    None: any session, so all of them must be compared.
    """
    nested: Mapping[str, str] = {}
    """A folder whose folders hold a session each -> the name of its file."""
    shared_files: tuple[str, ...] = ()
    """Files that belong to all sessions of the folder: they are not removed with one of them."""
    state_keys: frozenset[str] = frozenset()
    """Keys that the file uses for something else, so the state cannot have them."""
    says_all: bool = False
    """The files say everything that a session holds: a copy of them is a copy of the session."""
    partial_load: PartialLoad | None = None
    header: Callable[[str, bytes, bytes | None], SessionInfo | None] | None = None
    """(local id, main file, sidecar) -> what lists show, without decoding messages. None where they must be decoded."""
    in_parts: Callable[[str, str], InParts] | None = None
    """(local id, createdAt) -> a writer for a new session."""


class Format(Protocol):
    """One store format. `name` is the word in config.toml."""

    name: str
    rewrites_whole: bool
    """The format's own system rewrites the whole file from memory, so an outside version may be an old copy."""
    abilities: Abilities

    def matches(self, names: Sequence[str], head: Callable[[str], bytes]) -> int:
        """Return how likely it is, 0 to 100, that a folder is in this format. `names`: relative paths two levels deep;
        `head(name)`: first 4 KiB.
        """

    def find(self, names: Iterable[str]) -> dict[str, str]:
        """Sessions in a folder: local id (as on the wire, percent-encoded where needed) -> its main file. `names` as in
        `matches`.
        """

    def main_path(self, local_id: str) -> str:
        """Return where the session's main file is, or would be created."""

    def paths(self, local_id: str) -> list[str]:
        """All files that may hold part of the session: the main one first, the sidecar under `.sessiond/` last."""

    def decode(self, local_id: str, files: Files, floor: int = 0) -> Decoded:
        """Never raises. Messages and notes without a seq that the sidecar knows get new ones above every known seq and
        `floor`.
        """

    def update(self, session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
        """The cheap way to save: what `changes` add to the end of the main file. None if the files must be rewritten
        (`encode`).

        `session` has the changes applied (and perhaps later ones, with seqs above the last of `changes`: leave those
        out). `files` holds what `side_files` names, never the main file. `sidecar.append_writes` makes the append to the
        main file: it writes the sidecar with the intent first, so that a torn append is recognised.
        """

    def side_files(self, local_id: str) -> list[str]:
        """The files that `update` needs."""

    def encode(self, session: Session, before: Files) -> list[Write]:  # the sidecar first, then the main file
        """The whole session as files. `before`: what is there now, so that anything not understood stays in its place.
        Files that would not change get no write.
        """

    def adopt_numbering(self, decoded: Decoded, before: Files) -> list[Write]:
        """The writes (of the sidecar) that make the seqs of `decoded.session` durable without touching the user's own file."""
