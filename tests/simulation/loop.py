"""An event loop with fake time: nothing waits, and a second is over when nothing is left to do in it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

from tests.fakes.crashfs import Crash


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.advance: Callable[[float], None] = lambda _: None

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everybody waits for somebody else, for ever"
            self.advance(timeout)
        return found


class SimLoop(asyncio.SelectorEventLoop):
    """`is_dead()` is asked after every turn; when it says so the loop stops in the middle of everything, for good."""

    def __init__(self, start: float, is_dead: Callable[[], bool]) -> None:
        self._made_up = start
        selector = _Selector()
        super().__init__(selector)
        selector.advance = self._advance
        self._is_dead = is_dead
        self.set_exception_handler(self._note)
        self.faults: list[str] = []
        """What nobody caught."""

    def time(self) -> float:
        return self._made_up

    def _advance(self, seconds: float) -> None:
        self._made_up += max(seconds, 0.0)

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crash):
            self.faults.append(f"{context['message']}: {error!r}")

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self._is_dead():
            self.stop()

    def play(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run `work` to its end. False: the machine died on the way, and everything with it."""
        task = self.create_task(work)
        try:
            self.run_until_complete(task)
        except (RuntimeError, Crash):
            if not self._is_dead():
                raise
            return False
        return True

    def bury(self) -> None:
        """End what is left, so that nothing of it lives on."""
        self._is_dead = lambda: False
        for _ in range(50):
            left = asyncio.all_tasks(self)
            if not left:
                break
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.wait(left, timeout=0.001))
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.close()
