"""JSON: one document `{session, messages, notes, state}`, written message by message; and the way back to a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from sessiond.model.message import Message, Note
from sessiond.model.session import Session

_encode = msgspec.json.Encoder().encode


def render(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    yield f'{{"session": {_text(msgspec.to_builtins(session.info()))},\n"messages": ['
    separator = "\n"
    for message in messages:
        yield f"{separator}{_text(message.wire())}"
        separator = ",\n"
    notes = ",\n".join(_text(note.wire()) for note in session.notes)
    yield f'\n],\n"notes": [{notes}],\n"state": {_text(session.state)}}}\n'


def _text(value: object) -> str:
    return _encode(value).decode()


def session_of(document: Mapping[str, Any]) -> Session:
    """The session that `render` wrote, for a program that has the export and needs another format. Raises KeyError, TypeError."""
    info = document["session"]
    session = Session(info["sessionId"], info["createdAt"])
    session.update(info)
    session.updated_at = info["updatedAt"]
    for wire in document["messages"]:
        session.add_message(Message.from_wire(wire))
    for wire in document.get("notes", []):
        session.add_note(Note.from_wire(wire))
    session.state = dict(document.get("state", {}))
    session.seq = max(session.seq, info.get("seq", 0))
    return session
