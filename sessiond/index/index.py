"""The index as the service sees it: feeding returns at once, queries never block the loop.

Nothing here is authoritative. If the file is missing, broken or of another version, a fresh one is created, `incomplete` is
set and `on_refill` called; the owner of the sessions then compares `fingerprints` with the files, feeds what differs by
`put_session`, and sets `incomplete` to False at the end.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import ExitStack
from functools import partial
from os.path import join
from typing import TYPE_CHECKING, TypeVar

import msgspec

from sessiond.errors import InvalidParams, TooLarge
from sessiond.fs.scratch import scratch_folder
from sessiond.index import schema, session_list
from sessiond.index.chunks import DamagedChunk
from sessiond.index.cursors import HitOrders
from sessiond.index.feed_queue import Apply, FeedStep
from sessiond.index.meaning import can_find_meaning
from sessiond.index.preparer import PreparedBatch, Preparer
from sessiond.index.readers import Readers, Ticket
from sessiond.index.values import (
    IndexedInfo,
    ListQuery,
    SearchPage,
    SearchQuery,
    SessionPage,
    Unseen,
    UsageQuery,
    UsageReport,
)
from sessiond.index.writer import Writer
from sessiond.limits import Limits
from sessiond.model.message import Message, Note
from sessiond.model.values import Json

if TYPE_CHECKING:
    from sessiond.index.regex import RegexSearch
    from sessiond.index.semantic import SemanticSearch

_SEARCHING = 2
_PART_BYTES = 160 * 1024
"""How much of a whole session is prepared and written at a time: a few hundred messages."""
_STEP_BYTES = 500
"""About how much memory one message or note takes in addition to its text."""

_MOST_UNSEEN = 1000
"""How many unwritten sessions a list takes from memory; if there are more, it waits until they are written."""

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Index:
    """`open` before anything else, `close` at the end; both on the loop. `on_refill` is called on the loop."""

    def __init__(self, path: str, limits: Limits, on_refill: Callable[[], None] | None = None) -> None:
        self._path = path
        self._limits = limits
        self._on_refill = on_refill
        self._incomplete = False
        self._temporary = ExitStack()
        """Closed when the index is: the folder that it is in if it cannot be where it should be."""
        self._unwritable: str | None = None
        self._stamps = itertools.count(1)
        self._told_of = 0
        """The last generation of the file for which `on_refill` was called."""

    async def open(self) -> None:
        """Never fails because of the file's content. If none can be created at `path`, one in the temporary folder is used."""
        self._loop = asyncio.get_running_loop()
        state = await asyncio.to_thread(self._open)
        with_meaning = await asyncio.to_thread(can_find_meaning)  # it reads the disk
        self._incomplete = state == "fresh"
        self._told_of = self._writer.generation
        self._preparer = Preparer(self._writer.poke)
        self._readers = Readers(self._path, _SEARCHING, "index-search", self._writer)
        self._lister = Readers(self._path, 1, "index-list", self._writer)
        self._held = HitOrders(self._limits.held_hits_bytes)
        self._regex: RegexSearch | None = None
        self._semantic = self._by_meaning() if with_meaning else None
        self._checking = Ticket(float("inf"))
        self._checker = (
            threading.Thread(target=self._check, name="index-check", daemon=True) if state == "unclean" else None
        )
        if self._checker is not None:
            self._checker.start()

    async def close(self) -> None:
        """Write what was fed, then close the file."""
        await asyncio.to_thread(self._close)

    # State

    @property
    def modes(self) -> tuple[str, ...]:
        """The installed modes of search."""
        return ("text", "regex") if self._semantic is None else ("text", "regex", "semantic")

    @property
    def incomplete(self) -> bool:
        """True if a search may miss something: set by the code that fills the index, and while whole sessions wait to be
        written or nothing can be.
        """
        return self._incomplete or self.problem is not None or bool(self._writer.lost) or self._writer.behind

    @incomplete.setter
    def incomplete(self, value: bool) -> None:
        self._incomplete = value
        if not value and self._semantic is not None:
            self._semantic.changed(gone=True)

    @property
    def problem(self) -> str | None:
        """The reason why the index is not where it should be, in the operating system's words; None if it is."""
        return self._writer.problem or self._unwritable

    @property
    def left_out(self) -> list[str]:
        """Ids of sessions of which something cannot be indexed, however often it is tried. The rest of them is."""
        by_meaning = [] if self._semantic is None else self._semantic.left_out
        return list(dict.fromkeys([*self._writer.left_out.names(), *by_meaning]))

    def why_left_out(self, session_id: str) -> str | None:
        """None if all of it was indexed."""
        return self._writer.left_out.reason(session_id)

    # Feeding

    def put_info(self, info: IndexedInfo) -> None:
        """Put what lists show of a session, new or changed. Its messages and notes are not touched."""
        stamp = next(self._stamps)
        if self._writer.diverted(info.session_id):
            # Lists show it at once. Its fingerprint has to wait for earlier steps.
            bare = msgspec.structs.replace(info, fingerprint=None)
            step = FeedStep(
                info.session_id, _STEP_BYTES, lambda batch: batch.put_info(bare, stamp), shows=Unseen(stamp, bare)
            )
            self._writer.submit(step, ahead=True)
            shows = None
        else:
            shows = Unseen(stamp, info)
        self._feed(info.session_id, 1, lambda batch: batch.put_info(info, stamp), shows=shows)

    def put_saved(self, info: IndexedInfo) -> None:
        """Feed the fingerprint of a session whose other changes were all fed. Lists and searches do not wait for it."""
        stamp = next(self._stamps)
        self._writer.submit(
            FeedStep(info.session_id, _STEP_BYTES, lambda batch: batch.put_info(info, stamp), late=True)
        )

    def add_messages(self, session_id: str, messages: Sequence[Message]) -> None:
        """New messages, or new content of old ones (of the same seq)."""
        size = sum(_size(message) for message in messages)
        smaller = partial(_each_message, session_id, messages)
        self._feed(session_id, size, lambda batch: batch.add_messages(session_id, messages), smaller=smaller)

    def add_note(self, session_id: str, note: Note) -> None:
        self._feed(session_id, len(note.content), lambda batch: batch.add_note(session_id, note))

    def drop_after(self, session_id: str, seq: int) -> None:
        """Messages with a greater seq are gone; notes remain."""
        self._feed(session_id, 1, lambda batch: batch.drop_after(session_id, seq), gone=True)

    def put_session(self, info: IndexedInfo, messages: Sequence[Message], notes: Sequence[Note]) -> None:
        """Feed a whole session; anything else that was known about it is removed. Gives way to the other kinds of feeding."""
        self._put_whole(info, messages, notes)
        self._tell_semantic(gone=True)

    async def put_long_session(self, info: IndexedInfo, messages: Sequence[Message], notes: Sequence[Note]) -> None:
        """Like `put_session`, off the loop. Nothing of the session may be fed meanwhile."""
        await asyncio.to_thread(self._put_whole, info, messages, notes)
        self._tell_semantic(gone=True)

    def _put_whole(self, info: IndexedInfo, messages: Sequence[Message], notes: Sequence[Note]) -> None:
        """Runs on any thread."""
        stamp = next(self._stamps)
        ids = frozenset(message.id for message in messages)
        note_ids = frozenset(note.id for note in notes)
        begin = FeedStep(
            info.session_id, len(ids) + _STEP_BYTES, lambda batch: batch.begin_session(info, ids, note_ids, stamp), True
        )
        self._writer.submit(begin)
        part: list[Message] = []
        size = 0
        for message in messages:
            part.append(message)
            size += _size(message)
            if size > _PART_BYTES:
                self._add_part(info.session_id, part, size)
                part, size = [], 0
        if part:
            self._add_part(info.session_id, part, size)
        size = sum(len(note.content) for note in notes) + _STEP_BYTES
        smaller = partial(_each_note, info, notes, stamp)
        end = FeedStep(
            info.session_id, size, lambda batch: batch.end_session(info, notes, stamp), True, smaller=smaller
        )
        self._writer.submit(end)

    def begin_session(self, info: IndexedInfo, message_ids: Set[str], note_ids: Set[str]) -> int:
        """Like `put_session`, but its messages come in parts: `add_part` in order, then `end_session`. Everything except
        these ids is removed. Returns the stamp of this state, for `end_session`.
        """
        stamp = next(self._stamps)
        self._feed(
            info.session_id,
            len(message_ids),
            lambda batch: batch.begin_session(info, message_ids, note_ids, stamp),
            bulk=True,
        )
        return stamp

    def add_part(self, session_id: str, messages: Sequence[Message]) -> None:
        self._add_part(session_id, messages, sum(_size(message) for message in messages))

    def _add_part(self, session_id: str, messages: Sequence[Message], size: int) -> None:
        job = self._preparer.submit(messages, size)
        # Held once as the preparer's request and once as the rows in its answer.
        step = FeedStep(
            session_id,
            2 * size + _STEP_BYTES,
            lambda batch: batch.add_part(session_id, job.result()),
            True,
            job,
            smaller=partial(_each_prepared, session_id, job),
        )
        self._writer.submit(step)

    def end_session(self, info: IndexedInfo, notes: Sequence[Note], stamp: int) -> None:
        """The fingerprint is kept only if every part arrived."""
        size = sum(len(note.content) for note in notes)
        smaller = partial(_each_note, info, notes, stamp)
        self._feed(
            info.session_id,
            size,
            lambda batch: batch.end_session(info, notes, stamp),
            bulk=True,
            gone=True,
            smaller=smaller,
        )

    def remove(self, session_id: str) -> None:
        shows = Unseen(next(self._stamps), None)
        self._feed(session_id, 1, lambda batch: batch.remove(session_id), gone=True, shows=shows)

    async def settled(self, patience_s: float | None = None) -> None:
        """Wait until everything fed before can be found, or it turns out that it cannot be written now (`problem`).

        `patience_s`: the longest wait for whole sessions (`put_session`); it does not wait for them while many are being
        indexed. For single changes it waits until they are there.
        """
        if self._writer.problem is not None:
            await asyncio.sleep(0)
            return
        soon = self._writer.behind and self._writer.soon
        whole = [asyncio.wrap_future(self._writer.mark(bulk=True))] if patience_s is None or soon else []
        if self._writer.ask():  # otherwise do not wait for the writer's present work: a merge, or rebuilding the file
            await asyncio.wrap_future(self._writer.mark(bulk=False))
        if whole:
            await asyncio.wait(whole, timeout=patience_s)

    def listable(self) -> bool:
        """Return whether a first page shows everything fed before, because it takes unwritten changes from memory; False if they
        are too many: then call `settled`.
        """
        self._writer.ask()  # the writer uses smaller slices while a client asks
        return self._writer.unseen <= _MOST_UNSEEN

    @property
    def erasing(self) -> bool:
        """True while its file is being rebuilt: what is fed meanwhile waits for that."""
        return self._writer.erasing

    async def erased(self) -> bool:
        """Wait until no file has any trace of earlier, `settled` removals; False if that cannot be done now."""
        return await asyncio.wrap_future(self._writer.erase())

    async def room(self) -> None:
        """For callers that feed much: wait until less than `index_waiting_bytes` waits to be written."""
        mark = self._writer.room()
        if mark is not None:
            await asyncio.wrap_future(mark)

    # Queries

    async def fingerprints(self, store: str) -> dict[str, str]:
        """Id on the wire -> fingerprint, for all sessions of a store that are not in the trash; empty if unknown."""
        return await self._ask(lambda db: session_list.fingerprints(db, store), {})

    async def sessions_beyond(self, stores: Sequence[str]) -> Sequence[str]:
        """Ids on the wire of the sessions that are in none of these stores."""
        return await self._ask(lambda db: session_list.sessions_beyond(db, stores), [])

    async def info(self, session_id: str) -> IndexedInfo | None:
        return await self._ask(lambda db: session_list.session_info(db, session_id), None)

    async def count(self, store: str) -> int:
        """Return how many sessions of a store are not in the trash."""
        return await self._ask(lambda db: session_list.count_sessions(db, store), 0)

    async def list(self, query: ListQuery) -> SessionPage:
        """InvalidParams naming the field; Cancelled after `search_s`. `lost`: the file turned out to be damaged, or has just
        been replaced by a fresh one that `on_refill` was not called for yet: ask again.
        """
        generation = self._writer.generation
        # Taken before the file is read: what is committed in between is in both, and counts once.
        unseen = {} if query.cursor is not None or self._writer.unseen > _MOST_UNSEEN else self._writer.shown()
        page = await self._ask(
            lambda db: session_list.list_sessions(db, query, self._limits, unseen), SessionPage(items=[], lost=True)
        )
        lost = page.lost or not generation == self._writer.generation == self._told_of
        return SessionPage(items=page.items, next_cursor=page.next_cursor, incomplete=self.incomplete, lost=lost)

    async def search(self, query: SearchQuery) -> SearchPage:
        """InvalidParams naming the field, TooLarge for the query; Cancelled after `search_s`, in mode regex after
        `regex_s`.
        """
        _check_query(query, self._limits, self.modes)
        generation, incomplete = self._writer.generation, self.incomplete
        try:
            if query.mode == "regex":
                page = await self._by_regex().search(query)
            elif query.mode == "semantic" and self._semantic is not None:
                page = await self._semantic.search(query)
            else:
                ticket = Ticket(self._limits.search_s)
                page = await self._readers.run(lambda db: self._by_words(db, query), ticket)
        except (sqlite3.Error, schema.IndexUnusable, DamagedChunk) as error:
            self._met(error, generation)
            page = SearchPage(hits=[], total=0, incomplete=True)
        return SearchPage(
            hits=page.hits,
            total=page.total,
            next_cursor=page.next_cursor,
            incomplete=page.incomplete or incomplete or self.incomplete,
        )

    async def usage(self, query: UsageQuery) -> UsageReport:
        """InvalidParams naming the field; Cancelled after `search_s`. Counts what is committed."""
        from sessiond.index.usage import usage_report

        generation = self._writer.generation
        try:
            report = await self._readers.run(lambda db: usage_report(db, query), Ticket(self._limits.search_s))
        except (sqlite3.Error, schema.IndexUnusable, msgspec.DecodeError) as error:
            self._met(error, generation)
            report = UsageReport()
        report.incomplete = self.incomplete
        return report

    # Within

    def _by_words(self, db: sqlite3.Connection, query: SearchQuery) -> SearchPage:
        from sessiond.index.search import search_text  # imported late, like the other two: a start is faster

        return search_text(db, query, self._limits, self._held)

    def _by_meaning(self) -> SemanticSearch:
        from sessiond.index.semantic import SemanticSearch

        return SemanticSearch(self._path, self._limits, self._readers, self._held, lambda: self._writer.behind)

    def _by_regex(self) -> RegexSearch:
        if self._regex is None:
            from sessiond.index.regex import RegexSearch

            self._regex = RegexSearch(self._path, self._limits, self._readers, self._held)
        return self._regex

    def _feed(
        self,
        session_id: str,
        size: int,
        apply: Callable[..., None],
        *,
        bulk: bool = False,
        gone: bool = False,
        shows: Unseen | None = None,
        smaller: Callable[[], Iterable[Apply]] | None = None,
    ) -> None:
        self._writer.submit(FeedStep(session_id, size + _STEP_BYTES, apply, bulk, shows=shows, smaller=smaller))
        self._tell_semantic(gone=gone)

    def _tell_semantic(self, *, gone: bool) -> None:
        if self._semantic is not None and not self._incomplete:
            self._semantic.changed(gone=gone)  # while the index is being filled, vectors wait

    async def _ask(self, job: Callable[[sqlite3.Connection], _T], instead: _T) -> _T:
        """The job's result, or `instead` if the file turns out to be damaged."""
        generation = self._writer.generation
        try:
            return await self._lister.run(job, Ticket(self._limits.search_s))
        except (sqlite3.Error, schema.IndexUnusable, msgspec.DecodeError) as error:
            self._met(error, generation)
            return instead

    def _met(self, error: Exception, generation: int) -> None:
        _log.warning("the index could not be read: %s", error)
        if schema.is_damage(error):
            self._incomplete = True
            self._writer.suspect(generation)

    def _open(self) -> str:
        self._writer = self._new_writer()
        try:
            return self._writer.open()
        except (OSError, sqlite3.Error) as error:
            _log.warning("no index at %s: %s", self._path, error)
            self._unwritable = str(error)
        self._path = join(self._temporary.enter_context(scratch_folder()), "index.db")
        self._writer = self._new_writer()
        return self._writer.open()

    def _new_writer(self) -> Writer:
        return Writer(self._path, self._limits.index_waiting_bytes, self._refill)

    def _refill(self) -> None:
        """Called on the writing thread: something has to be fed again."""
        self._incomplete = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, self._writer.generation)

    def _tell(self, generation: int) -> None:
        self._told_of = generation
        if self._on_refill is not None:
            self._on_refill()

    def _check(self) -> None:
        """Runs on a separate thread after the daemon was killed: check that the whole file is readable."""
        try:
            db = schema.connect(self._path, reading=True)
            db.set_progress_handler(self._checking.over, 100_000)
            try:
                schema.check(db)
            finally:
                db.close()
        except (schema.IndexUnusable, sqlite3.Error) as error:
            if schema.is_damage(error):
                self._writer.suspect(self._writer.generation)

    def _close(self) -> None:
        self._checking.give_up()
        if self._checker is not None:
            self._checker.join()
        if self._regex is not None:
            self._regex.close()
        if self._semantic is not None:
            self._semantic.close()
        self._readers.close()
        self._lister.close()
        self._preparer.close()
        self._writer.close()
        self._temporary.close()


def _size(message: Message) -> int:
    content = message.content
    length = len(content) if isinstance(content, str) else sum(map(_block_size, content))
    return length + _STEP_BYTES


def _block_size(block: Json) -> int:
    text = block.get("text") if isinstance(block, dict) else block
    return len(text) if isinstance(text, str) else _STEP_BYTES


def _check_query(query: SearchQuery, limits: Limits, modes: Sequence[str]) -> None:
    if query.mode == "semantic" and query.mode not in modes:
        from sessiond.installation import add_command  # where it is rarely needed: each module makes a start longer

        hint = f"run {add_command('semantic')}, then sessiond stop"
        raise InvalidParams("mode: this daemon cannot search by meaning", hint=hint, field="mode")
    if query.mode not in modes:
        raise InvalidParams(f"mode: expected one of {', '.join(modes)}", field="mode")
    if not isinstance(query.query, str):
        raise InvalidParams("query: expected a string", field="query")
    if len(query.query) > limits.query_bytes or len(query.query.encode("utf-8", "replace")) > limits.query_bytes:
        raise TooLarge(f"query: longer than {limits.query_bytes} bytes", limit=limits.query_bytes)


# Loaded for the first change that cannot be written as one.


def _each_message(session_id: str, messages: Sequence[Message]) -> Iterable[Apply]:
    from sessiond.index.smaller import each_message

    return each_message(session_id, messages)


def _each_prepared(session_id: str, job: PreparedBatch) -> Iterable[Apply]:
    from sessiond.index.smaller import each_prepared

    return each_prepared(session_id, job)


def _each_note(info: IndexedInfo, notes: Sequence[Note], stamp: int) -> Iterable[Apply]:
    from sessiond.index.smaller import each_note

    return each_note(info, notes, stamp)
