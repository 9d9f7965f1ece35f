"""Text that was typed but not sent, kept in the session's state so that it outlives this terminal. Sent at most once a second.

All terminals have one draft in a session: what another one keeps there stays, before ours.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from sessiond.client import SessiondError, SessionNotFound
from sessiond_repl.chat import DRAFT, Chat

EVERY_S = 1.0
REMEMBERED = 8
"""How many drafts that were sent may still be heard of."""
LAST_S = 2.0
"""When we leave, keeping the last text may take this long."""


class Drafts:
    """Follows one chat, across all its sessions."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._text: tuple[str, str] = ("", "")
        self._kept: tuple[str, str] = ("", "")
        self._others = ""
        """What other terminals keep in the same draft."""
        self._sent: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)
        """The whole draft as it was sent, and what of it was that of others."""
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._keep())
        chat.draft_heard = self._heard

    def opened(self) -> None:
        """The chat has opened a session: its draft is what is kept already."""
        self._kept = (self._chat.session_id, self._chat.kept)
        self._others = ""
        self._sent.clear()

    def typed(self, text: str) -> None:
        """The input line as it is now. Commands are not kept as drafts."""
        self._text = (self._chat.session_id, "" if text.startswith("/") else text)
        if self._text != self._kept:
            self._changed.set()

    def _heard(self, draft: object) -> None:
        """The draft was changed, by us or by another terminal: ours is a part of it, or gone."""
        whole = draft if isinstance(draft, str) else ""
        ours = dict(self._sent).get(whole)
        self._others = without(whole, self._kept[1]) if ours is None else ours

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
        whole = "\n\n".join(filter(None, (self._others, text)))
        self._sent.append((whole, self._others))
        try:
            await self._chat.sessiond.session(session_id).set_state({DRAFT: whole or None})
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


def without(whole: str, part: str) -> str:
    """Return the texts of `whole`, which blank lines separate, without `part`, which may be one of them."""
    texts = f"\n\n{whole}\n\n"
    if part:
        texts = texts.replace(f"\n\n{part}\n\n", "\n\n", 1)
    return texts.strip("\n")
