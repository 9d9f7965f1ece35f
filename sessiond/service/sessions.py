"""The use cases, one method a request. `rpc/handlers` converts and calls; everything that decides is here or below.

Wire ids go in, wire values (dicts as PROTOCOL.md has them) come out; what goes wrong is raised from `sessiond.errors`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from sessiond.clock import Clock
from sessiond.errors import InvalidParams, SessiondError, SessionNotFound, TooLarge, Unavailable
from sessiond.limits import KIB, Limits
from sessiond.model.changes import Appended, Change, Cleared, Created, Truncated
from sessiond.model.message import Note, check_message, check_tool_calls, message_from_client
from sessiond.model.session import Session
from sessiond.model.values import Json, is_session_id, join_wire_id
from sessiond.service import paging
from sessiond.service.catalog import Catalog
from sessiond.service.claim import Claim
from sessiond.service.find import Finder
from sessiond.service.live import Peer, send_later
from sessiond.service.room import Room
from sessiond.service.rooms import Rooms, check_store
from sessiond.service.transfer import Transfer
from sessiond.store.port import FileWarning, Loaded, Store
from sessiond.unbroken import through

if TYPE_CHECKING:
    from sessiond.index.index import Index

AdoptFolder = Callable[[str, str | None, str | None], Awaitable[Store]]
"""(path, name, format) -> the mounted store, written to the configuration."""
_ROOM_FOR_AN_ANSWER = 4 * KIB
"""What an answer holds beside the largest message that it must be able to carry."""
_encode = msgspec.json.Encoder().encode
_FINISHED = ("done", "interrupted", "error")


class Service:
    """`stores`: by name, `default` among them. `home_paths`: the daemon's own folders, where no export may go."""

    def __init__(
        self, *, stores: Mapping[str, Store], index: Index, clock: Clock, limits: Limits, home_paths: Sequence[str] = (),
        journal_status: Callable[[], dict[str, Json]] = dict, read_only: Callable[[], dict[str, Json] | None] = lambda: None,
        adopt_folder: AdoptFolder | None = None,
    ) -> None:  # fmt: skip
        self.limits = limits
        self.stores: dict[str, Store] = {}
        self.index = index
        self._clock = clock
        self._journal_status = journal_status
        self._read_only = read_only
        self._adopt_folder = adopt_folder
        self.catalog = Catalog(index, self._is_open, self._keep)
        self.rooms = Rooms(self.stores, self.catalog, clock, limits, lambda: "m" + secrets.token_hex(8))
        for store in stores.values():
            self.rooms.add_store(store)
        self.finder = Finder(self.stores, self.rooms, self.catalog, limits)
        self.transfer = Transfer(self.rooms, self.catalog, clock, limits, list(home_paths))
        self._making: set[str] = set()

    def _is_open(self, wire_id: str) -> bool:
        return self.rooms.peek(wire_id) is not None

    def _keep(self, store: Store, loaded: Loaded) -> None:
        self.rooms.keep(store, loaded)

    # Life

    async def start(self) -> None:
        """Serve at once; the index is checked against the files in the background."""
        self.catalog.start(list(self.stores.values()))

    async def close(self) -> None:
        await self.rooms.close()
        await self.catalog.close()

    def disconnected(self, peer: Peer) -> None:
        self.rooms.disconnected(peer)

    def drained(self, peer: Peer) -> None:
        self.rooms.drained(peer)

    def released(self) -> int:
        """About how many bytes of sessions were let go of since the last call."""
        count = self.rooms.released + self.catalog.released
        self.rooms.released = self.catalog.released = 0
        return count

    async def status(self) -> dict[str, Json]:
        """The part of `daemon/status` that is about sessions."""
        await self.finder.count()
        return {
            "stores": [self._store_status(store) for store in self.stores.values()],
            "openSessions": len(self.rooms),
            "dirtySessions": sum(store.dirty_count() for store in self.stores.values()),
            "journal": self._journal_status(),
            "readOnly": self._read_only(),
            "index": self.catalog.state(),
        }

    def _store_status(self, store: Store) -> dict[str, Json]:
        problem = store.problem
        return {
            "name": store.name,
            "path": store.path,
            "format": store.format,
            "sessions": self.finder.counts.get(store.name, 0),
            "problem": None if problem is None else {"kind": problem.kind, "message": problem.problem},
        }

    # Opening

    async def new(
        self, peer: Peer | None, *, session_id: str | None = None, name: str | None = None, model: str | None = None, cwd: str | None = None,
        tags: list[str] | None = None, metadata: dict[str, Json] | None = None, store: str | None = None,
        messages: list[dict[str, Json]] | None = None,
    ) -> dict[str, Json]:  # fmt: skip
        target = check_store(self.stores, store)
        if session_id is not None and not is_session_id(session_id):
            raise InvalidParams(
                f"sessionId: {session_id!r} is no session id",
                hint="a letter or digit, then up to 127 of letters, digits, `.`, `_` and `-`",
                field="sessionId",
            )
        self._check_name(name)
        checked = self._check_messages(messages or [])
        fields = {"name": name, "model": model, "cwd": cwd, "tags": tags or [], "metadata": metadata or {}}
        local_id = session_id or await self._fresh_id(target)
        wire_id = join_wire_id(target.name, local_id)
        async with Claim(self._making, wire_id):
            room, changes = await through(self.rooms.make(wire_id, self._begun(target, local_id, fields, checked)))
        for change in changes:
            room._note_writer(change, peer)
        if peer is not None:
            room.audience.attach(peer, room.session.seq)
        self.catalog.changed(target, room.session, room.wire_id, changes)
        return self.rooms.info(room)

    async def _begun(
        self, store: Store, local_id: str, fields: dict[str, Json], messages: Sequence[Mapping[str, Json]]
    ) -> tuple[Room, list[Change]]:
        session = await store.begin(local_id, self.rooms.now())
        try:
            changes = self._first_changes(session, fields, messages)
            await store.commit(session, changes)
        except BaseException:
            await store.release(local_id)
            raise
        loaded = await store.load(local_id)
        wire_id = join_wire_id(store.name, local_id)
        return self.rooms.peek(wire_id) or self.rooms.open_room(store, wire_id, loaded), changes

    def _first_changes(
        self, session: Session, fields: dict[str, Json], messages: Sequence[Mapping[str, Json]]
    ) -> list[Change]:
        at = session.created_at
        changes: list[Change] = [Created(seq=0, at=at, info={"createdAt": at, **fields})]
        if messages:
            made = []
            ids: set[str] = set()
            for seq, wire in enumerate(messages, 1):
                message_id = wire.get("id") or "m" + secrets.token_hex(8)
                if message_id in ids:
                    raise InvalidParams(
                        f"messages[{seq - 1}].id: {message_id!r} is there twice", field=f"messages[{seq - 1}].id"
                    )
                ids.add(message_id)
                made.append(message_from_client(wire, message_id=message_id, seq=seq, now=at))
            changes.append(Appended.of(made, at))
        return changes

    async def _fresh_id(self, store: Store) -> str:
        """`session-YYYYMMDD-HHMMSS` in UTC, with `-2`, `-3`, ... where that second is taken."""
        digits = self.rooms.now()[:19].translate({ord(c): None for c in "-:"}).replace("T", "-")
        candidate, number = f"session-{digits}", 1
        while join_wire_id(store.name, candidate) in self._making or await store.exists(candidate):
            number += 1
            candidate = f"session-{digits}-{number}"
        return candidate

    async def open(
        self, peer: Peer, session_id: str, *, last: int | None = None, since: int | None = None, restore: bool = False
    ) -> dict[str, Json]:
        _check_number("last", last)
        _check_number("since", since)
        room = await self.rooms.fresh(session_id)
        look = partial(paging.opening, last=last, since=since, limits=self.limits)
        messages, more, changes = await self.rooms.reading(room, look)
        session = room.session
        # From here to the answer nothing awaits: what is published after this reaches the peer after the answer, once.
        room.audience.attach(peer, session.seq)
        result: dict[str, Json] = {
            "session": self.rooms.info(room),
            "messages": [message.wire() for message in messages],
            "notes": [note.wire() for note in session.notes],
            "state": dict(session.state),
            "hasMore": more,
            "warnings": [wire_warning(one) for one in room.warnings],
        }
        if since is not None:
            result["changes"] = None if changes is None else room.wires(changes)
        if restore:
            self._send_restored(peer, room)
        return result

    def _send_restored(self, peer: Peer, room: Room) -> None:
        """So that every panel repaints: one event, then all state."""
        session = room.session
        state = {"kind": "state", "seq": session.seq, "values": dict(session.state), "replay": True}
        origin = {"client": "sessiond", "connection": 0}
        changed = {"sessionId": room.wire_id, "seq": session.seq, "changes": [state], "origin": origin, "replay": True}
        restored = {"session": self.rooms.info(room), "messageCount": len(session)}
        send_later(
            asyncio.get_running_loop().call_soon, peer, [("session/restored", restored), ("session/changed", changed)]
        )

    async def close_session(self, peer: Peer, session_id: str) -> None:
        room = await self.rooms.get(session_id, whole=False)
        await self.rooms.interrupt(room, room.streams_of(peer))
        room.audience.detach(peer)
        if not len(room.audience) and not room.session.is_blank:
            await self.rooms.save(room)

    # Messages

    async def append(
        self, peer: Peer | None, session_id: str, messages: list[dict[str, Json]], expected_seq: int | None = None
    ) -> dict[str, Json]:
        checked = self._check_messages(messages)
        room = await self.rooms.get(session_id, whole=False)
        answers = await room.change(lambda draft: draft.append(checked, expected_seq), peer)
        seq = max((seq for _, seq in answers), default=room.session.seq)
        return {"seq": seq, "messages": [{"id": message_id, "seq": at} for message_id, at in answers]}

    def _check_messages(self, messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
        if len(messages) > self.limits.append_messages:
            raise TooLarge(
                f"messages: {len(messages)} are more than {self.limits.append_messages} at once",
                hint="append them in several requests",
                limit=self.limits.append_messages,
            )
        limit = self.limits.message_bytes - _ROOM_FOR_AN_ANSWER
        for index, wire in enumerate(messages):
            check_message(wire, f"messages[{index}]")
            if len(_encode(wire)) > limit:
                raise TooLarge(
                    f"messages[{index}]: too large to be read again", hint="split it into several messages", limit=limit
                )
        return messages

    async def extend(
        self, peer: Peer | None, session_id: str, message_id: str, text: str, offset: int | None = None
    ) -> int:
        room = await self.rooms.get(session_id, whole=False)
        return await room.change(lambda draft: draft.extend(message_id, text, offset), peer)

    async def finish(
        self, peer: Peer | None, session_id: str, message_id: str, status: str | None = None, metadata: dict[str, Json] | None = None,
        tool_calls: list[Json] | None = None,
    ) -> int:  # fmt: skip
        status = status or "done"
        if status not in _FINISHED:
            raise InvalidParams(f"status: expected one of {', '.join(_FINISHED)}", field="status")
        check_tool_calls(tool_calls, "params")
        room = await self.rooms.get(session_id, whole=False)
        return await room.change(lambda draft: draft.finish(message_id, status, metadata, tool_calls), peer)

    async def read(
        self,
        session_id: str,
        *,
        last: int | None = None,
        since: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> dict[str, Json]:
        for field, value in (("last", last), ("since", since), ("before", before), ("limit", limit)):
            _check_number(field, value)
        room = await self.rooms.get(session_id, whole=False)
        count = next((n for n in (limit, last) if n is not None), self.limits.default_page_messages)
        look = partial(paging.page, since=since, before=before, count=count, limits=self.limits)
        messages, more = await self.rooms.reading(room, look)
        return {"messages": [message.wire() for message in messages], "hasMore": more, "seq": room.session.seq}

    async def update(
        self, peer: Peer | None, session_id: str, fields: Mapping[str, Json], expected_seq: int | None = None
    ) -> dict[str, Json]:
        self._check_name(fields.get("name"))
        normal = {key: ([] if key == "tags" else {} if key == "metadata" else False if key == "archived" else None) if v is None else v
                  for key, v in fields.items()}  # fmt: skip
        room = await self.rooms.get(session_id, whole=False)
        await room.change(lambda draft: draft.update(normal, expected_seq), peer)
        return self.rooms.info(room)

    def _check_name(self, name: Json) -> None:
        if isinstance(name, str) and len(name) > self.limits.name_chars:
            raise InvalidParams(
                f"name: longer than {self.limits.name_chars} characters",
                hint="a shorter name; details fit into metadata",
                field="name",
            )

    # Taking away

    async def clear(self, peer: Peer | None, session_id: str) -> dict[str, Json]:
        room = await self.rooms.get(session_id)

        async def clear() -> None:
            await self.rooms.save(room)
            session = room.session
            if len(session) or session.summary:
                await self._cut(room, Cleared(seq=session.seq + 1, at=self.rooms.now()), "cleared", peer)

        await room.alone(clear)
        return self.rooms.info(room)

    async def truncate(self, peer: Peer | None, session_id: str, after_seq: int) -> dict[str, Json]:
        _check_number("afterSeq", after_seq)
        room = await self.rooms.get(session_id)

        async def truncate() -> int:
            session = room.session
            removed = len(session) - session.position_after(after_seq)
            if removed:
                await self._cut(
                    room, Truncated(seq=session.seq + 1, at=self.rooms.now(), after_seq=after_seq), "truncated", peer
                )
            return removed

        removed = await room.alone(truncate)
        return {"session": self.rooms.info(room), "removed": removed}

    async def _cut(self, room: Room, change: Change, reason: str, peer: Peer | None) -> None:
        """What goes lies in the trash before it is gone here."""
        session = room.session
        await room.store.discard(session, f"{session.local_id[:100]}.was-{session.seq}", reason)
        await room.store.commit(session, [change])
        room.writers = {
            message_id: writer for message_id, writer in room.writers.items() if session.message(message_id)
        }
        room.publish([change], peer)
        self.catalog.changed(room.store, session, room.wire_id, [change])

    async def delete(self, peer: Peer | None, session_id: str, permanent: bool = False) -> None:
        store, local_id = self.rooms.store_of(session_id)
        wire_id = join_wire_id(store.name, local_id)
        room = self.rooms.peek(wire_id)

        async def delete() -> None:
            await store.delete(local_id, permanent=permanent)
            self.rooms.close_room(wire_id)
            self.catalog.vanished(store, local_id)

        try:
            await (room.alone(delete) if room is not None else through(delete()))
        except SessionNotFound:
            # Permanently deleting what lies in the trash already is how the trash is emptied by hand.
            if not permanent or not any(one.trash_id == local_id for one in await store.trash()):
                raise
            await store.purge(local_id)
        if permanent:
            await self.catalog.searchable()

    async def restore(self, peer: Peer | None, session_id: str) -> dict[str, Json]:
        store, local_id = self.rooms.store_of(session_id)
        async with Claim(self._making, join_wire_id(store.name, local_id)):
            loaded = await through(store.restore(local_id, local_id))
        self.catalog.replaced(store, loaded.session)
        room = await self.rooms.get(join_wire_id(store.name, local_id))
        return self.rooms.info(room)

    async def fork(
        self, peer: Peer | None, session_id: str, at_seq: int | None = None, name: str | None = None
    ) -> dict[str, Json]:
        _check_number("atSeq", at_seq)
        self._check_name(name)
        room = await self.rooms.get(session_id)
        local_id = await self._fresh_id(room.store)
        async with Claim(self._making, join_wire_id(room.store.name, local_id)):
            return await through(self.transfer.fork(room, local_id, at_seq, name))

    async def save(self, session_id: str | None = None) -> list[dict[str, Json]]:
        """Bring files up to date. Of one session its file is told even where it was current."""
        if session_id is not None:
            room = await self.rooms.get(session_id, whole=False)
            saved = await room.store.save(room.session.local_id)
            path, size = (saved.path, saved.bytes) if saved else self.transfer.file_of(room)
            return [{"sessionId": room.wire_id, "path": path, "bytes": size}]
        done: list[dict[str, Json]] = []
        failed: SessiondError | None = None
        for store in list(self.stores.values()):
            for local_id in store.dirty_ids():
                try:
                    saved = await store.save(local_id)
                except SessiondError as error:  # the others are saved all the same
                    failed = failed or error
                    continue
                if saved is not None:
                    wire_id = join_wire_id(store.name, local_id)
                    done.append({"sessionId": wire_id, "path": saved.path, "bytes": saved.bytes})
        if failed is not None:
            raise failed
        return done

    # Notes and state

    async def note_append(
        self, peer: Peer | None, session_id: str, heading: str, content: str, thread: str | None = None, tick: int | None = None,
        id: str | None = None,
    ) -> dict[str, Json]:  # fmt: skip
        if not heading.strip():
            raise InvalidParams("heading: expected some text", field="heading")
        room = await self.rooms.get(session_id, whole=False)
        note = await room.change(lambda draft: draft.note(heading, content, thread, tick, id), peer)
        return {"note": note.wire()}

    async def note_list(
        self, session_id: str, thread: str | None = None, last_global: int | None = None, last_thread: int | None = None
    ) -> dict[str, Json]:
        _check_number("lastGlobal", last_global)
        _check_number("lastThread", last_thread)
        notes = (await self.rooms.get(session_id, whole=False)).session.notes
        chosen = _newest([note for note in notes if note.thread is None], last_global)
        if thread is not None:
            chosen += _newest([note for note in notes if note.thread == thread], last_thread)
        return {"notes": [note.wire() for note in sorted(chosen, key=lambda note: note.seq)]}

    async def state_set(
        self, peer: Peer | None, session_id: str, values: dict[str, Json], expected_seq: int | None = None
    ) -> int:
        room = await self.rooms.get(session_id, whole=False)
        if room.store.format == "theia" and "messages" in values:
            raise InvalidParams(
                "values.messages: in a theia store these are the session's messages",
                hint="use session/append",
                field="values.messages",
            )
        return await room.change(lambda draft: draft.set_state(values, expected_seq), peer)

    async def state_get(self, session_id: str, keys: list[str] | None = None) -> dict[str, Json]:
        session = (await self.rooms.get(session_id, whole=False)).session
        values = session.state if keys is None else {key: session.state[key] for key in keys if key in session.state}
        return {"values": dict(values), "savedAt": session.saved_at}

    async def state_clear(self, peer: Peer | None, session_id: str) -> int:
        room = await self.rooms.get(session_id, whole=False)
        return await room.change(lambda draft: draft.clear_state(), peer)

    # Finding, bringing in, taking out

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        sort: str | None = None,
        filter: dict[str, Json] | None = None,
    ) -> dict[str, Json]:
        return await self.finder.list(limit=limit, cursor=cursor, sort=sort, wanted=filter or {})

    async def search(
        self, *, query: str, mode: str = "text", limit: int | None = None, cursor: str | None = None,
        filter: dict[str, Json] | None = None,
    ) -> dict[str, Json]:  # fmt: skip
        return await self.finder.search(query=query, mode=mode, limit=limit, cursor=cursor, wanted=filter or {})

    async def export(
        self, session_id: str, format: str, path: str | None = None, overwrite: bool = False
    ) -> dict[str, Json]:
        return await self.transfer.export(await self.rooms.get(session_id), format, path, overwrite)

    async def import_(
        self, peer: Peer | None, path: str, *, format: str | None = None, store: str | None = None, since: str | None = None,
        dry_run: bool = False, progress: Callable[[dict[str, Json]], None] | None = None,
    ) -> dict[str, Json]:  # fmt: skip
        target = check_store(self.stores, store)
        return await self.transfer.import_(path, target, format=format, since=since, dry_run=dry_run, progress=progress)

    async def adopt(self, path: str, name: str | None = None, format: str | None = None) -> dict[str, Json]:
        """Mount a folder of another system, from now on and at every start."""
        if self._adopt_folder is None:
            raise Unavailable("this daemon mounts no folders")
        store = await self._adopt_folder(path, name, format)
        self.rooms.add_store(store)
        warnings = await self.catalog.check(store)
        await self.catalog.searchable()
        await self.finder.count()
        status = self._store_status(store)
        return {"store": status, "sessions": status["sessions"], "warnings": [wire_warning(one) for one in warnings]}

    async def move(self, peer: Peer | None, session_id: str, store: str, dry_run: bool = False) -> dict[str, Json]:
        return await self.transfer.move(await self.rooms.get(session_id), check_store(self.stores, store), dry_run)


def wire_warning(warning: FileWarning) -> dict[str, Json]:
    return {"path": warning.path, "line": warning.line, "message": warning.message}


def _check_number(field: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise InvalidParams(f"{field}: expected 0 or more, not {value}", field=field)


def _newest(notes: list[Note], count: int | None) -> list[Note]:
    return notes if count is None else notes[len(notes) - min(count, len(notes)) :]
