"""One message of a conversation, and one note. Frozen: a change creates a new one.

`gc=False`: their content came from JSON and cannot refer back to them. A collector that searches every message of a long
session stops all threads for a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sessiond.errors import InvalidParams
from sessiond.model.values import Json, same_json, strict_timestamp

STATUSES = ("streaming", "done", "interrupted", "error")
_HEAD = frozenset({"id", "seq", "role", "content", "timestamp", "status"})
_NO_REST: dict[str, Json] = {}


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A turn, a tool call or a tool's result.

    `content` is a string or a list of content blocks. `timestamp` is RFC 3339 in UTC with milliseconds. `status` is None
    (done) or one of STATUSES. `rest` holds everything else from the wire, under its wire names: `toolCalls`, `toolCallId`,
    `thinking`, `thread`, `tick`, `contextSnapshot`, `metadata` and every key that the protocol does not name.
    """

    id: str
    seq: int
    role: str
    content: str | list[Any]
    timestamp: str
    status: str | None = None
    rest: Mapping[str, Json] = _NO_REST

    def wire(self) -> dict[str, Json]:
        """The `Message` of docs/protocol.md. A new dict whose values are shared: do not change them."""
        head: dict[str, Json] = {
            "id": self.id,
            "seq": self.seq,
            "role": self.role,
            "content": self.content,
            "timestamp": self.timestamp,
        }
        if self.status is not None:
            head["status"] = self.status
        if self.rest:
            head.update(self.rest)
        return head

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any], seq: int | None = None) -> Message:
        """The inverse of `wire()`, for values that were already checked (a journal, a file of ours). `seq`: for a message that
        has none yet. Raises KeyError.
        """
        rest = {key: value for key, value in wire.items() if key not in _HEAD}
        return cls(
            id=wire["id"],
            seq=wire["seq"] if seq is None else seq,
            role=wire["role"],
            content=wire["content"],
            timestamp=wire["timestamp"],
            status=wire.get("status"),
            rest=rest,
        )

    @property
    def metadata(self) -> Mapping[str, Json]:
        found = self.rest.get("metadata")
        return found if isinstance(found, dict) else {}

    @property
    def tool_calls(self) -> list[Json]:
        found = self.rest.get("toolCalls")
        return found if isinstance(found, list) else []

    def with_status(self, status: str) -> Message:
        return msgspec.structs.replace(self, status=status)

    def text(self) -> str:
        """The readable text: the string, or the text blocks joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(
            block["text"]
            for block in self.content
            if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        )


class Note(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A note under a heading; `thread` null means for the whole session."""

    id: str
    seq: int
    heading: str
    content: str
    thread: str | None
    tick: int | None
    """The source system's turn number."""
    timestamp: str

    def wire(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "seq": self.seq,
            "heading": self.heading,
            "content": self.content,
            "thread": self.thread,
            "tick": self.tick,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Note:
        needed = {key: wire[key] for key in ("id", "seq", "heading", "content", "timestamp")}
        return cls(**needed, thread=wire.get("thread"), tick=wire.get("tick"))


_PLAIN = frozenset({"id", "role", "content"})
_OPTIONAL_TEXT = ("toolCallId", "thinking", "thread")


def is_plain(wire: object) -> bool:
    """Return whether a client's message is like nearly all: text with a role, and perhaps an id. Then it is valid."""
    return (
        type(wire) is dict
        and wire.keys() <= _PLAIN
        and type(wire.get("role")) is str
        and wire["role"] != ""
        and type(wire.get("content")) is str
        and (type(wire.get("id")) is str and 0 < len(wire["id"]) <= 256 if "id" in wire else True)
    )


def check_message(wire: object, where: str) -> None:
    """Raise InvalidParams, naming the field, unless `wire` is a Message that a client may append (id, timestamp
    optional).
    """
    if not isinstance(wire, dict):
        raise InvalidParams(f"{where}: expected an object", field=where)
    role = wire.get("role")
    if not isinstance(role, str) or not role:
        raise InvalidParams(f"{where}.role: expected a non-empty string", field=f"{where}.role")
    if not isinstance(wire.get("content"), (str, list)):
        raise InvalidParams(f"{where}.content: expected a string or a list of content blocks", field=f"{where}.content")
    if "id" in wire and (not isinstance(wire["id"], str) or not 0 < len(wire["id"]) <= 256):
        raise InvalidParams(f"{where}.id: expected a string of 1 to 256 characters", field=f"{where}.id")
    _check_timestamp(wire, where)
    if wire.get("status") not in (None, *STATUSES):
        raise InvalidParams(f"{where}.status: expected one of {', '.join(STATUSES)}", field=f"{where}.status")
    for key in _OPTIONAL_TEXT:
        if wire.get(key) is not None and not isinstance(wire[key], str):
            raise InvalidParams(f"{where}.{key}: expected a string", field=f"{where}.{key}")
    tick = wire.get("tick")
    if tick is not None and (not isinstance(tick, int) or isinstance(tick, bool)):
        raise InvalidParams(f"{where}.tick: expected an integer", field=f"{where}.tick")
    if wire.get("metadata") is not None and not isinstance(wire["metadata"], dict):
        raise InvalidParams(f"{where}.metadata: expected an object", field=f"{where}.metadata")
    check_tool_calls(wire.get("toolCalls"), where)


def _check_timestamp(wire: Mapping[str, Any], where: str) -> None:
    if wire.get("timestamp") is None:
        return
    try:
        strict_timestamp(wire["timestamp"])
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidParams(
            f"{where}.timestamp: expected an RFC 3339 timestamp such as 2026-01-11T14:30:22.000Z",
            field=f"{where}.timestamp",
        ) from error


def check_tool_calls(calls: object, where: str) -> None:
    """Raise InvalidParams unless `calls` is None or a list of `{id, name, arguments: object|string}`."""
    if calls is None:
        return
    if not isinstance(calls, list):
        raise InvalidParams(f"{where}.toolCalls: expected a list", field=f"{where}.toolCalls")
    for index, call in enumerate(calls):
        field = f"{where}.toolCalls[{index}]"
        if not isinstance(call, dict):
            raise InvalidParams(f"{field}: expected an object", field=field)
        for key in ("id", "name"):
            if not isinstance(call.get(key), str):
                raise InvalidParams(f"{field}.{key}: expected a string", field=f"{field}.{key}")
        if not isinstance(call.get("arguments"), (dict, str)):
            raise InvalidParams(f"{field}.arguments: expected an object or a string", field=f"{field}.arguments")


def wire_from_client(wire: Mapping[str, Any], *, message_id: str, seq: int, now: str) -> dict[str, Json]:
    """A checked client message with the daemon's additions: id and time if missing, and its seq. In wire form, for
    `Message.from_wire`.
    """
    sent_time, status = wire.get("timestamp"), wire.get("status")
    head: dict[str, Json] = {
        "id": message_id,
        "seq": seq,
        "role": wire["role"],
        "content": wire["content"],
        "timestamp": now if sent_time is None else strict_timestamp(sent_time),
    }
    if status is not None:
        head["status"] = status
    if wire.keys() <= _HEAD:
        return head
    return head | {key: value for key, value in wire.items() if key not in _HEAD}


def repeats(sent: Mapping[str, Any], kept: Message, appended_text: str | None = None) -> bool:
    """Return whether a client's message is a retry of a stored one: only what the client sent is compared.

    `appended_text` is the text of the append if the stored message was streamed and has grown or was finished since.
    """
    streamed = appended_text is not None
    for key, value in sent.items():
        if key in ("id", "seq"):
            continue
        if key == "timestamp":
            if value is not None and strict_timestamp(value) != kept.timestamp:
                return False
        elif key == "status":
            if not streamed and value not in (None, "done") and value != kept.status:
                return False
        elif key == "role":
            if value != kept.role:
                return False
        elif key == "content":
            if not same_json(value, appended_text if streamed else kept.content):
                return False
        elif not streamed and not same_json(value, kept.rest.get(key)):
            return False
    return True
