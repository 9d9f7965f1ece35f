"""The ids of operations, where the id of a message was used before.

The hub takes each id once for a session. It cannot read bodies, so it does not know which messages were cut off since, and whose ids
are free again. Then the operation gets an id of its own, and its body names the message (`hub/bodies.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sessiond.hub.bodies import pack_json, unpack_json
from sessiond.hub.port import Ordered
from sessiond.model.session import Session
from sessiond.shared.waiting import Waiting

_MARK = "~"
"""In each id that an operation has of its own, before a number."""


def reused(operations: Sequence[Waiting], rows: Sequence[Ordered]) -> list[Waiting]:
    """Operations that make no message which is there: those whose ids `rows` had already get other ones."""
    taken = {row.id for row in rows}
    return [_under_another(one, taken) if one.id in taken and one.id is not None else one for one in operations]


def with_free_ids(
    waiting: Sequence[Waiting], rows: Sequence[Ordered], confirmed: Session
) -> tuple[list[Waiting], list[Waiting], list[Waiting]]:
    """Return what still waits when `rows` are there already, what is a retry of one of them, and which of the first have another id
    now. `confirmed`: what `rows` make; if a message was cut off there, the same words are new ones. Where a message gets another
    id, a name of a machine is a part of it, so no other machine makes it.
    """
    there = {row.id: row for row in rows if row.id is not None}
    taken: set[str | None] = set(there)
    kept, dropped, changed = [], [], []
    for one in waiting:
        clashes = clash([one], confirmed)
        if one.id is None or (one.id not in there and not clashes):
            kept.append(one)
            continue
        if not _is_live(confirmed, one):
            kept.append(_under_another(one, taken))
        elif not clashes and there[one.id].body == one.body:
            dropped.append(one)
            continue
        else:
            wire, inner = _opened(one)
            named = inner.pop("id", one.id)
            kept.append(msgspec.structs.replace(one, id=f"{named}-{one.names[0][0][:8]}", body=pack_json(wire)))
        taken.add(kept[-1].id)
        changed.append(kept[-1])
    return kept, dropped, changed


def clash(waiting: Sequence[Waiting], confirmed: Session) -> bool:
    """Return whether one that has an id of its own names a message that somebody else has made meanwhile: the hub would take it."""
    return any(
        one.id is not None and _MARK in one.id and "id" in _opened(one)[1] and _is_live(confirmed, one)
        for one in waiting
    )


def _opened(one: Waiting) -> tuple[object, Any]:
    """The body of an operation that has an id, and the message or note in it."""
    wire: Any = unpack_json(one.body)
    return wire, wire["note"] if one.kind == "note" else wire["messages"][0]


def _is_live(confirmed: Session, one: Waiting) -> bool:
    named = _opened(one)[1].get("id", one.id)
    found = confirmed.note(named) if one.kind == "note" else confirmed.unjoined(named)
    return found is not None


def _under_another(one: Waiting, taken: set[str | None]) -> Waiting:
    wire, inner = _opened(one)
    named = inner.setdefault("id", one.id)
    number = 1
    while f"{named}{_MARK}{number}" in taken:
        number += 1
    taken.add(f"{named}{_MARK}{number}")
    return msgspec.structs.replace(one, id=f"{named}{_MARK}{number}", body=pack_json(wire))
