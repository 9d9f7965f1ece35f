"""The entry that the hub keeps of each session for lists, so that a machine that has none of its operations lists it at once.

It is a SessionInfo as JSON, without id and seq. A session in the trash has `{"deleted": true}`. Long values are left out: they come
with the operations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sessiond.errors import BadFile
from sessiond.hub.bodies import pack_json, unpack_json
from sessiond.hub.port import HubHead
from sessiond.limits import HUB_LISTING_BYTES
from sessiond.model.changes import Appended, Change, Cleared, Created, StateSet, Truncated, Updated
from sessiond.model.session import UPDATABLE, Session, SessionInfo
from sessiond.model.values import JsonObject
from sessiond.ready import ready

DELETED = pack_json({"deleted": True})
_LONG = ("metadata", "summary", "tags", "parent", "name", "cwd", "model")
"""What is left out, in this order, until the rest is short enough."""
ready(SessionInfo)


def listing_after(session: Session, changes: Iterable[Change]) -> bytes:
    """Return what lists show of a session after `changes`, which it does not have yet."""
    wire: dict[str, Any] = msgspec.to_builtins(session.info())
    for change in changes:
        match change:
            case Created(info=info):
                wire |= {key: info[key] for key in ("createdAt", "updatedAt", *UPDATABLE) if key in info}
            case Appended(messages=messages):
                wire["messageCount"] += len(messages)
                wire["updatedAt"] = max(wire["updatedAt"], *[one["timestamp"] for one in messages])
            case Updated(fields=fields):
                wire |= {key: value for key, value in fields.items() if key in UPDATABLE}
            case Cleared():
                wire |= {"summary": None, "messageCount": 0}
            case Truncated(after_seq=after_seq):
                wire["messageCount"] = session.position_after(after_seq)
        if not isinstance(change, StateSet | Created | Appended):
            wire["updatedAt"] = max(wire["updatedAt"], change.at)
    return _packed(wire)


def listing_of(session: Session) -> bytes:
    return listing_after(session, ())


def _packed(wire: JsonObject) -> bytes:
    kept = {key: value for key, value in wire.items() if value not in (None, [], {}, False)}
    del kept["sessionId"]
    kept.pop("seq", None)
    packed = pack_json(kept)
    for key in _LONG:
        if len(packed) <= HUB_LISTING_BYTES:
            break
        kept.pop(key, None)
        packed = pack_json(kept)
    return packed


def listed(session: str, number: int, listing: bytes | None) -> SessionInfo | None:
    """The session that a listing describes. None if the listing is missing, unreadable, or of a session in the trash: then fetch
    the operations to find out.
    """
    if listing is None:
        return None
    try:
        wire = unpack_json(listing)
        if not isinstance(wire, dict) or "createdAt" not in wire:
            return None
        return msgspec.convert({**wire, "sessionId": session, "seq": number}, SessionInfo)
    except (BadFile, msgspec.ValidationError):
        return None


def listed_head(head: HubHead) -> SessionInfo | None:
    return listed(head.session, head.head, head.listing) if head.floor == 0 else None
