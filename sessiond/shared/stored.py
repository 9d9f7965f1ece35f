"""One session of a shared store. Implements `store.port.Stored`.

Theory of operation
-------------------
The hub has the session's operations in their order. The ledger has a copy of them, and the operations of this machine that wait
for the hub. The file has the result of what the hub has ordered. In memory there are one or two sessions:

    confirmed   the result of the operations up to `_number`, with their `_digest`
    shown       `confirmed` and what waits on top; it is what the owner has, and the same object while nothing waits

    shared ──the hub cannot be reached, or an answer is lost──> waiting ──merge: pushed, known or fetched──> shared

commit    While the hub can be reached: push on top of `_number`. If others were first (`behind`), OutsideChange: the owner
          merges and plans again. If the hub cannot be reached, the operation waits in the ledger, unless it was agreed on
          (`expectedSeq`, a cut): that is refused.
merge     Takes in what the ledger has beyond `_number`, then pushes what waits on top of it, until nothing is left to do.
          Nothing of the network is needed for the first half.
          What waited and is among the operations from the hub (an answer was lost) no longer waits.
save      Writes `confirmed`. So the file never shows a seq that another machine gives to something else.

What must never happen: an operation is acknowledged that is neither on the hub nor synced in the ledger; an operation that
waits is dropped before the ledger has it from the hub; a number is shown as final that the hub has not given.

Only the owner calls this, one call at a time (a save or a look at the files may run beside a commit).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sessiond.errors import (
    AlreadyExists,
    BadFile,
    ConfigError,
    Conflict,
    Indeterminate,
    InvalidParams,
    ReadOnly,
    SessionNotFound,
    Unavailable,
)
from sessiond.formats.names import id_beside
from sessiond.fs import off_loop
from sessiond.hub.port import NOTHING, Ordered, seed
from sessiond.model.changes import Change, Created
from sessiond.model.session import Session, content_equal
from sessiond.shared import fold
from sessiond.shared.listing import DELETED, listing_after
from sessiond.shared.pushing import PushingSession
from sessiond.shared.waiting import Waiting, begins
from sessiond.store.port import Complete, OnDurable, OutsideChange, SavedSession

log = logging.getLogger(__name__)
_ATTEMPTS = 16
"""How often a merge pushes again because others were first."""
_BATCH = 256
"""How many changes of a whole session go to the hub at a time."""
_CUTS = ("cleared", "truncated", "trashed", "restored", "erased")


class SharedSession(PushingSession):
    # Reading

    async def read(self, *, whole: bool) -> Session:
        del whole  # a rendering is always read as a whole: what waits may need any message
        self.moved_to = None
        if not await self.exists():
            await self._link.wait_asked()  # the hub may have it
        self.fetched = await self._link.need(self.local_id)
        if not await self.exists():
            if await self._ended_by() == "erased":
                await self._gone(None, erased=True)
            raise SessionNotFound(f"no session {self.local_id!r} in the store {self._link.name!r}")
        while True:
            self._cuts = self._ledger.cuts.get(self.local_id, 0)
            self._waiting = await self._ledger.waiting(self.local_id)
            known = self._ledger.head(self.local_id)
            if await self._is_other():
                await self._make_way()
                continue
            if known.trashed:
                await self._bury()
                raise SessionNotFound(f"no session {self.local_id!r} in the store {self._link.name!r}")
            self._number, self._digest, self._behind, self._told = known.number, known.digest, False, []
            empty = Session(self.local_id, "")
            confirmed = await self._rendering.read(known.number) if known.number > NOTHING else empty
            if not self._was_cut:
                break
        self._loaded = True
        await self._leave_trash()
        return await self._show(confirmed)

    async def _leave_trash(self) -> None:
        """It is there. If it was in the trash here, another machine has restored it."""
        try:
            await self._files.out_of_trash()
        except (BadFile, ReadOnly) as error:  # lists leave it out all the same, and reading must work
            log.warning("store %s: %s", self._link.name, error.message)

    def _note_moved(self, settled: int, last: int) -> None:
        """Seqs above `settled` and up to `last` may stand for other changes from now on."""
        before = self._ledger.moved.get(self.local_id, (settled, last))
        self._ledger.moved[self.local_id] = (min(before[0], settled), max(before[1], last))

    async def _show(self, confirmed: Session) -> Session:
        """The session with what waits on top."""
        shown = await self._with_waiting(confirmed)
        shown.moved = self._ledger.moved.get(self.local_id)
        return shown

    async def _with_waiting(self, confirmed: Session) -> Session:
        if not self._waiting:
            self._confirmed = None
            return confirmed
        self._confirmed = confirmed
        operations = self._numbered(self._waiting)
        if self._number == NOTHING:
            shown: Session = await off_loop(fold.folded, self.local_id, operations)
        else:
            shown, _ = await off_loop(fold.after, confirmed, operations)
        return shown

    def _numbered(self, waiting: Sequence[Waiting]) -> list[Ordered]:
        return [one.ordered(number) for number, one in enumerate(waiting, self._number + 1)]

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        raise AssertionError("a shared session is in memory as a whole")

    async def read_rest(self, session: Session) -> Complete:
        raise AssertionError("a shared session is in memory as a whole")

    async def changed(self) -> bool:
        return self._to_merge or await self._files.changed()

    # Merging

    async def merge(self, session: Session) -> Session | None:
        if self._files.size and await self._files.changed():
            await self._rendering.write_over()
        shown = session
        for _ in range(_ATTEMPTS):
            now = await self._take_in(shown)
            if now is None:
                return None
            shown = now
            if self._behind:
                try:
                    await self._link.pull(self.local_id)
                except Unavailable:
                    return shown
                except ConfigError as error:  # its key is not here yet: until then it is as if the hub were away
                    self._link.note_readable(self.local_id, error.message)
                    return shown
                self._behind = False
            elif self._waiting and self._reachable and not await self._push_waiting(shown):
                assert self._confirmed is not None
                shown = await self._show(self._confirmed)
            if not self._to_merge and not self._behind:
                break
        return shown

    async def _take_in(self, shown: Session) -> Session | None:
        """Apply what the ledger has beyond `_number`."""
        if await self._is_other():
            self.moved_to = await self._make_way()
            return None
        known = self._ledger.head(self.local_id)
        if self._was_cut and not known.trashed:
            self._note_moved(0, shown.seq)
            return await self._made_anew()
        if known.number == self._number and not self._was_cut:
            return shown
        rows = await self._ledger.operations(self.local_id, self._number)
        rows = [row for row in rows if row.number <= known.number]
        names = {(row.replica, row.index) for row in rows}
        landed = [one for one in self._waiting if names.intersection(one.names)]
        remaining = [one for one in self._waiting if one not in landed]
        same = [name for one in self._waiting for name in one.names if name in names]
        unmoved = same == [(row.replica, row.index) for row in rows] and self._waiting[: len(landed)] == landed
        unmoved = unmoved and all(map(Waiting.is_signed_as, landed, rows))
        if known.trashed:
            await self._gone(shown, erased=rows[-1].kind == "erased" if rows else False)
            return None
        first, waited = self._number == NOTHING, bool(self._waiting)
        # What cannot be understood must leave everything as it is.
        if not waited:
            now = await self._extended(shown, rows)
        elif first:
            self._confirmed = await off_loop(fold.folded, self.local_id, rows)
            self._files.save_even_blank()
        else:
            assert self._confirmed is not None
            self._files.took(await off_loop(fold.apply, self._confirmed, rows))
        if waited and not unmoved:
            self._note_moved(max(self._number, 0), shown.seq)
        self._number, self._digest = known.number, known.digest
        self._waiting = remaining
        if landed:
            self._ledger.confirm(self.local_id, [], landed)
        if not waited:
            return now
        assert self._confirmed is not None
        if unmoved:
            if not remaining:
                self._confirmed = None
            return shown
        return await self._show(self._confirmed)

    async def _made_anew(self) -> Session:
        """The hub lost operations that we had, and has others in their place."""
        await self._files.start_anew(ours=True)
        cuts = self._ledger.cuts.get(self.local_id, 0)
        waiting = await self._ledger.waiting(self.local_id)
        known = self._ledger.head(self.local_id)
        rows = await self._ledger.operations(self.local_id, NOTHING)
        rows = [row for row in rows if row.number <= known.number]
        confirmed = await off_loop(fold.folded, self.local_id, rows)
        self._waiting, self._cuts = waiting, cuts
        self._number, self._digest = known.number, known.digest
        return await self._show(confirmed)

    async def _extended(self, shown: Session, rows: list[Ordered]) -> Session:
        if any(row.kind in _CUTS for row in rows):
            after, changes = await off_loop(fold.after, shown, rows)
            self._files.took(changes)
            return after
        changes = fold.apply(shown, rows)
        self._files.took(changes)
        self._told += changes
        return shown

    async def _is_other(self) -> bool:
        """Return whether another machine was first to give the id of what was begun here to a session of its own."""
        if self._number != NOTHING or self._ledger.head(self.local_id).number == NOTHING or not begins(self._waiting):
            return False
        return fold.is_other(self._waiting, await self._ledger.operations(self.local_id, NOTHING))

    async def _make_way(self) -> str:
        """Leave the id to the other session, and return the one under which this one goes on."""
        number = 2
        while await self._is_taken(other := id_beside(self.local_id, number)):
            number += 1
        log.warning("store %s: %s is another session on the hub, so it is %s", self._link.name, self.local_id, other)
        await self._ledger.rename_waiting(self.local_id, other)
        self._forget()
        for one in (other, self.local_id):
            self._link.differs(one)
        return other

    async def _is_taken(self, local_id: str) -> bool:
        ledger = self._ledger
        known = local_id in ledger.heads or local_id in ledger.listed or local_id in ledger.waits
        return known or await self._folder.look(local_id) is not None

    async def _gone(self, shown: Session | None, *, erased: bool) -> None:
        """Somebody deleted it. What waits is in the trash with the rest; `erased`: nothing is left of it anywhere."""
        await self._files.delete(shown, permanent=erased)
        if erased:
            await self._files.erase()
        try:
            await self._drop_waiting(erased=erased)
        finally:  # what could not be written is written later
            self._forget()

    async def _ended_by(self) -> str | None:
        """`trashed` or `erased`; None: it is there, or never was."""
        known = self._ledger.head(self.local_id)
        rows = await self._ledger.operations(self.local_id, known.number - 1) if known.trashed else []
        return rows[-1].kind if rows else None

    async def _bury(self) -> None:
        """It was deleted elsewhere while nobody had it here."""
        if not self._waiting and await self._folder.look(self.local_id) is None:
            return
        rows = await self._ledger.operations(self.local_id, NOTHING)
        self._number = rows[-1].number
        if rows[0].kind == "erased":
            await self._gone(None, erased=True)
            return
        shown = await off_loop(fold.folded, self.local_id, rows + self._numbered(self._waiting))
        await self._gone(shown, erased=False)

    async def _drop_waiting(self, *, erased: bool) -> None:
        """Leave what waits to the trash; it waits again if somebody restores the session."""
        if self._waiting:
            log.warning("store %s: %s was deleted elsewhere", self._link.name, self.local_id)
            waiting, self._waiting = self._waiting, []
            ledger = self._ledger
            await (ledger.change_waiting(self.local_id, [], waiting) if erased else ledger.park(self.local_id, waiting))

    def _forget(self) -> None:
        self._loaded, self._confirmed, self._waiting, self._told = False, None, [], []
        self._number, self._digest, self._behind = NOTHING, seed(self.local_id), False
        self._cuts = self._ledger.cuts.get(self.local_id, 0)

    # Changing

    async def commit(
        self, session: Session, changes: list[Change], on_durable: OnDurable | None = None, *, agreed: bool = False
    ) -> None:
        del on_durable  # the loop knows first
        self._ledger.check()
        created = isinstance(changes[0], Created)
        if created:
            self._forget()
            self._loaded = True
        elif self._to_merge:
            raise OutsideChange(self.local_id)
        operations = self._signed(changes)
        try:
            became = await self._pushed(operations, listing_after(session, changes), agreed=agreed)
            if became != "stored":
                await self._queue(session, operations, became)
        except BaseException as error:
            if created:
                self._forget()
            if created and isinstance(error, OutsideChange):
                raise await self._taken() from None
            raise
        for change in fold.singles(changes):
            session.apply(change)
        if became == "stored":
            self._files.took(changes)
        if created:
            self._files.save_even_blank()

    def _signed(self, changes: list[Change]) -> list[Waiting]:
        """Changes as operations of this machine's member, whose name their messages have from now on."""
        author = self._link.member
        fold.sign(changes, author)
        return fold.waiting_of(changes, self._ledger.name, author)

    async def _queue(self, session: Session, operations: list[Waiting], became: str) -> None:
        try:
            queued = await self._ledger.queue(self.local_id, operations)
        except ReadOnly as error:
            if became == "unknown":
                raise Indeterminate(error.message, hint="it may or may not be on the hub") from error
            raise
        self._let_wait(session, queued)

    def _let_wait(self, session: Session, queued: list[Waiting]) -> None:
        """`session`: before these operations, which the ledger has."""
        if self._confirmed is None:
            self._confirmed = session.after([])
        self._waiting = [*self._waiting, *queued]

    async def cut(self, session: Session, changes: list[Change]) -> Session:
        self._ledger.check()
        if self._to_merge or self._waiting:
            await self.agree()
            raise OutsideChange(self.local_id)
        operations = self._signed(changes)
        await self._pushed(operations, listing_after(session, changes), agreed=True)
        after: Session = await off_loop(session.after, changes)
        self._files.took(changes)
        return after

    # Making

    async def begin(self) -> None:
        self._ledger.check()
        self._folder.check_writable(self.local_id)
        if await self.exists() or self._ledger.head(self.local_id).number > NOTHING:
            raise await self._taken()
        await self._files.begin()

    async def _taken(self) -> AlreadyExists:
        there = f"the session {self.local_id!r} already exists in the store {self._link.name!r}"
        match await self._ended_by():
            case "erased":
                message = f"the id {self.local_id!r} was used in the store {self._link.name!r}"
                return AlreadyExists(message, hint="its session was deleted for ever: choose another id")
            case "trashed":
                return AlreadyExists(there, hint="it is in the trash: restore it, or choose another id")
        return AlreadyExists(there)

    async def put(self, session: Session) -> SavedSession:
        await self.begin()
        await off_loop(fold.make_copied, session, self._link.member)
        changes: list[Change] = await off_loop(fold.changes_of, session)
        if len(changes) > _BATCH:
            changes = fold.marked_last(changes)
        made = Session(self.local_id, session.created_at)
        for start in range(0, len(changes), _BATCH):
            made = await self._put_more(made, changes[start : start + _BATCH])
        session.seq = made.seq
        await off_loop(fold.take_authors, session, made)
        if not content_equal(made, session):
            raise BadFile(f"{self.local_id} cannot be shared as it is", hint="please report this", path="", line=None)
        saved = None if self._waiting else await self.save(session)
        at = self._link.now()
        return saved or SavedSession(self.local_id, self._folder.file_path(self.local_id), 0, at)

    async def _put_more(self, made: Session, changes: list[Change]) -> Session:
        """The session after them. What waited may have been pushed since the last ones; others must not have written."""
        for _ in range(_ATTEMPTS):
            try:
                await self.commit(made, changes)
            except OutsideChange:
                merged = await self.merge(made)
                if merged is None or merged.seq != made.seq:
                    message = f"{self.local_id} was changed elsewhere before it was complete"
                    raise Conflict(
                        message, hint="delete it and try again", seq=0 if merged is None else merged.seq
                    ) from None
                made = merged
            else:
                return made
        raise Unavailable(f"the hub of the store {self._link.name!r} comes and goes", hint="try again")

    # Saving

    async def save(self, session: Session) -> SavedSession | None:
        if self._to_merge:
            raise OutsideChange(self.local_id)
        if self._number == NOTHING:
            return None  # the hub does not have it yet
        number = self._number
        saved = await self._files.save(self._confirmed or session)
        if saved is not None:
            self._ledger.saved(self.local_id, number, self._files.versions)
        return saved

    def save_even_blank(self) -> None:
        self._files.save_even_blank()

    # Removing

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        await self._files.discard(session, trash_id, reason)

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        await self._end("erased" if permanent else "trashed")
        await self._files.delete(session, permanent=permanent)
        self._forget()

    async def _end(self, kind: str) -> None:
        self._ledger.check()
        await self.agree()
        if self._to_merge or self._waiting:
            raise OutsideChange(self.local_id)
        if not self._loaded:  # its files could not be understood
            known = self._ledger.head(self.local_id)
            self._number, self._digest = known.number, known.digest
        mark = fold.mark(kind, self._link.now(), self._ledger.name)
        if kind == "trashed":
            await self._pushed([mark], DELETED, agreed=True)
            return
        erased = await self._link.erase(self.local_id, self._number, self._digest, mark)
        if erased.outcome not in ("stored", "known"):
            self._refused(erased)
            raise OutsideChange(self.local_id)
        await self._ledger.erased(self.local_id, mark.ordered(erased.head, self._link.member), erased.digest)

    async def erase(self) -> set[str]:
        if await self._ended_by() == "trashed":
            await self._end("erased")  # it is in the trash of the others, too
        await self._check_whole()
        await self._ledger.forget_parked(self.local_id)
        return await self._files.erase()

    async def _check_whole(self) -> None:
        """InvalidParams: it is only a part of a session, whose words the hub and all machines keep."""
        whole = await self._files.part_of()
        if whole is None:
            return
        last = await self._ledger.operations(whole, self._ledger.head(whole).number - 1)
        if last and last[-1].kind != "erased":
            name = self._link.name
            raise InvalidParams(
                f"{self.local_id} was cut off {whole}, and the hub of the store {name!r} keeps what was cut off",
                hint=f"to erase it, delete `{name}/{whole}` for ever; this part leaves the trash in time",
                field="permanent",
            )

    async def strike_out(self) -> None:
        """The journal has nothing of a shared session."""

    async def remove(self) -> None:
        if await self.exists():
            await self._end("trashed")
        await self._files.remove()
        self._forget()

    async def restore(self) -> Session:
        self._ledger.check()
        known = self._ledger.head(self.local_id)
        if known.number == NOTHING:
            return await self._restore_part()
        if await self._ended_by() == "erased":
            raise SessionNotFound(f"no session {self.local_id!r} in the trash of {self._link.name!r}")
        if not known.trashed:
            raise await self._taken()
        await self.agree()
        self._number, self._digest = known.number, known.digest
        mark = fold.mark("restored", self._link.now(), self._ledger.name)
        try:
            await self._pushed([mark], None, agreed=True)
        except OutsideChange:
            await self._link.pull(self.local_id)  # nothing is in memory that a merge could begin with
            raise
        self._forget()
        await self._files.out_of_trash()
        return await self.read(whole=True)

    async def _restore_part(self) -> Session:
        """Put what was cut off a session there as a new one: nobody has it but the trash of this machine."""
        session = await self._files.in_trash()
        await self.put(session)
        await self._leave_trash()
        return session
