"""Knows which connections have which session open, and tells them of changes.

A connection that reads too slowly loses notifications rather than slowing others down; once it has drained it is told to
resync, and after the seq in that notification everything is contiguous again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeVarTuple, Unpack

from sessiond.model.wire import encode as _encode
from sessiond.schema.notifications import (
    ActivityChanged,
    Asked,
    Changed,
    Deleted,
    Interrupted,
    Origin,
    Reloaded,
    Restored,
    Resync,
    Saved,
)
from sessiond.schema.sessions import OpenResult
from sessiond.schema.types import Activity, SessionInfo, ShownChange, Wire
from sessiond.store.port import SavedSession as SavedFile

OF_THE_DAEMON = Origin(client="sessiond", connection=0)


class Peer(Protocol):
    """A connection as the service sees it."""

    id: int
    client: str
    """`clientInfo.name`, or `unknown`."""
    closed: bool

    def notify(self, method: str, params: bytes) -> bool:
        """Send a notification whose params are already encoded. False: the peer is too slow, so it was dropped."""

    def notify_owed(self, method: str, params: bytes) -> None:
        """Send one that is never dropped, however much waits: it belongs to an answer, or is the last one of a session."""


Ts = TypeVarTuple("Ts")


class CallSoon(Protocol):
    def __call__(self, callback: Callable[[Unpack[Ts]], object], /, *args: *Ts) -> object: ...


class EarlyReply(Protocol):
    """The request behind a change, which may be answered before the loop learns that the change is durable."""

    def when_durable(self, result: object) -> Callable[[], bool] | None:
        """Prepare the answer. Returns a function that sends it from any thread, and returns whether it was sent and nothing
        else is owed to the client; None if only the loop can send it.
        """


_MOST_ASKED = 1000


class _Attached:
    __slots__ = ("answers", "asked", "lagging", "peer", "since")

    def __init__(self, peer: Peer, since: int, answers: bool) -> None:
        self.peer = peer
        self.answers = answers
        """It answers what others say."""
        self.asked = ""
        """The last message that it was asked to answer."""
        self.since = since
        """The peer knows changes up to this seq from an answer."""
        self.lagging = False


class Subscribers:
    """The connections that have one session open."""

    def __init__(self, wire_id: str) -> None:
        self.wire_id = wire_id
        self._attached: dict[int, _Attached] = {}
        self._asked: dict[str, int] = {}
        """Messages that somebody was asked to answer -> the peer's id; the newest."""

    def __len__(self) -> int:
        return len(self._attached)

    def __contains__(self, peer: Peer) -> bool:
        return peer.id in self._attached

    def beside(self, origin: Peer | None) -> bool:
        """Return whether anyone except the origin has it open."""
        return len(self._attached) > (1 if origin is not None and origin in self else 0)

    def attach(self, peer: Peer, seq: int, *, answers: bool = False) -> None:
        self._attached[peer.id] = _Attached(peer, seq, answers)

    def detach(self, peer: Peer) -> bool:
        return self._attached.pop(peer.id, None) is not None

    def ask(self, message_id: str) -> bool:
        """Ask one of those that answer, the one that came last. Returns whether there is one."""
        answering = self._answering()
        for one in answering[-1:]:
            if one.asked != message_id:
                one.asked = message_id
                self._asked[message_id] = one.peer.id
                if len(self._asked) > _MOST_ASKED:
                    del self._asked[next(iter(self._asked))]
                one.peer.notify_owed("session/asked", _encode(Asked(session_id=self.wire_id, message_id=message_id)))
        return bool(answering)

    def ask_again(self, unanswered: Iterable[str]) -> None:
        """Ask again those of these messages that were asked of a peer that has left. Somebody has come who answers."""
        for message_id in unanswered:
            left = self._asked.get(message_id)
            if left is not None and (left not in self._attached or self._attached[left].peer.closed):
                self.ask(message_id)

    def interrupt(self, message_id: str) -> bool:
        """Ask all that answer to stop the answer to a message. Returns whether there is one."""
        self._asked.clear()
        told = _encode(Interrupted(session_id=self.wire_id, message_id=message_id))
        answering = self._answering()
        for one in answering:
            one.peer.notify_owed("session/interrupted", told)
        return bool(answering)

    def _answering(self) -> list[_Attached]:
        return [one for one in self._attached.values() if one.answers and not one.peer.closed]

    def end(self, moved_to: str | None = None) -> list[Peer]:
        """The session is gone, or has another id. Every peer learns of that, even those that read too slowly for anything else.
        Returns the peers that had it open.
        """
        params = _encode(Deleted(session_id=self.wire_id, moved_to=moved_to))
        attached, self._attached = self._attached, {}
        for one in attached.values():
            if not one.peer.closed:
                one.peer.notify_owed("session/deleted", params)
        return [one.peer for one in attached.values()]

    def changed(self, seq: int, changes: list[ShownChange], origin: Peer | None) -> None:
        """Tell every peer except the origin. `seq` is that of the last change."""
        params: bytes | None = None
        for one in self._attached.values():
            if (origin is not None and one.peer.id == origin.id) or seq <= one.since:
                continue
            if params is None:
                by = OF_THE_DAEMON if origin is None else Origin(client=origin.client, connection=origin.id)
                params = _encode(Changed(session_id=self.wire_id, seq=seq, changes=changes, origin=by))
            self._send(one, "session/changed", params)

    def reloaded(self, info: SessionInfo, reason: Literal["externalEdit", "synced"] = "externalEdit") -> None:
        for one in self._attached.values():
            one.since = info.seq  # the session may have fewer changes than it had when the peer opened it
        self._tell("session/reloaded", Reloaded(session=info, reason=reason))

    def saved(self, file: SavedFile) -> None:
        told = Saved(session_id=self.wire_id, path=file.path, bytes=file.bytes, saved_at=file.saved_at)
        self._tell("session/saved", told)

    def activity(self, activity: Activity | None) -> None:
        self._tell("session/activityChanged", ActivityChanged(session_id=self.wire_id, activity=activity))

    def _tell(self, method: str, params: Wire) -> None:
        encoded = _encode(params)
        for one in self._attached.values():
            self._send(one, method, encoded)

    def _send(self, one: _Attached, method: str, params: bytes) -> None:
        if one.lagging or one.peer.closed:
            return
        if not one.peer.notify(method, params):
            one.lagging = True

    def drained(self, peer: Peer, seq: int) -> None:
        """The peer reads again: if anything was dropped, say so, and continue from `seq`."""
        one = self._attached.get(peer.id)
        if one is not None and one.lagging:
            one.since = seq
            one.lagging = not one.peer.notify("session/resync", _encode(Resync(session_id=self.wire_id, seq=seq)))


def send_later(call_soon: CallSoon, peer: Peer, notifications: Iterable[tuple[str, Wire]]) -> None:
    """Send after the answer that is about to be written: the answer's task does not pause until it is written."""
    for method, params in notifications:
        call_soon(peer.notify_owed, method, _encode(params))


def send_restored(peer: Peer, result: OpenResult) -> None:
    """After the response to an open: one event, then all state, so that every panel is redrawn."""
    info = result.session
    state = {"kind": "state", "seq": info.seq, "values": result.state, "replay": True}
    changed = Changed(session_id=info.session_id, seq=info.seq, changes=[state], origin=OF_THE_DAEMON, replay=True)
    restored = Restored(session=info, message_count=info.message_count)
    notifications = [("session/restored", restored), ("session/changed", changed)]
    send_later(asyncio.get_running_loop().call_soon, peer, notifications)
