"""Sources that were read to their end, and can be read on there (`importers/growth`): in memory, a bounded number of them. Those
that were not written to for longest go first, so that an import of old files keeps none of them instead of one that grows.
"""

from __future__ import annotations

import time

import msgspec

from sessiond.importers.growth import Growth
from sessiond.importers.record import InfoUpdate, SessionStart
from sessiond.limits import MIB
from sessiond.model.values import JsonObject

_HELD_BYTES = 256 * MIB
"""Of all that is known of them."""
_HELD_SOURCES = 256
_COMPARED = 8
"""Blocks that are compared at a time."""
_AT_REST_S = 2.0
"""A file that has grown since costs no more than one block at a time: it is written to, and will be compared when that is over."""


class KeptSource(msgspec.Struct):
    """A source whose one session has all of it. `beside`: the version of the files beside it. `info`: what was known of the session
    before the source's end. `last`: the messages that the end let it say, id -> digest. `fields`: as in SourceDigest. `names`: what
    it said of other sessions.
    """

    growth: Growth
    tool: str
    beside: str
    start: SessionStart
    info: JsonObject
    last: dict[str, bytes]
    fields: dict[str, bytes]
    names: list[InfoUpdate]


class KeptSources:
    """By path. A source that is being read is not in it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[KeptSource, int]] = {}
        self._weight = 0

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def read_to(self, path: str) -> int:
        """Return how many bytes of the source were read and need not be read again: 0 if it is not kept."""
        kept, _ = self._kept.get(path, (None, 0))
        return 0 if kept is None else kept.growth.read_to

    def lines(self, path: str) -> int:
        """Return how many whole lines of the source were read: 0 if it is not kept."""
        kept, _ = self._kept.get(path, (None, 0))
        return 0 if kept is None else kept.growth.lines

    def put(self, kept: KeptSource) -> None:
        path, weight = kept.growth.path, kept.growth.weight
        self.take(path)
        self._kept[path] = kept, weight
        self._weight += weight
        while self._weight > _HELD_BYTES or len(self._kept) > _HELD_SOURCES:
            self.take(min(self._kept, key=lambda one: self._kept[one][0].growth.written))

    def take(self, path: str) -> KeptSource | None:
        kept, weight = self._kept.pop(path, (None, 0))
        self._weight -= weight
        return kept

    @property
    def unchecked(self) -> bool:
        """True if there is anything to compare."""
        return any(kept.growth.unchecked for kept, _ in self._kept.values())

    def compare(self, seconds: float) -> list[str]:
        """Compare what was read before with what is there now, for that long. Returns files that were changed. Blocks; may
        run while one of them is read on.
        """
        begun = time.monotonic()
        changed: list[str] = []
        for path, (kept, _) in list(self._kept.items()):
            rests = begun - kept.growth.grew_at >= _AT_REST_S
            while kept.growth.unchecked and time.monotonic() - begun < seconds:
                try:
                    same = kept.growth.check(_COMPARED if rests else 1)
                except OSError:  # it went; who follows it is told by the system
                    break
                if not same:
                    changed.append(path)
                if not same or not rests:
                    break
        return changed
