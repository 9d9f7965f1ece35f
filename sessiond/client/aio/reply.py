"""A message that streams in, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from sessiond.client import forks, requests
from sessiond.client.aio.link import AsyncLink
from sessiond.client.reply import LEAVE_S
from sessiond.client.tape import Tape
from sessiond.client.types import ToolCall
from sessiond.errors import SessiondError


class AsyncReply:
    """Made by `await session.stream(...)`; an async context manager. Left normally, the message is `done` and durable. Left by an
    exception or a cancellation, it is `interrupted` and keeps what was written. One task writes.
    """

    def __init__(self, link: AsyncLink, session_id: str, message_id: str, seq: int, length: int) -> None:
        self.id = message_id
        self.seq = seq
        self.status = "streaming"
        self._link = link
        self._session_id = session_id
        self._tape = Tape(session_id, message_id, length)
        self._begun = forks.process()

    async def write(self, text: str, *, timeout_s: float | None = None) -> None:
        """Add text. As `Reply.write`: others see it at once, and it is durable after `flush` or the end of the block."""
        forks.check_begun(self._begun, "the reply")
        self._tape.add(text)
        await self._link.play(self._tape, timeout_s, to_end=False)

    async def flush(self, *, timeout_s: float | None = None) -> None:
        """Returns when everything written so far is durable. Errors as for `write`."""
        forks.check_begun(self._begun, "the reply")
        await self._link.play(self._tape, timeout_s, to_end=True)

    async def finish(
        self,
        status: str = "done",
        *,
        metadata: Mapping[str, Any] | None = None,
        tool_calls: Iterable[ToolCall] = (),
        timeout_s: float | None = None,
    ) -> None:
        """End the message as `done`, `interrupted` or `error`, durably. Leaving the block does this by itself."""
        if status == "done" or self._tape.refusal is None:
            await self.flush(timeout_s=timeout_s)
        request = requests.finish(self._session_id, self.id, status, metadata, tool_calls)
        await self._link.call(request, timeout_s)
        self.status = status

    async def __aenter__(self) -> AsyncReply:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.status != "streaming" or self._begun is not forks.process():
            return
        if kind is not None:
            await asyncio.shield(leave(self))  # the caller hears of what did it
            return
        try:
            await self.finish()
        except asyncio.CancelledError:
            await asyncio.shield(leave(self))
            raise
        except SessiondError:
            if self._tape.refusal is not None:
                await asyncio.shield(leave(self))
            raise

    async def _cut_off(self) -> None:
        timeout_s = min(LEAVE_S, self._link.timeout_s)
        with suppress(SessiondError):
            try:
                await self.flush(timeout_s=timeout_s)
            except SessiondError:
                if self._tape.refusal is None:
                    raise
            await self.finish("interrupted", timeout_s=timeout_s)


def leave(reply: AsyncReply) -> asyncio.Task[None]:
    """Interrupt the message. The task goes on where whoever waits for it is cancelled."""
    return reply._link.go_on(reply._cut_off())
