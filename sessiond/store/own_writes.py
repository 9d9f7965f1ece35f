"""Remembers what we wrote into one store's folder a moment ago, so that the system's hints about our own writes cost
nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

Print = tuple[int, int, int]
"""As in `store/files.py`."""
_MOST = 8192
"""How many files are remembered. A hint comes within a second or so; a hint for a forgotten file costs a check."""
_PATIENCE_S = 1.0
"""A write of ours that takes longer, as on a disk that hangs, does not delay the hints of other files."""


class OwnWrites:
    """Write a file within `writing`, then report its new version by `wrote`. On any thread."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._under_way: Counter[str] = Counter()
        self._prints: dict[str, Print] = {}
        """The oldest first."""

    @contextlib.contextmanager
    def writing(self, relative: str) -> Iterator[None]:
        with self._state:
            self._under_way[relative] += 1
        try:
            yield
        finally:
            with self._state:
                self._under_way[relative] -= 1
                if not self._under_way[relative]:
                    del self._under_way[relative]
                self._state.notify_all()

    def wrote(self, relative: str, now: Print) -> None:
        """Called within `writing` with the file's new version."""
        with self._state:
            self._prints.pop(relative, None)
            self._prints[relative] = now
            if len(self._prints) > _MOST:
                del self._prints[next(iter(self._prints))]

    def is_own(self, relative: str, look: Callable[[str], Print | None]) -> bool:
        """Return whether a file is as we last wrote it. Waits for a write that is under way; `look` returns the file's version."""
        while True:
            with self._state:
                if not self._state.wait_for(lambda: relative not in self._under_way, _PATIENCE_S):
                    return False
                ours = self._prints.get(relative)
            if ours is None:
                return False
            if look(relative) == ours:
                return True
            with self._state:
                if relative not in self._under_way and self._prints.get(relative) == ours:
                    return False
