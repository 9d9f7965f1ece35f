"""The open sessions: found or loaded by id, told of what happens in their store, let go when nobody needs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from sessiond.clock import Clock
from sessiond.errors import InvalidParams, SessiondError, SessionNotFound
from sessiond.limits import Limits
from sessiond.model.changes import Change
from sessiond.model.session import Absent, Session
from sessiond.model.values import Json, join_wire_id, split_wire_id, timestamp
from sessiond.service.catalog import Catalog
from sessiond.service.live import Peer
from sessiond.service.room import Room
from sessiond.store.port import Appeared, Event, HealthChanged, Loaded, Reloaded, Store, Vanished, WasSaved

log = logging.getLogger(__name__)
_SPARE_S = 1.0
"""Whoever has just asked for a session is through with that by now, or has it open."""
_SOON_S = 0.1
"""Whoever opened a large session has the first answer by then, and perhaps the second."""
T = TypeVar("T")


class Rooms:
    def __init__(
        self, stores: dict[str, Store], catalog: Catalog, clock: Clock, limits: Limits, new_id: Callable[[], str]
    ) -> None:
        self.stores = stores
        self.catalog = catalog
        self.limits = limits
        self._clock = clock
        self._new_id = new_id
        self._rooms: dict[str, Room] = {}
        self._loading: dict[str, asyncio.Task[Room]] = {}
        self._made: dict[str, asyncio.Event] = {}
        """Sessions that are being made: nobody may see one before it is durable, nor open a second room for it."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._later: set[asyncio.TimerHandle] = set()
        """Of sessions the rest of which is to be read."""
        self.released = 0
        """About how many bytes were let go of since somebody set it to 0."""

    def add_store(self, store: Store) -> None:
        self.stores[store.name] = store
        store.subscribe(lambda event: self._on_event(store, event))

    def __len__(self) -> int:
        return sum(1 for room in self._rooms.values() if len(room.audience))

    def now(self) -> str:
        return timestamp(self._clock.now_ms())

    # Finding

    def store_of(self, wire_id: str) -> tuple[Store, str]:
        """(store, local id). SessionNotFound where no such store is mounted."""
        name, local_id = split_wire_id(wire_id)
        store = self.stores.get(name)
        if store is None:
            raise SessionNotFound(
                f"no session {wire_id!r}: there is no store {name!r}", hint="`sessiond status` lists the stores"
            )
        return store, local_id

    def peek(self, wire_id: str) -> Room | None:
        return self._rooms.get(wire_id)

    async def get(self, wire_id: str, *, whole: bool = True) -> Room:
        """The room of a session, loaded if need be. SessionNotFound, BadFile, Unavailable.

        `whole` False: for whoever needs none of its older messages, or asks for them by `reading` or a change.
        """
        room = await self._get(wire_id)
        if whole and room.session.absent:
            await self._complete(room)
        return room

    async def _complete(self, room: Room) -> None:
        """Have all messages of a session in memory. The room is not let go meanwhile. SessionNotFound where it was deleted."""
        with room.in_use():
            loaded = await room.store.load(room.session.local_id)
        if room.gone:
            raise room.no_more()
        if loaded.session is not room.session:
            self._replaced(room, loaded.session)
        room.warnings = loaded.warnings

    async def reading(self, room: Room, look: Callable[[Session], T]) -> T:
        """What `look` says of the session as it stands when this returns. Older messages are read first if it needs one."""
        while True:
            try:
                return look(room.session)
            except Absent:
                await self._complete(room)

    async def _get(self, wire_id: str) -> Room:
        store, local_id = self.store_of(wire_id)
        wire_id = join_wire_id(store.name, local_id)
        while True:
            while (made := self._made.get(wire_id)) is not None:
                await made.wait()
            room = self._rooms.get(wire_id)
            if room is not None and not room.gone:
                self._touch(room)
                return room
            task = self._loading.get(wire_id)
            if task is None:
                task = asyncio.create_task(self._load(store, local_id, wire_id), name=f"load {wire_id}")
                self._loading[wire_id] = task
                task.add_done_callback(lambda done: self._loaded(wire_id, done))
            room = await asyncio.shield(task)
            # Somebody else who waited for it may have let it go again before it was our turn: nobody is told of what happens in there.
            if not room.gone:
                return room

    async def make(self, wire_id: str, work: Coroutine[Any, Any, T]) -> T:
        """Do `work`, which makes a session and opens its room; whoever asks for it meanwhile waits."""
        made = self._made[wire_id] = asyncio.Event()
        try:
            return await work
        finally:
            del self._made[wire_id]
            made.set()

    async def _load(self, store: Store, local_id: str, wire_id: str) -> Room:
        loaded: Loaded = await store.load(local_id, whole=False)
        while (made := self._made.get(wire_id)) is not None:
            # It is being made just now: what was loaded may not be durable yet, or not come to be.
            await made.wait()
            loaded = await store.load(local_id, whole=False)
        there = self._rooms.get(wire_id)
        if there is not None and not there.gone:
            return there
        room = self.open_room(store, wire_id, loaded)
        self._spare_some()
        if loaded.session.streaming():
            await self.interrupt(room, [message.id for message in loaded.session.streaming()])
        return room

    def _loaded(self, wire_id: str, task: asyncio.Task[Room]) -> None:
        self._loading.pop(wire_id, None)
        if not task.cancelled():
            task.exception()  # told to those who asked; if they have gone meanwhile it is no news

    def open_room(self, store: Store, wire_id: str, loaded: Loaded) -> Room:
        room = Room(
            wire_id, store, loaded.session, loaded.warnings, now=self.now, new_id=self._new_id, told=self._told, info=self.info
        )  # fmt: skip
        self._rooms[wire_id] = room
        self._touch(room)
        if loaded.session.absent:
            self._complete_soon(room)
        return room

    def _complete_soon(self, room: Room) -> None:
        """The rest of the session is read, and what was shown of it checked, whether somebody needs it or not."""

        def begin() -> None:
            self._later.discard(timer)
            self._spawn(self._rest(room))

        timer = asyncio.get_running_loop().call_later(_SOON_S, begin)
        self._later.add(timer)

    async def _rest(self, room: Room) -> None:
        if room.gone or not room.session.absent:
            return
        try:
            await self._complete(room)
        except SessiondError as error:  # whoever needs the whole is told so too
            log.warning("session %s cannot be read whole: %s", room.wire_id, error.message)
        self._spare_some()

    def keep(self, store: Store, loaded: Loaded) -> None:
        """A room for a session that nobody has open, unless it has one."""
        wire_id = join_wire_id(store.name, loaded.session.local_id)
        if wire_id not in self._rooms and wire_id not in self._made:
            self.open_room(store, wire_id, loaded)

    async def fresh(self, wire_id: str) -> Room:
        """The room, after the file has been compared with what is known of it (as `session/open` does)."""
        known = self._rooms.get(wire_id)
        room = await self.get(wire_id, whole=False)
        if room is known:
            loaded = await room.store.load(room.session.local_id, whole=False)
            if room.gone:  # deleted, or let go, while the file was read
                return await self.get(wire_id, whole=False)
            if loaded.session is not room.session:
                await self._complete(room)
            room.warnings = loaded.warnings
        return room

    async def interrupt(self, room: Room, message_ids: list[str]) -> None:
        """Finish streamed messages whose writer is no more."""
        for message_id in message_ids:
            try:
                await room.change(lambda draft, which=message_id: draft.finish(which, "interrupted", None, None))  # type: ignore[misc]
            except SessiondError as error:
                log.info("session %s: a streamed message stays open: %s", room.wire_id, error.message)

    # Telling

    def info(self, room: Room) -> dict[str, Json]:
        """SessionInfo on the wire."""
        return self.describe(room.store, room.session, attached=len(room.audience))

    def describe(self, store: Store, session: Session, *, attached: int = 0) -> dict[str, Json]:
        wire_id = join_wire_id(store.name, session.local_id)
        wire: dict[str, Json] = msgspec.to_builtins(session.info(wire_id))
        wire |= {
            "store": store.name,
            "format": store.format,
            "path": store.file_path(session.local_id),
            "attached": attached,
            "dirty": store.dirty(session.local_id),
        }
        return wire

    def _told(self, room: Room, changes: list[Change]) -> None:
        self._touch(room)
        self.catalog.changed(room.store, room.session, room.wire_id, changes)

    def _on_event(self, store: Store, event: Event) -> None:
        match event:
            case Reloaded(session=session):
                room = self._rooms.get(join_wire_id(store.name, session.local_id))
                if room is not None and not room.gone:
                    room.warnings = event.warnings
                    self._replaced(room, session)
                else:
                    self.catalog.replaced(store, session)
            case WasSaved(saved=saved):
                wire_id = join_wire_id(store.name, saved.local_id)
                room = self._rooms.get(wire_id)
                if room is not None:
                    params = {"sessionId": wire_id, "path": saved.path, "bytes": saved.bytes, "savedAt": saved.saved_at}
                    room.audience.tell("session/saved", params)
                    self.catalog.saved(store, room.session)
                else:
                    self._spawn(self.catalog.recheck(store, saved.local_id))
            case Vanished(local_id=local_id):
                self.close_room(join_wire_id(store.name, local_id))
                self.catalog.vanished(store, local_id)
            case Appeared(local_id=local_id):
                self._spawn(self.catalog.recheck(store, local_id))
            case HealthChanged():
                log.warning("store %s: %s", store.name, event.problem or "well again")

    def _replaced(self, room: Room, session: Session) -> None:
        """Somebody else's edit was merged. Whoever finds it first tells of it; the store's event may come after that."""
        if room.told is session:
            return
        room.session = room.told = session
        room.writers = {mid: peer for mid, peer in room.writers.items() if session.message(mid) is not None}
        self.catalog.replaced(room.store, session)
        room.audience.tell("session/reloaded", {"session": self.info(room), "reason": "externalEdit"})

    def close_room(self, wire_id: str) -> None:
        """The session is gone: everyone is detached, and told."""
        room = self._rooms.pop(wire_id, None)
        self._cancel_timer(wire_id)
        if room is None:
            return
        room.gone = True
        room.audience.tell("session/deleted", {"sessionId": wire_id})
        for peer in room.audience.peers():
            room.audience.detach(peer)

    # Connections

    def disconnected(self, peer: Peer) -> None:
        for room in list(self._rooms.values()):
            streams = room.streams_of(peer)
            if streams:
                self._spawn(self.interrupt(room, streams))
            if room.audience.detach(peer):
                self.left(room)

    def drained(self, peer: Peer) -> None:
        for room in self._rooms.values():
            if peer in room.audience:
                room.audience.drained(peer, room.session.seq)

    def left(self, room: Room) -> None:
        """Somebody closed it; the last one to go has it saved."""
        if not len(room.audience) and not room.gone:
            self._touch(room)
            if not room.session.is_blank:
                self._spawn(self.save(room))

    async def save(self, room: Room) -> None:
        try:
            await room.store.save(room.session.local_id)
        except SessiondError as error:
            log.warning("session %s is not saved yet: %s", room.wire_id, error.message)
        self._spare_some()

    # Letting go

    def _spare_some(self) -> None:
        """Sessions that nobody has open are kept for a while, but not many."""
        idle = [room for room in self._rooms.values() if not len(room.audience) and not room.session.is_blank]
        excess = sum(room.session.weight for room in idle) - self.limits.idle_sessions_bytes
        if excess <= 0:
            return
        for room in sorted(idle, key=lambda room: room.last_used):
            if not room.spare:
                room.spare = True
                self._cancel_timer(room.wire_id)
                self._arm(room.wire_id, _SPARE_S)
            excess -= room.session.weight
            if excess <= 0:
                return

    def _touch(self, room: Room) -> None:
        """Somebody uses it: look again later whether it can go."""
        room.last_used = self._clock.monotonic()
        if room.wire_id not in self._timers:
            self._arm(room.wire_id, self._patience(room))

    def _patience(self, room: Room) -> float:
        if room.session.is_blank:
            return self.limits.empty_session_s
        return _SPARE_S if room.spare and not len(room.audience) else self.limits.idle_session_s

    def _arm(self, wire_id: str, delay: float) -> None:
        self._timers[wire_id] = asyncio.get_running_loop().call_later(delay, self._look_again, wire_id)

    def _cancel_timer(self, wire_id: str) -> None:
        timer = self._timers.pop(wire_id, None)
        if timer is not None:
            timer.cancel()

    def _look_again(self, wire_id: str) -> None:
        self._timers.pop(wire_id, None)
        room = self._rooms.get(wire_id)
        if room is None:
            return
        if len(room.audience) or room.busy:
            self._arm(wire_id, self._patience(room))
            return
        left = room.last_used + self._patience(room) - self._clock.monotonic()
        if left > 0.001:
            self._arm(wire_id, left)
        elif room.session.is_blank:
            self._spawn(self._forget(room))
        elif room.store.dirty(room.session.local_id):
            self._arm(wire_id, self._patience(room))
        else:
            self._spawn(self._release(room))

    async def _forget(self, room: Room) -> None:
        """A session with nothing in it, that nobody has open."""

        async def forget() -> None:
            if room.session.is_blank and not len(room.audience):
                await room.store.delete(room.session.local_id, permanent=False)
                self.close_room(room.wire_id)
                self.catalog.vanished(room.store, room.session.local_id)

        try:
            await room.alone(forget)
        except SessiondError as error:
            log.info("session %s is not forgotten: %s", room.wire_id, error.message)

    async def let_go(self, room: Room) -> None:
        """Whoever asked for it needs it no more: gone from memory at once, unless somebody else has it open or it is not
        saved.
        """
        if self._rooms.get(room.wire_id) is room:
            await self._release(room)

    async def _release(self, room: Room) -> None:
        if len(room.audience) or room.busy or room.store.dirty(room.session.local_id):
            self._touch(room)
            return
        self._rooms.pop(room.wire_id, None)
        room.gone = True
        self.released += room.session.weight
        await room.store.release(room.session.local_id)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a background task failed", exc_info=task.exception())

    async def close(self) -> None:
        for wire_id in list(self._timers):
            self._cancel_timer(wire_id)
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def rooms(self) -> Mapping[str, Room]:
        return self._rooms


def check_store(stores: Mapping[str, Store], name: str | None) -> Store:
    store = stores.get(name or "default")
    if store is None:
        raise InvalidParams(
            f"store: there is no store {name!r}", hint=f"one of {', '.join(sorted(stores))}", field="store"
        )  # fmt: skip
    return store
