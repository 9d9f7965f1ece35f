"""A session's messages after a change of it, as `session/changed` tells it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sessiond.model.message import Message
from sessiond.model.values import Json
from sessiond.schema.types import ShownChange


def applied(messages: list[Message], change: ShownChange) -> list[Message]:
    """The messages after a change. Those that stay as they are stay the same objects."""
    match change["kind"]:
        case "appended":
            return messages + [Message.from_wire(one) for one in change["messages"]]
        case "extended":
            return [_extended(one, change) if one.id == change["messageId"] else one for one in messages]
        case "finished":
            return [_finished(one, change) if one.id == change["messageId"] else one for one in messages]
        case "cleared":
            return []
        case "truncated":
            return [one for one in messages if one.seq <= change["afterSeq"]]
    return messages


def _extended(message: Message, change: ShownChange) -> Message:
    if not isinstance(message.content, str) or "cut" in message.rest:
        return message
    return msgspec.structs.replace(message, content=message.content[: change["offset"]] + change["text"])


def _finished(message: Message, change: ShownChange) -> Message:
    rest = dict(message.rest)
    if (metadata := change.get("metadata")) is not None:
        rest["metadata"] = {**message.metadata, **metadata}
    if (calls := change.get("toolCalls")) is not None:
        rest["toolCalls"] = calls
    return msgspec.structs.replace(message, status=change["status"], rest=rest)


def unfinished(message: Message, chars: int) -> Message:
    """Return the message as it was when `chars` characters of its text had come. What a message has besides its text comes at its end."""
    content = message.content[:chars] if isinstance(message.content, str) else message.content
    return msgspec.structs.replace(message, status="streaming", content=content, rest=_at_first(message.rest))


def _at_first(rest: Mapping[str, Json]) -> dict[str, Json]:
    """Calls and counts of tokens are told when a message is finished."""
    metadata = rest.get("metadata")
    kept = {key: value for key, value in rest.items() if key not in ("toolCalls", "metadata")}
    if isinstance(metadata, dict) and (own := {key: value for key, value in metadata.items() if key != "tokens"}):
        kept["metadata"] = own
    return kept
