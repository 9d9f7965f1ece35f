"""Keeps the index in step with the stores: fed after every durable change, checked against the files at start.

The index is derived. An entry counts as long as its fingerprint is that of the session's files; everything else is read
again in the background: first what lists show of all sessions, then their messages. Until that is done, lists and searches
say that they are incomplete.

Theory of operation
-------------------
A fingerprint in the index means: the index has all of the session as these versions of its files have it. So whatever is fed of a
session while that is not so carries none, and after a kill the next check reads it again. It is not so while the session is

    filling   an import puts it in, a part at a time
    putting   a thread puts in all of a long one; changes to it wait meanwhile, or they would count as older than what it puts in
    unread    a check has found other versions of its files than the index knows, and has not read them yet

Otherwise a change waits a moment in `_waiting`, so that those of one session go in together, and is fed with a fingerprint.

Two may say something of one session at the same time: its owner, who has it in memory, and a check, which reads files. The owner
is right. `_fed` has the sessions that were fed while heads were being read; a head that a check has of one of them is left out.
`_removed` has those that are gone, so that a watcher's late word about a file that we removed ourselves costs no search a wait.

A check goes through `listed` (lists have every session) to `ready` (searches find everything). Several may be under way, one for
each store that came back; the events are set when the last one gets there.

What must never happen: a fingerprint for less than all of a session, and a session in a list that was deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from sessiond.errors import SessiondError
from sessiond.fs import on_one_thread
from sessiond.index.values import IndexedInfo
from sessiond.limits import STORE_PATIENCE_S
from sessiond.misfits import Misfits
from sessiond.model.changes import Appended, Change, Cleared, Extended, Finished, Noted, Truncated
from sessiond.model.message import Message, Note
from sessiond.model.session import Session, SessionInfo, weight_of
from sessiond.model.values import join_wire_id, split_wire_id
from sessiond.schema.daemon import IndexStatus
from sessiond.service.checks import Checks
from sessiond.service.indexed import Owners, UnindexedSession, bare, indexed, lacking
from sessiond.service.offload import LIGHT_MESSAGES
from sessiond.store.port import FileWarning, Listed, Store

if TYPE_CHECKING:
    from sessiond.index.index import Index
    from sessiond.service.arrivals import Arrivals
    from sessiond.service.open_session import OpenSession

log = logging.getLogger(__name__)
_PATIENCE_S = 0.1
"""How long a query waits for whole sessions when only a few are being indexed."""
_AT_A_TIME = 4
"""Sessions that are read for the index at a time."""
_HEADS_AT_A_TIME = 100
"""Sessions whose heads, which lists show, are read at a time."""
_REMOVED = 10_000
"""How many ids of removed sessions are kept."""
_FEED_DELAY_S = 0.02
"""Changes of a session within this time go to the index together; well under the 200 ms that a search may lag."""
_GROWING_CHARS_S = 1_000_000
"""A reply that streams in is indexed as a whole each time, so the longer it is the less often: every second for so many."""


class Catalog:
    def __init__(self, index: Index) -> None:
        self.index = index
        self.arrivals: Arrivals | None = None  # until a client asks which sessions changed
        self.owners: Owners
        """Set by the code that puts the parts together."""
        self.ready = asyncio.Event()
        """Set while no check is under way: the index then knows every session in every store, unless a check has failed, after which
        `index.incomplete` stays true. It is checked at start, and when it was lost.
        """
        self.listed = asyncio.Event()
        """Set while no check has still to find out what lists show; that is read first."""
        self._waiting: dict[str, UnindexedSession] = {}
        self._filling: set[str] = set()
        self._putting: dict[str, asyncio.Task[None]] = {}
        """Long sessions that a thread puts into the index. Changes to one wait meanwhile, or they would count as old."""
        self._growing: dict[str, float] = {}
        """Message that is being streamed -> loop time before which its newest text need not go to the index again."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stores = Checks(self._find, self._read_all, index.settled, self._shown)
        self._arriving = asyncio.Semaphore(_AT_A_TIME)
        self._to_compare: set[str] = set()
        """Stores whose check waits for its turn."""
        self._closed = False
        self.released = 0
        """About how many bytes of sessions were read for the index alone and released since this was last set to 0."""
        self._checks = self._unlisted = 0
        """Checks under way, and those of them that have not reached `listed` yet."""
        self._found = 0
        """Sessions that the checks under way found in need of reading."""
        self._unread: set[str] = set()
        """Those of them that have not been read yet."""
        self.failed = Misfits(log, "was not indexed")
        """Sessions that could not be read for the index."""
        self._fed: set[str] = set()
        """Sessions that were fed while heads of sessions were being read from files."""
        self._removed: set[str] = set()
        """Sessions that were removed and not fed since."""

    def came(self, wire_id: str, before: int, *, begun: bool = False) -> None:
        """Pass a change on to `Arrivals.changed`."""
        if self.arrivals is not None:
            self.arrivals.changed(wire_id, before, begun=begun)

    # Feeding

    def changed(self, wire_id: str, one: OpenSession, changes: Sequence[Change]) -> None:
        self._note(wire_id)
        waiting, session = self._waiting.get(wire_id), one.session
        if waiting is None:
            waiting = self._waiting[wire_id] = UnindexedSession(one, one.there)
        elif session is not None:
            waiting.one, waiting.session = one, session
        for change in changes:
            match change:
                case Appended():
                    for wire in change.messages:
                        waiting.messages[wire["id"]] = None
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
        """Pass on what waits, except new text of long replies that were passed on a moment ago."""
        now = asyncio.get_running_loop().time()
        later: dict[str, UnindexedSession] = {}
        for wire_id, one in self._waiting.items():
            held = [message_id for message_id in one.messages if self._growing.get(message_id, 0.0) > now]
            for message_id in held:
                message = one.session.unjoined(message_id)
                if message is not None and message.status == "streaming":
                    del one.messages[message_id]
                    later.setdefault(wire_id, UnindexedSession(one.one, one.session)).messages[message_id] = None
        self.feed()
        if later:
            for wire_id, one in later.items():
                self._waiting.setdefault(wire_id, one).messages.update(one.messages)
            soonest = min(self._growing[message_id] for one in later.values() for message_id in one.messages)
            self._timer = asyncio.get_running_loop().call_at(max(soonest, now + _FEED_DELAY_S), self._feed_some)

    def waits_for(self, one: OpenSession) -> bool:
        """Return whether messages of the session are still to be passed on."""
        return one.wire_id in self._waiting or one.wire_id in self._putting

    def _note_growing(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.status == "streaming":
                pause = len(message.content) / _GROWING_CHARS_S
                if pause > _FEED_DELAY_S:
                    self._growing[message.id] = asyncio.get_running_loop().time() + pause
            elif self._growing:
                self._growing.pop(message.id, None)

    def _note(self, wire_id: str) -> None:
        """Note that what is fed now is newer than what its files said a moment ago."""
        self._removed.discard(wire_id)
        if self._unlisted:
            self._fed.add(wire_id)

    def feed(self) -> None:
        """Pass on everything that waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for wire_id in self._putting.keys() & waiting.keys():
            self._waiting[wire_id] = waiting.pop(wire_id)
        for wire_id, one in waiting.items():
            with self.failed.apart(wire_id):
                self._feed(wire_id, one)

    def _feed(self, wire_id: str, one: UnindexedSession) -> None:
        if one.drop_after is not None:
            self.index.drop_after(wire_id, one.drop_after)
        self.index.put_info(self._indexed(one.one, one.session))
        messages = [message for message in map(one.session.message, one.messages) if message is not None]
        if messages:
            self._note_growing(messages)
            self.index.add_messages(wire_id, messages)
        for note in one.notes:
            self.index.add_note(wire_id, note)

    def saved(self, one: OpenSession) -> None:
        """A save changes nothing that lists show or searches find, so neither waits for what it feeds."""
        self._note(one.wire_id)
        if one.wire_id in self._waiting:
            self.feed()
        self.index.put_saved(self._indexed(one, one.there))

    def _indexed(self, one: OpenSession, session: Session) -> IndexedInfo:
        """Without a fingerprint while only a part of the session is in the index."""
        partly = any(one.wire_id in some for some in (self._filling, self._putting, self._unread))
        partly = partly or self._unlisted > 0
        return indexed(one.store, session, None if partly else one.stored.fingerprint)

    def replaced(self, one: OpenSession) -> None:
        """Forget everything known about it: it was merged, restored or created as a whole."""
        session = one.there
        self._note(one.wire_id)
        self._waiting.pop(one.wire_id, None)
        self._filling.discard(one.wire_id)
        self._unread.discard(one.wire_id)
        info = indexed(one.store, session, one.stored.fingerprint)
        self.index.put_info(msgspec.structs.replace(info, fingerprint=None))  # lists show it at once
        messages, notes = session.messages(), list(session.notes)
        if len(messages) <= LIGHT_MESSAGES:
            self._in_order(one.wire_id, lambda: self.index.put_session(info, messages, notes))
        else:
            self._in_order(one.wire_id, lambda: self.index.put_long_session(info, messages, notes), long=True)

    def _in_order(self, wire_id: str, put: Callable[[], Awaitable[None] | None], *, long: bool = False) -> None:
        """Call `put` now, or after what a thread is still doing for the same session."""
        before = self._putting.get(wire_id)
        if before is None and not long:
            put()
        else:
            self._putting[wire_id] = asyncio.create_task(self._put_later(wire_id, before, put))

    async def _put_later(
        self, wire_id: str, before: asyncio.Task[None] | None, put: Callable[[], Awaitable[None] | None]
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        going_on = put()
        if going_on is not None:
            await going_on
        if self._putting.get(wire_id) is asyncio.current_task():
            del self._putting[wire_id]
            self.feed()

    async def fill(self, info: IndexedInfo, parts: AsyncIterator[Sequence[Message]], notes: Sequence[Note]) -> None:
        """Index a new session a part at a time, after other clients' changes. Returns when everything is passed on, which is
        before it is `searchable`.
        """
        wire_id = info.session_id
        self._note(wire_id)
        self._filling.add(wire_id)
        self.came(wire_id, 0, begun=True)
        try:
            await self._fill(info, parts, notes)
        finally:
            self._filling.discard(wire_id)

    async def _fill(self, info: IndexedInfo, parts: AsyncIterator[Sequence[Message]], notes: Sequence[Note]) -> None:
        wire_id = info.session_id
        self.index.put_info(msgspec.structs.replace(info, fingerprint=None))  # lists show it at once
        stamp = self.index.begin_session(info, frozenset(), frozenset())
        async for part in parts:
            if wire_id not in self._filling:
                return  # it was replaced or deleted meanwhile, and the index has the newer state
            self.index.add_part(wire_id, part)
            self.released += sum(map(weight_of, part))
            await self.index.room()
        if wire_id in self._filling:
            known = info if self.owners.peek(wire_id) is None else msgspec.structs.replace(info, fingerprint=None)
            self.index.end_session(known, notes, stamp)

    def vanished(self, wire_id: str) -> None:
        if wire_id in self._removed:
            return  # a delete of ours is reported again for its file: queries must not wait for nothing
        self._note(wire_id)
        if len(self._removed) >= _REMOVED:
            self._removed.clear()
        self._removed.add(wire_id)
        self._waiting.pop(wire_id, None)
        self._filling.discard(wire_id)
        self.failed.passed(wire_id)
        if self.arrivals is not None:
            self.arrivals.gone(wire_id)
        self._in_order(wire_id, lambda: self.index.remove(wire_id))

    async def settled(self) -> None:
        """Wait until earlier changes are listed, and findable except for whole sessions that are still being indexed."""
        self.feed()
        await self.index.settled(_PATIENCE_S)

    def listable(self) -> bool:
        """Return whether the first page of a list shows all earlier changes, settled or not."""
        self.feed()
        return self.index.listable()

    async def searchable(self) -> None:
        """Wait until everything is findable, whole sessions too."""
        while self._putting:
            await asyncio.wait(list(self._putting.values()))
        self.feed()
        await self.index.settled()

    async def erased(self) -> bool:
        """Remove all traces of vanished sessions from the index's files; False if that cannot be done now."""
        await self.searchable()
        return await self.index.erased()

    # Checking against the files

    def start(self, stores: Sequence[Store]) -> None:
        """Check the stores in the background; nothing after `close`."""
        if self._closed:
            return
        self.index.incomplete = True
        self.ready.clear()
        self.listed.clear()
        if not self._checks:
            self._found = 0
        self._checks += 1
        self._unlisted += 1
        self._stores.begin(stores)
        task = asyncio.create_task(self._check_all(list(stores)), name="index check")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def status(self) -> IndexStatus:
        problem = self.index.problem
        state: Literal["failing", "building", "ready"] = "building" if self.index.incomplete else "ready"
        return IndexStatus(
            state=state if problem is None else "failing",
            read=self._found - len(self._unread),
            found=self._found,
            problem=problem or lacking(self.incomplete()),
        )

    def incomplete(self) -> list[str]:
        """Sessions of which something cannot be found."""
        return list(dict.fromkeys([*self.index.left_out, *self.failed.names()]))

    async def _check_all(self, stores: Sequence[Store]) -> None:
        try:
            await self._forget_taken_out()
            await self._stores.run(stores)
            # Another check may have begun since, because the index was lost again or a folder came back.
            self.index.incomplete = self._checks > 1
        except Exception:
            log.exception("the index could not be checked against the files; searches stay incomplete")
        finally:
            self._checks -= 1
            if not self._checks:
                self.ready.set()

    async def _forget_taken_out(self) -> None:
        """Forget the sessions of stores that were taken out of the configuration. The others are checked, whatever happens here."""
        try:
            for wire_id in await self.index.sessions_beyond(list(self.owners.stores)):
                self.index.remove(wire_id)
        except Exception:
            log.exception("sessions of stores that were taken out stay in lists until the next check")

    def _shown(self) -> None:
        self._unlisted -= 1
        if not self._unlisted:
            self._fed.clear()
            self.listed.set()

    async def _find(self, store: Store) -> list[Listed]:
        await self._show(store, stale := await self._compare(store))
        return stale

    def over(self, name: str) -> asyncio.Event:
        """Set while the index knows every session of a store, whatever the others do. Cleared as `ready`."""
        return self._stores.over(name) or self.ready

    async def check(self, store: Store) -> list[FileWarning]:
        """Read again every session whose version in the index is not current; forget what is gone. Returns warnings about
        what could not be understood.
        """
        async with self._stores.checking[store.name]:
            self._to_compare.discard(store.name)
            return await self._read_all(store, await self._compare(store))

    async def _compare(self, store: Store) -> list[Listed]:
        """The sessions whose version in the index is not current. Forgets sessions that are gone."""
        known = await self.index.fingerprints(store.name)
        stale: list[Listed] = []
        seen: set[str] = set()
        try:
            async for batch in store.scan():
                seen.update(join_wire_id(store.name, listed.local_id) for listed in batch)
                stale += [one for one in batch if known.get(join_wire_id(store.name, one.local_id)) != one.fingerprint]
            stale += self._open_ones(store, stale)
            seen.update(join_wire_id(store.name, local_id) for local_id in self.owners.in_memory(store))
            for wire_id in known.keys() - seen:
                with self.failed.apart(wire_id, SessiondError):
                    if self.owners.peek(wire_id) is None and await store.look(split_wire_id(wire_id)[1]) is None:
                        self.index.remove(wire_id)
        except SessiondError as error:  # its folder may disappear at any moment
            log.warning("store %s was not indexed: %s", store.name, error.message)
        self._found += len(stale)
        self._unread.update(join_wire_id(store.name, one.local_id) for one in stale)
        return stale

    async def _show(self, store: Store, stale: Sequence[Listed]) -> None:
        """Index what lists show of sessions that are still to be read."""
        try:
            with on_one_thread():
                for start in range(0, len(stale), _HEADS_AT_A_TIME):
                    self._fed -= {one for one in self._fed if split_wire_id(one)[0] == store.name}
                    local_ids = [one.local_id for one in stale[start : start + _HEADS_AT_A_TIME] if one.fingerprint]
                    for info in await store.heads(local_ids):
                        self._show_one(store, info)
                    await self.index.settled(0)
        except SessiondError as error:
            log.warning("store %s was not listed: %s", store.name, error.message)
        self.announced(store, store.announced())
        for local_id in self.owners.in_memory(store):
            one = self.owners.of(store, local_id)
            # Reading the whole session reports why.
            with one.in_use(), contextlib.suppress(SessiondError), self.failed.apart(one.wire_id, SessiondError):
                await one.look(partial(self._show_own, one))

    def announced(self, store: Store, infos: Sequence[SessionInfo]) -> None:
        """Show what other machines have and this one does not."""
        for info in infos:
            self.failed.passed(join_wire_id(store.name, info.session_id))
            self._show_one(store, info)

    def _show_one(self, store: Store, info: SessionInfo) -> None:
        """`info`: according to its files."""
        wire_id = join_wire_id(store.name, info.session_id)
        with self.failed.apart(wire_id):
            one = self.owners.peek(wire_id)
            if one is not None:
                self._show_own(one, one.there)
            elif wire_id not in self._fed:
                self._removed.discard(wire_id)
                self.index.put_info(bare(store, msgspec.structs.replace(info, session_id=wire_id)))

    def _show_own(self, one: OpenSession, session: Session) -> None:
        self.index.put_info(bare(one.store, session.info(one.wire_id)))

    async def _read_all(self, store: Store, stale: Sequence[Listed]) -> list[FileWarning]:
        """Returns warnings about what could not be understood."""
        warnings: list[FileWarning] = []
        try:
            warnings += await self.reindex(store, stale)
            warnings += await self.reindex(store, self._open_ones(store, stale))
        except SessiondError as error:  # its folder may disappear at any moment
            log.warning("store %s was not indexed: %s", store.name, error.message)
        finally:
            self._unread.difference_update(join_wire_id(store.name, one.local_id) for one in stale)
        return warnings

    def _open_ones(self, store: Store, but: Sequence[Listed]) -> list[Listed]:
        """Others whose changes may be only in the journal, not in the fingerprint: soon they may be saved and let go."""
        known = {one.local_id for one in but}
        return [Listed(one, store.file_path(one), "") for one in self.owners.in_memory(store) if one not in known]

    async def compare(self, store: Store) -> None:
        """Check a store, unless a check of it waits already: that check sees what is there now."""
        if store.name not in self._to_compare:
            self._to_compare.add(store.name)
            await self.check(store)

    async def reindex(self, store: Store, changed: Sequence[Listed]) -> list[FileWarning]:
        """A few at a time: while one is read, others are being indexed."""
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def one(listed: Listed) -> list[FileWarning]:
            wire_id = join_wire_id(store.name, listed.local_id)
            self.failed.passed(wire_id)
            try:
                async with slots:
                    return await self._reindex(store, listed)
            except SessiondError:
                raise
            except Exception as error:  # a bug of ours with one session: the others are indexed
                self.failed.note(wire_id, error)
                return [FileWarning(listed.path, None, f"was not indexed: {error!r}")]

        with on_one_thread():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(listed)) for listed in changed]
        return [warning for task in tasks for warning in task.result()]

    async def _reindex(self, store: Store, listed: Listed) -> list[FileWarning]:
        one = self.owners.of(store, listed.local_id)
        mine = self.owners.peek(one.wire_id) is None
        with one.in_use():
            try:
                weight = await one.look(lambda session: self._take_in(one, session), whole=True)
                await one.look_outside()  # a hint that arrived during the read had no receiver
            except SessiondError as error:
                log.info("store %s: %s was not indexed: %s", store.name, listed.local_id, error.message)
                if type(error) is SessiondError:  # a bug of ours, as the session's owner tells it
                    self.failed.note(one.wire_id, error.message)
                self._unread.discard(one.wire_id)
                self.index.remove(one.wire_id)
                return [FileWarning(error.data.get("path", listed.path), error.data.get("line"), error.message)]
            warnings = one.stored.warnings()
        if mine:
            self.released += weight
            self.owners.let_go(one)
        await self.index.room()
        return warnings

    def _take_in(self, one: OpenSession, session: Session) -> int:
        self.replaced(one)
        return session.weight

    async def arrived(self, store: Store, local_id: str) -> None:
        """A session that nobody has in memory was changed on another machine, or deleted."""
        async with self._arriving:
            known = await self.index.info(wire_id := join_wire_id(store.name, local_id))
            await self._reindex(store, Listed(local_id, store.file_path(local_id), ""))
        self.came(wire_id, 0 if known is None else known.seq, begun=known is None)

    async def recheck(self, store: Store, local_id: str) -> bool:
        """Another program wrote or removed the files of a session that is not open. False if the session came into memory
        meanwhile: then its owner must look.
        """
        wire_id = join_wire_id(store.name, local_id)
        if wire_id in self._filling:
            return True
        listed = await store.look(local_id)
        if listed is None:
            if self.owners.peek(wire_id) is not None:
                return False
            self.vanished(wire_id)
            return True
        await self.searchable()
        known = await self.index.info(wire_id)
        if self.owners.peek(wire_id) is not None:
            return False
        if known is None or not listed.fingerprint or known.fingerprint != listed.fingerprint:
            await self._reindex(store, listed)
            self.came(wire_id, 0 if known is None else known.seq, begun=known is None)
        return True

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*self._putting.values(), return_exceptions=True)
        self.feed()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:  # one whose disk hangs ends with the process
            await asyncio.wait(self._tasks, timeout=STORE_PATIENCE_S)
