"""Everything that is sent to windows, in one order, after the marks that it needs are written.

A window that has seen a number is sure that the numbers before it have been sent, too. So answers, which may contain a number, and
actions go the same way. Only what has no number may overtake: answers to `ping`, and errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from sessiond.agent_host.numbers import Numbers, StateMark
from sessiond.fs import off_loop

log = logging.getLogger(__name__)


class Recipient(Protocol):
    """A window, as far as it is sent something."""

    def send(self, message: bytes) -> None: ...


class Outbox:
    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._marks: list[StateMark] = []
        self._waiting: list[tuple[Recipient, bytes]] = []
        self._sending: asyncio.Task[None] | None = None
        self._failed = False

    def mark(self, mark: StateMark) -> None:
        """Write it before whatever is posted from now on is sent."""
        self._marks.append(mark)
        self._begin()

    def post(self, windows: Iterable[Recipient], message: bytes) -> None:
        self._waiting += [(window, message) for window in windows]
        self._begin()

    async def sent(self) -> None:
        """Hand what waits now to the connections."""
        if self._sending is not None:
            await asyncio.shield(self._sending)

    def _begin(self) -> None:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), name="agent host")

    async def _send(self) -> None:
        try:
            while self._marks or self._waiting:
                marks, self._marks = self._marks, []
                waiting, self._waiting = self._waiting, []
                if marks:
                    await self._write(marks)
                for window, message in waiting:
                    window.send(message)
        finally:
            self._sending = None

    async def _write(self, marks: list[StateMark]) -> None:
        lines, whole = self._numbers.to_write(marks)
        try:
            await off_loop(self._numbers.write, lines, whole)
        except OSError as error:
            if not self._failed:
                log.warning("windows that come back after a restart have to be reloaded: %s", error)
            self._failed = True
        else:
            self._failed = False
