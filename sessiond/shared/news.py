"""Says when what is known of a hub has changed: that it can be reached or not at once, how much waits at most once in a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from sessiond.limits import HUB_NEWS_S
from sessiond.store.port import HubStatus


class Timer(Protocol):
    def cancel(self) -> None: ...


class KnownHub(NamedTuple):
    """The facts that are news if they change: a HubStatus without its lag."""

    state: Literal["online", "offline"]
    since: str
    pending: int
    problem: str | None


class HubNews:
    """`known`: what is known now, asked for whenever something may have changed. `status`: the same for clients. `tell`: who is to
    hear of it. `later`: calls a function after so many seconds, as a loop does.

    What was told last is always what is known now, except for as long as it rests. A lag that changes alone is not told.
    """

    def __init__(
        self,
        known: Callable[[], KnownHub],
        status: Callable[[], HubStatus],
        tell: Callable[[HubStatus], None],
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self._known = known
        self._status = status
        self._tell = tell
        self._later = later
        self._told = known()
        self._rest: Timer | None = None

    def touched(self) -> None:
        """Something may have changed. Called on the loop."""
        now = self._known()
        if now.state != self._told.state or (self._rest is None and now != self._told):
            self._say(now)

    def stop(self) -> None:
        """Nothing more is told because of time that passes."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _say(self, now: KnownHub) -> None:
        self.stop()
        self._told = now
        self._rest = self._later(HUB_NEWS_S, self._rested)
        self._tell(self._status())

    def _rested(self) -> None:
        self._rest = None
        self.touched()
