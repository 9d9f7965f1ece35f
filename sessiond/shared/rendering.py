"""The file of a shared session: a rendering of what the ledger has, for people and other programs to read.

It is trusted as long as it has the version that was written last. Otherwise it is written again from the ledger. If it says what
the session never was, somebody edited it: their version goes into the trash, because only the hub decides what the session is.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sessiond.errors import BadFile, SessionNotFound
from sessiond.fs import off_loop
from sessiond.hub.port import NOTHING, Ordered
from sessiond.model.session import Session, content_equal
from sessiond.shared import fold
from sessiond.shared.ledger import Ledger
from sessiond.store.folder import FolderStore
from sessiond.store.stored import StoredSession

log = logging.getLogger(__name__)


class Rendering:
    def __init__(self, folder: FolderStore, ledger: Ledger, files: StoredSession) -> None:
        self._folder = folder
        self._ledger = ledger
        self._files = files
        self._local_id = files.local_id

    async def read(self, number: int) -> Session:
        """The session as the hub had it at `number`, which the ledger has; from the file if possible. BadFile, Unavailable."""
        known = self._ledger.head(self._local_id)
        there = await self._folder.look(self._local_id)
        if known.print and known.saved <= number and there is not None and there.fingerprint == known.print:
            session = await self._files.read(whole=True)
            # Nearly always the file has everything, and each step off the loop waits for a processor.
            more = known.saved < number
            rows = _up_to(number, await self._ledger.operations(self._local_id, known.saved)) if more else []
            if session.seq == known.saved and self._files.versions == known.print:
                if rows:
                    self._files.took(await off_loop(fold.apply, session, rows))
                return session
        rows = _up_to(number, await self._ledger.operations(self._local_id, NOTHING))
        session = await off_loop(fold.folded, self._local_id, rows)
        ours = there is None or await self._is_ours(rows)
        if not ours:
            log.warning("store %s: %s was edited; the edit is in the trash", self._folder.name, self._local_id)
        await self._files.start_anew(ours=ours)
        return session

    async def _is_ours(self, rows: Sequence[Ordered]) -> bool:
        """Return whether the file says what the session was at some time: a save was not noted, or the ledger was lost."""
        try:
            session = await self._files.read(whole=True)
        except (SessionNotFound, BadFile):
            return False
        past = [row for row in rows if row.number <= session.seq]
        return bool(past) and content_equal(session, await off_loop(fold.folded, self._local_id, past))

    async def write_over(self) -> None:
        """Another program wrote the file."""
        log.warning("store %s: %s was edited; the edit is in the trash", self._folder.name, self._local_id)
        await self._files.start_anew(ours=False)


def _up_to(number: int, rows: Sequence[Ordered]) -> list[Ordered]:
    """More may come from the hub at any time: whoever reads applies that later, in one place."""
    return [row for row in rows if row.number <= number]
