"""The values that the client gives back: the types of protocol 1, read leniently.

A daemon of another version may leave out what it does not know and send what this client does not know. So nearly every
field has a default, words that may become more are plain `str`, and unknown members are ignored. Times are RFC 3339 in UTC,
offsets and lengths count code points.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct, field

from sessiond.ready import ready


class Value(Struct, frozen=True, kw_only=True, rename="camel", repr_omit_defaults=True):
    """Root of everything that the client returns. Values do not change; a later state is another value."""


class Parent(Value, frozen=True, kw_only=True):
    """The session that a session belongs to. A fork left it after the change with `seq`."""

    session_id: str
    seq: int | None = None
    """None where nobody said, as of a subagent."""


class Choice(Value, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to choose."""

    id: str
    label: str
    kind: str | None = None
    """Where permission is asked for: `allow` or `deny`."""


class Question(Value, frozen=True, kw_only=True):
    """A question that a program asks a person. `Session.answer` answers it; the first answer counts."""

    id: str
    choices: list[Choice] | None = None
    """None: any text is an answer."""
    tool_call_id: str | None = None
    """The call that needs permission."""


class Activity(Value, frozen=True, kw_only=True):
    """The activity in a session at the moment, as a program that works in it says."""

    state: str = ""
    """`working`, or `waiting` for a person."""
    since: str = ""
    """RFC 3339."""
    client: str = ""
    """Who says so."""
    waiting_for: str | None = None
    """`permission`, `question`, or another word."""
    text: str | None = None
    """What it does or asks."""
    question: Question | None = None
    """To be answered here. None: only the program itself takes an answer."""


class SessionInfo(Value, frozen=True, kw_only=True):
    """A session as a list shows it."""

    session_id: str
    """`ID` in the default store, `STORE/ID` in another."""
    name: str | None = None
    created_at: str = ""
    updated_at: str = ""
    model: str | None = None
    message_count: int = 0
    seq: int = 0
    """Of the newest change."""
    store: str = ""
    format: str = ""
    path: str = ""
    """Of the session file."""
    cwd: str | None = None
    tags: list[str] = []
    archived: bool = False
    summary: str | None = None
    parent: Parent | None = None
    metadata: dict[str, Any] = {}
    attached: int = 0
    """How many connections have it open."""
    dirty: bool = False
    """The session file is behind the journal."""
    cut: list[str] = []
    """Fields that are left out because they are too large for one response."""
    activity: Activity | None = None
    """What goes on in it. None: nothing, as far as anybody says."""
    provisional: int = 0
    """In a shared store: how many changes are durable here and still wait for the hub."""
    deleted_at: str = ""
    """In the trash: when it came there."""
    reason: str = ""
    """In the trash: why, such as `deleted`, `cleared` or `truncated`."""


class ToolCall(Value, frozen=True, kw_only=True):
    """A call that an assistant's message makes. Its result is a message of role `tool` with this `id` as `tool_call_id`."""

    id: str
    name: str
    arguments: dict[str, Any] | str = {}


class _Body(Value, frozen=True, kw_only=True, omit_defaults=True):
    role: str
    """`user`, `assistant`, `system`, `tool`, or another word."""
    content: str | list[Any]
    """Text, or a list of content blocks."""
    status: str | None = None
    """`streaming`, `done`, `interrupted` or `error`; None means `done`."""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    """Role `tool`: the call whose result this is."""
    thinking: str | None = None
    thread: str | None = None
    tick: int | None = None
    """The turn number of the system that the message comes from."""
    context_snapshot: Any = None
    metadata: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The content as one string: the text blocks of a list, joined by newlines.

        >>> Message(id="m1", role="user", content=[{"type": "text", "text": "Hello"}]).text
        'Hello'
        """
        if isinstance(self.content, str):
            return self.content
        blocks = (
            one if isinstance(one, str) else one.get("text") for one in self.content if isinstance(one, str | dict)
        )
        return "\n".join(text for text in blocks if isinstance(text, str))


class NewMessage(_Body, frozen=True, kw_only=True, omit_defaults=True):
    """A message to append."""

    id: str | None = None
    """1 to 256 characters; the client makes one if it is None. Appending the same id and content again adds nothing."""
    timestamp: str | None = None
    """The time of arrival if None."""


class Message(_Body, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a session, with its current content."""

    id: str
    seq: int = 0
    timestamp: str = ""
    author: Any = None
    """In a shared store: the name of the member who appended it."""
    cut: int | None = None
    """The message is too large for one response: it has this many bytes, and `content` is only the beginning of its text."""


class AppendedMessage(Value, frozen=True, kw_only=True):
    """A message that is durable now, and the seq that it has."""

    id: str
    seq: int


class Note(Value, frozen=True, kw_only=True):
    """A note under a heading. With `thread` None it belongs to the whole session."""

    id: str
    heading: str
    content: str = ""
    seq: int = 0
    thread: str | None = None
    tick: int | None = None
    timestamp: str = ""


class FileWarning(Value, frozen=True, kw_only=True):
    """A part of a file that the daemon did not understand and left as it is. `line` counts from 1."""

    path: str
    message: str = ""
    line: int | None = None


class Hit(Value, frozen=True, kw_only=True):
    """A result of a search: a message, or a session's name or note (then `message_id` is None)."""

    session_id: str
    name: str | None = None
    message_id: str | None = None
    seq: int | None = None
    role: str | None = None
    timestamp: str = ""
    snippet: str = ""
    ranges: list[list[int]] = []
    """Code points of the snippet, each [start, end), that matched."""
    score: float = 0.0


class ToolReport(Value, frozen=True, kw_only=True):
    """A report on what an import found of one tool. `ignored`, `unknown`: records by their kind. `newest`: the time of the newest record that
    was read; `written`: of the last write to the files that were read.
    """

    tool: str = ""
    files: int = 0
    unchanged: int = 0
    sessions: int = 0
    messages: int = 0
    nothing_new: int = 0
    ignored: dict[str, int] = {}
    unknown: dict[str, int] = {}
    warnings: int = 0
    newest: str = ""
    written: str = ""


class Imported(Value, frozen=True, kw_only=True):
    """The result of an import: what it made or extended, or would have. `skipped`: sessions that brought nothing new; `untouched`: with `since`,
    files that were not opened because they are older; `unknown`: records of kinds that the importers do not know, by `TOOL
    KIND`; `report`: if it was asked for.
    """

    sessions: list[SessionInfo] = []
    skipped: int = 0
    warnings: list[FileWarning] = []
    untouched: int = 0
    unknown: dict[str, int] = {}
    report: list[ToolReport] = []


class Exported(Value, frozen=True, kw_only=True):
    """`content` for an export without a path; `path` and `bytes` for one with a path."""

    content: str | None = None
    path: str | None = None
    bytes: int | None = None


class Progress(Value, frozen=True, kw_only=True):
    """The progress of a long request. Counts are 0 if the daemon has not said them."""

    message: str = ""
    percentage: int | None = None
    bytes: int | None = None
    """Read so far, of `total_bytes`."""
    total_bytes: int = 0
    files: int = 0
    total_files: int = 0
    sessions: int = 0
    messages: int = 0


class ProgressNotice(Value, frozen=True, kw_only=True):
    """The params of `$/progress`."""

    token: int | str = ""
    value: Progress = Progress()


class Page(Value, frozen=True, kw_only=True):
    """A page of messages, oldest first. `seq` is the session's."""

    messages: list[Message] = []
    has_more: bool = False
    seq: int = 0


class ListPage(Value, frozen=True, kw_only=True):
    """A page of sessions."""

    sessions: list[SessionInfo] = []
    next_cursor: str | None = None
    incomplete: bool = False


class ChangedSession(Value, frozen=True, kw_only=True):
    """A session that changed after a cursor: the changes after `since`, or it has `begun` after it."""

    session: SessionInfo
    since: int = 0
    begun: bool = False


class ChangedPage(Value, frozen=True, kw_only=True):
    """`lost`: what changed after the cursor is not known; the new one is of this moment."""

    sessions: list[ChangedSession] = []
    cursor: str = ""
    has_more: bool = False
    lost: bool = False


class HitPage(Value, frozen=True, kw_only=True):
    """A page of hits. `total` is the same on every page."""

    hits: list[Hit] = []
    total: int = 0
    next_cursor: str | None = None
    incomplete: bool = False
    """The index is being built; there may be more hits."""
    unfetched: int = 0
    """How many sessions of shared stores were not searched, because this machine only lists them so far."""


class Snapshot(Value, frozen=True, kw_only=True):
    """A session at one moment: after the change `session.seq`."""

    session: SessionInfo
    messages: list[Message] = []
    """The newest ones, oldest first."""
    has_more: bool = False
    """There are older messages."""
    state: dict[str, Any] = {}
    """Values that tools keep beside the messages."""
    warnings: list[FileWarning] = []
    """Parts of its files that the daemon did not understand."""


class Opened(Snapshot, frozen=True, kw_only=True):
    """The result of `session/open`. `changes` is None where they are no longer known."""

    changes: list[Raw] | None = None


class SavedFile(Value, frozen=True, kw_only=True):
    """The file of a session that is up to date. `bytes` is its size."""

    session_id: str
    path: str = ""
    bytes: int = 0


class SaveResult(Value, frozen=True, kw_only=True):
    """The files that were written."""

    saved: list[SavedFile] = []


class Origin(Value, frozen=True, kw_only=True):
    """The client that made a change, by the name that it gave itself."""

    client: str = "unknown"
    connection: int = 0


class Notice(Value, frozen=True, kw_only=True):
    """The params of any `session/*` notification."""

    session_id: str = ""
    session: SessionInfo | None = None
    message_id: str = ""
    seq: int = 0
    changes: list[Raw] = []
    origin: Origin | None = None
    replay: bool = False
    activity: Activity | None = None
    moved_to: str | None = None

    @property
    def about(self) -> str:
        """The id of the session that it is about."""
        return self.session_id or (self.session.session_id if self.session is not None else "")


class Answered(Value, frozen=True, kw_only=True):
    """The answer to a question."""

    client: str = ""
    """Who gave it."""
    choice: str | None = None
    """The `id` of a choice."""
    text: str | None = None


class Accepted(Value, frozen=True, kw_only=True):
    """The verdict on an answer: whether it counts."""

    accepted: bool


class SessionResult(Value, frozen=True, kw_only=True):
    """A session as it is after a request."""

    session: SessionInfo
    removed: int = 0


class Moved(SessionResult, frozen=True, kw_only=True):
    """A session under its new id. `lost`: what the new format's own system will not show, in words."""

    lost: list[str] = []


class AppendResult(Value, frozen=True, kw_only=True):
    """The places where messages went."""

    seq: int = 0
    messages: list[AppendedMessage] = []
    provisional: bool = False
    """Durable on this machine; the hub of the shared store cannot be reached."""


class SeqResult(Value, frozen=True, kw_only=True):
    """The session's seq after a request."""

    seq: int = 0


class NoteResult(Value, frozen=True, kw_only=True):
    """A note as it is kept."""

    note: Note


class NoteListResult(Value, frozen=True, kw_only=True):
    """Notes, oldest first."""

    notes: list[Note] = []


class StateResult(Value, frozen=True, kw_only=True):
    """Values beside the messages."""

    values: dict[str, Any] = field(default_factory=dict)
    saved_at: str | None = None


# Several threads may decode to these.
ready(
    Accepted, Answered, AppendResult, Exported, HitPage, Imported, ListPage, Moved, NoteListResult, NoteResult, Notice, Opened, Page,
    ProgressNotice, SeqResult, SessionResult, StateResult,
)  # fmt: skip
