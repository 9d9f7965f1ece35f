"""Whole sessions on the move: forks, exports, imports, moves between stores."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sessiond.clock import Clock
from sessiond.errors import AlreadyExists, InvalidParams, SessiondError, TooLarge
from sessiond.exporters import export as render
from sessiond.formats import jsonl
from sessiond.formats.lost import lost
from sessiond.fs import FileSystem, RealFileSystem, atomic_write
from sessiond.limits import Limits
from sessiond.model.changes import Truncated
from sessiond.model.session import Session, content_equal
from sessiond.model.values import Json, join_wire_id, normal_timestamp, timestamp
from sessiond.service.catalog import Catalog
from sessiond.service.outside import outside
from sessiond.service.room import Room
from sessiond.service.rooms import Rooms
from sessiond.store.port import Store

if TYPE_CHECKING:
    from sessiond.service.intake import Intake, Progress
    from sessiond.service.sources import Sources

EXPORT_FORMATS = ("jsonl", "json", "markdown", "org", "html", "text")


class Transfer:
    def __init__(self, rooms: Rooms, catalog: Catalog, clock: Clock, limits: Limits, home_paths: Sequence[str]) -> None:
        self._rooms = rooms
        self._catalog = catalog
        self._clock = clock
        self._limits = limits
        self._home_paths = home_paths
        self._fs: FileSystem = RealFileSystem()
        self._sources: dict[str, Sources] = {}

    def file_of(self, room: Room) -> tuple[str, int]:
        path = room.store.file_path(room.session.local_id)
        stat = self._fs.stat(path)
        return path, stat.size if stat else 0

    # Fork

    async def fork(self, room: Room, local_id: str, at_seq: int | None, name: str | None) -> dict[str, Json]:
        session = room.session
        seq = session.seq if at_seq is None else at_seq
        if seq > session.seq:
            raise InvalidParams(f"atSeq: the session is at seq {session.seq} only", field="atSeq")
        fork = session.snapshot()
        now = timestamp(self._clock.now_ms())
        fork.local_id = local_id
        fork.apply(Truncated(seq=fork.seq, at=now, after_seq=seq))
        fork.notes = [note for note in fork.notes if note.seq <= seq]
        fork.seq = seq
        fork.created_at = fork.updated_at = now
        fork.parent = {"sessionId": room.wire_id, "seq": seq}
        fork.name = fork.name if name is None else name
        for message in session.streaming():  # a copy does not know which of its messages stream in
            if fork.message(message.id) is not None:
                fork.replace_message(message.with_status("interrupted"))
        await room.store.put(fork)
        return await self._made(room.store, local_id)

    async def _made(self, store: Store, local_id: str) -> dict[str, Json]:
        room = await self._rooms.get(join_wire_id(store.name, local_id))
        self._catalog.replaced(store, room.session)
        return self._rooms.info(room)

    # Export

    async def export(self, room: Room, fmt: str, path: str | None, overwrite: bool) -> dict[str, Json]:
        if fmt not in EXPORT_FORMATS:
            raise InvalidParams(f"format: expected one of {', '.join(EXPORT_FORMATS)}", field="format")
        target = None if path is None else await asyncio.to_thread(self._export_path, path, overwrite)
        session = room.session.snapshot()
        content: bytes = await asyncio.to_thread(_render, session, fmt)
        if target is None:
            if len(content) > self._limits.export_bytes:
                raise TooLarge(
                    f"the export has {len(content)} bytes",
                    hint="name a `path` to export to a file",
                    limit=self._limits.export_bytes,
                )
            return {"content": content.decode()}
        await asyncio.to_thread(self._write, target, content, overwrite)
        return {"path": target, "bytes": len(content)}

    def _export_path(self, path: str, overwrite: bool) -> str:
        real = outside(path, self._home_paths, list(self._rooms.stores.values()))
        if os.path.isdir(real):
            raise InvalidParams(f"path: {real} is a folder", hint="name a file in it", field="path")
        if os.path.lexists(path) and not overwrite:
            raise AlreadyExists(f"{path} is there already", hint="`overwrite: true` replaces it", path=path)
        return path

    def _write(self, path: str, content: bytes, overwrite: bool) -> None:
        try:
            if overwrite:
                atomic_write(self._fs, self._fs.real_path(path), content, 0o644)
            else:
                self._fs.create(path, content, 0o644)
                self._fs.sync_dir(posixpath.dirname(path))
        except FileExistsError as error:
            raise AlreadyExists(f"{path} is there already", hint="`overwrite: true` replaces it", path=path) from error
        except OSError as error:
            raise InvalidParams(f"path: {path} cannot be written: {error.strerror}", field="path") from error

    # Import

    async def import_(
        self,
        path: str,
        store: Store,
        *,
        format: str | None,
        since: str | None,
        dry_run: bool,
        progress: Progress | None,
    ) -> dict[str, Json]:
        if not posixpath.isabs(path) or "\0" in path:
            raise InvalidParams("path: expected an absolute path", field="path")
        if not await asyncio.to_thread(os.path.exists, path):
            raise InvalidParams(f"path: there is no {path}", field="path")
        if since is not None:
            try:
                since = normal_timestamp(since)
            except (ValueError, OverflowError) as error:
                raise InvalidParams("since: expected RFC 3339, as 2026-01-11T14:30:22.000Z", field="since") from error
        intake = await asyncio.to_thread(self._intake, store, format, since, dry_run, progress)
        return await intake.run(path)

    def _intake(
        self, store: Store, format: str | None, since: str | None, dry_run: bool, progress: Progress | None
    ) -> Intake:
        # Whoever only reads and writes sessions need not load fourteen importers; and loading them is no work for the loop.
        from sessiond.service.arriving import Place
        from sessiond.service.intake import Intake, Wanted
        from sessiond.service.sources import Sources

        place = Place(self._rooms, self._catalog, store)
        sources = self._sources.setdefault(store.name, Sources(store, self._catalog))
        return Intake(place, sources, self._clock, Wanted(format, since, dry_run), progress)

    # Move

    async def move(self, room: Room, target: Store, dry_run: bool) -> dict[str, Json]:
        told = lost(room.session, target.format)
        if dry_run or target is room.store:
            return {"session": self._rooms.info(room), "lost": told}
        local_id = room.session.local_id

        async def move() -> None:
            copy = room.session.snapshot()
            await target.put(copy)
            loaded = await target.load(local_id)
            if not _holds(loaded.session, room.session):
                await target.delete(local_id, permanent=True)
                raise SessiondError(
                    f"{target.format} did not give back {room.wire_id} as it was, so it stays where it is",
                    hint="please report this with `sessiond doctor`",
                )
            await room.store.delete(local_id, permanent=True)
            self._rooms.close_room(room.wire_id)
            self._catalog.vanished(room.store, local_id)

        await room.alone(move)
        return {"session": await self._made(target, local_id), "lost": told}


def _holds(copy: Session, original: Session) -> bool:
    """Whether everything of `original` is in `copy`. Notes may be more: some folders share theirs among their sessions."""
    notes = {note.id: note for note in copy.notes}
    mine = [notes.get(note.id) for note in original.notes]
    told = copy.snapshot()
    told.notes, told.seq = list(original.notes), original.seq
    same_notes = all(
        a is not None and (a.heading, a.content, a.thread) == (b.heading, b.content, b.thread)
        for a, b in zip(mine, original.notes, strict=True)
    )
    return same_notes and copy.seq >= original.seq and content_equal(told, original)


def _render(session: Session, fmt: str) -> bytes:
    if fmt == "jsonl":
        return jsonl.encode(session, {})[0].data
    chunks: Iterator[str] = render(session, session.messages(), fmt)
    return "".join(chunks).encode("utf-8", "replace")
