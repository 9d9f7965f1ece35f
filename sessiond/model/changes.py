"""Everything that can happen to a session, as a closed union of frozen values.

A change is what the journal keeps, what `Session.apply` takes and what clients are told. `seq` is the seq that the session
has after it; `at` is when the daemon accepted it (RFC 3339). Tags and field names are part of the formats of the journal and
of JSON Lines: add, never rename.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from sessiond.model.message import Message, Note
from sessiond.model.values import Json, JsonObject, WireObject


class _Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True, gc=False):
    seq: int
    at: str


class Created(_Change, frozen=True, kw_only=True, tag="created"):
    """The session begins (seq 0 unless it continues an older one). `info` holds SessionInfo's own fields, wire names."""

    info: WireObject


class Appended(_Change, frozen=True, kw_only=True, tag="appended"):
    """Messages with consecutive seqs, the last of which is `seq`."""

    messages: list[WireObject]
    """Wire form, so that the journal decodes without a hook; `Session.apply` turns them into Messages."""

    @classmethod
    def of(cls, messages: list[Message], at: str) -> Appended:
        return cls(seq=messages[-1].seq, at=at, messages=[message.wire() for message in messages])


class Extended(_Change, frozen=True, kw_only=True, tag="extended"):
    """`text` is appended to the streamed message; `offset` is its length before that, in code points."""

    message_id: str
    offset: int
    text: str


class Finished(_Change, frozen=True, kw_only=True, tag="finished"):
    """A streamed message is complete. For metadata and tool_calls None means unchanged; metadata is merged by key."""

    message_id: str
    status: str
    metadata: JsonObject | None = None
    tool_calls: list[Any] | None = None


class Updated(_Change, frozen=True, kw_only=True, tag="updated"):
    """`fields`: any of name, model, tags, archived, summary, metadata, cwd, parent; each replaces the old value."""

    fields: WireObject


class Noted(_Change, frozen=True, kw_only=True, tag="note"):
    note: WireObject

    @classmethod
    def of(cls, note: Note) -> Noted:
        return cls(seq=note.seq, at=note.timestamp, note=note.wire())


class StateSet(_Change, frozen=True, kw_only=True, tag="state"):
    """`values`: a None removes its key. Does not change updatedAt."""

    values: JsonObject


class Cleared(_Change, frozen=True, kw_only=True, tag="cleared"):
    """Messages and summary are emptied; name, notes and state remain."""


class Truncated(_Change, frozen=True, kw_only=True, tag="truncated"):
    """Messages with a seq greater than `after_seq` are gone."""

    after_seq: int


Change: TypeAlias = Created | Appended | Extended | Finished | Updated | Noted | StateSet | Cleared | Truncated

_decoder = msgspec.json.Decoder(list[Change])
_encoder = msgspec.json.Encoder()


def encode_changes(changes: list[Change]) -> bytes:
    """The changes as one JSON array in UTF-8, as in the journal."""
    return _encoder.encode(changes)


def decode_changes(raw: bytes | memoryview) -> list[Change]:
    """Inverse of `encode_changes`. Raises msgspec.ValidationError or DecodeError on anything else."""
    return _decoder.decode(raw)


def wire_change(change: Change) -> dict[str, Json]:
    """Return the change as in `session/changed`, except that the service fills in the `session` of `updated`."""
    wire: dict[str, Json] = {"kind": change.__struct_config__.tag, "seq": change.seq}
    match change:
        case Appended(messages=messages):
            wire["messages"] = messages
        case Extended(message_id=message_id, offset=offset, text=text):
            wire |= {"messageId": message_id, "offset": offset, "text": text}
        case Finished():
            wire |= {"messageId": change.message_id, "status": change.status}
            if change.metadata is not None:
                wire["metadata"] = change.metadata
            if change.tool_calls is not None:
                wire["toolCalls"] = change.tool_calls
        case Updated(fields=fields):
            wire["fields"] = fields
        case Noted(note=note):
            wire["note"] = note
        case StateSet(values=values):
            wire["values"] = values
        case Truncated(after_seq=after_seq):
            wire["afterSeq"] = after_seq
    return wire
