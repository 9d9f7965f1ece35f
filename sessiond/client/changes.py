"""The kinds of changes that `changes()` gives, one type each.

Every change of a session has a seq, one greater than the change before it; an append of n messages takes n seqs. `Reread`
and `Deleted` are the client's own words for what the daemon says in other ways. A kind that this client does not know comes
as `OtherChange`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, field
from msgspec.structs import force_setattr

from sessiond.client.types import Activity, Message, Note, Origin, SessionInfo, ToolCall, Value


class _Change(Value, frozen=True, kw_only=True):
    seq: int = 0
    """The session's seq after the change."""
    session_id: str = ""
    origin: Origin | None = None
    """Which client made it; None where the client learned of the change after a reconnect."""


class Created(_Change, frozen=True, kw_only=True):
    """The session begins."""


class Appended(_Change, frozen=True, kw_only=True):
    """Messages with consecutive seqs, the last of which is `seq`."""

    messages: list[Message] = field(default_factory=list)


class Extended(_Change, frozen=True, kw_only=True):
    """`text` follows the first `offset` code points of a streamed message."""

    message_id: str = ""
    text: str = ""
    offset: int = 0


class Finished(_Change, frozen=True, kw_only=True):
    """A streamed message ended. `metadata` and `tool_calls` are None where they stay as they were."""

    message_id: str = ""
    status: str = "done"
    metadata: dict[str, Any] | None = None
    tool_calls: list[ToolCall] | None = None


class Updated(_Change, frozen=True, kw_only=True):
    """The name, tags or other fields of the session changed. `session` has all of them."""

    session: SessionInfo | None = None


class Noted(_Change, frozen=True, kw_only=True):
    """A note was written."""

    note: Note | None = None


class StateSet(_Change, frozen=True, kw_only=True):
    """State changed. A value None means that its key was removed."""

    values: dict[str, Any] = field(default_factory=dict)


class Cleared(_Change, frozen=True, kw_only=True):
    """Messages and summary are gone."""


class Truncated(_Change, frozen=True, kw_only=True):
    """Messages with a seq greater than `after_seq` are gone."""

    after_seq: int = 0


class OtherChange(_Change, frozen=True, kw_only=True):
    """A change of a kind that this client does not know. `members` is all that the daemon sent."""

    kind: str = ""
    members: dict[str, Any] = field(default_factory=dict)


class Reread(_Change, frozen=True, kw_only=True):
    """The single changes after `since` are not known: somebody edited the file, or too much happened meanwhile.

    `messages` are those with a seq greater than `since`, with their current content; earlier messages may have changed too.
    Many messages come as several `Reread`s, each with the `since` of the one before it.
    """

    since: int = 0
    session: SessionInfo | None = None
    messages: list[Message] = field(default_factory=list)
    edited: bool = False
    """Another program changed the session's file."""
    another: bool = False
    """The session was deleted, and this is the beginning of another one with the same id (and another `created_at`)."""


class Deleted(_Change, frozen=True, kw_only=True):
    """The session is gone. Nothing follows."""

    missed: bool = False
    """It went while the client had no connection: it was deleted, or it was empty and the daemon dropped it."""
    moved_to: str | None = None
    """Its id now, if somebody moved it to another store."""


class Asked(_Change, frozen=True, kw_only=True):
    """Only with `answers`: somebody who brings no model said this message, and waits for an answer from here."""

    message_id: str = ""


class Interrupted(_Change, frozen=True, kw_only=True):
    """Only with `answers`: nobody wants the answer any more. Finish what there is of it as `interrupted`."""

    message_id: str | None = None
    """The message whose answer it is; None where nobody said."""


class ActivityChanged(_Change, frozen=True, kw_only=True):
    """Something else goes on in the session."""

    activity: Activity | None = None
    """None: nothing any more."""


Change: TypeAlias = (
    Created
    | Appended
    | Extended
    | Finished
    | Updated
    | Noted
    | StateSet
    | Cleared
    | Truncated
    | OtherChange
    | Reread
    | Deleted
    | Asked
    | Interrupted
    | ActivityChanged
)


class _Kind(Value, frozen=True, kw_only=True):
    kind: str = ""
    seq: int = 0


_decode_kind = msgspec.json.Decoder(_Kind).decode
_KINDS: dict[str, msgspec.json.Decoder[Any]] = {
    "created": msgspec.json.Decoder(Created),
    "appended": msgspec.json.Decoder(Appended),
    "extended": msgspec.json.Decoder(Extended),
    "finished": msgspec.json.Decoder(Finished),
    "updated": msgspec.json.Decoder(Updated),
    "note": msgspec.json.Decoder(Noted),
    "state": msgspec.json.Decoder(StateSet),
    "cleared": msgspec.json.Decoder(Cleared),
    "truncated": msgspec.json.Decoder(Truncated),
}


def read_change(raw: Raw, session_id: str, origin: Origin | None = None) -> Change:
    """A change of the wire as its type. msgspec.ValidationError where it has another shape."""
    head = _decode_kind(raw)
    decoder = _KINDS.get(head.kind)
    change: Change = decoder.decode(raw) if decoder is not None else _other(head, raw)
    force_setattr(change, "session_id", session_id)
    force_setattr(change, "origin", origin)
    return change


def _other(head: _Kind, raw: Raw) -> OtherChange:
    return OtherChange(kind=head.kind, seq=head.seq, members=msgspec.json.decode(raw))


def first_seq(change: Change) -> int:
    """The smallest seq that a change has."""
    return change.messages[0].seq if isinstance(change, Appended) and change.messages else change.seq


def without_known(change: Change, known: int) -> Change | None:
    """The part of a change with a seq greater than `known`; None where all of it is known."""
    if change.seq <= known:
        return None
    if isinstance(change, Appended) and first_seq(change) <= known:
        return msgspec.structs.replace(change, messages=[one for one in change.messages if one.seq > known])
    return change


def as_they_were(changes: list[Change]) -> list[Change]:
    """Every message with the content that it was appended with.

    Where the daemon knows an append from the file only, it tells the message as it is now, and then what made it so: whoever puts
    text after text would have it twice.
    """
    offsets: dict[str, int] = {}
    finished: set[str] = set()
    told = []
    for change in reversed(changes):
        if isinstance(change, Extended):
            offsets[change.message_id] = change.offset
        elif isinstance(change, Finished):
            finished.add(change.message_id)
        elif isinstance(change, Appended) and any(one.id in offsets or one.id in finished for one in change.messages):
            messages = [_as_it_was(one, offsets.pop(one.id, None), one.id in finished) for one in change.messages]
            finished.difference_update(one.id for one in messages)
            change = msgspec.structs.replace(change, messages=messages)  # noqa: PLW2901
        told.append(change)
    return told[::-1]


def _as_it_was(message: Message, offset: int | None, finished: bool) -> Message:
    if offset is None and not finished:
        return message
    content = message.content[:offset] if isinstance(message.content, str) else message.content
    return msgspec.structs.replace(message, content=content, status="streaming")
