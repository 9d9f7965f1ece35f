"""Notes what people remove of sessions that came from another tool, so that a follower does not bring it back.

A session or message that is deleted, cleared or truncated here is noted before that is answered. What another program
removes from a session's file is noted when it is noticed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from sessiond.model.session import Session
from sessiond.model.values import split_wire_id

if TYPE_CHECKING:
    from sessiond.service.source_ledger import SourceLedger


class Named(Protocol):
    """The part of an open session that is needed here."""

    wire_id: str


class Removals:
    """Owns the ledger, which is loaded when it is needed: most daemons import nothing. `path` None: in memory."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._ledger: SourceLedger | None = None
        self._noting: set[asyncio.Task[None]] = set()

    def load(self) -> SourceLedger:
        """Call it on a thread: it loads modules."""
        from sessiond.service.source_ledger import SourceLedger  # see the class

        if self._ledger is None:
            self._ledger = SourceLedger(self._path)
        return self._ledger

    async def note(
        self, wire_id: str, session: Session | None, message_ids: Iterable[str] | None = None, *, done: bool = False
    ) -> None:
        """These messages, or (None) the session, are about to be removed, or were (`done`). `session` None: it cannot be read.
        Unavailable if that cannot be noted now, and is not done.
        """
        if not await self._is_there() if session is None else not _came_from_a_tool(session):
            return
        ledger: SourceLedger = await asyncio.to_thread(self.load)
        await ledger.remove(*split_wire_id(wire_id), message_ids, later=done)

    async def note_move(self, wire_id: str, session: Session, store: str) -> None:
        """The session is about to be moved to another store, and follows its source there. Unavailable as for `note`."""
        if _came_from_a_tool(session):
            ledger: SourceLedger = await asyncio.to_thread(self.load)
            await ledger.move(*split_wire_id(wire_id), store)

    def edited(self, one: Named, old: Session, now: Session | None) -> None:
        """Another program changed or (None) removed the session's file."""
        if now is old or not _came_from_a_tool(old):
            return
        gone: list[str] | None = None
        if now is not None:
            if now.absent:
                return  # only its end was read: nothing of it is known to be gone
            gone = [message.id for message in old.messages(old.absent) if now.message(message.id) is None]
            if not gone:
                return
        task = asyncio.create_task(self.note(one.wire_id, old, gone, done=True), name="note removal")
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def copy_to(self, path: str) -> bool:
        """Copies the ledger to `path`, and returns whether there was one to copy. Unavailable, OSError."""
        if not await self._is_there():
            return False
        ledger = await asyncio.to_thread(self.load)
        await ledger.copy_to(path)
        return True

    async def copy_removed_to(self, path: str) -> None:
        """Add what was removed to such a copy. Unavailable, OSError."""
        if self._ledger is not None:
            await self._ledger.copy_removed_to(path)

    async def settled(self) -> None:
        """Wait until what other programs removed is noted."""
        if self._noting:
            await asyncio.wait(self._noting)

    async def close(self) -> None:
        await self.settled()
        if self._ledger is not None:
            await self._ledger.close()

    async def _is_there(self) -> bool:
        """Return whether anything was ever imported."""
        if self._ledger is not None or self._path is None:
            return self._ledger is not None
        return await asyncio.to_thread(os.path.exists, self._path)


def _came_from_a_tool(session: Session) -> bool:
    return isinstance(session.metadata.get("source"), dict)
