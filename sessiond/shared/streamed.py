"""Replies that stream into a shared session: their text is gathered, so that a reply costs tens of operations, not thousands.

    none ──gather──> gathered ──share──> on the hub, or provisional

While text is gathered, it is one operation that waits in the ledger. Each `gather` writes that operation again, with more
text, and syncs it: what was acknowledged survives a crash. The operation was never pushed, so nobody else knows it. It is not a
part of the session yet: nobody is told of it, and its seq may still move.

`share` ends that. It pushes the operation, or, if the hub cannot be reached, leaves it among those that wait. From then on its
body never changes again. The owner shares before it does anything that could notice, and HUB_GATHER_S after the first `gather`.
"""

from __future__ import annotations

import contextlib

import msgspec

from sessiond.errors import Conflict
from sessiond.hub.bodies import pack
from sessiond.model.changes import Change, Extended
from sessiond.model.session import Session
from sessiond.shared import fold
from sessiond.shared.listing import listing_after
from sessiond.shared.stored import SharedSession
from sessiond.shared.waiting import Waiting
from sessiond.store.port import OutsideChange


class StreamedSession(SharedSession):
    _gathered: Extended | None = None
    _kept: Waiting | None = None

    @property
    def _operation(self) -> Waiting | None:
        """The operation that is gathered, as it is in the ledger."""
        return self._kept

    @_operation.setter
    def _operation(self, operation: Waiting | None) -> None:
        self._kept = operation
        if operation is None:
            self._link.gathers(self.local_id, is_so=False)

    @property
    def gathers(self) -> bool:
        """Not with `offline = "refuse"`: there an acknowledgement means that it is on the hub."""
        return self._loaded and not self._link.refuses

    @property
    def gathered(self) -> Extended | None:
        return self._gathered

    @property
    def provisional(self) -> int:
        return super().provisional + (self._operation is not None)

    def waits(self, seq: int) -> bool:
        return super().waits(seq) or (self._operation is not None and seq > self._number)

    @property
    def fingerprint(self) -> str | None:
        return None if self._operation is not None else super().fingerprint

    async def gather(self, change: Extended) -> None:
        self._ledger.check()
        kind, _, body = pack(change)
        if self._operation is None:
            made = Waiting(kind, None, body, [self._ledger.name()])
            self._link.gathers(self.local_id, is_so=True)
            try:
                [self._operation] = await self._ledger.queue(self.local_id, [made])
            except BaseException:
                self._link.gathers(self.local_id, is_so=False)
                raise
        else:
            grown = msgspec.structs.replace(self._operation, body=body)
            await self._ledger.rewrite(grown)
            self._operation = grown
        self._gathered = change

    async def share(self, session: Session, *, later: bool = False) -> Change:
        operation = self._operation
        assert operation is not None
        if self._to_merge and not later:
            raise OutsideChange(self.local_id)
        twin = fold.understood(operation.ordered(session.seq + 1))
        became = "unsent"
        if not later:
            with contextlib.suppress(
                Conflict
            ):  # the hub refuses this daemon, and what is in the ledger must not be stuck
                became = await self._pushed([operation], listing_after(session, [twin]), agreed=False)
        if became != "stored":
            self._let_wait(session, [operation])
        self._operation = self._gathered = None
        [change] = fold.apply(session, [operation.ordered(session.seq + 1)])
        if became == "stored":
            self._files.took([change])
        return change

    # What else may become of it

    async def read(self, *, whole: bool) -> Session:
        self._operation = self._gathered = None  # the ledger has it
        return await super().read(whole=whole)

    async def _made_anew(self) -> Session:
        self._operation = self._gathered = None  # it is shown with all that waits
        return await super()._made_anew()

    async def _gone(self, shown: Session | None, *, erased: bool) -> None:
        if shown is not None and self._operation is not None:
            fold.apply(shown, [self._operation.ordered(shown.seq + 1)])
        await super()._gone(shown, erased=erased)

    async def _drop_waiting(self, *, erased: bool) -> None:
        if self._operation is not None:
            self._waiting = [*self._waiting, self._operation]
        await super()._drop_waiting(erased=erased)

    def _forget(self) -> None:
        self._operation = self._gathered = None
        super()._forget()
