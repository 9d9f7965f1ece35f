"""The sessions that changed, in the order in which their changes arrived here: what clients that follow all sessions ask for.

The order by `updatedAt` does not say it: what is imported, and what a client appends, may have any time. Kept in memory, so
a cursor is of use for as long as the daemon runs.

Who asks to be told (`tell`) hears once that something came, and asks again after reading it. So nothing has to be kept for a
client that reads slowly, however much changes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

from sessiond.model.changes import Appended, Change, Created
from sessiond.service.subscribers import Peer

MOST = 100_000
"""Sessions of which it is kept; cursors from before those that were dropped have missed something."""
_MOST_GONE = 10_000
_MARKS = 32
"""Of one session. Beyond that the older ones are joined, and `since` may be smaller than it has to be."""


class Arrival:
    __slots__ = ("_marks", "begun", "no")

    def __init__(self) -> None:
        self.no = 0
        """Of its last change."""
        self.begun = 0
        """Of its first one, if it was made here; else 0."""
        self._marks: list[tuple[int, int]] = []
        """Number of a change, and the seq before it: the first change after each cursor that was given out."""

    def mark(self, no: int, before: int) -> None:
        if len(self._marks) >= _MARKS:
            self._marks[:2] = [(self._marks[1][0], self._marks[0][1])]
        self._marks.append((no, before))

    @property
    def marked(self) -> int:
        return self._marks[-1][0] if self._marks else 0

    def since(self, cursor: int) -> int:
        """The seq before the first change after the cursor."""
        return next((before for no, before in self._marks if no > cursor), 0)


class Arrivals:
    def __init__(self) -> None:
        self._daemon = secrets.token_hex(4)
        self._no = 0
        self._given_out = 0
        self._dropped = 0
        """The last change of the session that was dropped last."""
        self._sessions: dict[str, Arrival] = {}
        """The one that changed last comes last."""
        self._gone: dict[str, int] = {}
        """Sessions that were removed -> the number of that, the last one last."""
        self._forgotten = 0
        """Of the removal that was dropped last."""
        self._told: dict[int, Peer] = {}
        """Connections that are to hear of the next change."""

    def changed(self, wire_id: str, before: int, *, begun: bool = False) -> None:
        """It had the seq `before`. `begun`: it was not there."""
        arrival = self._sessions.pop(wire_id, None)
        if arrival is None or begun:
            arrival = Arrival()
        self._no += 1
        arrival.no = self._no
        if begun:
            arrival.begun = self._no
        if arrival.marked <= self._given_out:
            arrival.mark(self._no, before)
        self._sessions[wire_id] = arrival
        if len(self._sessions) > MOST:
            oldest = next(iter(self._sessions))
            self._dropped = self._sessions.pop(oldest).no
        self._tell()

    def told(self, wire_id: str, first: Change) -> None:
        """`first` of several changes."""
        seq = first.messages[0]["seq"] if isinstance(first, Appended) else first.seq
        self.changed(wire_id, max(0, seq - 1), begun=isinstance(first, Created))

    def gone(self, wire_id: str) -> None:
        self._sessions.pop(wire_id, None)
        self._no += 1  # whoever is told of changes hears of this one, too
        self._gone.pop(wire_id, None)
        self._gone[wire_id] = self._no
        if len(self._gone) > _MOST_GONE:
            oldest = next(iter(self._gone))
            self._forgotten = self._gone.pop(oldest)
        self._tell()

    def removed(self, cursor: str) -> list[str] | None:
        """Sessions that were removed after the cursor; they may have come again. None: some may be missing."""
        position = self.position(cursor)
        if position is None or position[1] < self._forgotten:
            return None
        return [wire_id for wire_id, no in self._gone.items() if no > position[1]]

    def gone_lately(self) -> list[str]:
        """Sessions that were removed; they may have come again."""
        return list(self._gone)

    def tell(self, peer: Peer, cursor: str) -> None:
        """Send `list/changed` to a connection once something came after the cursor, which is one of this daemon's.

        It is sent after the answer that is about to be written.
        """
        self._told = {no: one for no, one in self._told.items() if not one.closed} | {peer.id: peer}
        if int(cursor.rpartition(".")[2]) < self._no:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        told, self._told = self._told, {}
        for peer in told.values():
            if not peer.closed:
                peer.notify_owed("list/changed", b"{}")

    def now(self) -> str:
        """A cursor after everything that has arrived."""
        self._given_out = self._no
        return f"{self._daemon}.{self._no}.{self._no}"

    def between(self, begin: int, no: int) -> str:
        """A cursor within the pages that began after the change `begin`, after the change `no`."""
        return f"{self._daemon}.{begin}.{no}"

    def position(self, cursor: str) -> tuple[int, int] | None:
        """`begin` and `no` of a cursor; None if it is of another daemon, or what came after it is not known any more."""
        daemon, *numbers = cursor.split(".")
        if daemon != self._daemon or len(numbers) != 2:
            return None
        if not all(one.isdecimal() and len(one) <= len(str(self._no)) for one in numbers):
            return None
        begin, no = map(int, numbers)
        return (begin, no) if self._dropped <= begin <= no <= self._no else None

    def after(self, no: int) -> list[tuple[str, Arrival]]:
        """Sessions with changes after a cursor, oldest first."""
        return list(self._newest(no))[::-1]

    def _newest(self, no: int) -> Iterator[tuple[str, Arrival]]:
        for wire_id, arrival in reversed(self._sessions.items()):
            if arrival.no <= no:
                return
            yield wire_id, arrival
