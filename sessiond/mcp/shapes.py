"""The arguments and results of tools, as types. Their JSON schemas, which a model reads, are made from these. No I/O."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sessiond.ready import ready

MAX_SEQ = 2**63 - 1
MAX_HITS, MAX_LISTED = 100, 100
MIN_TOKENS, MAX_TOKENS = 300, 50_000
MAX_TEXT_CHARS = 1_000_000

SessionId = Annotated[str, Meta(max_length=1000, description="A sessionId from `search` or `list`.")]
Cursor = Annotated[
    str, Meta(max_length=100, description="`nextCursor` of the page before; leave it out for the first.")
]
Seq = Annotated[int, Meta(ge=0, le=MAX_SEQ)]
Project = Annotated[
    str,
    Meta(max_length=4096, description="Only sessions of this folder and the folders in it; an absolute path or ~/..."),
]
Since = Annotated[str, Meta(max_length=64, description="From this time on: 2026-01-31 or 2026-01-31T14:00:00Z.")]
Until = Annotated[str, Meta(max_length=64, description="Before this time, given like `since`.")]
Tool = Annotated[
    str,
    Meta(max_length=100, description="Only sessions of this program, such as claude-code, codex or opencode."),
]
Role = Annotated[str, Meta(max_length=64, description="Only messages of this role: user, assistant, system or tool.")]


class Taken(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Root of what tools take. An empty string, and 0 for a seq, mean that the field was not given."""


class Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Root of what tools return."""


class SearchCall(Taken, frozen=True, kw_only=True):
    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4000,
            description='mode text: words that must all be in one message; "a phrase", prefix*, -without, one OR other. '
            "mode regex: a Python regular expression. mode semantic: a sentence.",
        ),
    ]
    mode: Annotated[
        Literal["text", "regex", "semantic"],
        Meta(description="By words, by a pattern, or by meaning. Begin with text."),
    ] = "text"
    role: Role = ""
    since: Since = ""
    until: Until = ""
    project: Project = ""
    tool: Tool = ""
    session_id: Annotated[str, Meta(max_length=1000, description="Only this session.")] = ""
    tools: Annotated[
        bool, Meta(description="false leaves out what went into tools and what came out of them (mode text only).")
    ] = True
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS, description="How many hits at most.")] = 10
    cursor: Cursor = ""


class ReadCall(Taken, frozen=True, kw_only=True):
    session_id: SessionId
    around: Annotated[Seq, Meta(description="Show the message with this seq and what is before and after it.")] = 0
    before: Annotated[Seq, Meta(description="Show what is before this seq: `olderBefore` of a result.")] = 0
    after: Annotated[Seq, Meta(description="Show what is after this seq: `newerAfter` of a result.")] = 0
    offset: Annotated[
        int,
        Meta(ge=0, le=MAX_SEQ, description="With `around`: show that message alone, from this character on."),
    ] = 0
    max_tokens: Annotated[
        int, Meta(ge=MIN_TOKENS, le=MAX_TOKENS, description="About how many tokens the result may have.")
    ] = 4000
    thinking: Annotated[bool, Meta(description="Also what the model thought.")] = False
    notes: Annotated[bool, Meta(description="Also the newest notes of the session.")] = False


class ListCall(Taken, frozen=True, kw_only=True):
    project: Project = ""
    tool: Tool = ""
    tag: Annotated[str, Meta(max_length=200, description="Only sessions with this tag.")] = ""
    name: Annotated[str, Meta(max_length=1000, description="A part of the session's name.")] = ""
    since: Since = ""
    until: Until = ""
    archived: Annotated[bool, Meta(description="true shows archived sessions instead of the others.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="How many sessions at most.")] = 20
    cursor: Cursor = ""


class AppendCall(Taken, frozen=True, kw_only=True):
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="What was said.")]
    role: Annotated[Literal["user", "assistant"], Meta(description="Who said it.")] = "assistant"
    session_id: Annotated[str, Meta(max_length=1000, description="Leave it out to make a new session.")] = ""
    name: Annotated[str, Meta(max_length=200, description="The name of a new session.")] = ""
    project: Annotated[str, Meta(max_length=4096, description="The folder of a new session, an absolute path.")] = ""
    message_id: Annotated[
        str,
        Meta(max_length=256, description="An id of your own: a second call with the same id and text adds nothing."),
    ] = ""


class NoteCall(Taken, frozen=True, kw_only=True):
    session_id: SessionId
    heading: Annotated[str, Meta(min_length=1, max_length=200, description="A short heading.")]
    text: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS, description="The note.")]
    note_id: Annotated[
        str,
        Meta(max_length=256, description="An id of your own: a second call with the same id and text adds nothing."),
    ] = ""


TagName = Annotated[str, Meta(min_length=1, max_length=200)]


class TagCall(Taken, frozen=True, kw_only=True):
    session_id: SessionId
    add: Annotated[list[TagName], Meta(max_length=50, description="Tags to add.")] = []
    remove: Annotated[list[TagName], Meta(max_length=50, description="Tags to remove.")] = []


class ListedSession(Given, frozen=True, kw_only=True):
    """A session in a list."""

    session_id: str
    name: str | None
    project: str | None
    tool: str
    model: str | None
    created: str
    updated: str
    messages: int
    tags: list[str]
    archived: bool
    parent: str | None
    """The session from which it was forked, or whose subagent it is."""


class FoundHit(Given, frozen=True, kw_only=True):
    """A message, note or name that was found."""

    session_id: str
    kind: Literal["message", "note", "name"]
    seq: int | None
    role: str | None
    time: str
    name: str | None
    project: str | None
    tool: str
    quote: str
    """The words around what was found."""


class ShownMessage(Given, frozen=True, kw_only=True):
    """A message, or a part of it: `chars` code points in all, of which `quote` has those from `offset` on."""

    seq: int
    role: str
    time: str
    marks: list[str]
    quote: str
    offset: int
    chars: int
    complete: bool


class ReadNote(Given, frozen=True, kw_only=True):
    seq: int
    heading: str
    time: str
    quote: str


class SearchOutput(Given, frozen=True, kw_only=True):
    notice: str
    hits: list[FoundHit]
    next_cursor: str | None
    incomplete: bool
    """The index is being built; there may be more later."""


class ReadOutput(Given, frozen=True, kw_only=True):
    notice: str
    session: ListedSession
    messages: list[ShownMessage]
    older_before: int | None
    """If there are older messages: the value of `before` that shows them."""
    newer_after: int | None
    notes: list[ReadNote]


class ListOutput(Given, frozen=True, kw_only=True):
    notice: str
    sessions: list[ListedSession]
    next_cursor: str | None
    incomplete: bool


class AppendOutput(Given, frozen=True, kw_only=True):
    session_id: str
    seq: int
    message_id: str


class NoteOutput(Given, frozen=True, kw_only=True):
    session_id: str
    seq: int
    note_id: str


class TagOutput(Given, frozen=True, kw_only=True):
    session_id: str
    tags: list[str]


def schema_of(shape: type[msgspec.Struct]) -> dict[str, object]:
    """The JSON schema of a struct, an object at its root."""
    made = msgspec.json.schema(shape)
    defs: dict[str, Any] = made["$defs"]
    root: dict[str, object] = defs.pop(shape.__name__)
    root.pop("description", None)
    return {**root, "$defs": defs} if defs else root


ready(SearchCall, ReadCall, ListCall, AppendCall, NoteCall, TagCall)
