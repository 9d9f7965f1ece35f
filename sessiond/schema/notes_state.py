"""`note/*` and `state/*`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sessiond.schema.sessions import SessionParams
from sessiond.schema.types import Count, JsonObject, Note, Seq, Wire


class NoteAppendParams(SessionParams):
    """A note. A new heading is created as needed."""

    heading: str
    content: str
    thread: str | None = None
    """If absent, the note is for the whole session."""
    tick: int | None = None
    id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    """1 to 256 characters; the daemon makes one if absent. Sending the same id again with the same content adds nothing."""


class NoteResult(Wire):
    """The note as it was saved."""

    note: Note


class NoteListParams(SessionParams):
    """The notes that are wanted: the global ones and, with `thread`, those of that thread."""

    thread: str | None = None
    last_global: Count | None = None
    last_thread: Count | None = None


class NoteListResult(Wire):
    """The notes, oldest first. Each group is limited separately."""

    notes: list[Note]


class StateSetParams(SessionParams):
    """Values that a tool keeps with a session."""

    values: JsonObject
    """null removes a key; an equal value is not a change."""
    expected_seq: Seq | None = None


class StateGetParams(SessionParams):
    """The keys that are wanted. Defaults to all."""

    keys: list[str] | None = None


class StateResult(Wire):
    """The current state."""

    values: JsonObject
    saved_at: str | None
    """When it last changed."""
