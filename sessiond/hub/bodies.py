"""The body of an operation: one change as compressed JSON, without what the hub keeps beside it (seq, message's or note's id, and
the author of a message: nobody can claim the name of somebody else).

A body begins with a byte that says how the rest is written, so that later versions can write it in another way: PLAIN is JSON, PACKED is
JSON compressed by zstd with DICTIONARY. A body of another way, or one that is damaged, raises BadFile.
"""

from __future__ import annotations

from typing import Any

import msgspec
import zstandard

from sessiond.errors import BadFile
from sessiond.hub.port import Operation, Ordered
from sessiond.limits import HUB_BODY_BYTES
from sessiond.model.changes import (
    Appended,
    Change,
    Cleared,
    Created,
    Extended,
    Finished,
    Noted,
    StateSet,
    Truncated,
    Updated,
)
from sessiond.model.values import Json, JsonObject
from sessiond.ready import ready

PLAIN = b"\x00"
PACKED = b"\x01"
DICTIONARY = (
    b'{"values":{"fields":{"name":"","tags":[],"archived":false,"summary":"","metadata":{"model":"","cwd":"/home/",'
    b'"parent":{"sessionId":"","seq":{"info":{"createdAt":"2026-01-01T00:00:00.000Z","updatedAt":"2026-01-01T00:00:00.000Z",'
    b'"afterSeq":"offset":"messageId":"toolCalls":[{"id":"call_","name":"","arguments":{"path":"/","command":"'
    b'"heading":"","thread":null,"tick":null,"note":{"content":[{"type":"text","text":"'
    b'"type":"tool_result","tool_use_id":"toolu_","toolCallId":"call_","role":"system","role":"tool","thinking":"'
    b'"metadata":{"error","status":"interrupted","status":"done","status":"streaming"'
    b'{"kind":"extended","at":"2026-01-01T00:00:00.000Z","text":"{"kind":"appended","at":"2026-01-01T00:00:00.000Z","messages":['
    b'{"role":"user","content":"{"role":"assistant","content":"","timestamp":"2026-01-01T00:00:00.000Z"}]}'
)
"""Never change it: stored bodies need it. A better one gets another first byte."""

_LEAST = 64
"""A shorter body does not become shorter."""
_dictionary = zstandard.ZstdCompressionDict(DICTIONARY)
_settings = zstandard.ZstdCompressionParameters.from_level(
    3, write_dict_id=False, write_checksum=False, write_content_size=True
)
ready(Change)


def pack(change: Change) -> tuple[str, str | None, bytes]:
    """The kind, id and body of a change. An `Appended` must have one message.

    `seq` of the change, its message or note is left out: it is the operation's number. So is `author`, which the hub says.
    """
    wire: dict[str, Any] = msgspec.to_builtins(change)
    kind = wire.pop("kind")
    del wire["seq"]
    message_id: str | None = None
    if isinstance(change, (Appended, Noted)):
        inner = dict(change.messages[0] if isinstance(change, Appended) else change.note)
        message_id = inner.pop("id")
        inner.pop("seq", None)
        if isinstance(change, Appended):
            if len(change.messages) != 1:
                raise ValueError("an operation has one message")
            inner.pop("author", None)
            wire["messages"] = [inner]
        else:
            wire["note"] = inner
    return kind, message_id, pack_json(wire)


def unpack(ordered: Ordered) -> Change:
    """The change of an operation, with its number as its seq, and its author in its message. BadFile; for a kind that is not a
    change too.
    """
    wire = unpack_json(ordered.body)
    if not isinstance(wire, dict):
        raise BadFile(f"operation {ordered.number} is not an object")
    whole: JsonObject = {**wire, "kind": ordered.kind, "seq": ordered.number}
    try:
        if ordered.kind == "appended":
            whole["messages"] = [
                authored({"id": ordered.id, "seq": ordered.number, **wire["messages"][0]}, ordered.author)
            ]
        elif ordered.kind == "note":
            whole["note"] = {"id": ordered.id, "seq": ordered.number, **wire["note"]}
        change: Change = msgspec.convert(whole, type=_Change)
    except (KeyError, IndexError, TypeError, msgspec.ValidationError) as error:
        raise BadFile(f"operation {ordered.number} cannot be understood: {error}") from None
    return change


def authored(wire: JsonObject, author: str) -> JsonObject:
    """A message that says who wrote it, whatever it said before; an empty name: nobody knows. A new dict."""
    rest = {key: value for key, value in wire.items() if key != "author"}
    return {**rest, "author": author} if author else rest


_Change = Created | Appended | Extended | Finished | Updated | Noted | StateSet | Cleared | Truncated


def operation(index: int, change: Change) -> Operation:
    """The change as an operation of the replica."""
    kind, message_id, body = pack(change)
    return Operation(index, kind, message_id, body)


def pack_json(value: Json) -> bytes:
    """A body, or a listing, of any JSON value."""
    plain = msgspec.json.encode(value)
    if len(plain) >= _LEAST:
        packed = zstandard.ZstdCompressor(dict_data=_dictionary, compression_params=_settings).compress(plain)
        if len(packed) < len(plain):
            return PACKED + packed
    return PLAIN + plain


def unpack_json(body: bytes) -> Json:
    """Inverse of `pack_json`. BadFile."""
    try:
        if body[:1] == PLAIN:
            return msgspec.json.decode(body[1:])
        if body[:1] == PACKED:
            length = zstandard.frame_content_size(body[1:])
            if not 0 <= length <= HUB_BODY_BYTES:
                raise BadFile("an operation on the hub is too large")
            return msgspec.json.decode(zstandard.ZstdDecompressor(dict_data=_dictionary).decompress(body[1:]))
    except (zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFile(f"an operation on the hub is damaged: {error}") from None
    raise BadFile("an operation on the hub is written in a way that this version does not know")
