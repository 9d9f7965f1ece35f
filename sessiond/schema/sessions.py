"""`session/*`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from sessiond.index.values import Hit, ModelUsage, TokenTotals, UsageRow
from sessiond.schema.types import (
    Choice,
    Count,
    ExportFormat,
    FileWarning,
    Filter,
    JsonObject,
    Limit,
    ListFilter,
    Note,
    Parent,
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
    """Identifies a session."""

    session_id: str


class SessionResult(Wire):
    """The session as it is now."""

    session: SessionInfo


class SeqResult(Wire):
    """The session's seq after the change."""

    seq: Seq


class NewParams(Wire):
    """A new session. Every field is optional."""

    session_id: str | None = None
    """Without the store's name: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`. The daemon makes one if absent."""
    name: str | None = None
    model: str | None = None
    cwd: str | None = None
    tags: list[str] | None = None
    metadata: JsonObject | None = None
    store: str | None = None
    """Defaults to the default store."""
    messages: list[SentMessage] | None = None
    parent: Parent | None = None
    """The session that it belongs to, as a subagent's belongs to the agent's. That session need not exist yet."""


class OpenParams(SessionParams):
    """`last` and `since` exclude each other. Without either, the newest 200 messages are returned."""

    last: Count | None = None
    """The newest N messages."""
    since: Seq | None = None
    """Messages and changes with a greater seq."""
    restore: bool | None = None
    """Send `session/restored` and the whole state after the response, so that every panel is redrawn."""
    answers: bool | None = None
    """This client answers what others say here, when `session/asked` comes. It does as long as it has the session open."""


class OpenResult(Wire):
    """The session's content; its changes after `session.seq` follow as `session/changed`."""

    session: SessionInfo
    messages: list[ShownMessage]
    notes: list[Note]
    state: JsonObject
    has_more: bool
    """This page leaves out some messages."""
    warnings: list[FileWarning]
    changes: list[ShownChange] | UnsetType | None = UNSET
    """With `since`: every change after it, in order; null if they are no longer known."""


class AppendParams(SessionParams):
    """Messages to append, all or none."""

    messages: list[SentMessage]
    expected_seq: Seq | None = None
    """`conflict` is returned unless this is the session's seq."""


class AppendedMessage(Wire, gc=False):
    """An appended message."""

    id: str
    seq: Seq


class AppendResult(Wire):
    """Sent only when the messages are durable."""

    seq: Seq
    messages: list[AppendedMessage]
    provisional: bool | UnsetType = UNSET
    """true: the hub of the shared store cannot be reached. The messages are durable on this machine, and come after what others
    append meanwhile.
    """


class ExtendParams(SessionParams):
    """More text of a streamed message."""

    message_id: str
    text: str
    offset: Count | None = None
    """The number of code points before the text; makes it safe to repeat the request."""


class FinishParams(SessionParams):
    """The end of a streamed message."""

    message_id: str
    status: Status | None = None
    """Defaults to `done`."""
    metadata: JsonObject | None = None
    """Merged into the message's metadata, key by key."""
    tool_calls: list[SentToolCall] | None = None


class ReadParams(SessionParams):
    """A page of messages. `last`, `since` and `before` exclude each other."""

    last: Count | None = None
    since: Seq | None = None
    """Read forwards: messages with a greater seq."""
    before: Seq | None = None
    """Read backwards: messages with a smaller seq."""
    limit: Limit | None = None


class ReadResult(Wire):
    """The messages, oldest first."""

    messages: list[ShownMessage]
    has_more: bool
    seq: Seq
    """Of the session."""


class UpdateParams(SessionParams):
    """Only the given fields change; null clears name, model, summary and cwd."""

    name: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    tags: list[str] | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    summary: str | UnsetType | None = UNSET
    metadata: JsonObject | UnsetType = UNSET
    cwd: str | UnsetType | None = UNSET
    expected_seq: Seq | None = None


class TruncateParams(SessionParams):
    """The place to cut at."""

    after_seq: Seq
    """Messages with a greater seq are removed."""
    expected_seq: Seq | None = None
    """`conflict` is returned unless this is the session's seq."""


class TruncateResult(SessionResult):
    """The session, and how many messages were removed. They are in the trash, as a session `ID.was-SEQ`."""

    removed: Count


class ForkParams(SessionParams):
    """The part of a session to copy."""

    at_seq: Seq | None = None
    """Copy up to and including this seq; defaults to everything."""
    name: str | None = None


class DeleteParams(SessionParams):
    """The session to delete."""

    permanent: bool | None = None
    """Also remove the session from trash, index and journal, with earlier states and copies of damaged files. The response
    comes when nothing is left there. After a crash the request may be repeated: `sessionNotFound` then also means that
    nothing is left.
    """


class SaveParams(Wire):
    """One session, or all of them."""

    session_id: str | None = None


class SavedFile(Wire):
    """A file that is up to date now."""

    session_id: str
    path: str
    bytes: Count


class SaveResult(Wire):
    """The files that were behind."""

    saved: list[SavedFile]


class ActivityParams(Wire):
    """The activity of the caller in a session, until it says something else or its connection ends."""

    session_id: str
    state: Literal["idle", "working", "waiting"]
    waiting_for: str | None = None
    """`permission`, `question`, or another word."""
    text: str | None = None
    """What it does or waits for, in a few words: at most 2,000 characters."""
    process: int | None = None
    """The id of the process that does it: then it lasts until that process has ended, and another connection may say the next thing
    about the same process. For scripts that an agent runs at each event.
    """
    tool_call_id: str | None = None
    """The call that is over. With `process`: only the question with this `toolCallId` is withdrawn, because an agent may make several
    calls at once.
    """


class AskParams(Wire):
    """A question to a person. The session is `waiting` until somebody answers it; cancelling the request withdraws it."""

    session_id: str
    text: str
    """At most 2,000 characters."""
    choices: list[Choice] | None = None
    """Absent: any text is an answer."""
    waiting_for: str | None = None
    """`permission`, or another word. Defaults to `question`."""
    tool_call_id: str | None = None
    """The call that needs permission."""
    process: int | None = None
    """The process that waits for the answer: the question is withdrawn (`cancelled`) when `session/activity` says that the process works
    or is idle, because it goes on without the answer then, and when it has ended.
    """


class AskResult(Wire):
    """The answer."""

    client: str
    """Who gave it: `clientInfo.name`."""
    choice: str | UnsetType = UNSET
    """The `id` of a choice."""
    text: str | UnsetType = UNSET


class AnswerParams(Wire):
    """The answer to the question of a session's `activity`."""

    session_id: str
    question_id: str
    choice: str | None = None
    """The `id` of one of its choices."""
    text: str | None = None
    """The answer to a question without choices, or a comment on the choice."""


class AnswerResult(Wire):
    """The outcome of an answer: whether it counts."""

    accepted: bool
    """false: it was answered before, or nobody asks it any more."""


class ListParams(Wire):
    """A page of sessions."""

    limit: Limit | None = None
    cursor: str | None = None
    """`nextCursor` of the previous page."""
    sort: Sort | None = None
    """Defaults to `-updatedAt`."""
    filter: ListFilter | None = None


class ListResult(Wire):
    """A page of sessions."""

    sessions: list[SessionInfo]
    next_cursor: str | None
    incomplete: bool | UnsetType = UNSET
    """The catalogue is being rebuilt: there may be more sessions, and some may have changed."""


class ListChangedParams(Wire):
    """The place where the last result ended."""

    cursor: str | None = None
    """`cursor` of the last result. Without one the result has no sessions, and its `cursor` is of this moment."""
    limit: Limit | None = None
    tell: bool | None = None
    """Send `list/changed` to this connection, once, as soon as something came after the result's `cursor`."""


class ChangedSession(Wire):
    """A session that changed after a cursor."""

    session: SessionInfo
    since: Seq
    """The seq before the first change after the cursor, or a smaller one."""
    begun: bool
    """It was made after the cursor. Any earlier session with its id was another one."""


class ListChangedResult(Wire):
    """Sessions in the order in which their last changes arrived, whatever times they bear. Archived ones, too."""

    sessions: list[ChangedSession]
    cursor: str
    """After these sessions."""
    has_more: bool
    """Others have changed after it already."""
    lost: bool
    """The daemon has been started since, or so much has happened that it does not know what came after the cursor: compare
    with `session/list`. `cursor` is of this moment.
    """


class SearchParams(Wire):
    """The query to look for."""

    query: str
    mode: SearchMode | None = None
    """Defaults to `text`; `semantic` works only if `searchModes` of `initialize` lists it."""
    limit: Limit | None = None
    cursor: str | None = None
    filter: SearchFilter | None = None


class SearchResult(Wire):
    """A page of hits."""

    hits: list[Hit]
    total: Count
    """Exact, and the same on every page. For `semantic`: what the words find plus the 200 nearest."""
    next_cursor: str | None
    incomplete: bool | UnsetType = UNSET
    """The index is being rebuilt, or vectors are being computed, or sessions are being fetched from a hub: there may be more."""
    unfetched: Count | UnsetType = UNSET
    """How many sessions of shared stores were not searched, because this machine only lists them so far."""


class UsageParams(Wire):
    """The way to count what requests to models used."""

    by: Literal["day", "month", "model", "tool", "project", "session"] = "day"
    since: str | None = None
    """RFC 3339; compared with the time of the message, inclusive."""
    until: str | None = None
    """RFC 3339; compared with the time of the message, exclusive."""
    tool: str | None = None
    """Only sessions of this tool; `sessiond` for those that were not imported."""
    time_zone: str | None = None
    """In which days and months are counted, such as `Europe/Berlin`. Defaults to the daemon's."""
    limit: Limit | None = None
    """Rows; defaults to 1000, at most 10000. If there are more, the oldest or the least used are omitted."""
    filter: Filter | None = None
    """Of sessions. Archived sessions count too, unless it says otherwise."""


class UsageResult(Wire):
    """Days and months in order of time, anything else the most used first."""

    rows: list[UsageRow]
    omitted: Count
    """How many rows there are beyond the `limit`; the total includes them."""
    sessions: Count
    total: TokenTotals
    models: list[ModelUsage]
    time_zone: str
    incomplete: bool | UnsetType = UNSET
    """The index is being rebuilt: there may be more."""


class ExportParams(SessionParams):
    """The format, and where to write."""

    format: ExportFormat
    """`jsonl` is the native format, and lossless."""
    path: str | None = None
    """Absolute, and outside the daemon's own folders. Without it, the response has the content."""
    overwrite: bool | None = None


class ExportResult(Wire):
    """`content` if there was no path, otherwise the other two."""

    content: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    bytes: Count | UnsetType = UNSET


class ImportParams(Wire):
    """A file or folder of another tool."""

    path: str
    """A folder is searched recursively."""
    format: str | None = None
    """Detected if absent."""
    store: str | None = None
    since: str | None = None
    """RFC 3339. Sessions without a message since then are left out."""
    dry_run: bool | None = None
    report: bool | None = None
    """Also say what was found, tool by tool."""
    work_done_token: int | str | None = None
    """`$/progress` notifications carry this token."""


class ImportPlace(Wire):
    """A folder or file in which another tool keeps its sessions."""

    path: str
    """Absolute."""
    format: str | None = None
    """Whose files; detected if absent."""


class SessionFollowParams(Wire):
    """The places to import from while they are written, as long as the caller stays connected."""

    places: list[ImportPlace]
    store: str | None = None
    since: str | None = None
    """RFC 3339. Of a file that must be read whole, sessions without a message since then are left out."""


class ToolReport(Wire):
    """A report of what an import found of one tool."""

    tool: str
    files: Count
    """Files of the tool that were found."""
    unchanged: Count
    """Those of them that were not read, because they were read to their end in their present version."""
    sessions: Count
    """Sessions that were created or have changed."""
    messages: Count
    """Messages that are new."""
    nothing_new: Count
    """Sessions that were read and had nothing new, or were not read."""
    ignored: dict[str, Count]
    """Records that hold nothing that a person or a model wrote, by kind."""
    unknown: dict[str, Count]
    """Records of kinds that the importer does not know, by kind; they are kept as they are. `table NAME`: rows of a database
    that nobody reads, and that are newer than what was read.
    """
    warnings: Count
    """Lines and files that were skipped or mended; `warnings` says which."""
    newest: str | UnsetType = UNSET
    """The time of the newest record in the files that were read, RFC 3339."""
    written: str | UnsetType = UNSET
    """When the last of these files was written. If that is days later, the tool may have moved to what nobody reads."""


class ImportResult(Wire):
    """The sessions that were created or have grown, or would be."""

    sessions: list[SessionInfo]
    skipped: Count
    """Sessions with nothing new."""
    warnings: list[FileWarning]
    untouched: Count | UnsetType = UNSET
    """With `since`: files that were not opened, because they have not been modified since then."""
    unknown: dict[str, Count] | UnsetType = UNSET
    """Records of kinds that the importers do not know, by `TOOL KIND`, if there are any."""
    report: list[ToolReport] | UnsetType = UNSET
    """If it was asked for."""


class MoveParams(SessionParams):
    """The target store; its format may differ."""

    store: str
    dry_run: bool | None = None


class MoveResult(SessionResult):
    """The session under its new id."""

    lost: list[str]
    """What the new format's own system will not show, in words."""
