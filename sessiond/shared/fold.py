"""A session as the result of its operations, the same on every machine.

What waited while the hub could not be reached comes after what others wrote meanwhile. Then it may no longer fit: an extend of a
message that was cleared, an id that exists by now. Such an operation counts as a change that changes nothing. It keeps its number.
So any sequence of operations gives a session, and every machine gets the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from sessiond.errors import BadFile
from sessiond.hub.bodies import authored, pack, pack_json, unpack, unpack_json
from sessiond.hub.port import Ordered
from sessiond.limits import HUB_PUSH_BYTES, HUB_PUSH_OPERATIONS
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
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.shared.waiting import Name, Waiting, begins

MARKS = ("trashed", "restored", "erased")
"""Kinds that say something about the session as a whole. Their body is `{"at": ...}`."""
_OPEN = ("streaming", "interrupted")


def waiting_of(changes: Iterable[Change], name: Callable[[], Name], author: str = "") -> list[Waiting]:
    """Changes of this member as operations: one for each seq."""
    made = []
    for change in singles(changes):
        kind, message_id, body = pack(change)
        made.append(Waiting(kind, message_id, body, [name()], author=author))
    return made


def sign(changes: Iterable[Change], author: str) -> None:
    """Let the messages of changes that nobody has seen yet say who wrote them, in place."""
    for change in changes:
        if isinstance(change, Appended):
            change.messages[:] = [authored(wire, author) for wire in change.messages]


def make_copied(session: Session, member: str) -> None:
    """Its messages are going to be said by a member: what they say of another author is kept in their metadata. In place."""
    for message in session.messages():
        author = message.rest.get("author")
        if author not in (None, member) and "author" not in message.metadata:
            metadata = {**message.metadata, "author": author}
            rest = {**message.rest, "metadata": metadata}
            session.replace_message(msgspec.structs.replace(message, rest=rest))


def take_authors(session: Session, made: Session) -> None:
    """`made` has the same messages, and says who wrote them. In place."""
    for ours, theirs in zip(session.messages(), made.messages(), strict=False):
        author = theirs.rest.get("author")
        if ours.rest.get("author") != author:
            signed = authored(ours.wire(), author if isinstance(author, str) else "")
            session.replace_message(Message.from_wire(signed))


def first_of(waiting: list[Waiting]) -> list[Waiting]:
    """Return as many of the first operations as one transaction takes."""
    size = 0
    for place, one in enumerate(waiting):
        size += len(one.body)
        if place and (size > HUB_PUSH_BYTES or place >= HUB_PUSH_OPERATIONS):
            return waiting[:place]
    return waiting


def mark(kind: str, at: str, name: Callable[[], Name]) -> Waiting:
    return Waiting(kind, None, pack_json({"at": at}), [name()])


def singles(changes: Iterable[Change]) -> Iterator[Change]:
    """The same changes, with one message in each `Appended`."""
    for change in changes:
        if isinstance(change, Appended):
            for wire in change.messages:
                yield Appended(seq=wire["seq"], at=change.at, messages=[wire])
        else:
            yield change


def changes_of(session: Session) -> list[Change]:
    """Changes that make this session out of nothing, one for each of its seqs, and one more for its state if no seq is free. Seqs
    whose changes are not known any more get changes that change nothing.
    """
    at = session.created_at
    info = session.info()
    fields = {"name": info.name, "model": info.model, "cwd": info.cwd, "tags": info.tags, "archived": info.archived}
    rest = {"summary": info.summary, "parent": info.parent, "metadata": info.metadata}
    made: dict[int, Change] = {
        message.seq: Appended(seq=message.seq, at=message.timestamp, messages=[message.wire()])
        for message in session.messages()
    }
    made |= {note.seq: Noted.of(note) for note in session.notes}
    last = session.seq
    if session.state:
        last = last if last > 0 and last not in made else last + 1
        made[last] = StateSet(seq=last, at=session.saved_at or at, values=session.state)
    created = Created(seq=0, at=at, info={"createdAt": at, "updatedAt": session.updated_at, **fields, **rest})
    return [created, *(made.get(seq) or Updated(seq=seq, at=at, fields={}) for seq in range(1, last + 1))]


def marked_last(changes: list[Change]) -> list[Change]:
    """The same changes, but the version of the source that they were imported from comes with one more at their end. If only the
    first of them get to the hub, the next import finds that it has not brought all of it.
    """
    created = changes[0]
    assert isinstance(created, Created)
    metadata = created.info["metadata"]
    source = metadata.get("source")
    if not isinstance(source, dict) or "fingerprint" not in source:
        return changes
    rest = {key: value for key, value in source.items() if key != "fingerprint"}
    info = {**created.info, "metadata": {**metadata, "source": rest}}
    last = Updated(seq=changes[-1].seq + 1, at=created.info["updatedAt"], fields={"metadata": metadata})
    return [msgspec.structs.replace(created, info=info), *changes[1:], last]


def displaced(rows: Iterable[Ordered]) -> list[Ordered]:
    """Return operations that the hub has lost as they come back behind words that their authors never saw. A cut would remove these
    words as well, so it changes nothing there; and what was said again under an id that it had freed gets the operation's own.
    """
    return [_displaced(row) for row in rows]


def _displaced(row: Ordered) -> Ordered:
    try:
        wire = unpack_json(row.body)
    except BadFile:
        return row  # it stays what it is: nobody can say what it does
    if not isinstance(wire, dict):
        return row
    if row.kind in ("cleared", "truncated"):
        body = pack_json({"at": wire.get("at"), "fields": {}})
        return msgspec.structs.replace(row, kind="updated", body=body, sealed=None)
    messages = wire.get("messages")
    inner = messages[0] if row.kind == "appended" and isinstance(messages, list) and messages else wire.get("note")
    if not isinstance(inner, dict) or inner.pop("id", None) is None:
        return row
    return msgspec.structs.replace(row, body=pack_json(wire), sealed=None)


def is_other(waiting: Sequence[Waiting], rows: Sequence[Ordered]) -> bool:
    """Return whether what waits begins a session, and the hub has another one under its id: not the same import."""
    if not begins(waiting) or not rows:
        return False
    names = {(row.replica, row.index) for row in rows}
    source = _source(waiting[0].body)
    return not names.intersection(waiting[0].names) and (source is None or source != _source(rows[0].body))


def _source(body: bytes) -> tuple[object, ...] | None:
    """Return what tells the source that a session was imported from, as its `created` says."""
    try:
        found: Any = unpack_json(body)
        source = found["info"]["metadata"]["source"]
        return tuple(source[key] for key in ("tool", "path", "id"))
    except (BadFile, KeyError, TypeError):
        return None


def understood(operation: Ordered) -> Change:
    """The change that an operation makes to a session that it fits. BadFile."""
    if operation.kind in MARKS:
        wire = unpack_json(operation.body)
        at = wire.get("at") if isinstance(wire, dict) else None
        if not isinstance(at, str):
            raise BadFile(f"operation {operation.number} cannot be understood")
        return Updated(seq=operation.number, at=at, fields={})
    return unpack(operation)


def _fits(session: Session, change: Change) -> bool:
    match change:
        case Created():
            return change.seq == 0
        case Appended():
            return session.unjoined(change.messages[0]["id"]) is None
        case Extended():
            message = session.unjoined(change.message_id)
            return (
                message is not None
                and message.status in _OPEN
                and isinstance(message.content, str)
                and session.text_length(change.message_id) == change.offset
            )
        case Finished():
            message = session.unjoined(change.message_id)
            return message is not None and message.status in _OPEN
        case Noted():
            return session.note(change.note["id"]) is None
        case Truncated() | Cleared() | Updated() | StateSet():
            return True


def apply(session: Session, operations: Iterable[Ordered]) -> list[Change]:
    """Apply consecutive operations; returns the changes that they made. BadFile: none of them is applied."""
    return [_apply(session, change) for change in [understood(operation) for operation in operations]]


def _apply(session: Session, change: Change) -> Change:
    fitted = change if _fits(session, change) else Updated(seq=change.seq, at=change.at, fields={})
    session.apply(fitted)
    return fitted


def folded(local_id: str, operations: Sequence[Ordered]) -> Session:
    """The session that all its operations make; without any, an empty one. BadFile."""
    session = Session(local_id, understood(operations[0]).at if operations else "")
    for operation in operations:
        _apply(session, understood(operation))
    return session


def after(session: Session, operations: Sequence[Ordered]) -> tuple[Session, list[Change]]:
    """A copy with operations applied, and the changes that they made. BadFile."""
    twin = session.after([])
    return twin, apply(twin, operations)
