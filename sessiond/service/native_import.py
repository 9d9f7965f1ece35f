"""Imports sessions in sessiond's own formats: the stored one, and complete exports."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from typing import TypeVar

import msgspec

from sessiond.errors import AlreadyExists, BadFile, Conflict, InvalidParams, SessiondError, TooLarge
from sessiond.formats import registry as formats
from sessiond.fs import Threads
from sessiond.importers import exported
from sessiond.importers.record import open_source
from sessiond.importers.sections import SessionLines, sections
from sessiond.limits import MIB
from sessiond.model.session import Session
from sessiond.model.values import Json, split_wire_id
from sessiond.schema.types import SessionInfo
from sessiond.service.imported_session import ImportTarget
from sessiond.service.offload import heavy
from sessiond.shield import shielded

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_PORTION_BYTES = 8 * MIB


class NativeIntake:
    """Imports into one store. `warn(path, line, message)` is told each problem; `took(info, messages)` is called for each
    session with the number of messages that were new, and info None if there were none.
    """

    def __init__(
        self,
        place: ImportTarget,
        warn: Callable[[str, int | None, str], None],
        took: Callable[[SessionInfo | None, int], None],
        threads: Threads,
        *,
        dry_run: bool,
        followed: bool,
    ) -> None:
        self._place = place
        self._warn = warn
        self._took = took
        self._threads = threads
        self._dry_run = dry_run
        self._followed = followed

    async def run(self, path: str, name: str) -> None:
        """Import everything at `path` that is in the format `name`."""
        if name == "jsonl" and await self._threads.call(os.path.isfile, path):
            await self.file(path)
            return
        fmt = formats.get(name)
        root, names = await self._threads.call(_names, path)
        found = fmt.find(names)
        if not found:
            self._warn(path, None, f"contains no {name} sessions")
        for local_id in found:
            main = os.path.join(root, found[local_id])
            try:
                await self._session(name, local_id, root, main)
            except (SessiondError, OSError):  # nothing can be stored, for example because the disk is full
                raise
            except Exception as error:  # a bug of ours with one session: the others follow
                _log.exception("%s cannot be imported", main)
                self._warn(main, None, f"cannot be imported: {error!r}")

    async def _session(self, name: str, local_id: str, root: str, main: str) -> None:
        if name == "jsonl" and await self._threads.call(_holds_several, main):
            await self.file(main)
            return
        try:
            files = await self._threads.call(_read_files, root, formats.get(name).paths(local_id))
        except OSError as error:
            self._unreadable(main, error)
            return
        await self._decoded(name, local_id, files, lambda relative: os.path.join(root, relative))

    async def file(self, path: str) -> None:
        """Import one `jsonl` file or a JSON export of one or more sessions, one after another. An OSError is reported."""
        try:
            head = await self._threads.call(_read, path, exported.HEAD_BYTES)
        except OSError as error:
            self._unreadable(path, error)
            return
        if exported.is_export(head):
            await self._each(path, exported.read(path, open_source), lambda found: self._document(found, path))
        else:
            await self._each(path, sections(path, open_source), lambda found: self._section(found, path))

    def _unreadable(self, path: str, error: OSError) -> None:
        self._warn(path, None, f"cannot be read: {error.strerror or error}")

    async def _each(self, path: str, found: Generator[_T, None, None], take: Callable[[_T], Awaitable[None]]) -> None:
        """Read one session at a time, off the loop, and the next one once that is stored."""
        with closing(found):
            while True:
                try:
                    one = await self._threads.run(next, found, None)
                except OSError as error:  # of the file; errors of the store are not caught here
                    self._unreadable(path, error)
                    return
                if one is None:
                    return
                await take(one)

    async def _section(self, found: SessionLines, path: str) -> None:
        fmt = formats.get("jsonl")
        local_id = found.local_id
        if local_id is None and found.line == 1:
            local_id = next(iter(fmt.find([os.path.basename(path)])), None)
        if local_id is None:
            reason = (
                "its header names no session id"
                if found.line > 1
                else "neither its header nor its name is a session id"
            )
            self._warn(path, found.line if found.line > 1 else None, reason)
            return

        def line_of(line: int | None) -> int | None:
            return None if line is None else found.line - 1 + line

        await self._decoded("jsonl", local_id, {fmt.main_path(local_id): found.content}, lambda _: path, line_of)

    async def _document(self, found: exported.ExportedSection, path: str) -> None:
        for problem in found.problems:
            self._warn(problem.path, problem.line, problem.reason)
        if found.local_id is None:
            self._warn(path, found.line, "its session names no session id")
            return
        files = {formats.get("jsonl").main_path(found.local_id): found.content}
        await self._decoded("jsonl", found.local_id, files, lambda _: path, found.place)

    async def _decoded(
        self,
        name: str,
        local_id: str,
        files: dict[str, bytes],
        path_of: Callable[[str], str],
        line_of: Callable[[int | None], int | None] = lambda line: line,
    ) -> None:
        decoded = await asyncio.to_thread(formats.get(name).decode, local_id, files)
        for problem in decoded.problems:
            self._warn(path_of(problem.path), line_of(problem.line), problem.message)
        if decoded.fatal is not None:
            return
        try:
            await shielded(self._merge(decoded.session))
        except (AlreadyExists, BadFile, Conflict, InvalidParams, TooLarge) as error:
            self._warn(path_of(formats.get(name).main_path(local_id)), None, error.message)

    async def _merge(self, session: Session) -> None:
        place = self._place
        if self._followed and not await place.has(session.local_id) and await self._is_deleted(session.local_id):
            self._took(None, 0)  # nobody asked for this import
            return
        held = await place.held(session.local_id)
        if held is None:
            described = (
                place.open_sessions.describe(place.store, session) if self._dry_run else await place.put(session)
            )
            self._took(described, len(session))
            return
        try:
            new: list[dict[str, Json]] = await heavy(session, _lacking, held.session, session)
            described = place.open_sessions.info(held.one)
            if new and self._dry_run:
                described = msgspec.structs.replace(described, message_count=len(held.session) + len(new))
            elif new:
                for part in _portions(new):
                    await held.one.change(lambda draft, part=part: draft.append(part, None))  # type: ignore[misc]
                await place.save(held.one)
                described = place.open_sessions.info(held.one)
            self._took(described if new else None, len(new))
        finally:
            held.let_go()

    async def _is_deleted(self, local_id: str) -> bool:
        """Return whether somebody deleted the session here."""
        store = self._place.store
        return any(
            one.reason == "deleted" and split_wire_id(one.info.session_id)[1] == local_id for one in await store.trash()
        )


def _lacking(here: Session, source: Session) -> list[dict[str, Json]]:
    """Messages of `source` whose ids are not in `here`."""
    return [message.wire() for message in source.messages() if here.message(message.id) is None]


def _portions(messages: list[dict[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    """Portions that each fit into one journal record. `messages`: at least one."""
    part: list[dict[str, Json]] = []
    size = 0
    for message in messages:
        weight = len(msgspec.json.encode(message))
        if part and size + weight > _PORTION_BYTES:
            yield part
            part, size = [], 0
        part.append(message)
        size += weight
    yield part


def _read(path: str, size: int = -1) -> bytes:
    with open(path, "rb") as file:
        return file.read(size)


def _holds_several(path: str) -> bool:
    """Return whether a file is an export of more than one session. False if it cannot be read."""
    try:
        with closing(sections(path, open_source)) as found:
            return sum(1 for _ in islice(found, 2)) > 1
    except OSError:
        return False


def _names(path: str) -> tuple[str, list[str]]:
    """A folder and the relative paths in it, three levels deep; of a file, its folder and its name."""
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
