"""The interface to the service: what an importer is, and what it yields.

A stream is a flat sequence of events. `SessionStart` comes before the first event of its session and `SessionEnd` after
its last; one file may hold many sessions, one after the other. The service drives the generator on a worker thread, in
batches, and may stop at any event. The tags of events are what the process that reads (`reading_worker`) sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b, sha256
from typing import Any, BinaryIO, Protocol, TypeAlias

import msgspec

from sessiond.limits import KIB
from sessiond.model.values import Json, WireObject

_encode = msgspec.json.Encoder(order="deterministic").encode

BUFFER_BYTES = 128 * KIB
"""How much of a source is read at a time."""

Opener: TypeAlias = Callable[[str], BinaryIO]
"""Opens a source for reading bytes. The service passes one that counts what is read; `open_source` is the plain one."""


class SessionStart(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """A session begins. `info` has the known wire fields of SessionInfo: name, model, cwd, createdAt, updatedAt, tags,
    summary, parent (`{sessionId, seq: None}`, the parent's suggested id), metadata (with `source: {tool, path, id}`).
    """

    source_id: str
    suggested_id: str
    """A valid session id, the same in every import."""
    info: WireObject


class MessageRecord(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """One message in the protocol's wire form, without a seq. Its id is the same in every import. The source may still write
    to it: with another `digest` (of everything but the id and a guessed time, see `digest_of`) it is a later version.
    """

    source_id: str
    message: WireObject
    digest: bytes


class InfoUpdate(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Info learned late. `fields` as in `SessionStart.info`; `metadata` in it is merged by key, everything else replaces.

    `source_id` may be a session of another file (a summary that names it). If that session is unknown, there is nothing to
    do, and if it already has a name, that name stays.
    """

    source_id: str
    suggested_id: str
    fields: WireObject


class SessionEnd(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """This file has nothing more for this session: it was read completely. Missing only if the generator was closed or
    raised before its end.
    """

    source_id: str


class SkippedLine(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Something that could not be imported as it is. `line` is 1-based, or None if there are no lines.

    `taken`: it was imported with a repair (such as replaced invalid UTF-8), which `reason` names. `failed`: not for what is
    in it, but for an error of ours or of the system, so that it may pass the next time.
    """

    path: str
    line: int | None
    reason: str
    taken: bool = False
    failed: bool = False


class Ignored(msgspec.Struct, frozen=True, array_like=True, tag=5, gc=False):
    """`count` records of `path` with nothing written by a person or a model; `reason` names their kind. They are only
    counted, without a warning.
    """

    path: str
    reason: str
    count: int


def digest_of(value: Json) -> bytes:
    """Eight bytes that tell one value from another, whatever the order of its keys."""
    return digest_of_json(_encode(value))


def digest_of_json(text: bytes) -> bytes:
    """The same for a value that is written as JSON already, with its keys in order."""
    return sha256(text).digest()[:8]  # processors have instructions for it: it takes half of BLAKE2's time


def digest_of_version_1(value: Json) -> bytes:
    """The same as it was made until version 1 of the source ledger."""
    return blake2b(_encode(value), digest_size=8).digest()


class Ending(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A sign that what comes after it is said because the file ends here. If it goes on, it may be said otherwise."""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """`count` records of a kind that the importer does not know. They are kept as they are; the next version of a tool is
    noticed by them.
    """

    path: str
    kind: str
    count: int


class Copied(msgspec.Struct, frozen=True, array_like=True, tag=8, gc=False):
    """`path` was copied to be read, which costs as much as it is large, for this `reason`."""

    path: str
    reason: str


class Same(msgspec.Struct, frozen=True, array_like=True, tag=9, gc=False):
    """A session of a database that is what it was when it was last read."""

    source_id: str
    suggested_id: str


class Continued(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    """A session of a database that is read on: the messages before its last `RowsEnd` are what they were. `info`: as at its start."""

    source_id: str
    suggested_id: str
    info: dict[str, Json]


TailRow: TypeAlias = tuple[Any, str, int | None]
"""Its id, its session's, and its version; None: that cannot be told."""
RowSums: TypeAlias = list[list[int]]
"""Of a session: for each table the number of its rows, and the sums of their numbers and of their versions."""


class RowsEnd(msgspec.Struct):
    """The place where a session of a database can be read on. `after`: a table, and if it has rows of the session before that, the least number
    of those after it, and the place of the last one before it in the session's order. `draft`: the SessionDraft as it was there.
    `sums`: of all rows that were read.

    `last`, `fields`: as in SourceDigest, what it said from there on, and of its fields; None until the session here has it.
    """

    after: tuple[Any, ...]
    draft: Any
    sums: RowSums
    last: dict[str, bytes] | None = None
    fields: dict[str, bytes] = {}


class RowsRead(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """The data that tells next time which sessions of a database have changed (`changed_rows`). `sessions`: id -> digest of its own row, and
    its rows. `newest`: the time of the newest message, RFC 3339. `tails`: by table, the last rows by their numbers. `partial`: not
    all rows were looked at. `at_s`, `whole_at_s`: when that was last done, and when all of them were looked at, which took `whole_s`
    (monotonic, in seconds). `ends`: of sessions that were read while they changed; never in another process.
    """

    file: bytes
    sessions: dict[str, tuple[bytes, RowSums]]
    newest: str
    tails: dict[str, dict[int, TailRow]]
    partial: bool
    at_s: float
    whole_at_s: float
    whole_s: float
    ends: dict[str, RowsEnd] = {}


Event: TypeAlias = (
    SessionStart
    | MessageRecord
    | InfoUpdate
    | SessionEnd
    | SkippedLine
    | Ignored
    | Unknown
    | Ending
    | Copied
    | Same
    | RowsRead
    | Continued
)


class Importer(Protocol):
    """One foreign tool."""

    name: str
    """As in the protocol's import formats."""
    experimental: bool
    """Whether it has not yet been tried on a real file."""

    def recognise(self, path: str, head: bytes) -> int:
        """Return how likely it is, 0 to 100, that the file belongs to this tool. `head`: its first bytes (`registry.HEAD_BYTES`)."""

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        """Stream the file. Raises OSError if it cannot be opened; reports damage as SkippedLine. Never writes."""


def open_source(path: str) -> BinaryIO:
    """The plain Opener."""
    return open(path, "rb", buffering=BUFFER_BYTES)  # closed by the reader
