"""Text that was typed but not sent, kept in the session's state so that it outlives this terminal. Sent at most once a second."""

from __future__ import annotations

import asyncio
import contextlib

from sessiond.client import SessiondError, SessionNotFound
from sessiond_repl.chat import DRAFT, Chat

EVERY_S = 1.0
LAST_S = 2.0
"""When we leave, keeping the last text may take this long."""


class Drafts:
    """Follows one chat, across all its sessions."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._text: tuple[str, str] = ("", "")
        self._kept: tuple[str, str] = ("", "")
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._keep())

    def opened(self) -> None:
        """The chat has opened a session: its draft is what is kept already."""
        self._kept = (self._chat.session_id, self._chat.kept)

    def typed(self, text: str) -> None:
        """The input line as it is now. Commands are not kept as drafts."""
        self._text = (self._chat.session_id, "" if text.startswith("/") else text)
        if self._text != self._kept:
            self._changed.set()

    async def _keep(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(SessiondError):
                await self._send()
            await asyncio.sleep(EVERY_S)
            if self._text != self._kept:  # there was no daemon, or it failed: try again, even if nothing more is typed
                self._changed.set()

    async def _send(self) -> None:
        session_id, text = sending = self._text
        if sending == self._kept or not self._chat.online:
            return
        try:
            await self._chat.sessiond.session(session_id).set_state({DRAFT: text or None})
        except SessionNotFound:  # deleted: there is no place to keep it
            self._kept = sending
            return
        self._kept = sending

    async def close(self) -> None:
        """Keep the current text, and end."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(SessiondError, TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._send()
