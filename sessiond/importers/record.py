"""The seam to the service: what an importer yields, and what an importer is.

A stream is a flat sequence of events. `SessionStart` comes before the first event of its session and `SessionEnd` after
its last; one file may hold many sessions, one after the other. The service drives the generator on a worker thread, in
batches, and may stop at any event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol, TypeAlias

import msgspec

Opener: TypeAlias = Callable[[str], BinaryIO]
"""Opens a source for reading bytes. The service hands one that counts what was read; `open_source` is the plain one."""


class Source(msgspec.Struct, frozen=True):
    """Where a session came from. `fingerprint` changes when the file does (see `registry.fingerprint`)."""

    tool: str
    path: str
    source_id: str
    fingerprint: str


class SessionStart(msgspec.Struct, frozen=True):
    """A session begins. `info` holds those of SessionInfo's wire fields that are known: name, model, cwd, createdAt,
    updatedAt, tags, summary, parent (`{sessionId, seq: None}`, the parent's suggested id), metadata (with `source:
    {tool, path, id}`)."""

    source_id: str
    suggested_id: str
    """A valid session id, the same at every import."""
    info: dict[str, Any]


class MessageRecord(msgspec.Struct, frozen=True):
    """One message in PROTOCOL's wire form, without a seq. Its id is the same at every import, so an id that the
    session already has is the message that is already there: skip it, whatever else may differ (a guessed timestamp,
    say)."""

    source_id: str
    message: dict[str, Any]


class InfoUpdate(msgspec.Struct, frozen=True):
    """Learned late. `fields` as in `SessionStart.info`; `metadata` in it is merged by key, everything else replaces.

    `source_id` may be a session of another file (a summary that names it): where that session is not known, there is
    nothing to do, and where it has a name already, that name stays.
    """

    source_id: str
    suggested_id: str
    fields: dict[str, Any]


class SessionEnd(msgspec.Struct, frozen=True):
    """Nothing more comes for this session from this file: what was read of it is whole. Missing only where the
    generator was closed or raised before its end.
    """

    source_id: str


class SkippedLine(msgspec.Struct, frozen=True):
    """Something that could not be taken as it stands. `line` is 1-based, None where there are no lines.

    `taken` means that it was imported with a repair (bytes that are not UTF-8 replaced, say) and `reason` tells which.
    """

    path: str
    line: int | None
    reason: str
    taken: bool = False


class Ignored(msgspec.Struct, frozen=True):
    """`count` records of `path` that hold nothing which a person or a model wrote; `reason` names the kind. No
    warning, only a count."""

    path: str
    reason: str
    count: int


Event: TypeAlias = SessionStart | MessageRecord | InfoUpdate | SessionEnd | SkippedLine | Ignored


class Importer(Protocol):
    """One foreign tool."""

    name: str
    """As in PROTOCOL's import formats."""
    experimental: bool
    """Not yet tried on a real file."""

    def recognise(self, path: str, head: bytes) -> int:
        """How sure it is, 0 to 100, that the file is its own. `head`: the first bytes (`registry.HEAD_BYTES`) of it."""

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        """Stream the file. Raises OSError where it cannot be opened; damage inside comes as SkippedLine. Never writes."""


def open_source(path: str) -> BinaryIO:
    """The plain Opener."""
    return open(path, "rb")  # closed by the reader
