"""The facts that the index keeps about a session as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from sessiond.index.values import IndexedInfo
from sessiond.model.message import Note
from sessiond.model.session import Session, SessionInfo
from sessiond.model.values import WireObject, join_wire_id, split_wire_id
from sessiond.model.wire import writable
from sessiond.store.port import Store

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession

_NAMED = 5
"""Sessions that a problem names."""


class Owners(Protocol):
    """All open sessions."""

    stores: dict[str, Store]

    def of(self, store: Store, local_id: str) -> OpenSession: ...
    def let_go(self, one: OpenSession) -> None: ...
    def peek(self, wire_id: str) -> OpenSession | None:
        """The owner of a session that is in memory."""

    def in_memory(self, store: Store) -> list[str]:
        """Local ids of all sessions of a store that are in memory, or of which only the journal knows."""


class UnindexedSession:
    """The part of one session that the index does not know yet."""

    __slots__ = ("drop_after", "messages", "notes", "one", "session")

    def __init__(self, one: OpenSession, session: Session) -> None:
        self.one = one
        self.session = session
        self.messages: dict[str, None] = {}
        self.notes: list[Note] = []
        self.drop_after: int | None = None


def indexed(store: Store, session: Session, fingerprint: str | None) -> IndexedInfo:
    """Return what the index keeps about a session as a whole."""
    head = bare(store, session.info(join_wire_id(store.name, session.local_id)))
    return msgspec.structs.replace(head, fingerprint=fingerprint)


def bare(store: Store, info: SessionInfo) -> IndexedInfo:
    """Return what lists show of a session. `info` has its id on the wire."""
    known: WireObject = msgspec.structs.asdict(info)
    path = writable(store.file_path(split_wire_id(info.session_id)[1]))
    return IndexedInfo(**known, store=store.name, format=store.format, path=path)


def lacking(wire_ids: Sequence[str]) -> str | None:
    """Say which sessions have something that cannot be indexed; None if none has."""
    if not wire_ids:
        return None
    shown = ", ".join(wire_ids[:_NAMED])
    more = f" and {len(wire_ids) - _NAMED} more" if len(wire_ids) > _NAMED else ""
    return f"not everything could be indexed of {shown}{more}"
