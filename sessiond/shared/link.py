"""The link between a shared store and its hub.

`up` says whether the hub can be reached. The first call that fails sets it to False. Only the synchroniser sets it to True again,
after the hub has spoken, so that not every request waits for a link that is dead.

Right after a start nobody knows yet. What needs the hub then waits until it has been asked once: a command whose daemon was only
just started for it is not refused because it came a tenth of a second early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from sessiond.clock import Clock
from sessiond.eager import EagerFuture, begin
from sessiond.errors import Indeterminate, SessionNotFound, Unauthorized, Unavailable
from sessiond.hub.port import (
    NOTHING,
    HeadHint,
    Hint,
    Hub,
    HubWelcome,
    Lost,
    Operation,
    OperationPage,
    Ordered,
    Push,
    Pushed,
    chain,
    chain_all,
)
from sessiond.limits import HUB_PAGE_BYTES
from sessiond.model.values import timestamp
from sessiond.shared.ledger import Ledger
from sessiond.shared.news import KnownHub
from sessiond.shared.waiting import Waiting
from sessiond.store.port import HubStatus
from sessiond.words import count

log = logging.getLogger(__name__)


class Differs(msgspec.Struct, frozen=True):
    """For the synchroniser: the hub and the ledger do not agree on what a session was."""

    session: str


class HubLink:
    """`refuses`: nothing is accepted while the hub cannot be reached (`offline = "refuse"`). `mirrors`: all sessions are fetched,
    whether somebody opens them or not. `patience_s`: a push that takes longer is left to itself.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        hub: Hub,
        clock: Clock,
        *,
        refuses: bool = False,
        mirrors: bool = False,
        patience_s: float,
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.hub = hub
        self.refuses = refuses
        self.mirrors = mirrors
        self._clock = clock
        self.up = False
        self.refused = False
        """The hub said that this machine is not a member. It may still be reached, and what it lists means nothing."""
        self.ours = False
        """The hub has said, since it was lost last, that it has the store that the ledger is of."""
        self.sealed = False
        self.reason: str | None = None
        self.unreadable: dict[str, str] = {}
        """Session -> why what the hub has of it cannot be read."""
        self.since = self.now()
        """Since when it is up, or down."""
        self._asked = asyncio.Event()
        """The hub has been asked since the start, and has listed its sessions or could not be reached."""
        self.on_change: Callable[[], None] = lambda: None
        """Called on the loop when `status` says something else than before, except for the lag."""
        self.on_erased: Callable[[str], None] = lambda local_id: None
        """Called on the loop when the ledger has lost every word of a session that was erased elsewhere."""
        self._gathering: set[str] = set()
        self._heads: dict[str, int] = {}
        """Session -> the number of its last operation on the hub, if that is not here yet."""
        self.hints: asyncio.Queue[Hint | Differs] = asyncio.Queue()
        """For the synchroniser."""
        self._patience_s = patience_s
        self._turns: dict[str, asyncio.Lock] = {}
        ledger.on_waits = self._waits_changed
        self._down("it was not reached yet")
        hub.subscribe(self._hear)

    def _hear(self, hint: Hint) -> None:
        if isinstance(hint, Lost):
            self.ours = False
            if not self.up and self.reason not in (None, hint.reason):
                log.warning("store %s: the hub still cannot be reached: %s", self.name, hint.reason)
            self._down(hint.reason)
            self.asked()
        elif isinstance(hint, HeadHint) and hint.head <= self.ledger.head(hint.session).number:
            return  # most hints are of our own pushes
        self.hints.put_nowait(hint)

    def _waits_changed(self) -> None:
        self.on_change()

    def came_up(self, welcome: HubWelcome) -> None:
        """The synchroniser has spoken with the hub."""
        if not self.up:
            log.info("store %s: the hub can be reached", self.name)
            self.since = self.now()
        self.up, self.reason = True, welcome.problem
        self.ledger.keep_member(welcome.member)
        self.sealed = welcome.sealed
        self.refused = False
        self.on_change()

    def asked(self) -> None:
        """The first question since the start has been answered, or has failed."""
        self._asked.set()

    async def wait_asked(self) -> None:
        """Wait until the hub has been asked once since the start, at most as long as anybody wants to wait."""
        if not self._asked.is_set():
            waiting = asyncio.ensure_future(self._asked.wait())
            await asyncio.wait({waiting}, timeout=self._patience_s)
            waiting.cancel()

    async def reach(self) -> None:
        """Unavailable if the hub cannot be reached; right after a start that is known only once it was asked."""
        if not self.up:
            await self.wait_asked()
        if not self.up:
            raise self.away()

    def _down(self, reason: str) -> None:
        if self.up or self.reason is None:
            log.warning("store %s: the hub cannot be reached: %s", self.name, reason)
            self.since = self.now()
        self.up, self.reason = False, reason
        self.on_change()

    def is_another(self, path: str) -> None:
        """The address leads to another store than the one of which this machine has the ledger at `path`."""
        reason = (
            f"the hub has another store of this name than the one in {path}, so nothing is exchanged with it;"
            f" run `sessiond store leave {self.name}`, `sessiond stop`, and join again"
        )
        self.kept_off(reason)

    def kept_off(self, reason: str) -> None:
        """Nothing can be exchanged, although the hub may answer; it is tried again every second."""
        if reason != self.reason:
            log.error("store %s: %s", self.name, reason)
            self._down(reason)

    @property
    def member(self) -> str:
        """The name of this machine's member; empty: the hub was never reached."""
        return self.ledger.member

    def away(self) -> Unavailable:
        return Unavailable(
            f"the hub of the store {self.name!r} cannot be reached: {self.reason}",
            hint="appends without `expectedSeq` work meanwhile; try this again when the hub is back"
            if not self.refuses
            else 'reading works; `offline = "queue"` in the configuration accepts appends meanwhile',
        )

    def known(self) -> KnownHub:
        """`status` without the lag, which takes as long as there are sessions that lack something."""
        pending = sum(self.ledger.waits.values())
        if self.up:  # text that is gathered for a tenth of a second does not wait for the hub
            pending = max(0, pending - len(self._gathering))
        return KnownHub("online" if self.up else "offline", self.since, pending, self.reason or self._trouble())

    def _trouble(self) -> str | None:
        if not self.unreadable:
            return None
        return f"{count(len(self.unreadable), 'session')} cannot be read: {next(iter(self.unreadable.values()))}"

    def note_readable(self, local_id: str, problem: str | None) -> None:
        """Note that a session of the hub can be read, or why it cannot."""
        if problem is None:
            self.unreadable.pop(local_id, None)
        elif local_id not in self.unreadable:
            log.error("store %s: %s: %s", self.name, local_id, problem)
            self.unreadable[local_id] = problem

    def status(self) -> HubStatus:
        state, since, pending, problem = self.known()
        return HubStatus(state, since, pending, self.lag(), problem)

    def gathers(self, local_id: str, *, is_so: bool) -> None:
        """Note whether text of this session is gathered, of which the ledger has one operation."""
        if is_so:
            self._gathering.add(local_id)
        elif local_id in self._gathering:
            self._gathering.discard(local_id)
            self.ledger.on_waits()

    def heard(self, local_id: str, head: int) -> None:
        """The hub has operations of the session up to this number."""
        if head > self.ledger.head(local_id).number:
            self._heads[local_id] = head

    def lag(self) -> int:
        """Return how many operations are on the hub and not here, as far as is known, and will be fetched: not those of sessions that are
        only listed, unless this machine mirrors them.
        """
        lacks = {one: head - self.ledger.head(one).number for one, head in self._heads.items()}
        self._heads = {one: self._heads[one] for one, lack in lacks.items() if lack > 0}
        begun = sum(lack for one, lack in lacks.items() if lack > 0 and one not in self.ledger.listed)
        return begun + (self.ledger.listed_operations if self.mirrors else 0)

    def turn(self, local_id: str) -> asyncio.Lock:
        """Held while the hub is asked about a session: what a push has stored is not fetched as well."""
        lock = self._turns.get(local_id)
        if lock is None:
            if len(self._turns) > 1000:
                self._turns = {key: one for key, one in self._turns.items() if one.locked()}
            lock = self._turns[local_id] = asyncio.Lock()
        return lock

    async def push(
        self, local_id: str, number: int, digest: bytes, waiting: Sequence[Waiting], listing: bytes | None = None
    ) -> Pushed:
        """Unavailable: nothing was stored. Indeterminate: nobody knows. Conflict: an id is taken."""
        operations = [Operation(one.names[-1][1], one.kind, one.id, one.body) for one in waiting]
        push = Push(local_id, number, digest, operations, listing)
        call = self.hub.push(push)
        # A hub that seals may have to be asked first, in a task. A task costs rounds of the loop.
        return await self._ask(local_id, asyncio.create_task(call) if self.sealed else call)

    async def erase(self, local_id: str, number: int, digest: bytes, mark: Waiting) -> Pushed:
        """Erase the session on the hub. Errors as in `push`. Unauthorized: this member may not erase."""
        operation = Operation(mark.names[-1][1], mark.kind, mark.id, mark.body)
        call = self.hub.erase(Push(local_id, number, digest, [operation]))
        return await self._ask(local_id, asyncio.create_task(call))

    async def _ask(self, local_id: str, call: Awaitable[Pushed]) -> Pushed:
        """The hub may take longer than anybody wants to wait. The session's turn lasts until the call ends all the same."""
        turn = self.turn(local_id)
        await turn.acquire()
        answer: EagerFuture[Pushed] = EagerFuture()
        begin(_settle(call, turn, answer), f"push {local_id}")
        timer = asyncio.get_running_loop().call_later(self._patience_s, self._gave_up, answer)
        try:
            return await answer
        except (Unavailable, Indeterminate) as error:
            self._down(error.message)
            raise
        except Unauthorized as error:
            if "member" not in error.data:  # one that only lacks a right keeps its link
                self.refused = True
                self._down(error.message)
            raise Unavailable(error.message, hint=error.hint) from error
        finally:
            timer.cancel()

    def _gave_up(self, answer: EagerFuture[Pushed]) -> None:
        if not answer.done():
            message = f"the hub of the store {self.name!r} did not respond in time"
            answer.set_exception(Indeterminate(message, hint="read the session when it is back"))

    async def need(self, local_id: str) -> bool:
        """Fetch a session that is only listed, because somebody reads it. False: it is not. Unavailable: the hub is away, or takes
        longer than anybody wants to wait; it goes on then.
        """
        if local_id not in self.ledger.listed:
            return False
        await self.reach()
        pulled = asyncio.ensure_future(self.pull(local_id))
        done, _ = await asyncio.wait({pulled}, timeout=self._patience_s)
        if not done:
            pulled.add_done_callback(_seen)
            raise Unavailable(f"{local_id} is still being fetched from the hub of {self.name!r}", hint="try again soon")
        return pulled.result()

    async def pull(self, local_id: str, page_bytes: int = HUB_PAGE_BYTES) -> bool:
        """Fetch what the ledger lacks of a session. True if there was something. Unavailable."""
        async with self.turn(local_id):
            before = self.ledger.head(local_id)
            if not await self.extend(local_id, page_bytes):
                self.differs(local_id)
            return self.ledger.head(local_id) != before

    async def extend(self, local_id: str, page_bytes: int = HUB_PAGE_BYTES) -> bool:
        """Fetch what the hub has on top of what the ledger has; for whoever has the session's turn. False: it has another
        past, or less. Unavailable, ReadOnly.
        """
        self.ledger.check()
        while True:
            known = self.ledger.head(local_id)
            page = await self.page(local_id, known.number, page_bytes)
            if page is None or page.head.head < known.number:
                return known.number == NOTHING
            rows = page.operations
            if rows and page.head.floor > max(known.number, 0):  # all that came before it was erased
                await self.erased(local_id, rows[0], chain(page.head.before, rows[0]))
                continue
            if not page.more and chain_all(known.digest, rows) != page.head.digest:
                return False
            if rows and rows[-1].kind == "erased":  # given back to a hub that has the words again
                await self.erased(local_id, rows[-1], page.head.digest)
                return True
            self.ledger.confirm(local_id, rows)
            if not page.more:
                return True

    async def erased(self, local_id: str, last: Ordered, digest: bytes) -> None:
        """Note what somebody else has erased. Errors as in `Ledger.queue`."""
        await self.ledger.erased(local_id, last, digest)
        self.on_erased(local_id)

    def differs(self, local_id: str) -> None:
        self.hints.put_nowait(Differs(local_id))

    async def page(self, local_id: str, after: int, page_bytes: int = HUB_PAGE_BYTES) -> OperationPage | None:
        """Operations after a number. None: the hub does not have the session. Unavailable."""
        try:
            # Whoever asks may be in no task, and what the hub does has time limits.
            return await asyncio.create_task(self.hub.operations(local_id, after, page_bytes))
        except SessionNotFound:
            return None
        except Unavailable as error:
            self._down(error.message)
            raise
        except Unauthorized as error:
            self.refused = True
            self._down(error.message)
            raise Unavailable(error.message, hint=error.hint) from error

    def now(self) -> str:
        return timestamp(self._clock.now_ms())


def _seen(pulled: asyncio.Future[bool]) -> None:
    """Nobody waits for it any longer; that it failed shows in `up`."""
    if not pulled.cancelled():
        pulled.exception()


async def _settle(call: Awaitable[Pushed], turn: asyncio.Lock, answer: EagerFuture[Pushed]) -> None:
    """Pass on what `call` gives, if anybody still waits for it: otherwise the operation waits in the ledger."""
    try:
        pushed = await call
    except asyncio.CancelledError:
        answer.cancel()
        raise
    except Exception as error:
        if not answer.done():
            answer.set_exception(error)
    else:
        if not answer.done():
            answer.set_result(pushed)
    finally:
        turn.release()
