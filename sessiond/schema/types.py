"""Types that several methods share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sessiond.model.message import Note
from sessiond.store.port import FileWarning

__all__ = ["FileWarning", "Note"]  # declared where they are made, and on the wire as they are
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Limit = Annotated[int, Meta(ge=1, le=2**63 - 1)]
JsonObject = dict[str, Any]

Sort = Literal["updatedAt", "-updatedAt", "createdAt", "-createdAt", "name", "-name", "messageCount", "-messageCount"]
SearchMode = Literal["text", "regex", "semantic"]
ExportFormat = Literal["jsonl", "json", "markdown", "org", "html", "text"]
Status = Literal["streaming", "done", "interrupted", "error"]


class Wire(msgspec.Struct, rename="camel", kw_only=True):
    """Root of all types of the wire."""


class Nothing(Wire):
    """An empty object."""


class Parent(Wire):
    """Where a fork left."""

    session_id: str
    seq: Seq | None
    """Null where an imported source does not say."""


class SessionInfo(Wire, gc=False):
    """What a list shows of a session."""

    session_id: str
    """`ID` in the default store, `STORE/ID` in another."""
    name: str | None
    created_at: str
    updated_at: str
    model: str | None
    message_count: Count
    seq: Seq
    """Of the newest change."""
    store: str
    format: str
    path: str
    """Of the session file."""
    cwd: str | None
    tags: list[str]
    archived: bool
    summary: str | None
    parent: Parent | None
    metadata: JsonObject
    attached: Count
    """Connections that have it open."""
    dirty: bool
    """The session file is behind the journal."""
    cut: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Fields that are not shown, for they came from a file and are too large for an answer."""
    deleted_at: str | msgspec.UnsetType = msgspec.UNSET
    """In the trash: when it came there."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """In the trash: why, such as `deleted`, `cleared` or `truncated`."""


class ToolCall(Wire):
    """A call that an assistant's message makes; its result is a message of role `tool` whose `toolCallId` is this `id`."""

    id: str
    name: str
    arguments: JsonObject | str


class MessageBody(Wire, omit_defaults=True):
    """What a message says. Keys that are not named here are kept and given back unchanged, at any depth."""

    role: str
    """`user`, `assistant`, `system`, `tool`, or another word."""
    content: str | list[Any]
    """Text, or a list of content blocks."""
    status: Status | None = None
    """`streaming`: `session/extend` will follow. Absent means done."""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    """Role `tool`: the call that this is the result of."""
    thinking: str | None = None
    thread: str | None = None
    tick: int | None = None
    """The source system's turn number."""
    context_snapshot: Any = None
    metadata: JsonObject | None = None


class NewMessage(MessageBody, omit_defaults=True):
    """A message as a client appends it."""

    id: str | None = None
    """1 to 256 characters; made by the daemon if absent. Sending the same id again with the same content adds nothing.
    """
    timestamp: str | None = None
    """RFC 3339; the time of arrival if absent."""


class Message(MessageBody, omit_defaults=True, kw_only=True):
    """A message of a session, with its current content."""

    id: str
    seq: Seq
    timestamp: str
    """RFC 3339 in UTC with milliseconds."""
    cut: Count | None = None
    """The message came from a file and is too large for an answer: so many bytes it has. `content` is the beginning of its
    text, or empty, and all else is left out. `session/export` has the whole.
    """


class Change(Wire, omit_defaults=True):
    """One change of a session. `kind` says which of the fields are there."""

    kind: Literal["created", "appended", "extended", "finished", "updated", "note", "state", "cleared", "truncated"]
    seq: Seq
    messages: list[Message] | None = None
    """`appended`."""
    message_id: str | None = None
    """`extended`, `finished`."""
    text: str | None = None
    """`extended`: what was added."""
    offset: Count | None = None
    """`extended`: code points before the text."""
    status: Status | None = None
    """`finished`."""
    metadata: JsonObject | None = None
    """`finished`."""
    tool_calls: list[ToolCall] | None = None
    """`finished`."""
    session: SessionInfo | None = None
    """`updated`: the session after it."""
    fields: JsonObject | None = None
    """`updated`: what was set."""
    note: Note | None = None
    """`note`."""
    values: JsonObject | None = None
    """`state`: a null removes its key."""
    replay: bool | None = None
    """`state`: after `session/restored`, all state once more."""
    after_seq: Seq | None = None
    """`truncated`: messages with a greater seq are gone."""


SentMessage = Annotated[JsonObject, Meta(title="NewMessage")]
"""Decoded as it came, so that no key is lost; the service checks it."""
SentToolCall = Annotated[JsonObject, Meta(title="ToolCall")]
ShownMessage = Annotated[JsonObject, Meta(title="Message")]
"""A `Message` with every key that its client gave it."""
ShownChange = Annotated[JsonObject, Meta(title="Change")]
PLAIN_OBJECTS: dict[str, type[Wire]] = {
    "NewMessage": NewMessage,
    "ToolCall": ToolCall,
    "Message": Message,
    "Change": Change,
}
"""What travels as a plain object: the title in its annotation -> what it is."""


class Filter(Wire, omit_defaults=True):
    """All of what is given must hold."""

    store: str | None = None
    tags: list[str] | None = None
    """All of them."""
    archived: bool | None = None
    """true: only archived ones. Absent or false: none of them."""
    deleted: bool | None = None
    """true: only deleted ones. Absent or false: none of them."""
    model: str | None = None
    cwd: str | None = None
    since: str | None = None
    """RFC 3339, on `updatedAt`, included."""
    until: str | None = None
    """RFC 3339, on `updatedAt`, excluded."""
    name: str | None = None
    """A part of the name, case ignored."""


class SearchFilter(Filter, omit_defaults=True):
    """As for a list, plus what belongs to a message."""

    role: str | None = None
    session_id: str | None = None
