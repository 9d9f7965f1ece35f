"""Importing: a stream of records from a foreign file -> sessions made or grown.

The reading runs on a thread, a batch at a time, so that other clients never notice. A session is made as a whole; one
that is very large is made from its first part and grown, and taken away again if the import is cancelled in between, so
that only whole sessions stay.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from sessiond.clock import Clock
from sessiond.errors import InvalidParams, SessiondError
from sessiond.formats import registry as formats
from sessiond.importers import registry
from sessiond.importers.record import (
    Event,
    InfoUpdate,
    MessageRecord,
    SessionEnd,
    SessionStart,
    SkippedLine,
    open_source,
)
from sessiond.limits import MIB, Limits
from sessiond.model.message import message_from_client
from sessiond.model.session import Session
from sessiond.model.values import Json, is_session_id, join_wire_id, timestamp
from sessiond.service.catalog import Catalog
from sessiond.service.rooms import Rooms
from sessiond.store.port import Store

Progress: TypeAlias = Callable[[dict[str, Json]], None]
_BATCH = 256
_BATCH_BYTES = 4 * MIB
_PART = 4000
"""Messages of one session that are held before they are written."""
_MAX_WARNINGS = 10_000


class _Making:
    """One session of the source while it is read."""

    def __init__(self, start: SessionStart) -> None:
        self.local_id = start.suggested_id
        self.info = dict(start.info)
        self.messages: list[dict[str, Json]] = []
        self.known: Callable[[str], bool] = lambda _: False
        self.exists = False
        """It was there before this import."""
        self.made = False
        self.added = 0

    @property
    def changed(self) -> bool:
        return self.added > 0 or (self.made and not self.exists)


class Intake:
    def __init__(
        self, rooms: Rooms, catalog: Catalog, store: Store, clock: Clock, limits: Limits, *, dry_run: bool, progress: Progress | None
    ) -> None:  # fmt: skip
        self._rooms = rooms
        self._catalog = catalog
        self._store = store
        self._clock = clock
        self._limits = limits
        self._dry_run = dry_run
        self._progress = progress or (lambda _: None)
        self._sessions: list[dict[str, Json]] = []
        self._skipped = 0
        self._warnings: list[dict[str, Json]] = []
        self._messages = 0

    async def run(self, path: str, fmt: str | None) -> dict[str, Json]:
        if fmt is not None and fmt not in registry.BY_NAME and fmt not in formats.NAMES:
            known = ", ".join([*registry.BY_NAME, *formats.NAMES])
            raise InvalidParams(f"format: expected one of {known}", field="format")
        if fmt in formats.NAMES:
            await self._store_format(path, fmt or "")
        else:
            await self._foreign(path, fmt)
        return {"sessions": self._sessions, "skipped": self._skipped, "warnings": self._warnings}

    def _warn(self, path: str, line: int | None, message: str) -> None:
        if len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append({"path": path, "line": line, "message": message})

    # Foreign tools

    async def _foreign(self, path: str, fmt: str | None) -> None:
        found = await asyncio.to_thread(lambda: list(registry.walk(path, fmt)))
        total = sum(max(one.size, 1) for one in found if isinstance(one, registry.Found)) or 1
        done = 0
        for number, one in enumerate(found, 1):
            if isinstance(one, SkippedLine):
                self._warn(one.path, one.line, one.reason)
                continue
            if one.importer == registry.NATIVE:
                await self._native(one.path)
            else:
                await self._file(one)
            done += one.size
            self._progress({
                "percentage": min(99, 100 * done // total),
                "message": f"{number} of {len(found)} files, {len(self._sessions)} sessions, {self._messages} messages",
                "files": number, "totalFiles": len(found), "bytes": done, "totalBytes": total,
                "sessions": len(self._sessions), "messages": self._messages,
            })  # fmt: skip

    async def _file(self, found: registry.Found) -> None:
        making: dict[str, _Making] = {}
        try:
            async for event in self._events(found):
                await self._take(event, making)
            for one in making.values():
                await self._finish(one)
        except asyncio.CancelledError:
            for one in making.values():
                if one.made and not one.exists:
                    await self._store.delete(one.local_id, permanent=True)
            raise
        except OSError as error:
            self._warn(found.path, None, f"cannot be read: {error.strerror or error}")

    async def _events(self, found: registry.Found) -> AsyncIterator[Event]:
        """The importer's events; it runs on a thread, a batch at a time."""
        stream = registry.BY_NAME[found.importer].read(found.path, open_source)
        while batch := await asyncio.to_thread(_batch, stream):
            for event in batch:
                yield event

    async def _take(self, event: Event, making: dict[str, _Making]) -> None:
        match event:
            case SessionStart():
                making[event.source_id] = await self._begin(event)
            case MessageRecord():
                one = making[event.source_id]
                if not one.known(event.message["id"]):
                    one.messages.append(event.message)
                    if len(one.messages) >= _PART:
                        await self._write(one)
            case InfoUpdate():
                if event.source_id in making:
                    _merge(making[event.source_id].info, event.fields)
                else:
                    await self._update_other(event)
            case SessionEnd():
                await self._finish(making.pop(event.source_id))
            case SkippedLine():
                self._warn(event.path, event.line, event.reason)
            case _:
                pass

    async def _begin(self, start: SessionStart) -> _Making:
        one = _Making(start)
        parent = one.info.get("parent")
        if parent:
            one.info["parent"] = {**parent, "sessionId": join_wire_id(self._store.name, parent["sessionId"])}
        if await self._store.exists(one.local_id):
            room = await self._rooms.get(join_wire_id(self._store.name, one.local_id))
            one.exists = one.made = True
            one.known = lambda message_id: room.session.message(message_id) is not None
        return one

    async def _update_other(self, event: InfoUpdate) -> None:
        """A name for a session of another file: given where that has none."""
        wire_id = join_wire_id(self._store.name, event.suggested_id)
        if self._dry_run or not await self._store.exists(event.suggested_id):
            return
        room = await self._rooms.get(wire_id)
        name = event.fields.get("name")
        if name and not room.session.name:
            await room.change(lambda draft: draft.update({"name": name}, None))

    async def _finish(self, one: _Making) -> None:
        if one.messages or not one.made:
            await self._write(one)
        if one.exists and not self._dry_run:
            await self._refresh_info(one)
        if not one.changed:
            self._skipped += 1
            return
        if self._dry_run:
            return
        room = await self._rooms.get(join_wire_id(self._store.name, one.local_id))
        await self._store.save(one.local_id)
        self._sessions.append(self._rooms.info(room))

    async def _refresh_info(self, one: _Making) -> None:
        room = await self._rooms.get(join_wire_id(self._store.name, one.local_id))
        session = room.session
        fresh = {
            key: one.info[key]
            for key in ("name", "summary", "model")
            if one.info.get(key) and not getattr(session, key)
        }
        learned = {key: value for key, value in one.info.get("metadata", {}).items() if key not in session.metadata}
        if learned:
            fresh["metadata"] = {**session.metadata, **learned}
        if fresh:
            await room.change(lambda draft: draft.update(fresh, None))

    async def _write(self, one: _Making) -> None:
        """Make what was read so far durable."""
        messages, one.messages = one.messages, []
        self._messages += len(messages)
        one.added += len(messages)
        if self._dry_run:
            self._would_write(one, messages)
            return
        if not one.made:
            session = await asyncio.to_thread(_build, one, messages, timestamp(self._clock.now_ms()))
            await self._store.put(session)
            one.made = True
            self._catalog.replaced(self._store, session)
            one.known = lambda message_id: session.message(message_id) is not None
            await self._catalog.index.room()
            return
        room = await self._rooms.get(join_wire_id(self._store.name, one.local_id))
        for start in range(0, len(messages), 500):
            part = messages[start : start + 500]
            await room.change(lambda draft, part=part: draft.append(part, None))  # type: ignore[misc]

    def _would_write(self, one: _Making, messages: list[dict[str, Json]]) -> None:
        if not one.made or (one.exists and one.added):
            session = _build(one, [] if one.exists else messages, timestamp(self._clock.now_ms()))
            info = self._rooms.describe(self._store, session)
            if not any(listed["sessionId"] == info["sessionId"] for listed in self._sessions):
                self._sessions.append(info)
        one.made = True

    # Our own formats

    async def _native(self, path: str) -> None:
        content = await asyncio.to_thread(_read, path)
        name = os.path.basename(path).removesuffix(".jsonl")
        local_id = _id_in(content) or name
        await self._decoded("jsonl", local_id, {f"{local_id}.jsonl": content}, os.path.dirname(path))

    async def _store_format(self, path: str, name: str) -> None:
        if name == "jsonl" and os.path.isfile(path):
            await self._native(path)
            return
        fmt = formats.get(name)
        root, names = await asyncio.to_thread(_names, path)
        found = fmt.find(names)
        if not found:
            self._warn(path, None, f"holds no {name} session")
        for local_id in found:
            files = await asyncio.to_thread(_read_files, root, fmt.paths(local_id))
            await self._decoded(name, local_id, files, root)

    async def _decoded(self, name: str, local_id: str, files: dict[str, bytes], root: str) -> None:
        decoded = await asyncio.to_thread(formats.get(name).decode, local_id, files)
        for problem in decoded.problems:
            self._warn(os.path.join(root, problem.path), problem.line, problem.message)
        if decoded.fatal is not None:
            return
        try:
            await self._merge_session(decoded.session)
        except SessiondError as error:
            self._warn(os.path.join(root, local_id), None, error.message)

    async def _merge_session(self, session: Session) -> None:
        self._messages += len(session)
        if not await self._store.exists(session.local_id):
            if self._dry_run:
                self._sessions.append(self._rooms.describe(self._store, session))
                return
            await self._store.put(session)
            self._catalog.replaced(self._store, session)
            room = await self._rooms.get(join_wire_id(self._store.name, session.local_id))
            self._sessions.append(self._rooms.info(room))
            return
        room = await self._rooms.get(join_wire_id(self._store.name, session.local_id))
        new = [message.wire() for message in session.messages() if room.session.message(message.id) is None]
        if not new:
            self._skipped += 1
            return
        if not self._dry_run:
            await room.change(lambda draft: draft.append(new, None))
        self._sessions.append(self._rooms.info(room))


def _batch(stream: Iterator[Event]) -> list[Event]:
    """The next events, bounded in number and, roughly, in bytes."""
    batch: list[Event] = []
    size = 0
    for event in stream:
        batch.append(event)
        if isinstance(event, MessageRecord):
            content = event.message.get("content")
            size += len(content) if isinstance(content, str) else 1000 * len(content or ())
        if len(batch) >= _BATCH or size > _BATCH_BYTES:
            break
    return batch


def _build(one: _Making, messages: list[dict[str, Json]], now: str) -> Session:
    first = messages[0].get("timestamp") if messages else None
    session = Session(one.local_id, one.info.get("createdAt") or first or now)
    session.update({key: value for key, value in one.info.items() if value is not None})
    for wire in messages:
        if session.message(wire["id"]) is None:
            message = message_from_client(wire, message_id=wire["id"], seq=session.seq + 1, now=session.updated_at)
            session.add_message(message)
            session.touch(message.timestamp)
    session.touch(one.info.get("updatedAt") or session.updated_at)
    return session


def _merge(info: dict[str, Any], fields: dict[str, Any]) -> None:
    for key, value in fields.items():
        if key == "metadata":
            info["metadata"] = {**info.get("metadata", {}), **value}
        else:
            info[key] = value


def _id_in(content: bytes) -> str | None:
    """The id that a native file's header names: an export may lie under any name."""
    try:
        header = msgspec.json.decode(content.partition(b"\n")[0])
    except (msgspec.MsgspecError, RecursionError):
        return None
    found = header.get("id") if isinstance(header, dict) else None
    return found if isinstance(found, str) and is_session_id(found) else None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _names(path: str) -> tuple[str, list[str]]:
    """A folder (or the one a file is in) and the relative paths in it, three levels deep."""
    root = path if os.path.isdir(path) else os.path.dirname(path)
    if not os.path.isdir(path):
        return root, [os.path.basename(path)]
    found = []
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        if below.count(os.sep) >= 2:
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [name if below == "." else f"{below}/{name}" for name in sorted(files + folders)]
    return root, found


def _read_files(root: str, names: list[str]) -> dict[str, bytes]:
    return {name: _read(os.path.join(root, name)) for name in names if os.path.isfile(os.path.join(root, name))}
