"""The use cases, one method for each request. `rpc/handlers` converts and calls; all decisions are made here or below.

Methods take wire ids, return results as in `sessiond.schema`, and raise errors from `sessiond.errors`.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sessiond.clock import Clock
from sessiond.errors import InvalidParams, SessiondError, TooLarge, Unavailable
from sessiond.limits import Limits
from sessiond.model.message import check_message, check_tool_calls, is_plain
from sessiond.model.session import Absent, Session
from sessiond.model.values import Json, JsonObject, is_session_id
from sessiond.schema.daemon import AdoptResult, IndexStatus, StoreStatus
from sessiond.schema.notes_state import NoteListResult, NoteResult, StateResult
from sessiond.schema.sessions import (
    AppendResult,
    ExportResult,
    ImportResult,
    ListResult,
    MoveResult,
    OpenResult,
    ReadResult,
    SavedFile,
    SearchResult,
    TruncateResult,
)
from sessiond.schema.types import Parent, SessionInfo
from sessiond.service import paging, presentation
from sessiond.service.catalog import Catalog
from sessiond.service.creation import begin, belonging
from sessiond.service.deletion import Deletion
from sessiond.service.find import Finder
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions, check_store
from sessiond.service.paging import check_number
from sessiond.service.planning import Draft
from sessiond.service.removals import Removals
from sessiond.service.subscribers import EarlyReply, Peer, send_restored
from sessiond.service.transfer import Transfer
from sessiond.store.move_guard import MoveGuard
from sessiond.store.port import Store

if TYPE_CHECKING:
    from sessiond.index.index import Index

log = logging.getLogger(__name__)
AdoptFolder = Callable[[str, str | None, str | None], Awaitable[Store]]
"""(path, name, format) -> the mounted store, written to the configuration."""
_FINISHED = ("done", "interrupted", "error")


class SessionsStatus(NamedTuple):
    """The part of `daemon/status` about sessions."""

    stores: list[StoreStatus]
    attended: int
    """How many sessions are open for a client."""
    dirty: int
    search: IndexStatus


class Service:
    """`stores`: by name, `default` among them. `home_paths`: the daemon's own folders, where no export may go."""

    def __init__(
        self,
        *,
        stores: Mapping[str, Store],
        index: Index,
        clock: Clock,
        limits: Limits,
        home_paths: Sequence[str] = (),
        adopt_folder: AdoptFolder | None = None,
        moves: MoveGuard | None = None,
        interval_s: float = 300.0,
        idle_s: float = 2.0,
        ledger_path: str | None = None,
    ) -> None:
        self.limits = limits
        self.index = index
        self._adopt_folder = adopt_folder
        self._moves, self.removals = moves or MoveGuard(), Removals(ledger_path)
        self._bringers: set[int] = set()
        self.catalog = Catalog(index)
        self.open_sessions = OpenSessions(
            self.catalog,
            clock,
            limits,
            lambda: "m" + secrets.token_hex(8),
            self._moves,
            self.removals,
            interval_s=interval_s,
            idle_s=idle_s,
        )
        self.catalog.owners = self.open_sessions
        self.stores = self.open_sessions.stores
        for store in stores.values():
            self.open_sessions.add_store(store)
        self.finder = Finder(self.stores, self.open_sessions, self.catalog, limits)
        self.transfer = Transfer(self.open_sessions, self.catalog, limits, list(home_paths), self._moves, self.removals)
        self._removing = Deletion(self.open_sessions, self.catalog, self._moves, self.removals)

    # Life

    async def start(self) -> None:
        """Serve immediately; the index is checked against the files in the background."""
        self.catalog.start(list(self.stores.values()))

    async def close(self) -> None:
        """Save everything. What cannot be saved remains in the journal."""
        await self.catalog.close()
        await self.open_sessions.close()
        await self.removals.close()

    def disconnected(self, peer: Peer) -> None:
        self._bringers.discard(peer.id)
        self.open_sessions.disconnected(peer)

    def drained(self, peer: Peer) -> None:
        self.open_sessions.drained(peer)

    def released(self) -> int:
        """About how many bytes of sessions were released since the last call."""
        count = self.open_sessions.released + self.catalog.released
        self.open_sessions.released = self.catalog.released = 0
        return count

    async def status(self) -> SessionsStatus:
        await self.finder.count()
        return SessionsStatus(
            stores=[self._store_status(store) for store in self.stores.values()],
            attended=self.open_sessions.attended,
            dirty=len(self.open_sessions.dirty),
            search=self.catalog.status(),
        )

    async def reindex(self) -> dict[str, str | None]:
        """Try again what could not be indexed, and return what `index_again` returns."""
        from sessiond.service.reindexing import index_again  # rare, and a start is faster

        return await index_again(self.catalog, self.stores)

    def _store_status(self, store: Store) -> StoreStatus:
        return presentation.store_status(store, self.finder.counts.get(store.name, 0))

    # Opening

    async def new(
        self,
        peer: Peer | None,
        *,
        session_id: str | None = None,
        name: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Json] | None = None,
        store: str | None = None,
        messages: list[dict[str, Json]] | None = None,
        parent: Parent | None = None,
    ) -> SessionInfo:
        target = check_store(self.stores, store)
        if session_id is not None and not is_session_id(session_id):
            raise InvalidParams(
                f"sessionId: {session_id!r} is not a session id",
                hint="a letter or digit, then up to 127 of letters, digits, `.`, `_` and `-`",
                field="sessionId",
            )
        self._check_name(name)
        checked, belongs = self._check_messages(messages or []), belonging(parent)
        fields = {"name": name, "model": model, "cwd": cwd, "tags": tags or [], "metadata": metadata or {}, **belongs}

        async def make(one: OpenSession) -> SessionInfo:
            await begin(self.open_sessions, one, fields, checked, peer)
            return self.open_sessions.info(one)

        if session_id is not None:
            one = self.open_sessions.of(target, session_id)
            return await one.alone(partial(make, one))
        return await self.open_sessions.make_fresh(target, make)

    async def open(
        self,
        peer: Peer,
        session_id: str,
        *,
        last: int | None = None,
        since: int | None = None,
        restore: bool = False,
        answers: bool = False,
    ) -> OpenResult:
        check_number("last", last)
        check_number("since", since)
        one = self.open_sessions.at(session_id)
        look = partial(paging.opening, last=last, since=since, limits=self.limits)

        async def shown() -> OpenResult:
            await one.compare()
            try:
                messages, more, changes = look(one.there)
            except Absent:
                messages, more, changes = look(await one.need(whole=True))
            # Changes that are published after this reach the peer after the answer, once.
            one.attach(peer, answers=answers)
            session = one.there
            info, warnings = self.open_sessions.info(one), list(one.stored.warnings())
            head = presentation.OpeningHead(info, session.notes, session.state, warnings, self.limits)
            result = head.opened(presentation.messages(messages, self.limits), more, newest=since is None)
            if since is not None:
                result.changes = None if changes is None else presentation.changes(one.wires(changes), head.left)
            return result

        result = await one.alone(shown)
        if restore:
            send_restored(peer, result)
        return result

    async def close_session(self, peer: Peer, session_id: str) -> None:
        await self.open_sessions.leave(self.open_sessions.at(session_id), peer)

    def ask(self, session_id: str, message_id: str) -> bool:
        """Have somebody who has the session open answer this message. Returns whether anybody does."""
        return self.open_sessions.at(session_id).audience.ask(message_id)

    def interrupt(self, session_id: str, message_id: str) -> bool:
        """The answer to this message is not wanted any more. Returns whether anybody was told."""
        return self.open_sessions.at(session_id).audience.interrupt(message_id)

    # Messages

    async def append(
        self,
        peer: Peer | None,
        session_id: str,
        messages: list[dict[str, Json]],
        expected_seq: int | None = None,
        *,
        early: EarlyReply | None = None,
    ) -> AppendResult:
        checked = self._check_messages(messages)
        one = self.open_sessions.at(session_id)
        if not checked:
            return AppendResult(seq=await one.look(lambda session: session.seq), messages=[])

        def plan(draft: Draft) -> AppendResult:
            appended = draft.append(checked, expected_seq)
            return AppendResult(seq=max([message.seq for message in appended]), messages=appended)

        result = await one.change(plan, peer, early=early)
        if one.store.shared and one.stored.waits(result.seq):
            result.provisional = True
        return result

    def _check_messages(self, messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
        if len(messages) > self.limits.append_messages:
            raise TooLarge(
                f"messages: {len(messages)} messages exceed the limit of {self.limits.append_messages} per request",
                hint="append them in several requests",
                limit=self.limits.append_messages,
            )
        for index, wire in enumerate(messages):
            if not is_plain(wire):
                check_message(wire, f"messages[{index}]")
        return messages

    async def extend(
        self, peer: Peer | None, session_id: str, message_id: str, text: str, offset: int | None = None
    ) -> int:
        one = self.open_sessions.at(session_id)
        return await one.change(lambda draft: draft.extend(message_id, text, offset), peer, streams=message_id)

    async def finish(
        self,
        peer: Peer | None,
        session_id: str,
        message_id: str,
        status: str | None = None,
        metadata: dict[str, Json] | None = None,
        tool_calls: list[JsonObject] | None = None,
    ) -> int:
        status = status or "done"
        if status not in _FINISHED:
            raise InvalidParams(f"status: expected one of {', '.join(_FINISHED)}", field="status")
        check_tool_calls(tool_calls, "params")
        one = self.open_sessions.at(session_id)
        return await one.change(lambda draft: draft.finish(message_id, status, metadata, tool_calls), peer)

    async def read(
        self,
        session_id: str,
        *,
        last: int | None = None,
        since: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> ReadResult:
        for field, value in (("last", last), ("since", since), ("before", before), ("limit", limit)):
            check_number(field, value)
        count = next((n for n in (limit, last) if n is not None), self.limits.default_page_messages)

        def look(session: Session) -> ReadResult:
            messages, more = paging.page(session, since=since, before=before, count=count, limits=self.limits)
            return ReadResult(messages=presentation.messages(messages, self.limits), has_more=more, seq=session.seq)

        return await self.open_sessions.at(session_id).look(look)

    async def update(
        self, peer: Peer | None, session_id: str, fields: Mapping[str, Json], expected_seq: int | None = None
    ) -> SessionInfo:
        self._check_name(fields.get("name"))
        normal = {key: _cleared(key) if value is None else value for key, value in fields.items()}
        one = self.open_sessions.at(session_id)
        shown = partial(self.open_sessions.info, one)
        return await one.change_and_look(lambda draft: draft.revise(normal, expected_seq), shown, peer)

    def _check_name(self, name: Json) -> None:
        most = self.limits.name_chars
        if isinstance(name, str) and len(name) > most:
            hint = "choose a shorter name; details fit into metadata"
            raise InvalidParams(f"name: longer than {most} characters", hint=hint, field="name")

    # Removing

    async def clear(self, peer: Peer | None, session_id: str) -> SessionInfo:
        return await self._removing.clear(self.open_sessions.at(session_id), peer)

    async def truncate(self, peer: Peer | None, session_id: str, after: int, seq: int | None = None) -> TruncateResult:
        check_number("afterSeq", after)
        return await self._removing.truncate(self.open_sessions.at(session_id), peer, after, seq)

    async def delete(self, session_id: str, permanent: bool = False) -> None:
        """`permanent`: when this returns, not a word of it is left in anything that we keep."""
        await self._removing.delete(self.open_sessions.at(session_id), permanent=permanent)

    async def restore(self, peer: Peer | None, session_id: str, *, after: Awaitable[None] | None = None) -> SessionInfo:
        """`after`: is awaited first; it may put the session into the trash."""
        one = self.open_sessions.at(session_id)

        async def restore() -> SessionInfo:
            if after is not None:
                await after
            await one.notice_removal()
            one.became_there(await one.stored.restore(), begun=False)
            await one.interrupt([message.id for message in one.there.streaming()])
            self._brought(peer)
            return self.open_sessions.info(one)

        restored = await one.alone(partial(one.settled, restore), self._moves.one)
        return await self.transfer.came_back(one.store, restored)

    async def fork(
        self, peer: Peer | None, session_id: str, at_seq: int | None = None, name: str | None = None
    ) -> SessionInfo:
        check_number("atSeq", at_seq)
        self._check_name(name)
        forked = await self.transfer.fork(self.open_sessions.at(session_id), at_seq, name)
        self._brought(peer)
        return forked

    async def save(self, session_id: str | None = None) -> list[SavedFile]:
        """Bring files up to date. For a single session the result names its file even if it was current."""
        if session_id is not None:
            one = self.open_sessions.at(session_id)
            saved = await one.save()
            size = one.stored.size if saved is None else saved.bytes
            return [SavedFile(session_id=one.wire_id, path=one.store.file_path(one.local_id), bytes=size)]
        done: list[SavedFile] = []
        failed: SessiondError | None = None
        for one in list(self.open_sessions.dirty):
            if one.ended or not one.dirty:
                continue
            try:
                saved = await one.save()
            except SessiondError as error:  # the others are still saved
                failed = failed or error
                continue
            if saved is not None:
                done.append(SavedFile(session_id=one.wire_id, path=saved.path, bytes=saved.bytes))
        if failed is not None:
            raise failed
        return done

    # Notes and state

    async def note_append(
        self,
        peer: Peer | None,
        session_id: str,
        heading: str,
        content: str,
        thread: str | None = None,
        tick: int | None = None,
        id: str | None = None,
    ) -> NoteResult:
        if not heading.strip():
            raise InvalidParams("heading: expected a text that is not empty", field="heading")
        one = self.open_sessions.at(session_id)
        note = await one.change(lambda draft: draft.note(heading, content, thread, tick, id), peer)
        return NoteResult(note=note)

    async def note_list(
        self, session_id: str, thread: str | None = None, last_global: int | None = None, last_thread: int | None = None
    ) -> NoteListResult:
        check_number("lastGlobal", last_global)
        check_number("lastThread", last_thread)
        notes = await self.open_sessions.at(session_id).look(lambda session: list(session.notes))
        chosen = paging.newest_notes([note for note in notes if note.thread is None], last_global)
        if thread is not None:
            chosen += paging.newest_notes([note for note in notes if note.thread == thread], last_thread)
        return NoteListResult(notes=sorted(chosen, key=lambda note: note.seq))

    async def state_set(
        self, peer: Peer | None, session_id: str, values: dict[str, Json], expected_seq: int | None = None
    ) -> int:
        one = self.open_sessions.at(session_id)
        taken = sorted(one.store.taken_state_keys.intersection(values))
        if taken:
            field = f"values.{taken[0]}"
            raise InvalidParams(
                f"{field}: in a {one.store.format} store this key holds other data of the session",
                hint="choose another key; messages are added with session/append",
                field=field,
            )
        return await one.change(lambda draft: draft.set_state(values, expected_seq), peer)

    async def state_get(self, session_id: str, keys: list[str] | None = None) -> StateResult:
        def look(session: Session) -> StateResult:
            state = session.state
            values = state if keys is None else {key: state[key] for key in keys if key in state}
            return StateResult(values=dict(values), saved_at=session.saved_at)

        return await self.open_sessions.at(session_id).look(look)

    async def state_clear(self, peer: Peer | None, session_id: str) -> int:
        return await self.open_sessions.at(session_id).change(lambda draft: draft.clear_state(), peer)

    # Finding, importing, exporting

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        sort: str | None = None,
        filter: dict[str, Json] | None = None,
    ) -> ListResult:
        return await self.finder.list(limit=limit, cursor=cursor, sort=sort, wanted=filter or {})

    def _brought(self, peer: Peer | None) -> None:
        """The peer has added a whole session, which is indexed in the background: its next search waits for that."""
        if peer is not None and not peer.closed:
            self._bringers.add(peer.id)

    async def search(
        self,
        peer: Peer | None,
        *,
        query: str,
        mode: str = "text",
        limit: int | None = None,
        cursor: str | None = None,
        filter: dict[str, Json] | None = None,
    ) -> SearchResult:
        if peer is not None and peer.id in self._bringers:
            self._bringers.discard(peer.id)
            await self.catalog.searchable()
        return await self.finder.search(query=query, mode=mode, limit=limit, cursor=cursor, wanted=filter or {})

    async def export(
        self, session_id: str, format: str, path: str | None = None, overwrite: bool = False
    ) -> ExportResult:
        return await self.transfer.export(self.open_sessions.at(session_id), format, path, overwrite)

    async def import_(
        self,
        peer: Peer | None,
        path: str,
        *,
        format: str | None = None,
        store: str | None = None,
        since: str | None = None,
        dry_run: bool = False,
        report: bool = False,
        progress: Callable[[dict[str, Json]], None] | None = None,
    ) -> ImportResult:
        target = check_store(self.stores, store)
        return await self.transfer.import_(
            path, target, format=format, since=since, dry_run=dry_run, report=report, progress=progress
        )

    async def adopt(self, path: str, name: str | None = None, format: str | None = None) -> AdoptResult:
        """Mount a folder of another system, now and at every start."""
        if self._adopt_folder is None:
            raise Unavailable("this daemon cannot mount folders")
        store = await self._adopt_folder(path, name, format)
        self.open_sessions.add_store(store)
        if store.problem is not None and store.problem.kind == "unavailable":
            raise Unavailable(f"{path}: {store.problem.message}", hint="it is mounted as soon as it can be")
        warnings = await self.catalog.check(store)
        await self.catalog.searchable()
        await self.finder.count()
        status = self._store_status(store)
        return AdoptResult(store=status, sessions=status.sessions, warnings=warnings)

    async def move(self, peer: Peer | None, session_id: str, store: str, dry_run: bool = False) -> MoveResult:
        moved = await self.transfer.move(self.open_sessions.at(session_id), check_store(self.stores, store), dry_run)
        self._brought(peer)
        return moved


def _cleared(field: str) -> Json:
    """Return what a null sets a field of a session to."""
    return {"tags": [], "metadata": {}, "archived": False}.get(field)
