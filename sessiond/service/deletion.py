"""Removes messages and sessions: into the trash, or for ever, and then every word of them from everything that we keep."""

from __future__ import annotations

import logging
from functools import partial

from sessiond.errors import BadFile, ReadOnly, SessiondError, SessionNotFound
from sessiond.model.changes import Cleared, Truncated
from sessiond.model.session import Session
from sessiond.schema.sessions import TruncateResult
from sessiond.schema.types import SessionInfo
from sessiond.service.catalog import Catalog
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.planning import check_seq
from sessiond.service.removals import Removals
from sessiond.service.subscribers import Peer
from sessiond.store.move_guard import MoveGuard

log = logging.getLogger(__name__)


class Deletion:
    def __init__(self, open_sessions: OpenSessions, catalog: Catalog, moves: MoveGuard, removals: Removals) -> None:
        self._open_sessions = open_sessions
        self._catalog = catalog
        self._moves = moves
        self._removals = removals

    # Messages

    async def clear(self, one: OpenSession, peer: Peer | None) -> SessionInfo:
        async def clear() -> SessionInfo:
            session = await one.need(whole=True)
            await one.stored.agree()
            try:
                await one.save_alone()
            except SessiondError as error:  # what is removed is in the trash, saved or not
                log.warning("session %s was not saved before it was cleared: %s", one.wire_id, error.message)
            session = one.there
            if len(session) or session.summary:
                await self._removals.note(one.wire_id, session, [message.id for message in session.messages()])
                await one.cut([Cleared(seq=session.seq + 1, at=self._open_sessions.now())], "cleared", peer)
            return self._open_sessions.info(one)

        return await one.alone(partial(one.settled, clear))

    async def truncate(self, one: OpenSession, peer: Peer | None, after: int, seq: int | None) -> TruncateResult:
        async def truncate() -> TruncateResult:
            session = await one.need(whole=True)
            await one.stored.agree()
            check_seq(session.seq, seq)
            removed = session.messages(session.position_after(after))
            if removed:
                await self._removals.note(one.wire_id, session, [message.id for message in removed])
                change = Truncated(seq=session.seq + 1, at=self._open_sessions.now(), after_seq=after)
                await one.cut([change], "truncated", peer)
            return TruncateResult(session=self._open_sessions.info(one), removed=len(removed))

        return await one.alone(partial(one.settled, truncate))

    # Sessions

    async def delete(self, one: OpenSession, *, permanent: bool) -> None:
        if not permanent:
            delete = partial(self._delete, one, permanent=False)
            await one.alone(partial(one.settled, delete), self._moves.one)
            return
        try:
            lived = await one.alone(partial(one.settled, partial(self._erase, one)), self._moves.one)
            for local_id in lived - {one.local_id}:  # it was an earlier state of another session, which may still exist
                other = self._open_sessions.of(one.store, local_id)
                await other.alone(partial(self._strike_out, other), self._moves.one)
        finally:
            erased = await self._catalog.erased()
        if not erased:
            raise ReadOnly(
                "the search index cannot be written, so it may still contain words of what was deleted",
                hint="free some space, then delete the session again",
                reason=self._catalog.index.problem or "",
            )

    async def _delete(self, one: OpenSession, *, permanent: bool) -> None:
        try:
            session: Session | None = await one.need(whole=True)
        except BadFile:
            session = None
        await self._removals.note(one.wire_id, session)
        try:
            await one.stored.delete(session, permanent=permanent)
        except SessiondError:
            self._open_sessions.note_dirty(one)
            raise
        one.vanished()

    async def _erase(self, one: OpenSession) -> set[str]:
        """The ids that the erased files had as sessions. SessionNotFound if there was nothing; the remains of an earlier
        attempt, or of a daemon that was killed, are removed in any case.
        """
        missing: SessionNotFound | None = None
        try:
            await self._delete(one, permanent=True)
        except SessionNotFound as error:  # it may be in the trash: this is how a person empties it
            missing = error
            self._catalog.vanished(one.wire_id)
        lived = await one.stored.erase()
        if missing is not None and not lived:
            raise missing
        return lived

    async def _strike_out(self, other: OpenSession) -> None:
        """Remove it from the journal, which still holds its earlier messages."""
        try:
            await other.need(whole=True)
            await other.save_alone()
        except (SessionNotFound, BadFile):
            pass  # then none of its changes waits to be saved
        await other.stored.strike_out()
