"""The end of a command that a signal tells to end: what it has begun is removed first."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class OrderlyEnd:
    """While it is entered, signals wait, so that nothing is left half removed. At the end the one that came ends the process, as
    whoever sent it expects. Within `interruptible` it raises KeyboardInterrupt.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._waits = True

    def __enter__(self) -> OrderlyEnd:
        kept = signal.SIG_IGN  # as under nohup
        self._before = {one: signal.signal(one, self._take) for one in _SIGNALS if signal.getsignal(one) is not kept}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._came is not None:
            os.kill(os.getpid(), self._came)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal raise KeyboardInterrupt in here, even if it has come before."""
        self._waits = False
        try:
            if self._came is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._waits = True

    def _take(self, number: int, _frame: object) -> None:
        if self._came is None:
            self._came = number
            if not self._waits:
                raise KeyboardInterrupt
