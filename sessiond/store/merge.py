"""Combines a session's files with the journal, or with another program's edit. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sessiond.formats.base import Decoded
from sessiond.model.changes import Appended, Change, Created, Extended, Finished, StateSet
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import same_json


def replay(decoded: Decoded, changes: Iterable[Change]) -> list[Change]:
    """Apply to `decoded.session` the changes that the files do not hold yet, and return them in order.

    Idempotent: a crash may have left any part of a save, so a change that is already there in another form is not applied
    twice. A change to a message that an edit removed has no effect.
    """
    session = decoded.session
    session.forget_changes()
    missing: list[Change] = []
    for change in sorted(changes, key=lambda one: one.seq):
        # `Created` usually has seq 0: it is applied only if the files contain nothing, or it would undo later names.
        if change.seq <= decoded.through and (change.seq > 0 or decoded.through > 0):
            continue
        fresh = _without_known(session, change) if change.seq == 0 or not decoded.holds(change) else None
        if fresh is not None:
            session.apply(fresh)
            missing.append(fresh)
            continue
        session.seq = max(session.seq, change.seq)  # it was acknowledged: its number is never given again
        if not isinstance(change, (StateSet, Created)):
            # The change is there, but the session's own fields may not reflect it yet.
            session.touch(change.messages[-1]["timestamp"] if isinstance(change, Appended) else change.at)
    return missing


def _without_known(session: Session, change: Change) -> Change | None:
    match change:
        case Appended():
            new = [wire for wire in change.messages if session.message(wire["id"]) is None]
            return Appended(seq=change.seq, at=change.at, messages=new) if new else None
        case Extended():
            message = session.message(change.message_id)
            if message is None or not isinstance(message.content, str):
                return None
            # A longer one has the text already, or an edit's in its place; a shorter one lacks what was before it.
            return change if len(message.content) == change.offset else None
        case Finished():
            return change if session.message(change.message_id) is not None else None
    return change


def adds_nothing_to(earlier: Session, session: Session) -> bool:
    """Return whether `earlier`, an earlier state of `session`, has nothing that `session` lacks; messages may have grown since."""
    same = earlier.created_at == session.created_at or len(earlier) or earlier.notes
    if not same or (earlier.summary and earlier.summary != session.summary):
        return False
    notes = {note.id: note.wire() for note in session.notes}
    return all(notes.get(note.id) == note.wire() for note in earlier.notes) and all(
        _grew_from(message, session.message(message.id)) for message in earlier.messages()
    )


def _grew_from(earlier: Message, message: Message | None) -> bool:
    if message is None:
        return False
    if earlier.status == "streaming" and isinstance(earlier.content, str) and isinstance(message.content, str):
        return message.content.startswith(earlier.content)
    return same_json(earlier.content, message.content) and earlier.role == message.role


def removed_messages(old: Session, new: Session) -> list[Message]:
    """Return what an edit removed: messages of `old` that are missing from `new`, or that differ there now."""
    gone = []
    for message in old.messages():
        there = new.message(message.id)
        if there is None or not same_json(there.content, message.content):
            gone.append(message)
    return gone


def removed_notes(old: Session, new: Session) -> list[Note]:
    """Return the notes of `old` whose words are nowhere in `new`: an edit may give the others new ids."""
    kept = {(note.heading, note.content) for note in new.notes}
    return [note for note in old.notes if (note.heading, note.content) not in kept]
