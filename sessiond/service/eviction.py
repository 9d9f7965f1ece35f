"""Sessions in memory that nobody has open: what they hold together, and which of them is let go of first.

Kept up to date one session at a time, whenever something happens to it, so that nothing looks through all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession


class Eviction:
    """`bytes`: about what they hold together."""

    def __init__(self) -> None:
        self.bytes = 0
        self._weights: dict[OpenSession, int] = {}
        """In the order of their last use."""

    def note(self, one: OpenSession) -> None:
        """It was used, or somebody came or left, or it is another one or none now."""
        self.bytes -= self._weights.pop(one, 0)
        session = one.session
        if session is not None and not (one.spare or one.attended or session.is_blank):
            weight = self._weights[one] = session.weight
            self.bytes += weight

    def beyond(self, limit: int, most: int) -> Iterator[OpenSession]:
        """Those that were used longest ago, till the others hold no more than `limit`; no more than `most`. They are spare now."""
        while self.bytes > limit and most > 0:
            one = next(iter(self._weights))
            one.spare = True
            self.note(one)
            most -= 1
            yield one
