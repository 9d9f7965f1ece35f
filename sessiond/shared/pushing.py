"""Pushes one session of a shared store to the hub, and says what it makes of the answer."""

from __future__ import annotations

from typing import Literal

from sessiond.errors import Conflict, Indeterminate, Unavailable
from sessiond.hub.port import NOTHING, Ordered, Pushed, chain_all
from sessiond.model.session import Session
from sessiond.shared import fold, ids
from sessiond.shared.known import KnownSession
from sessiond.shared.listing import listing_of
from sessiond.shared.waiting import Waiting
from sessiond.store.port import OutsideChange


class PushingSession(KnownSession):
    async def _push(self, operations: list[Waiting], listing: bytes | None) -> Pushed:
        """On top of what is known. Unavailable, Indeterminate, Conflict."""
        return await self._link.push(self.local_id, self._number, self._digest, operations, listing)

    async def _push_new(self, operations: list[Waiting], listing: bytes | None) -> tuple[list[Waiting], Pushed]:
        """Push operations that make no message which is there. If their ids were used for something that was cut off since, they
        get others: the operations as they were pushed. Errors as in `_push`.
        """
        try:
            return operations, await self._push(operations, listing)
        except Conflict:
            renamed = ids.reused(operations, await self._ledger.operations(self.local_id, NOTHING))
            if renamed == operations:
                raise
        return renamed, await self._push(renamed, listing)

    async def _push_waiting(self, shown: Session) -> bool:
        """Push the first of what waits. False: show the session again: something else waits, or the hub noted another author."""
        first = fold.first_of(self._waiting)
        if self._confirmed is not None and ids.clash(first, self._confirmed):
            await self._settle_ids()
            return False
        try:
            pushed = await self._push(first, listing_of(shown))
        except (Unavailable, Indeterminate):
            return True
        except Conflict:
            await self._settle_ids()
            return False
        if pushed.outcome not in ("stored", "known"):
            self._refused(pushed)
            return True
        rows = await self._as_stored(first, pushed)
        if rows is None or not await self._confirm(first, rows):
            self._behind = True
            return True
        return all(map(Waiting.is_signed_as, first, rows))

    def _refused(self, pushed: Pushed) -> None:
        self._behind = True
        if pushed.outcome in ("ahead", "diverged"):
            self._link.differs(self.local_id)

    async def _settle_ids(self) -> None:
        """Others used an id meanwhile. The same content under the same id is a retry, and other content gets another id."""
        rows = [row for row in await self._ledger.operations(self.local_id, NOTHING) if row.number <= self._number]
        assert self._confirmed is not None
        kept, dropped, changed = ids.with_free_ids(self._waiting, rows, self._confirmed)
        if not dropped and not changed:
            raise Indeterminate(f"the hub refuses an id that {self.local_id} does not have")
        await self._ledger.change_waiting(self.local_id, changed, dropped)
        self._waiting = kept
        self._behind = True

    async def _as_stored(self, operations: list[Waiting], pushed: Pushed) -> list[Ordered] | None:
        """The operations as the hub has them. None: it cannot be reached any more, or has lost them."""
        numbers = pushed.numbers
        if not self._link.sealed:
            return [one.ordered(number, self._link.member) for one, number in zip(operations, numbers, strict=True)]
        rows: list[Ordered] = []
        while len(rows) < len(numbers):
            try:
                page = await self._link.page(self.local_id, rows[-1].number if rows else numbers[0] - 1)
            except Unavailable:
                return None
            found = [] if page is None else [row for row in page.operations if row.number in numbers]
            if not found:
                return None
            rows += found
        return rows

    async def _confirm(self, operations: list[Waiting], rows: list[Ordered]) -> bool:
        """Note that what was pushed (new, or the first of what waits) is on the hub. False: not on top of what is known; it has to be
        fetched.
        """
        if [row.number for row in rows] != [self._number + place for place in range(1, len(operations) + 1)]:
            return False
        digest, last = chain_all(self._digest, rows), rows[-1].number
        fetched = self._ledger.head(self.local_id).number > self._number  # while the hub was asked how it has them
        if fetched and await self._ledger.digest_at(self.local_id, last) != digest:
            return False
        if self._was_cut or self._ledger.head(self.local_id).number < self._number:
            return False
        self._ledger.confirm(self.local_id, rows, operations)
        if self._confirmed is not None:
            if self._number == NOTHING:
                self._confirmed = fold.folded(self.local_id, rows)
                self._files.save_even_blank()
            else:
                self._files.took(fold.apply(self._confirmed, rows))
        self._waiting = self._waiting[len(operations) :]
        if not self._waiting and all(map(Waiting.is_signed_as, operations, rows)):
            self._confirmed = None
        self._number, self._digest = last, digest
        return True

    async def _pushed(
        self, operations: list[Waiting], listing: bytes | None, *, agreed: bool
    ) -> Literal["stored", "unsent", "unknown"]:
        """Push on top of what is known. `unsent`: it is surely not on the hub; `unknown`: it may be, and if so, it is found under
        its name. Both may wait in the ledger, and if it is `agreed`, neither is returned. OutsideChange, Unavailable,
        Indeterminate, Conflict.
        """
        link = self._link
        if agreed or link.refuses:
            await self.agree()
        if not self._reachable:
            return "unsent"
        try:
            operations, pushed = await self._push_new(operations, listing)
        except Unavailable:
            if agreed or link.refuses:
                raise
            return "unsent"
        except Indeterminate:
            if agreed:
                raise
            return "unknown"
        if pushed.outcome not in ("stored", "known"):
            self._refused(pushed)
            raise OutsideChange(self.local_id)
        rows = await self._as_stored(operations, pushed)
        if rows is not None and await self._confirm(operations, rows):
            return "stored"
        self._behind = True
        if agreed:
            raise Indeterminate(
                f"the hub of the store {link.name!r} has taken a change of {self.local_id}, and was lost before it showed it",
                hint="read the session when it is back",
            )
        return "unknown"
