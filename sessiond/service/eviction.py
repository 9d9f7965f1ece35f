"""The memory of sessions: which of those that no client has open are released first, and which keep only their newest messages.

Kept up to date one session at a time, whenever something happens to it, so nothing has to search all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING

from sessiond.model.message import Message
from sessiond.model.session import Session

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession

_REST_S = 10.0
"""Messages that nobody has read for this long can be read from the file again if somebody does."""
_PART_KEPT = 8
"""This part of what a session may hold remains, so that it can grow for a while before it is shortened again."""


class Eviction:
    """`bytes`: about how much they use together."""

    def __init__(self) -> None:
        self.bytes = 0
        self._weights: dict[OpenSession, int] = {}
        """In the order of their last use."""

    def note(self, one: OpenSession) -> None:
        """It was used, opened or closed, or its session was replaced or is gone."""
        self.bytes -= self._weights.pop(one, 0)
        session = one.session
        if session is not None and not (one.spare or one.attended or session.is_blank):
            weight = self._weights[one] = session.weight
            self.bytes += weight

    def beyond(self, limit: int, most: int) -> Iterator[OpenSession]:
        """At most `most` of those that were used longest ago, until the others use no more than `limit` bytes. They are
        spare now.
        """
        while self.bytes > limit and most > 0:
            one = next(iter(self._weights))
            one.spare = True
            self.note(one)
            most -= 1
            yield one


class Shortening:
    """Sessions that hold more than `most` bytes let go of their oldest messages, whether a client has them open or not
    (docs/decisions/0079-a-large-session-is-shortened.md).

    `in_hand`: whether something outside the session still needs its messages. `shortened`: called with those that it has let
    go of, and about how many bytes they take.
    """

    def __init__(
        self,
        most: int,
        spawn: Callable[[Coroutine[object, object, object]], object],
        in_hand: Callable[[OpenSession], bool],
        shortened: Callable[[OpenSession, list[Message], int], None],
    ) -> None:
        self._most = most
        self._spawn = spawn
        self._in_hand = in_hand
        self._shortened = shortened
        self._timers: dict[OpenSession, asyncio.TimerHandle] = {}
        self._until_saved: set[OpenSession] = set()
        """Due, but their files lack some of what they hold."""

    def note(self, one: OpenSession) -> None:
        """It was used: look at it in a while, if it is large."""
        session = one.session
        if session is None or session.weight <= self._most or one in self._timers:
            return
        if one.stored.shortens and session.is_checked:
            self._timers[one] = asyncio.get_running_loop().call_later(_REST_S, self._come, one)

    def _come(self, one: OpenSession) -> None:
        del self._timers[one]
        self._spawn(self.look(one))

    def saved(self, one: OpenSession) -> None:
        """Its file has everything at this moment. One that grows all the time has few others."""
        if one in self._until_saved:
            self._until_saved.discard(one)
            self._spawn(self.look(one))

    def forget(self, one: OpenSession) -> None:
        """Its owner has come to its end."""
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()
        self._until_saved.discard(one)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def look(self, one: OpenSession) -> None:
        """Shorten it, if nobody has read its oldest messages since the last look."""
        session = one.session
        if one.ended or session is None or not session.is_checked:
            return
        if one.dirty:
            self._until_saved.add(one)
            return
        count = session.dispensable(self._most // _PART_KEPT)
        if session.begin_to_rest() >= session.absent + count > session.absent:
            await self._shorten(one, session, count)
        if not one.ended:
            self.note(one)

    async def _shorten(self, one: OpenSession, session: Session, count: int) -> None:
        absent = session.absent
        ids = await asyncio.to_thread(session.ids_of_oldest(count))

        async def shorten() -> None:
            """Run alone: no thread reads the session."""
            same = one.session is session and session.absent == absent and count <= session.dispensable(0)
            if same and not (one.dirty or one.is_used or self._in_hand(one)):
                before = session.weight
                gone = session.shorten(count, ids)
                self._shortened(one, gone, before - session.weight)

        if not one.ended:
            await one.alone(shorten)
