"""Keeps the index in step with the stores: fed after every durable change, checked against the files at start.

The index is derived. What it says of a session counts while the fingerprint that it has is the one of the files;
everything else is read again in the background, and until that is done searches say that they are incomplete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from sessiond.errors import SessiondError
from sessiond.fs import on_one_thread
from sessiond.index.values import IndexedInfo
from sessiond.model.changes import Appended, Change, Cleared, Extended, Finished, Noted, Truncated
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import join_wire_id, split_wire_id
from sessiond.model.wire import writable
from sessiond.store.port import FileWarning, Listed, Loaded, Store

if TYPE_CHECKING:
    from sessiond.index.index import Index

log = logging.getLogger(__name__)
_PATIENCE_S = 0.1
"""What a question waits for whole sessions, where few are being taken in."""
_AT_A_TIME = 4
"""Sessions that are read for the index."""
_FEED_DELAY_S = 0.02
"""Changes of a session within this go to the index together; well under the 200 ms that a search may lag."""
_GROWING_CHARS_S = 1_000_000
"""A reply that streams in is taken in anew as a whole each time, so the longer it is the seldomer: a second for every so many characters."""


class _Waiting:
    """What the index does not know yet of one session."""

    __slots__ = ("drop_after", "messages", "notes", "session", "store")

    def __init__(self, store: Store, session: Session) -> None:
        self.store = store
        self.session = session
        self.messages: dict[str, None] = {}
        self.notes: list[Note] = []
        self.drop_after: int | None = None


class Catalog:
    """`is_open(wire_id)`: whether a room holds the session. `keep(store, loaded)`: give an empty one that only the journal
    knows a room, so that it is forgotten in its time and not before.
    """

    def __init__(self, index: Index, is_open: Callable[[str], bool], keep: Callable[[Store, Loaded], None]) -> None:
        self.index = index
        self.is_open = is_open
        self.keep = keep
        self.ready = asyncio.Event()
        """The index knows every session that lies in a store. Cleared while it is checked: at start, and when it was lost."""
        self._waiting: dict[str, _Waiting] = {}
        self._filling: set[str] = set()
        self._growing: dict[str, float] = {}
        """Message that is being streamed -> loop time before which its newest text need not go to the index again."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._checking = asyncio.Lock()
        self._closed = False
        self.released = 0
        """About how many bytes of sessions were read for the index alone and let go of since somebody set it to 0."""
        self._checks = 0
        """Under way."""
        self._found = self._read = 0
        """Sessions that the checks under way have found to be read, and have read."""

    # Feeding

    def changed(self, store: Store, session: Session, wire_id: str, changes: Sequence[Change]) -> None:
        waiting = self._waiting.get(wire_id)
        if waiting is None:
            waiting = self._waiting[wire_id] = _Waiting(store, session)
        waiting.session = session
        for change in changes:
            match change:
                case Appended():
                    waiting.messages.update(dict.fromkeys(wire["id"] for wire in change.messages))
                case Extended(message_id=message_id) | Finished(message_id=message_id):
                    waiting.messages[message_id] = None
                case Noted(note=note):
                    waiting.notes.append(Note.from_wire(note))
                case Cleared():
                    waiting.drop_after = 0
                case Truncated(after_seq=after_seq):
                    waiting.drop_after = after_seq if waiting.drop_after is None else min(after_seq, waiting.drop_after)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FEED_DELAY_S, self._feed_some)

    def _feed_some(self) -> None:
        """Hand over what waits, less the new text of long replies that were handed over a moment ago."""
        now = asyncio.get_running_loop().time()
        later: dict[str, _Waiting] = {}
        for wire_id, one in self._waiting.items():
            held = [message_id for message_id in one.messages if self._growing.get(message_id, 0.0) > now]
            for message_id in held:
                message = one.session.unjoined(message_id)
                if message is not None and message.status == "streaming":
                    del one.messages[message_id]
                    later.setdefault(wire_id, _Waiting(one.store, one.session)).messages[message_id] = None
        self.feed()
        if later:
            self._waiting = later
            soonest = min(self._growing[message_id] for one in later.values() for message_id in one.messages)
            self._timer = asyncio.get_running_loop().call_at(max(soonest, now + _FEED_DELAY_S), self._feed_some)

    def _note_growing(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.status == "streaming":
                pause = len(message.content) / _GROWING_CHARS_S
                if pause > _FEED_DELAY_S:
                    self._growing[message.id] = asyncio.get_running_loop().time() + pause
            elif self._growing:
                self._growing.pop(message.id, None)

    def feed(self) -> None:
        """Hand over all that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for wire_id, one in waiting.items():
            if one.drop_after is not None:
                self.index.drop_after(wire_id, one.drop_after)
            self.index.put_info(self._indexed(one.store, one.session))
            messages = [message for message in map(one.session.message, one.messages) if message is not None]
            if messages:
                self._note_growing(messages)
                self.index.add_messages(wire_id, messages)
            for note in one.notes:
                self.index.add_note(wire_id, note)

    def saved(self, store: Store, session: Session) -> None:
        self.feed()
        self.index.put_info(self._indexed(store, session))

    def _indexed(self, store: Store, session: Session) -> IndexedInfo:
        """While only a part of it is in the index, no fingerprint says that all of it is."""
        info = indexed(store, session)
        return msgspec.structs.replace(info, fingerprint=None) if info.session_id in self._filling else info

    def replaced(self, store: Store, session: Session) -> None:
        """Everything known of it is to be forgotten: it was merged, restored or made as a whole."""
        wire_id = join_wire_id(store.name, session.local_id)
        self._waiting.pop(wire_id, None)
        self._filling.discard(wire_id)
        info = indexed(store, session)
        self.index.put_info(msgspec.structs.replace(info, fingerprint=None))  # lists have it at once
        self.index.put_session(info, session.messages(), session.notes)

    async def fill(self, info: IndexedInfo, parts: AsyncIterator[Sequence[Message]], notes: Sequence[Note]) -> None:
        """Index a new session a part at a time, behind what others change. Returns when all is handed over, which is before
        it is `searchable`.
        """
        wire_id = info.session_id
        self._filling.add(wire_id)
        try:
            await self._fill(info, parts, notes)
        finally:
            self._filling.discard(wire_id)

    async def _fill(self, info: IndexedInfo, parts: AsyncIterator[Sequence[Message]], notes: Sequence[Note]) -> None:
        wire_id = info.session_id
        self.index.put_info(msgspec.structs.replace(info, fingerprint=None))  # lists have it at once
        stamp = self.index.begin_session(info, frozenset(), frozenset())
        async for part in parts:
            if wire_id not in self._filling:
                return  # somebody replaced or deleted it meanwhile, and the index knows better
            self.index.add_part(wire_id, part)
            await self.index.room()
        if wire_id in self._filling:
            known = info if not self.is_open(wire_id) else msgspec.structs.replace(info, fingerprint=None)
            self.index.end_session(known, notes, stamp)

    def vanished(self, store: Store, local_id: str) -> None:
        wire_id = join_wire_id(store.name, local_id)
        self._waiting.pop(wire_id, None)
        self._filling.discard(wire_id)
        self.index.remove(wire_id)

    async def settled(self) -> None:
        """What was changed before is listed, and findable but for whole sessions that are being taken in."""
        self.feed()
        await self.index.settled(_PATIENCE_S)

    async def searchable(self) -> None:
        """All of it is findable, whole sessions too."""
        self.feed()
        await self.index.settled()

    # Checking against the files

    def start(self, stores: Sequence[Store]) -> None:
        """Check the stores in the background. After `close` there is nothing to begin."""
        if self._closed:
            return
        self.index.incomplete = True
        self.ready.clear()
        if not self._checks:
            self._found = self._read = 0
        self._checks += 1
        task = asyncio.create_task(self._check_all(list(stores)), name="index check")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def state(self) -> dict[str, Any]:
        """How the index is, as `daemon/status` has it."""
        problem = self.index.problem
        state = "failing" if problem is not None else "building" if self.index.incomplete else "ready"
        return {"state": state, "read": self._read, "found": self._found, "problem": problem}

    async def _check_all(self, stores: Sequence[Store]) -> None:
        try:
            for store in stores:
                await self.check(store)
            await self.index.settled()
            # Another check may have begun since, because the index was lost once more or a folder came back.
            self.index.incomplete = self._checks > 1
        except Exception:
            log.exception("the index could not be checked against the files; searches stay incomplete")
        finally:
            self._checks -= 1
            if not self._checks:
                self.ready.set()

    async def check(self, store: Store) -> list[FileWarning]:
        """Read again what the index has no current version of; forget what is gone. Answers what could not be
        understood on the way.
        """
        warnings: list[FileWarning] = []
        async with self._checking:
            known = await self.index.fingerprints(store.name)
            seen: set[str] = set()
            try:
                async for batch in store.scan():
                    ids = {join_wire_id(store.name, listed.local_id): listed for listed in batch}
                    seen.update(ids)
                    changed = [
                        listed
                        for wire_id, listed in ids.items()
                        if known.get(wire_id) != listed.fingerprint or not listed.fingerprint
                    ]
                    self._found += len(changed)
                    warnings += await self._reindex_all(store, changed)
            except SessiondError as error:
                log.warning("store %s is not indexed: %s", store.name, error.message)
                return warnings
            for wire_id in known.keys() - seen:
                if not await store.exists(split_wire_id(wire_id)[1]):
                    self.index.remove(wire_id)
        return warnings

    async def _reindex_all(self, store: Store, changed: Sequence[Listed]) -> list[FileWarning]:
        """Some at a time: while one is read, others are on their way into the index."""
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def one(listed: Listed) -> list[FileWarning]:
            async with slots:
                found = await self._reindex(store, listed)
                self._read += 1
                return found

        with on_one_thread():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(listed)) for listed in changed]
        return [warning for task in tasks for warning in task.result()]

    async def _reindex(self, store: Store, listed: Listed) -> list[FileWarning]:
        try:
            loaded = await store.load(listed.local_id)
        except SessiondError as error:
            log.info("store %s: %s is not indexed: %s", store.name, listed.local_id, error.message)
            self.index.remove(join_wire_id(store.name, listed.local_id))
            return [FileWarning(error.data.get("path", listed.path), error.data.get("line"), error.message)]
        self.replaced(store, loaded.session)
        if loaded.session.is_blank and store.dirty(listed.local_id):
            self.keep(store, loaded)
        else:
            self.released += loaded.session.weight
            self._let_go(store, listed.local_id)
        await self.index.room()
        return loaded.warnings

    def _let_go(self, store: Store, local_id: str) -> None:
        """Release what only the index asked for; a room that has it open keeps it."""
        wire_id = join_wire_id(store.name, local_id)

        async def release() -> None:
            if not self.is_open(wire_id):  # asked now: a room may have been opened since
                await store.release(local_id)

        if not self.is_open(wire_id):
            task = asyncio.create_task(release())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def recheck(self, store: Store, local_id: str) -> None:
        """The files of a session that nobody has open were written or removed by somebody."""
        wire_id = join_wire_id(store.name, local_id)
        if self.is_open(wire_id) or wire_id in self._filling:
            return
        listed = await store.look(local_id)
        if listed is None:
            self.vanished(store, local_id)
            return
        await self.searchable()
        known = await self.index.info(wire_id)
        if known is None or not listed.fingerprint or known.fingerprint != listed.fingerprint:
            await self._reindex(store, listed)

    async def close(self) -> None:
        self._closed = True
        self.feed()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def indexed(store: Store, session: Session) -> IndexedInfo:
    """What the index keeps of a session as a whole."""
    info: dict[str, Any] = msgspec.structs.asdict(session.info(join_wire_id(store.name, session.local_id)))
    return IndexedInfo(
        **info,
        store=store.name,
        format=store.format,
        path=writable(store.file_path(session.local_id)),
        fingerprint=store.fingerprint(session.local_id),
    )
