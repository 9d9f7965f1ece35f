"""One bad thing costs only itself: what loops over other people's things note when one of them cannot be handled.

The loop goes on with the next one. What failed is counted and named, for `status` and `doctor`, until it passes; the log
tells each reason once, with where it was raised.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from itertools import islice

_MOST_TOLD = 1000
"""Different reasons that are remembered as told."""
_MOST_REASONS = 1000
"""The newest reasons that are kept. Of what failed before, the name is."""
_FORGOTTEN = "it failed, and the log says why"


class Misfits:
    """`kind` says in the log what could not be done, such as `could not be followed`."""

    def __init__(self, log: logging.Logger, kind: str) -> None:
        self._log = log
        self._kind = kind
        self._reasons: dict[str, str | None] = {}
        """The oldest first. None: forgotten."""
        self._forgotten = 0
        self._told: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def apart(self, name: str, *besides: type[Exception]) -> Iterator[None]:
        """An error of ours in the body costs the thing of this name only. `besides`: what is raised all the same, because it
        speaks of more than this thing.
        """
        try:
            yield
        except besides:
            raise
        except Exception as error:  # whatever it is, the other things follow
            self.note(name, error)

    def note(self, name: str, reason: Exception | str) -> None:
        text = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
        if self._reasons.get(name) is None:
            self.passed(name)  # it may be among those without a reason, which come first
        self._reasons[name] = text
        if len(self._reasons) - self._forgotten > _MOST_REASONS:
            oldest = next(islice(self._reasons, self._forgotten, None))
            self._reasons[oldest] = None  # those before it are forgotten already
            self._forgotten += 1
        if (name, text) not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()  # told once more is better than never
            self._told.add((name, text))
            cause = None if isinstance(reason, str) else reason
            self._log.error("%s %s: %s", name, self._kind, text, exc_info=cause)

    def passed(self, name: str) -> None:
        """It is fine now, or gone."""
        if self._reasons.pop(name, "") is None:
            self._forgotten -= 1

    def reason(self, name: str) -> str | None:
        """Say why it failed the last time; None if it did not."""
        return None if name not in self._reasons else self._reasons[name] or _FORGOTTEN

    def names(self) -> list[str]:
        return list(self._reasons)

    def __contains__(self, name: str) -> bool:
        return name in self._reasons

    def __len__(self) -> int:
        return len(self._reasons)
