"""Sessions in memory that no client has open: how much memory they use together, and which of them is released first.

Kept up to date one session at a time, whenever something happens to it, so nothing has to search all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession


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
