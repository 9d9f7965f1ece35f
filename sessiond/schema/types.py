"""Types that several methods share."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sessiond.model.message import Note
from sessiond.model.values import Json, JsonObject, WireObject
from sessiond.store.port import FileWarning

__all__ = ["FileWarning", "Json", "JsonObject", "Note"]  # declared where they are made, and on the wire as they are
Seq = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Limit = Annotated[int, Meta(ge=1, le=2**63 - 1)]

Sort = Literal["updatedAt", "-updatedAt", "createdAt", "-createdAt", "name", "-name", "messageCount", "-messageCount"]
SearchMode = Literal["text", "regex", "semantic"]
ExportFormat = Literal["jsonl", "json", "markdown", "org", "html", "text", "openai", "anthropic"]
Status = Literal["streaming", "done", "interrupted", "error"]


class Wire(msgspec.Struct, rename="camel", kw_only=True):
    """Root of all types of the wire."""


class Nothing(Wire):
    """An empty object."""


class Parent(Wire):
    """The session that a session came from: a fork, a copy, a subagent."""

    session_id: str
    seq: Seq | None
    """Null where nobody said."""


class Choice(Wire, omit_defaults=True):
    """An answer to choose."""

    id: str
    label: str
    kind: Literal["allow", "deny"] | None = None
    """What it means where permission is asked for."""


class Question(Wire, omit_defaults=True):
    """A question that a program asks a person. Any client may answer it with `session/answer`; the first answer counts."""

    id: str
    choices: list[Choice] | None = None
    """Absent: any text is an answer."""
    tool_call_id: str | None = None
    """The call that needs permission."""


class Activity(Wire, omit_defaults=True):
    """The activity in a session at the moment, as a program that works in it says. A session in which nothing does has none."""

    state: Literal["working", "waiting"]
    """`waiting`: for a person."""
    since: str
    """RFC 3339."""
    client: str
    """Who says so: `clientInfo.name`."""
    waiting_for: str | None = None
    """`permission`, `question`, or another word."""
    text: str | None = None
    """What it does or asks, in a few words."""
    question: Question | None = None
    """What `session/ask` asks. Absent: only the program itself takes an answer."""


class SessionInfo(Wire, gc=False):
    """A session as a list shows it."""

    session_id: str
    """`ID` in the default store, `STORE/ID` in another."""
    name: str | None
    created_at: str
    updated_at: str
    model: str | None
    message_count: Count
    seq: Seq
    """Of the newest change in the session."""
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
    """Without the `records` of an imported session, which may be large: `session/export` has them."""
    attached: Count
    """How many connections have it open."""
    dirty: bool
    """The session file is behind the journal."""
    cut: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Fields that are left out because they are too large for one response; they came from a file."""
    activity: Activity | msgspec.UnsetType = msgspec.UNSET
    """What goes on in it. Left out if nothing does."""
    provisional: Count | msgspec.UnsetType = msgspec.UNSET
    """In a shared store: how many changes are durable here and still wait for the hub. Left out if there are none."""
    deleted_at: str | msgspec.UnsetType = msgspec.UNSET
    """In the trash: when it was moved there."""
    reason: str | msgspec.UnsetType = msgspec.UNSET
    """In the trash: why, such as `deleted`, `cleared` or `truncated`."""


class ToolCall(Wire):
    """A call that an assistant's message makes. Its result is a message of role `tool` whose `toolCallId` is this `id`."""

    id: str
    name: str
    arguments: JsonObject | str


class MessageBody(Wire, omit_defaults=True):
    """The content of a message. Keys that are not named here are kept and returned unchanged, at any depth."""

    role: str
    """`user`, `assistant`, `system`, `tool`, or another word."""
    content: str | list[Json]
    """Text, or a list of content blocks."""
    status: Status | None = None
    """`streaming`: more text will follow with `session/extend`. Absent means done."""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    """Role `tool`: the `id` of the call that this message is the result of."""
    thinking: str | None = None
    thread: str | None = None
    tick: int | None = None
    """The source system's turn number."""
    context_snapshot: Json = None
    metadata: JsonObject | None = None


class NewMessage(MessageBody, omit_defaults=True):
    """A message as a client sends it."""

    id: str | None = None
    """1 to 256 characters; the daemon makes one if absent. Sending the same id again with the same content adds nothing."""
    timestamp: str | None = None
    """RFC 3339; defaults to the time of arrival."""


class Message(MessageBody, omit_defaults=True, kw_only=True):
    """A message of a session, with its current content."""

    id: str
    seq: Seq
    timestamp: str
    """RFC 3339 in UTC with milliseconds."""
    author: Json = None
    """In a shared store: the name of the member who appended it, as the hub knows it, whatever the client sent. In other stores: what
    the client sent.
    """
    cut: Count | None = None
    """The size in bytes of a message that came from a file and is too large for one response. `content` is the beginning of
    its text, or empty; everything else is left out. `session/export` returns the whole message.
    """


class Change(Wire, omit_defaults=True):
    """One change to a session. `kind` determines which fields are present."""

    kind: Literal["created", "appended", "extended", "finished", "updated", "note", "state", "cleared", "truncated"]
    seq: Seq
    messages: list[Message] | None = None
    """`appended`."""
    message_id: str | None = None
    """`extended`, `finished`."""
    text: str | None = None
    """`extended`: the added text."""
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
    """`state`: null removes a key."""
    replay: bool | None = None
    """`state`: after `session/restored`, all state once more."""
    after_seq: Seq | None = None
    """`truncated`: messages with a greater seq were removed."""


SentMessage = Annotated[JsonObject, Meta(title="NewMessage")]
"""Decoded as it came, so that no key is lost; the service checks it."""
SentToolCall = Annotated[JsonObject, Meta(title="ToolCall")]
ShownMessage = Annotated[WireObject, Meta(title="Message")]
"""A `Message` with every key that its client gave it."""
ShownChange = Annotated[WireObject, Meta(title="Change")]
PLAIN_OBJECTS: dict[str, type[Wire]] = {
    "NewMessage": NewMessage,
    "ToolCall": ToolCall,
    "Message": Message,
    "Change": Change,
}
"""What travels as a plain object: the title in its annotation -> what it is."""


class Filter(Wire, omit_defaults=True):
    """All given conditions must hold."""

    store: str | None = None
    tags: list[str] | None = None
    """A session must have all of these."""
    archived: bool | None = None
    """true: archived sessions only. false or absent: no archived sessions."""
    deleted: bool | None = None
    """true: deleted sessions only. false or absent: no deleted sessions."""
    model: str | None = None
    """A model's name, or a whole part of it: `opus`, `opus-4`."""
    cwd: str | None = None
    since: str | None = None
    """RFC 3339; compared with `updatedAt`, inclusive."""
    until: str | None = None
    """RFC 3339; compared with `updatedAt`, exclusive."""
    name: str | None = None
    """Part of the name; case is ignored."""
    tool: str | None = None
    """The tool that sessions were imported from, such as `codex`; `sessiond`: those that were not imported."""
    parent: str | None = None
    """Sessions whose `parent` is this one: forks, copies, subagents."""


class ListFilter(Filter, omit_defaults=True):
    """The conditions of every filter, and what only the daemon knows."""

    activity: Literal["working", "waiting"] | None = None
    """Only sessions in which this goes on."""


class SearchFilter(Filter, omit_defaults=True):
    """The conditions of every filter, with conditions on messages."""

    role: str | None = None
    session_id: str | None = None
