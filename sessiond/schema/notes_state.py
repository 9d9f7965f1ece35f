"""`note/*` and `state/*`."""

from __future__ import annotations

from sessiond.schema.sessions import SessionParams
from sessiond.schema.types import Count, JsonObject, Note, Seq, Wire


class NoteAppendParams(SessionParams):
    """A note; its heading is made if it is new."""

    heading: str
    content: str
    thread: str | None = None
    """Absent: for the whole session."""
    tick: int | None = None
    id: str | None = None
    """Sending the same id again with the same content adds nothing."""


class NoteResult(Wire):
    """The note as it is kept."""

    note: Note


class NoteListParams(SessionParams):
    """Without `thread` the global ones, with it the global ones and that thread's."""

    thread: str | None = None
    last_global: Count | None = None
    last_thread: Count | None = None


class NoteListResult(Wire):
    """Oldest first, each group cut to its own depth."""

    notes: list[Note]


class StateSetParams(SessionParams):
    """What a tool keeps beside the messages."""

    values: JsonObject
    """A null removes its key; equal values are not a change."""
    expected_seq: Seq | None = None


class StateGetParams(SessionParams):
    """Which keys; all of them if absent."""

    keys: list[str] | None = None


class StateResult(Wire):
    """The state as it is now."""

    values: JsonObject
    saved_at: str | None
    """When it last changed."""
