"""Taking sessions away: into the trash, or for ever, and then every word of them out of all that we keep."""

from __future__ import annotations

from functools import partial

from sessiond.errors import BadFile, ReadOnly, SessiondError, SessionNotFound
from sessiond.model.session import Session
from sessiond.service.catalog import Catalog
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.store.move_guard import MoveGuard


class Deletion:
    def __init__(self, open_sessions: OpenSessions, catalog: Catalog, moves: MoveGuard) -> None:
        self._open_sessions = open_sessions
        self._catalog = catalog
        self._moves = moves

    async def delete(self, one: OpenSession, *, permanent: bool) -> None:
        if not permanent:
            await one.alone(partial(self._delete, one, permanent=False), self._moves.one)
            return
        try:
            lived = await one.alone(partial(self._erase, one), self._moves.one)
            for local_id in lived - {one.local_id}:  # it was an earlier state of another one, which may be alive
                other = self._open_sessions.of(one.store, local_id)
                await other.alone(partial(self._strike_out, other), self._moves.one)
        finally:
            erased = await self._catalog.erased()
        if not erased:
            raise ReadOnly(
                "the search index cannot be written, so words of what was deleted may still be in it",
                hint="make room and delete it once more",
                reason=self._catalog.index.problem or "",
            )

    async def _delete(self, one: OpenSession, *, permanent: bool) -> None:
        try:
            session: Session | None = await one.need(whole=True)
        except BadFile:
            session = None
        try:
            await one.stored.delete(session, permanent=permanent)
        except SessiondError:
            self._open_sessions.note_dirty(one)
            raise
        one.vanished()

    async def _erase(self, one: OpenSession) -> set[str]:
        """Ids under which what goes was known when it lived. SessionNotFound where nothing was there; what an earlier try, or a
        daemon that was killed, left of it goes all the same.
        """
        missing: SessionNotFound | None = None
        try:
            await self._delete(one, permanent=True)
        except SessionNotFound as error:  # it may lie in the trash: so that is emptied by hand
            missing = error
            self._catalog.vanished(one.wire_id)
        lived = await one.stored.erase()
        if missing is not None and not lived:
            raise missing
        return lived

    async def _strike_out(self, other: OpenSession) -> None:
        """Out of the journal, which holds what was said before it was taken away."""
        try:
            await other.need(whole=True)
            await other.save_alone()
        except (SessionNotFound, BadFile):
            pass  # then nothing of it waits to be saved
        await other.stored.strike_out()
