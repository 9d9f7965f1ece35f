"""All open sessions: created when a request names one, informed of what happens in their store, released when nothing needs
them. Implements `open_session.Neighbours`.

Theory of operation
-------------------
There is never more than one `OpenSession` for an id. It is found or created in a single turn of the loop, and the caller
that gets it puts a job into its queue in that same turn, or keeps it by `in_use`.

used      Each use moves `last_used` forward. One timer for each session looks again after its patience: an empty session is
          forgotten, one that is saved and that nobody has open is released, all others get another look.
spare     If those that nobody has open take too much memory together, the ones used longest ago are released a moment after
          their last use (`Eviction`).
shortened A large one keeps its newest messages, whether a client has it open or not (`Shortening`).
partial   One that was loaded partially is checked a moment later, whether a client needs the rest or not.

What must never happen: an owner leaves the registry while a job runs, while it is in use, or while the file is behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import TypeVar

import msgspec

from sessiond.clock import Clock
from sessiond.errors import AlreadyExists, Indeterminate, InvalidParams, ReadOnly, SessiondError, SessionNotFound
from sessiond.limits import LEAVING_AT_A_TIME, STORE_PATIENCE_S, Limits
from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import join_wire_id, split_wire_id, timestamp
from sessiond.schema.types import SessionInfo
from sessiond.service import presentation
from sessiond.service.activities import Activities
from sessiond.service.autosave import AutoSave
from sessiond.service.catalog import Catalog
from sessiond.service.eviction import Eviction, Shortening
from sessiond.service.offload import LIGHT_MESSAGES
from sessiond.service.open_session import OpenSession
from sessiond.service.removals import Removals
from sessiond.service.size_limits import most_shown
from sessiond.service.subscribers import Peer
from sessiond.store import port
from sessiond.store.move_guard import MoveGuard
from sessiond.store.port import SavedSession, Store

log = logging.getLogger(__name__)
T = TypeVar("T")
_SPARE_S = 1.0
"""A client that has just asked for a session is done with it after this time, or has it open."""
_SOON_S = 0.1
"""A client that opened a large session has the first answer by then, and perhaps the second."""
_SHARING_S = 1.0
"""How long a list or a search waits for the hub of a reply that is being streamed."""
_SPARING_S = 0.5
"""How often to check whether there are too many unattended sessions."""
_SPARED_AT_A_TIME, _SPARE_MORE_S = 64, 0.01
"""How many are released in a turn of the loop, and the delay in seconds before the next ones."""


class OpenSessions:
    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        limits: Limits,
        new_id: Callable[[], str],
        moves: MoveGuard,
        removals: Removals,
        *,
        interval_s: float,
        idle_s: float,
    ) -> None:
        self.stores: dict[str, Store] = {}
        self.catalog = catalog
        self.limits = limits
        self._largest_head = most_shown(limits)
        self.new_id = new_id
        self.autosave = AutoSave(clock, self.spawn, interval_s=interval_s, idle_s=idle_s)
        self.dirty: set[OpenSession] = set()
        """Sessions whose file is behind."""
        self.released = 0
        """About how many bytes were released since this was last set to 0."""
        self._clock = clock
        self._moves = moves
        self._removals, self.edited = removals, removals.edited
        self._all: dict[str, OpenSession] = {}
        self.activities = Activities(self.now, new_id, self._all, catalog.came)
        self._of_peer: dict[int, set[OpenSession]] = {}
        self._gathering: set[OpenSession] = set()
        """Those that gather text of a reply, and some that did a moment ago: a list must not look at all that are open."""
        self._open: set[OpenSession] = set()
        """Sessions that a client has open."""
        self._unattended = Eviction()
        self.shortening = Shortening(limits.whole_session_bytes, self.spawn, catalog.waits_for, self._shortened)
        self._numbers: dict[str, tuple[str, int]] = {}
        """Store -> the second in which an id was last made for it, and how many were made in that second."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._timers: dict[OpenSession, asyncio.TimerHandle] = {}
        self._later: set[asyncio.TimerHandle] = set()
        """Timers of sessions whose rest is still to be read."""
        self._sparing: asyncio.TimerHandle | None = None
        self._cleaning_index = False
        self._index_is_clean = True
        """Nothing was erased on another machine since the index was cleaned last."""

    def add_store(self, store: Store) -> None:
        """Take the sessions of a store in. One that was there before is the same one, whose folder was accepted."""
        if store.name in self.stores:
            return
        self.stores[store.name] = store
        store.subscribe(lambda event: self._on_event(store, event))
        if store.shared:
            store.hurry(lambda local_id: self.peek(join_wire_id(store.name, local_id)) in self._open)
        self._take_over(store, store.recovered())

    @property
    def attended(self) -> int:
        """The number of sessions that are open for a client."""
        return len(self._open)

    def now(self) -> str:
        return timestamp(self._clock.now_ms())

    # Finding

    def store_of(self, wire_id: str) -> tuple[Store, str]:
        """(store, local id). SessionNotFound if no such store is mounted."""
        name, local_id = split_wire_id(wire_id)
        store = self.stores.get(name)
        if store is None:
            raise SessionNotFound(
                f"no session {wire_id!r}: there is no store {name!r}", hint="`sessiond status` lists the stores"
            )
        return store, local_id

    def at(self, wire_id: str) -> OpenSession:
        """The owner of a session, whether the session exists or not. SessionNotFound if its store is not mounted."""
        one = self._all.get(wire_id)
        return one if one is not None else self.of(*self.store_of(wire_id))

    def of(self, store: Store, local_id: str) -> OpenSession:
        wire_id = join_wire_id(store.name, local_id)
        one = self._all.get(wire_id)
        if one is None:
            one = self._all[wire_id] = OpenSession(wire_id, store, store.session(local_id), self)
        return one

    def peek(self, wire_id: str) -> OpenSession | None:
        """The owner of a session that is in memory."""
        one = self._all.get(wire_id)
        return one if one is not None and one.session is not None else None

    def is_dirty(self, wire_id: str) -> bool:
        one = self._all.get(wire_id)
        return one is not None and one.dirty

    async def make_fresh(self, store: Store, make: Callable[[OpenSession], Awaitable[T]]) -> T:
        """Run `make(one)`, alone, for an id that no request has named yet: `session-YYYYMMDD-HHMMSS` in UTC, with `-2`,
        `-3`, ... if that is taken. `make` raises AlreadyExists if there is a file of that id.
        """
        digits = self.now()[:19].translate({ord(c): None for c in "-:"}).replace("T", "-")
        second, number = self._numbers.get(store.name, ("", 0))
        number = number if second == digits else 0
        while True:
            number += 1
            candidate = f"session-{digits}" if number == 1 else f"session-{digits}-{number}"
            if store.shared:  # another machine may make one in the same second
                candidate += f"-{secrets.token_hex(3)}"
            if join_wire_id(store.name, candidate) not in self._all:
                self._numbers[store.name] = (digits, number)
                one = self.of(store, candidate)
                with contextlib.suppress(AlreadyExists):
                    return await one.alone(partial(make, one))

    def in_memory(self, store: Store) -> list[str]:
        """Local ids of all sessions of a store that are in memory, or of which only the journal knows."""
        return [
            one.local_id for one in self._all.values() if one.store is store and (one.session is not None or one.dirty)
        ]

    # What is shown of one

    def info(self, one: OpenSession) -> SessionInfo:
        attached, provisional = len(one.audience), one.stored.provisional
        info = self.describe(one.store, one.there, attached=attached, dirty=one.dirty, provisional=provisional)
        return self.activities.shown(info, one.writers)

    def describe(
        self, store: Store, session: Session, *, attached: int = 0, dirty: bool = False, provisional: int = 0
    ) -> SessionInfo:
        head = session.info(join_wire_id(store.name, session.local_id))
        path = store.file_path(session.local_id)
        shown = presentation.shown_info(
            head, store=store.name, format=store.format, path=path, attached=attached, dirty=dirty
        )
        if provisional:
            shown = msgspec.structs.replace(shown, provisional=provisional)
        return presentation.info(shown, self._largest_head)

    # What the sessions tell

    def loaded(self, one: OpenSession) -> None:
        self._touch(one)
        if one.there.absent:
            self._complete_soon(one)
        self.note_dirty(one)

    def changed(self, one: OpenSession, changes: list[Change]) -> None:
        self._touch(one)
        self.dirty.add(one)
        self.autosave.changed(one, one.last_used)
        if self.catalog.arrivals is not None:
            self.catalog.arrivals.told(one.wire_id, changes[0])
        self.catalog.changed(one.wire_id, one, changes)

    def note_dirty(self, one: OpenSession) -> None:
        if one.dirty:
            self.dirty.add(one)
            self.autosave.changed(one, self._clock.monotonic())
        else:
            self.dirty.discard(one)
        self._note_weight(one)  # it was read, or read again, or its rest was
        self.shortening.note(one)

    def replaced(self, one: OpenSession, *, begun: bool = False) -> None:
        self.note_dirty(one)
        self.catalog.came(one.wire_id, 0, begun=begun)
        self.catalog.replaced(one)

    def gathers(self, one: OpenSession) -> None:
        self._gathering.add(one)

    def saved(self, one: OpenSession, saved: SavedSession) -> None:
        del saved
        self.catalog.saved(one)
        if not one.dirty:
            self.dirty.discard(one)
            self.shortening.saved(one)

    def gone(self, one: OpenSession) -> None:
        self.dirty.discard(one)
        self._unattended.note(one)
        self.activities.vanished(one.wire_id)
        self.catalog.vanished(one.wire_id)

    def attached(self, one: OpenSession, peer: Peer) -> None:
        self._of_peer.setdefault(peer.id, set()).add(one)
        self._note_attention(one)

    def _note_attention(self, one: OpenSession) -> None:
        (self._open.add if len(one.audience) else self._open.discard)(one)
        self._note_weight(one)

    def detached(self, one: OpenSession, peer: Peer) -> None:
        self._note_attention(one)
        mine = self._of_peer.get(peer.id)
        if mine is not None:
            mine.discard(one)
            if not mine:
                del self._of_peer[peer.id]

    def drop(self, old: Session | list[Message]) -> None:
        if len(old) > LIGHT_MESSAGES:
            asyncio.get_running_loop().run_in_executor(None, [old].clear)

    def _shortened(self, one: OpenSession, gone: list[Message], weight: int) -> None:
        self.released += weight
        self.drop(gone)
        self._note_weight(one)

    def _complete_soon(self, one: OpenSession) -> None:
        """Read the rest of the session, and check what was shown of it, whether a client needs it or not."""

        def begin() -> None:
            self._later.discard(timer)
            self.spawn(self._rest(one))

        timer = asyncio.get_running_loop().call_later(_SOON_S, begin)
        self._later.add(timer)

    async def _rest(self, one: OpenSession) -> None:
        if one.ended:
            return
        try:
            await one.read_rest()
        except SessiondError as error:  # a request that needs the whole session fails with the same error
            log.warning("session %s cannot be read completely: %s", one.wire_id, error.message)

    # What the stores tell

    def _on_event(self, store: Store, event: port.Event) -> None:
        match event:
            case port.Touched(local_ids=local_ids, all_open=all_open, everything=everything):
                if everything:
                    self.spawn(self.catalog.compare(store))
                found = {join_wire_id(store.name, local_id) for local_id in local_ids}
                if all_open:
                    found.update(
                        one.wire_id for one in self._all.values() if one.store is store and one.session is not None
                    )
                for wire_id in found:
                    self.spawn(self.look_outside(store, split_wire_id(wire_id)[1]))
            case port.Arrived(local_ids=arrived, taken=taken):
                tasks = [self.spawn(self._arrived(store, local_id)) for local_id in arrived]
                if taken is not None:
                    asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: taken())
            case port.Erased(local_id=erased):
                self.spawn(self._erased(store, erased))
            case port.Announced(infos=infos):
                self.catalog.announced(store, infos)
            case port.Recovered(local_ids=recovered):
                self._take_over(store, recovered)
            case port.HealthChanged():
                log.warning("store %s: %s", store.name, event.problem.message if event.problem else "usable again")
            case port.WatchChanged():
                log.warning("store %s: %s", store.name, event.problem or "watched again")

    async def look_outside(self, store: Store, local_id: str) -> None:
        """Another program may have written the files of a session."""
        one = self.peek(join_wire_id(store.name, local_id))
        try:
            if one is None and not await self.catalog.recheck(store, local_id):
                one = self.peek(join_wire_id(store.name, local_id))
            if one is not None:
                await one.look_outside()
                await self._removals.settled()
        except SessiondError as error:
            log.warning("store %s: %s", store.name, error.message)

    async def _arrived(self, store: Store, local_id: str) -> None:
        """Other machines have changed a session: merge, whether anybody has it open or not."""
        one = self.peek(join_wire_id(store.name, local_id))
        try:
            if one is not None:
                await one.look_outside()
            else:
                await self.catalog.arrived(store, local_id)
        except SessiondError as error:
            log.warning("store %s: %s", store.name, error.message)

    async def _erased(self, store: Store, local_id: str) -> None:
        """Another machine has deleted a session for ever: the index forgets its words too, once for all that come together."""
        await self._arrived(store, local_id)
        self._index_is_clean = False
        if self._cleaning_index:
            return
        self._cleaning_index = True
        try:
            while not self._index_is_clean:
                self._index_is_clean = True
                if not await self.catalog.erased():
                    log.warning("the search index may still have words of %s, which was deleted for ever", local_id)
        finally:
            self._cleaning_index = False

    def _take_over(self, store: Store, recovered: Iterable[str]) -> None:
        """Their changes in the journal are saved as if they had just been made."""
        for local_id in recovered:
            self.note_dirty(self.of(store, local_id))

    async def share_streams(self) -> None:
        """Make all text that was acknowledged a part of its session, or wait for a moment: a hub may be slow."""
        self._gathering = {one for one in self._gathering if one.gathering}
        if self._gathering:
            await asyncio.wait([self.spawn(self._share_stream(one)) for one in self._gathering], timeout=_SHARING_S)

    async def _share_stream(self, one: OpenSession) -> None:
        with contextlib.suppress(SessiondError):  # it is gone, or its hub is: then lists show what is known
            await one.look(lambda _: None)

    # Connections

    def disconnected(self, peer: Peer) -> None:
        """It leaves all sessions that it had open, some at a time: others get their turns in between."""
        self.activities.disconnected(peer)
        mine = list(self._of_peer.get(peer.id, ()))
        rest = iter(mine)
        for _ in range(min(LEAVING_AT_A_TIME, len(mine))):
            self.spawn(self._leave_some(rest, peer))

    async def _leave_some(self, rest: Iterator[OpenSession], peer: Peer) -> None:
        for one in rest:
            try:
                if not one.ended and await self._left(one, peer):
                    self.autosave.soon(one)
            except SessiondError as error:  # it was deleted meanwhile, or cannot be reached
                log.info("session %s: a connection has ended: %s", one.wire_id, error.message)
            except Exception:  # a bug of ours in one session: the others are still left
                log.exception("session %s: a connection has ended", one.wire_id)

    async def leave(self, one: OpenSession, peer: Peer) -> None:
        """The peer no longer has the session open; when the last one leaves, the session is saved. SessionNotFound, BadFile,
        Unavailable.
        """
        with one.in_use():
            if await self._left(one, peer):
                await self.autosave.save(one)

    async def _left(self, one: OpenSession, peer: Peer) -> bool:
        """Let the peer leave, and return whether it was the last, so that the session must be saved. Errors as in `leave`."""
        with one.in_use():
            try:
                await one.leave(peer)
            except (ReadOnly, Indeterminate) as error:
                log.info("session %s: streamed messages remain open: %s", one.wire_id, error.message)
            self._touch(one)
            return one.session is not None and not len(one.audience) and not one.session.is_blank

    def drained(self, peer: Peer) -> None:
        for one in self._of_peer.get(peer.id, ()):
            if one.session is not None:
                one.audience.drained(peer, one.session.seq)

    # Releasing

    def idle(self, one: OpenSession) -> None:
        """An owner that never held a session is released at once."""
        if one.session is None and not one.dirty:
            self._end(one)
        elif one not in self._timers and one.session is not None:
            self._arm(one, self._patience(one))

    def _note_weight(self, one: OpenSession) -> None:
        self._unattended.note(one)
        if self._unattended.bytes > self.limits.idle_sessions_bytes:
            self._spare_soon()

    def _spare_soon(self, delay: float = _SPARING_S) -> None:
        if self._sparing is None:
            self._sparing = asyncio.get_running_loop().call_later(delay, self._spare_some)

    def _spare_some(self) -> None:
        """Keep unattended sessions for a while, but not many."""
        self._sparing = None
        limit = self.limits.idle_sessions_bytes
        for one in self._unattended.beyond(limit, _SPARED_AT_A_TIME):
            self._arm(one, _SPARE_S)
        if self._unattended.bytes > limit:
            self._spare_soon(_SPARE_MORE_S)

    def _touch(self, one: OpenSession) -> None:
        """It is being used: check again later whether it can be released."""
        one.last_used = self._clock.monotonic()
        self.shortening.note(one)
        if one not in self._open:
            self._note_weight(one)
        if one not in self._timers:
            self._arm(one, self._patience(one))

    def _patience(self, one: OpenSession) -> float:
        if one.session is not None and one.session.is_blank:
            return self.limits.empty_session_s
        return _SPARE_S if one.spare and not len(one.audience) else self.limits.idle_session_s

    def _arm(self, one: OpenSession, delay: float) -> None:
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()
        if not one.ended:
            self._timers[one] = asyncio.get_running_loop().call_later(delay, self._look_again, one)

    def _look_again(self, one: OpenSession) -> None:
        del self._timers[one]
        if one.attended or one.busy:
            self._arm(one, self._patience(one))
            return
        left = one.last_used + self._patience(one) - self._clock.monotonic()
        if left > 0.001:
            self._arm(one, left)
        elif one.session is not None and one.session.is_blank and not one.store.shared:
            self.spawn(self._forget(one))
        elif one.dirty:
            self._arm(one, self._patience(one))
        else:
            self._end(one)

    async def _forget(self, one: OpenSession) -> None:
        """Forget an empty session that no client has open."""

        async def forget() -> None:
            if one.session is not None and one.session.is_blank and not len(one.audience):
                await one.stored.delete(one.session, permanent=False)
                one.vanished()

        try:
            await one.alone(forget, self._moves.one)
        except SessiondError as error:
            log.info("session %s was not forgotten: %s", one.wire_id, error.message)
            self._touch(one)

    def let_go(self, one: OpenSession) -> None:
        """The caller no longer needs it: release it at once, unless a client has it open or it is not saved."""
        if not (one.attended or one.busy or one.dirty or (one.session is not None and one.session.is_blank)):
            self._end(one)

    def _end(self, one: OpenSession) -> None:
        """In one turn of the loop: requests that name the session after this get another owner."""
        if one.ended or self._all.get(one.wire_id) is not one:
            return
        one.ended = True
        self.dirty.discard(one)
        del self._all[one.wire_id]
        timer = self._timers.pop(one, None)
        if timer is not None:
            timer.cancel()
        self.shortening.forget(one)
        if one.session is not None:
            self.released += one.session.weight
            self.drop(one.session)
            one.session = None
        self._unattended.note(one)

    # Life

    async def relieve(self, store: str, local_id: str) -> None:
        """Save a session, blank or not, so that the journal need not be kept for it."""
        one = self._all.get(join_wire_id(store, local_id))
        if one is not None and one.dirty:
            if one.never_filled:
                one.stored.save_even_blank()
            await self.autosave.save(one)

    def spawn(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run something that nothing needs to wait for."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a background task failed", exc_info=task.exception())

    async def close(self) -> None:
        """Save everything. What cannot be saved remains in the journal."""
        self.autosave.stop()
        self.shortening.close()
        self.activities.close()
        for timer in (*self._timers.values(), *self._later, *([self._sparing] if self._sparing else [])):
            timer.cancel()
        self._timers.clear()
        now = asyncio.get_running_loop().time
        end = now() + STORE_PATIENCE_S  # what hangs for longer keeps nothing else from being saved
        while self._tasks and now() < end:
            await asyncio.wait(self._tasks, timeout=end - now())
        await asyncio.gather(*(self.autosave.save(one) for one in list(self.dirty) if not one.never_filled))
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self.autosave.stop()


def check_store(stores: dict[str, Store], name: str | None) -> Store:
    store = stores.get(name or "default")
    if store is None:
        raise InvalidParams(
            f"store: there is no store {name!r}", hint=f"one of {', '.join(sorted(stores))}", field="store"
        )
    return store
