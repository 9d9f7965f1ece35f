"""Begins new sessions."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sessiond.errors import InvalidParams
from sessiond.model.changes import Appended, Change, Created
from sessiond.model.message import wire_from_client
from sessiond.model.session import Session
from sessiond.model.values import Json, WireObject, join_wire_id, split_wire_id
from sessiond.schema.types import Parent
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.paging import check_number
from sessiond.service.size_limits import head_bytes
from sessiond.service.subscribers import Peer

_LONGEST_PARENT = 512
"""Characters: two names of folders and more."""


def belonging(parent: Parent | None) -> dict[str, Json]:
    """The fields of a new session that say which one it belongs to, whether that one exists yet or not. InvalidParams."""
    if parent is None:
        return {}
    store, local_id = split_wire_id(parent.session_id)
    if not (store and local_id) or len(parent.session_id) > _LONGEST_PARENT:
        raise InvalidParams("parent.sessionId: not the id of a session", hint="`ID` or `STORE/ID`", field="parent")
    check_number("parent.seq", parent.seq)
    # Under one name only: filters and the rule for private sessions compare names.
    return {"parent": {"sessionId": join_wire_id(store, local_id), "seq": parent.seq}}


async def begin(
    open_sessions: OpenSessions,
    one: OpenSession,
    fields: WireObject,
    messages: Sequence[WireObject],
    peer: Peer | None,
) -> None:
    """A new session, durable and announced when this returns. AlreadyExists."""
    await one.notice_removal()
    await one.stored.begin()
    session = Session(one.local_id, open_sessions.now())
    one.room.of(session).check_head(fields, lambda: head_bytes(session, fields, {}, []))
    changes = _first_changes(session, fields, messages)
    await one.stored.commit(session, changes)
    one.begun(session)
    if peer is not None:
        one.attach(peer)
    one.publish(changes, peer)
    open_sessions.changed(one, changes)


def _first_changes(session: Session, fields: WireObject, messages: Sequence[WireObject]) -> list[Change]:
    at = session.created_at
    changes: list[Change] = [Created(seq=0, at=at, info={"createdAt": at, **fields})]
    made = []
    ids: set[str] = set()
    for seq, wire in enumerate(messages, 1):
        message_id = wire.get("id") or "m" + secrets.token_hex(8)
        if message_id in ids:
            field = f"messages[{seq - 1}].id"
            raise InvalidParams(f"{field}: {message_id!r} appears twice", field=field)
        ids.add(message_id)
        made.append(wire_from_client(wire, message_id=message_id, seq=seq, now=at))
    if made:
        changes.append(Appended(seq=len(made), at=at, messages=made))
    return changes
