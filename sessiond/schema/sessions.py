"""`session/*`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from sessiond.index.values import Hit
from sessiond.schema.types import (
    Count,
    ExportFormat,
    FileWarning,
    Filter,
    JsonObject,
    Limit,
    Note,
    SearchFilter,
    SearchMode,
    SentMessage,
    SentToolCall,
    Seq,
    SessionInfo,
    ShownChange,
    ShownMessage,
    Sort,
    Status,
    Wire,
)


class SessionParams(Wire):
    """Names a session."""

    session_id: str


class SessionResult(Wire):
    """The session as it is now."""

    session: SessionInfo


class SeqResult(Wire):
    """The session's seq after the change."""

    seq: Seq


class NewParams(Wire):
    """A new session. All of it may be left out."""

    session_id: str | None = None
    """Without the store: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. Made by the daemon if absent."""
    name: str | None = None
    model: str | None = None
    cwd: str | None = None
    tags: list[str] | None = None
    metadata: JsonObject | None = None
    store: str | None = None
    """The default store if absent."""
    messages: list[SentMessage] | None = None


class OpenParams(SessionParams):
    """`last` and `since` exclude each other; without either the newest 200 messages come."""

    last: Count | None = None
    """The newest N messages."""
    since: Seq | None = None
    """Messages and changes with a greater seq."""
    restore: bool | None = None
    """Send `session/restored` and all state after the answer, so that every panel repaints."""


class OpenResult(Wire):
    """The session's content; its changes after `session.seq` follow as `session/changed`."""

    session: SessionInfo
    messages: list[ShownMessage]
    notes: list[Note]
    state: JsonObject
    has_more: bool
    """There are messages that this page left out."""
    warnings: list[FileWarning]
    changes: list[ShownChange] | UnsetType | None = UNSET
    """With `since`: every change after it in order; null where they are no longer known."""


class AppendParams(SessionParams):
    """Messages to append, all of them or none."""

    messages: list[SentMessage]
    expected_seq: Seq | None = None
    """`conflict` unless it is the session's seq."""


class AppendedMessage(Wire, gc=False):
    """Where a message went."""

    id: str
    seq: Seq


class AppendResult(Wire):
    """Sent only when durable."""

    seq: Seq
    messages: list[AppendedMessage]


class ExtendParams(SessionParams):
    """More text of a streamed message."""

    message_id: str
    text: str
    offset: Count | None = None
    """Code points before the text; makes a repetition harmless."""


class FinishParams(SessionParams):
    """The end of a streamed message."""

    message_id: str
    status: Status | None = None
    """`done` if absent."""
    metadata: JsonObject | None = None
    """Merged into the message's by key."""
    tool_calls: list[SentToolCall] | None = None


class ReadParams(SessionParams):
    """A page of messages. `last`, `since` and `before` exclude each other."""

    last: Count | None = None
    since: Seq | None = None
    """Forwards: seq greater than this."""
    before: Seq | None = None
    """Backwards: seq smaller than this."""
    limit: Limit | None = None


class ReadResult(Wire):
    """Always oldest first."""

    messages: list[ShownMessage]
    has_more: bool
    seq: Seq
    """The session's."""


class UpdateParams(SessionParams):
    """Only what is there changes; a null empties name, model, summary and cwd."""

    name: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    summary: str | UnsetType | None = UNSET
    metadata: JsonObject | UnsetType = UNSET
    cwd: str | UnsetType | None = UNSET
    expected_seq: Seq | None = None


class TruncateParams(SessionParams):
    """Where to cut."""

    after_seq: Seq
    """Messages with a greater seq go."""


class TruncateResult(SessionResult):
    """The session and how much went; it lies in the trash as a session `ID.was-SEQ`."""

    removed: Count


class ForkParams(SessionParams):
    """A copy that goes its own way."""

    at_seq: Seq | None = None
    """Up to and with this seq; everything if absent."""
    name: str | None = None


class DeleteParams(SessionParams):
    """What to delete."""

    permanent: bool | None = None
    """Also out of trash, index and journal, earlier states and copies of damaged files included. When it is answered no word is
    left there. It may be sent again after a crash: `sessionNotFound` then means that nothing is left either.
    """


class SaveParams(Wire):
    """One session, or all of them."""

    session_id: str | None = None


class SavedFile(Wire):
    """A file that is current now."""

    session_id: str
    path: str
    bytes: Count


class SaveResult(Wire):
    """The files that were behind."""

    saved: list[SavedFile]


class ListParams(Wire):
    """A page of sessions."""

    limit: Limit | None = None
    cursor: str | None = None
    """`nextCursor` of the page before."""
    sort: Sort | None = None
    """`-updatedAt` if absent."""
    filter: Filter | None = None


class ListResult(Wire):
    """A page of sessions."""

    sessions: list[SessionInfo]
    next_cursor: str | None
    incomplete: bool | UnsetType = UNSET
    """The catalogue is being rebuilt; there may be more, and some may have changed."""


class SearchParams(Wire):
    """What to look for."""

    query: str
    mode: SearchMode | None = None
    """`text` if absent; `semantic` only where `searchModes` of `initialize` has it."""
    limit: Limit | None = None
    cursor: str | None = None
    filter: SearchFilter | None = None


class SearchResult(Wire):
    """A page of hits."""

    hits: list[Hit]
    total: Count
    """Exact, and the same on every page. By meaning: what the words find and the 200 that are nearest."""
    next_cursor: str | None
    incomplete: bool | UnsetType = UNSET
    """The index is being rebuilt, or vectors are being made; there may be more."""


class ExportParams(SessionParams):
    """Where to and in which format."""

    format: ExportFormat
    """`jsonl` is native and lossless."""
    path: str | None = None
    """Absolute and outside the daemon's own folders; without it the content is answered."""
    overwrite: bool | None = None


class ExportResult(Wire):
    """`content` without a path, the others with one."""

    content: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    bytes: Count | UnsetType = UNSET


class ImportParams(Wire):
    """A file or folder of another tool."""

    path: str
    """A folder is walked."""
    format: str | None = None
    """Recognised if absent."""
    store: str | None = None
    since: str | None = None
    """RFC 3339. Sessions in which nothing was said since then are left out."""
    dry_run: bool | None = None
    work_done_token: int | str | None = None
    """`$/progress` is sent with it."""


class ImportResult(Wire):
    """What was made or grew, or would be."""

    sessions: list[SessionInfo]
    skipped: Count
    """Sessions that brought nothing new."""
    warnings: list[FileWarning]
    untouched: Count | UnsetType = UNSET
    """With `since`: files that were not opened, because by their time nobody wrote to them after it."""


class MoveParams(SessionParams):
    """To another store and format."""

    store: str
    dry_run: bool | None = None


class MoveResult(SessionResult):
    """The session under its new id."""

    lost: list[str]
    """What the new format's own system will not show."""
