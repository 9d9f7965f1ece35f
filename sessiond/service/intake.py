"""Importing: the files of other tools at a path -> sessions created or extended in a store.

Each file is read in batches on a thread, and each batch is passed on at once, so neither the size nor the number of files
costs memory, and other clients never notice. A fault in one record, session or file is reported, and the import continues
with the next one.

Theory of operation
-------------------
A file is passed over if it was read to its end in its present version, and all that it had is here. Otherwise its records say of
each session in it

    start ──> arriving ──messages──> arriving ──end──> ended ──> stored (a new one beside others), extended, or left out

A session is left out, and its file does not count as read to its end (`file.whole`), if it cannot be kept, if somebody deletes it
meanwhile, or if another import began it first or gave it another form of a message; then the file is read again, and what it has
extends the session (`_overtaken`).
The last session of a file notes that the file was read, in the same write that makes its words durable, so a kill before that
leaves a file that is read again, and ids let nothing be added twice.

What stops an import is what would stop every session of it: a full disk, a store that is away.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, nullcontext
from typing import TypeAlias

from sessiond.collector import few_searches
from sessiond.errors import (
    AlreadyExists,
    BadFile,
    Conflict,
    InvalidParams,
    SessiondError,
    SessionNotFound,
    TooLarge,
    Unavailable,
)
from sessiond.formats import registry as formats
from sessiond.fs import IMPORTING, Threads
from sessiond.importers import registry
from sessiond.importers.reader import PROCESS_BYTES, ImportReader
from sessiond.importers.record import (
    Continued,
    Copied,
    Ending,
    Event,
    Ignored,
    InfoUpdate,
    MessageRecord,
    RowsRead,
    Same,
    SessionEnd,
    SessionStart,
    SkippedLine,
    Unknown,
)
from sessiond.limits import MIB
from sessiond.model.values import Json
from sessiond.schema.sessions import ImportResult
from sessiond.service.growing_sources import continued
from sessiond.service.grown_session import FollowedSession, Grown
from sessiond.service.import_file import ImportFile, Wanted
from sessiond.service.import_tally import ImportTally
from sessiond.service.imported_session import (
    Imagined,
    ImportedSession,
    ImportTarget,
    New,
    SkippedSession,
    SourceKnowledge,
)
from sessiond.service.late_names import give_name
from sessiond.service.native_import import NativeIntake
from sessiond.service.sources import Sources, changed_at, mark_of, size_of
from sessiond.service.vanished import vanish
from sessiond.shield import shielded

log = logging.getLogger(__name__)
Progress: TypeAlias = Callable[[dict[str, Json]], None]
_AT_A_TIME = 6
"""New sessions that are being stored while the next one is read."""
_HELD_BYTES = 8 * MIB
"""Bytes of their sources that are in memory at the same time, in addition to the one that is being read."""
_OVERTAKEN_ATTEMPTS = 3
"""How often a file is read again because another import began the same session; each time the session has been there."""
_DELETED = "it was deleted meanwhile"
_LOOKED_AT = 200
"""Files that are examined between two progress notifications."""


class Intake:
    """One import. Call `run` once."""

    def __init__(
        self, place: ImportTarget, sources: Sources, now: Callable[[], str], progress: Progress | None
    ) -> None:
        self._place = place
        self._sources = sources
        self._now = now
        self._wanted = Wanted()
        self._progress = progress or (lambda _: None)
        self._threads: Threads = IMPORTING
        self._reader = ImportReader()
        self._tally = ImportTally()
        self._names: list[tuple[InfoUpdate, str]] = []
        """With the file that has it."""
        self._imagined: dict[str, Imagined] = {}
        self._storing: dict[asyncio.Task[None], ImportedSession] = {}
        self._overtaken: list[ImportFile] = []
        """Files with a new session that another import was quicker to begin, perhaps from a file that has less of it."""
        self._cut_here: set[str] = set()
        """Sessions of which messages were removed here: somebody asks for these again."""
        self._done = 0
        """Bytes of the files that are done."""
        self._total = 1
        self._files = 0
        self._total_files = 0

    async def run(
        self,
        path: str,
        threads: Threads,
        *,
        format: str | None,
        since: str | None,
        dry_run: bool,
        report: bool,
        followed: bool,
    ) -> ImportResult:
        """`threads`: for the disk that has the files."""
        self._wanted = Wanted(format, since, dry_run, followed)
        self._threads = self._reader.threads = threads
        self._reader.grows = followed
        fmt = format
        if fmt is not None and fmt not in registry.BY_NAME and fmt not in formats.NAMES:
            known = ", ".join([*registry.BY_NAME, *formats.NAMES])
            raise InvalidParams(f"format: expected one of {known}", field="format")
        tally = self._tally
        native = NativeIntake(self._place, tally.warn, tally.took, threads, dry_run=dry_run, followed=followed)
        try:
            if fmt in formats.NAMES:
                await native.run(path, fmt or "")
            else:
                await self._sources.load(must=self._wanted.followed)
                if not self._wanted.followed:
                    self._cut_here = await self._place.ledger.cut(self._place.store.name)
                await self._foreign(path, native)
                await self._give_names()
        finally:
            await shielded(self._stored())
            if not self._wanted.followed:  # imports of a follower are flushed now and then
                await shielded(self._place.ledger.flush())
        # Otherwise all sessions are being indexed, and searches say so.
        if self._place.catalog.over(self._place.store.name).is_set():
            await self._place.catalog.searchable()
        return self._tally.result(path, since=since is not None, report=report)

    def _tell(self) -> None:
        read = min(self._done + self._reader.counter.bytes, self._total)
        self._progress(
            {
                "percentage": min(99, 100 * read // self._total),
                "message": f"{self._files} of {self._total_files} files, {len(self._tally.sessions)} sessions, {self._tally.messages} messages",
                "files": self._files,
                "totalFiles": self._total_files,
                "bytes": read,
                "totalBytes": self._total,
                "sessions": len(self._tally.sessions),
                "messages": self._tally.messages,
            }
        )

    # Files

    async def _foreign(self, path: str, native: NativeIntake) -> None:
        named = not await self._threads.call(os.path.isdir, path)
        files = await self._threads.call(lambda: [(one, size_of(one)) for one in registry.candidates(path)])
        self._total = sum(size for _, size in files) or 1
        self._reader.large = self._total > PROCESS_BYTES
        self._total_files = len(files)
        with few_searches() if self._reader.large else nullcontext():
            await self._all(files, named, native)
            await self._room_for(None)
            await self._read_overtaken()
        self._tell()

    async def _all(self, files: Sequence[tuple[str | SkippedLine, int]], named: bool, native: NativeIntake) -> None:
        for self._files, (one, size) in enumerate(files, 1):
            if isinstance(one, SkippedLine):
                self._tally.warn(one.path, one.line, one.reason)
            else:
                await self._file_apart(one, named, native)
            self._done += size
            self._reader.counter.bytes = 0
            if self._files % _LOOKED_AT == 0:
                self._tell()

    async def _read_overtaken(self) -> None:
        """The sessions are here now, so that these files extend them."""
        for _ in range(_OVERTAKEN_ATTEMPTS):
            files, self._overtaken = self._overtaken, []
            for file in files:
                await self._read(ImportFile(file.found, file.mark, named=file.named))
            await self._room_for(None)

    async def _file_apart(self, path: str, named: bool, native: NativeIntake) -> None:
        self._sources.unread.passed(path)
        try:
            await self._file(path, named, native)
        except (SessiondError, OSError):  # nothing can be stored, for example because the disk is full
            raise
        except Exception as error:  # a bug of ours with one file: the others follow
            self._failed(path, "cannot be imported", error)

    def _failed(self, path: str, what: str, error: Exception) -> None:
        self._sources.unread.note(path, error)
        self._tally.warn(path, None, f"{what}: {error!r}")

    async def _file(self, path: str, named: bool, native: NativeIntake) -> None:
        try:
            # Taken before it is read: anything written meanwhile makes another version of it.
            mark = await self._threads.call(mark_of, path)
            if await self._passed_over(path, mark):
                return
        except OSError:
            mark = None
        found = await self._threads.call(lambda: registry.identify(path, self._wanted.format, named=named))
        if mark is not None and not isinstance(found, registry.Found) and await self._threads.call(size_of, path) == 0:
            await self._vanished(path, self._sources.local_ids(path))
        if isinstance(found, SkippedLine):
            self._tally.warn(found.path, found.line, found.reason)
            if found.failed:
                self._sources.unread.note(found.path, found.reason)
        elif found is not None and found.importer == registry.NATIVE:
            await native.file(path)
        elif found is not None:
            self._tally.of(found.importer).files += 1
            await self._read(ImportFile(found, mark, named=named))

    async def _passed_over(self, path: str, mark: str) -> bool:
        has = None if self._wanted.followed else self._has
        known = await self._sources.unchanged(path, self._wanted.format, mark, has)
        if known is None or not self._cut_here.isdisjoint(self._sources.local_ids(path)):
            untouched = (
                self._wanted.since is not None and await self._threads.call(changed_at, path) < self._wanted.since
            )
            if untouched:
                self._tally.untouched()
            return untouched
        self._tally.unchanged(self._sources.tool(path), known)
        return True

    async def _read(self, file: ImportFile) -> None:
        """Read the whole file. If that fails midway, what was read is kept."""
        self._sources.kept.take(file.found.path)
        self._sources.copied.pop(file.found.path, None)
        before = self._sources.rows.pop(file.found.path, None)
        self._reader.before = before if self._wanted.followed else None
        file.ends_before = {} if before is None else before.ends
        try:
            try:
                async with aclosing(self._reader.batches(file.found)) as reading:
                    await self._events(reading, file)
            except OSError as error:
                self._sources.unread.note(file.found.path, f"cannot be read: {error.strerror or error}")
                self._broke_off(file, f"cannot be read: {error.strerror or error}")
            except SessiondError:
                raise
            except Exception as error:  # a bug of ours in one file: the others follow
                self._sources.unread.note(file.found.path, error)
                self._broke_off(file, f"cannot be read by the importer {file.found.importer}: {error!r}")
            file.growth = self._reader.growth
            had = self._sources.local_ids(file.found.path)
            await self._end(file)
            if file.rows is not None:
                await self._room_for(None)
                await file.keep_rows(self._place, self._sources)
            if file.whole and file.found.sure and not file.explained:
                await self._vanished(file.found.path, had - file.local_ids)
            if file.found.sure or file.kept:  # otherwise it is not this tool's at all
                self._tally.of(file.found.importer).unknown.update(file.unknown)
                written = await self._threads.call(changed_at, file.found.path)
                self._tally.read(file.found.importer, file.newest, written)
            if not file.found.sure and not file.kept and not file.explained:
                self._tally.warn(file.found.path, None, f"contains no records of {file.found.importer}")
            elif file.named and not file.kept and not file.explained:
                self._tally.warn(file.found.path, None, file.without_sessions())
        except BaseException:
            for one in (*file.arriving.values(), *([file.ended] if file.ended else [])):
                await shielded(one.abandon())
            raise

    def _broke_off(self, file: ImportFile, reason: str) -> None:
        self._tally.warn(file.found.path, None, reason)
        file.whole, file.explained = False, True

    async def _events(self, reading: AsyncIterator[tuple[list[Event], int]], file: ImportFile) -> None:
        async for batch, size in reading:
            weight = size // len(batch)
            for event in batch:
                if isinstance(event, MessageRecord):  # nearly all of them are
                    if file.before_end is not None:
                        file.last[event.message["id"]] = event.digest
                    try:
                        going_on = file.arriving[event.source_id].take(event.message, event.digest, weight)
                        if going_on is not None:
                            await going_on
                    except InvalidParams as error:
                        self._tally.warn(file.found.path, None, f"{event.message.get('id')}: {error.message}")
                    except (BadFile, TooLarge) as error:
                        await self._refuse(event.source_id, file, error.message)
                    except SessionNotFound:
                        await self._refuse(event.source_id, file, _DELETED)
                    except (AlreadyExists, Conflict):  # it cannot be read on, or another import was quicker
                        await self._leave_out(event.source_id, file)
                        self._overtaken.append(file)
                    except (SessiondError, OSError):
                        raise
                    except Exception as error:  # a bug of ours in one session: the file's others follow
                        self._sources.unread.note(file.found.path, error)
                        await self._refuse(event.source_id, file, repr(error))
                else:
                    await self._take(event, file)
            self._tell()

    async def _end(self, file: ImportFile) -> None:
        """The file has been read. Sessions whose end is missing will not get one."""
        last, rest = file.ended, list(file.arriving.values())
        for one in rest:
            await self._finish(one, None, file)
            file.arriving.pop(next(key for key, value in file.arriving.items() if value is one))
        if last is None and not file.same:
            return
        if len(file.local_ids) > 1:
            await self._room_for(None)  # the last one notes that the file was read, so all others must be durable first
        mark = file.mark if file.whole else None
        if last is not None:
            await self._finish(last, mark, file)
            file.ended = None
        elif mark is not None:
            self._sources.was_read(file.found.path, file.found.importer, mark, file.local_ids)

    async def _vanished(self, path: str, lost: set[str]) -> None:
        """Note in sessions that once came from a file, and that it no longer has, that they are gone from it."""
        if lost and not self._wanted.dry_run and self._wanted.since is None:
            for local_id in sorted(lost):
                try:
                    await shielded(vanish(await self._where(local_id), local_id, path))
                except Exception as error:
                    self._tally.warn(
                        path,
                        None,
                        f"it no longer contains {local_id}, and marking that session failed: {error}",
                    )
            self._sources.forget(path, lost)

    # Sessions

    async def _take(self, event: Event, file: ImportFile) -> None:
        """Any event but a message."""
        match event:
            case SessionStart():
                file.begins(event)
                file.arriving[event.source_id] = await self._begin(event, file)
            case Continued():
                start = SessionStart(event.source_id, event.suggested_id, event.info)
                file.begins(start)
                file.arriving[event.source_id] = await continued(await self._where(start.suggested_id), start, file)
            case InfoUpdate():
                if event.source_id in file.arriving:
                    file.arriving[event.source_id].learn(event.fields)
                else:
                    self._names.append((event, file.found.path))
                    file.names.append(event)
            case Ending():
                file.end_begins()
            case SessionEnd():
                before, file.ended = file.ended, file.arriving.pop(event.source_id)
                file.ended.ended = True
                file.ends(event.source_id, file.ended)
                if before is not None:
                    await self._finish(before, None, file)
            case _:
                self._note(event, file)

    def _note(self, event: Event, file: ImportFile) -> None:
        """An event that is not about a session."""
        match event:
            case SkippedLine():
                self._tally.warn(event.path, event.line, event.reason, file.found.importer)
                file.explained |= event.line is None and not event.taken
                file.whole &= not event.failed
            case Ignored():
                file.ignored.append(f"{event.count} {event.reason}")
                self._tally.of(file.found.importer).ignored[event.reason] += event.count
            case Unknown():
                file.unknown[event.kind] = file.unknown.get(event.kind, 0) + event.count
            case Same():
                file.local_ids.add(event.suggested_id)
                file.kept, file.same = file.kept + 1, True
            case RowsRead():
                file.rows = event
            case Copied():
                self._sources.copied[event.path] = event.reason
            case _:
                pass

    async def _begin(self, start: SessionStart, file: ImportFile) -> ImportedSession:
        if file.ended is not None and file.ended.local_id == start.suggested_id:
            ended, file.ended = file.ended, None
            await self._finish(ended, None, file)
        while any(other.local_id == start.suggested_id for other in self._storing.values()):
            await self._one_stored()
        place, now, followed = await self._where(start.suggested_id), self._now(), self._wanted.followed
        known = await self._known(place, start, file)
        if followed:
            there = await place.has(start.suggested_id)
            if not there and (known.removed or known.has_arrived):
                return SkippedSession(place, start)  # somebody deleted it here
            if there and known.before is not None and known.before.arrived and known.moved_from is None:
                return FollowedSession(place, start, known)
        try:
            held = await place.held(start.suggested_id, whole=self._wanted.dry_run)
        except BadFile as error:
            self._tally.warn(
                file.found.path, None, f"{place.wire_id(start.suggested_id)} cannot be extended: {error.message}"
            )
            file.whole = False
            return SkippedSession(place, start)
        if self._wanted.dry_run:
            earlier = self._imagined.get(start.suggested_id)
            imagined = self._imagined[start.suggested_id] = Imagined(place, start, held, earlier, now)
            return imagined
        if held is not None:
            return Grown(place, start, held, known, followed=followed)
        return New(place, start, now, known, followed=followed)

    async def _where(self, local_id: str) -> ImportTarget:
        """Return the place that has the session. Unavailable if that cannot be found out, and nobody asked for this import: it must wait then."""
        try:
            return await self._place.where(local_id)
        except Unavailable:
            if self._wanted.followed:
                raise
            return self._place

    async def _was_moved(self, one: ImportedSession) -> bool:
        place = await self._where(one.local_id)
        return place.store is not one.place.store and await place.has(one.local_id)

    async def _has(self, local_id: str) -> bool:
        return await (await self._where(local_id)).has(local_id)

    async def _known(self, place: ImportTarget, start: SessionStart, file: ImportFile) -> SourceKnowledge:
        """Unavailable as `_where`."""
        try:
            return await place.known(start.suggested_id, file.found.path, followed=self._wanted.followed)
        except Unavailable:
            if self._wanted.followed:
                raise
            return SourceKnowledge()

    async def _refuse(self, source_id: str, file: ImportFile, reason: str) -> None:
        local_id = file.arriving[source_id].local_id
        self._tally.warn(file.found.path, None, f"{local_id} cannot be imported: {reason}")
        await self._leave_out(source_id, file)

    async def _leave_out(self, source_id: str, file: ImportFile) -> None:
        one = file.arriving[source_id]
        file.whole = False
        file.arriving[source_id] = SkippedSession(self._place, SessionStart(source_id, one.local_id, {}))
        await one.abandon()

    async def _finish(self, one: ImportedSession, mark: str | None, file: ImportFile) -> None:
        """Store it as a whole or not at all, even if this is cancelled."""
        if isinstance(one, SkippedSession):
            file.kept += 1
            return
        if not file.found.sure and not one.added and not isinstance(one, (Grown, FollowedSession)):
            await shielded(one.abandon())  # the file was read as this tool's, but the importer recognised nothing in it
            return
        if isinstance(one, New) and one.is_empty:
            await shielded(one.abandon())  # a later look brings it, when something was said
            file.not_begun.add(one.local_id)
            return
        file.kept += 1
        file.newest = max(file.newest, one.latest)
        since = self._wanted.since
        if since is not None and one.latest < since:
            file.whole = False
            await shielded(one.abandon())
        elif isinstance(one, New):
            # A new session takes most of its time for syncs: others are read and stored meanwhile.
            await self._room_for(one)
            self._storing[asyncio.create_task(self._store(one, mark, file), name=f"import {one.local_id}")] = one
        else:
            await shielded(self._store(one, mark, file))

    async def _store(self, one: ImportedSession, mark: str | None, file: ImportFile) -> None:
        try:
            described = await one.finish(mark)
        except (AlreadyExists, Conflict):  # another import was quicker, perhaps with another form of a message
            file.whole = False
            await one.abandon()
            self._overtaken.append(file)
            return
        except (BadFile, TooLarge, InvalidParams, SessionNotFound) as error:
            if isinstance(error, SessionNotFound) and await self._was_moved(one):
                file.whole = False
                await one.abandon()
                self._overtaken.append(file)
                return
            reason = _DELETED if isinstance(error, SessionNotFound) else error.message
            self._tally.warn(file.found.path, None, f"{one.local_id} cannot be imported: {reason}")
            file.whole = False
            await one.abandon()
            return
        except BaseException as error:
            await one.abandon()
            if isinstance(error, (SessiondError, OSError)) or not isinstance(error, Exception):
                raise
            self._failed(file.found.path, f"{one.local_id} cannot be imported", error)
            file.whole = False
            return
        self._tally.took(described, one.added, file.found.importer)
        if mark is not None and not self._wanted.dry_run:
            self._sources.was_read(file.found.path, file.found.importer, mark, file.local_ids)
            if (kept := file.to_go_on(one)) is not None:
                self._sources.kept.put(kept)

    async def _room_for(self, one: ImportedSession | None) -> None:
        """Wait until there is memory for one more; None: until all are stored. Raises the error of any of them."""
        while self._storing:
            held = sum(other.weight for other in self._storing.values())
            if one is not None and len(self._storing) < _AT_A_TIME and held + one.weight <= _HELD_BYTES:
                return
            await self._one_stored()

    async def _one_stored(self) -> None:
        done, _ = await asyncio.wait(self._storing, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            del self._storing[task]
            task.result()

    async def _stored(self) -> None:
        """Let the sessions that are being stored finish, whatever else happened. Nothing more is read."""
        await self._threads.call(self._reader.close)
        while self._storing:
            try:
                await self._one_stored()
            except SessiondError as error:
                log.warning("an import ended early: %s", error.message)

    async def _give_names(self) -> None:
        """Names for sessions of other files: set if the sessions exist here and lack a name."""
        if self._wanted.dry_run:
            return
        for event, path in self._names:
            try:
                await give_name(await self._where(event.suggested_id), self._tally, event)
            except BadFile:
                continue
            except (SessiondError, OSError):
                raise
            except Exception as error:  # a bug of ours with one session: the others get their names
                self._failed(path, f"{event.suggested_id} cannot be named", error)
