"""Whole sessions on the move: forks, exports, imports, moves between stores."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from sessiond.errors import AlreadyExists, InvalidParams, SessiondError, TooLarge, Unavailable
from sessiond.formats import jsonl
from sessiond.formats.losses import lost
from sessiond.fs import FOLLOWING, IMPORT_PLACES, NAMED, FileSystem, RealFileSystem, Threads, atomic_write
from sessiond.limits import Limits
from sessiond.model.changes import Truncated
from sessiond.model.session import Session, content_equal
from sessiond.model.values import source_path, strict_timestamp, tool_of
from sessiond.schema.sessions import ExportResult, ImportResult, MoveResult
from sessiond.schema.types import SessionInfo
from sessiond.service.catalog import Catalog
from sessiond.service.offload import heavy
from sessiond.service.open_session import OpenSession
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.output_paths import outside
from sessiond.service.removals import Removals
from sessiond.store.move_guard import MoveGuard
from sessiond.store.port import Store

if TYPE_CHECKING:
    from sessiond.service.followed_sources import FollowedSources
    from sessiond.service.imported_session import ImportTarget
    from sessiond.service.intake import Intake, Progress
    from sessiond.service.sources import Sources

Listener: TypeAlias = Callable[[str, str, ImportResult, Mapping[str, str]], None]
"""Is given the name of the store, the path, what came, and where the links in its paths lead (path -> path without links)."""
EXPORT_FORMATS = ("jsonl", "json", "markdown", "org", "html", "text", "openai", "anthropic")


class Transfer:
    def __init__(
        self,
        open_sessions: OpenSessions,
        catalog: Catalog,
        limits: Limits,
        home_paths: Sequence[str],
        moves: MoveGuard,
        removals: Removals,
    ) -> None:
        self._open_sessions = open_sessions
        self._catalog = catalog
        self._limits = limits
        self._home_paths = home_paths
        self._moves = moves
        self._fs: FileSystem = RealFileSystem()
        self._sources: dict[str, Sources] = {}
        self._removals = removals
        self._listeners: list[Listener] = []

    # Fork

    async def fork(self, one: OpenSession, at_seq: int | None, name: str | None) -> SessionInfo:
        def begin(session: Session) -> tuple[Session, int]:
            if at_seq is not None and at_seq > session.seq:
                raise InvalidParams(f"atSeq: the session is only at seq {session.seq}", field="atSeq")
            return session.snapshot(), session.seq if at_seq is None else at_seq

        fork, seq = await one.look(begin, whole=True)
        await heavy(fork, _cut_to, fork, seq, self._open_sessions.now())
        fork.parent = {"sessionId": one.wire_id, "seq": seq}
        fork.name = fork.name if name is None else name

        async def make(target: OpenSession) -> SessionInfo:
            fork.local_id = target.local_id
            await target.stored.put(fork)
            target.became_there(fork, begun=True)
            return self._open_sessions.info(target)

        return await self._open_sessions.make_fresh(one.store, make)

    # Export

    async def export(self, one: OpenSession, fmt: str, path: str | None, overwrite: bool) -> ExportResult:
        if fmt not in EXPORT_FORMATS:
            raise InvalidParams(f"format: expected one of {', '.join(EXPORT_FORMATS)}", field="format")
        session = await one.look(Session.snapshot, whole=True)
        target = None if path is None else await NAMED.call(self._export_path, path, overwrite)
        content: bytes = await asyncio.to_thread(_render, session, fmt)
        if target is None:
            if len(content) > self._limits.export_bytes:
                raise TooLarge(
                    f"the export has {len(content)} bytes",
                    hint="name a `path` to export to a file",
                    limit=self._limits.export_bytes,
                )
            return ExportResult(content=content.decode())
        await NAMED.call(self._write, target, content, overwrite)
        return ExportResult(path=target, bytes=len(content))

    def _export_path(self, path: str, overwrite: bool) -> str:
        real = outside(path, self._home_paths, list(self._open_sessions.stores.values()))
        if os.path.isdir(real):
            raise InvalidParams(f"path: {real} is a folder", hint="name a file in it", field="path")
        if os.path.lexists(path) and not overwrite:
            raise AlreadyExists(f"{path} already exists", hint="`overwrite: true` replaces it", path=path)
        return path

    def _write(self, path: str, content: bytes, overwrite: bool) -> None:
        try:
            if overwrite:
                atomic_write(self._fs, self._fs.real_path(path), content, 0o600)
            else:
                self._fs.create(path, content, 0o600)
                self._fs.sync_dir(posixpath.dirname(path))
        except FileExistsError as error:
            raise AlreadyExists(f"{path} already exists", hint="`overwrite: true` replaces it", path=path) from error
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
        report: bool = False,
        followed: bool = False,
    ) -> ImportResult:
        """`followed`: nobody asked for this import, so what was deleted here does not come back."""
        if not posixpath.isabs(path) or "\0" in path:
            raise InvalidParams("path: expected an absolute path", field="path")
        with nullcontext(FOLLOWING) if followed else IMPORT_PLACES.of(_place_of(path)) as threads:
            if not await threads.call(os.path.exists, path):
                raise InvalidParams(f"path: {path} does not exist", field="path")
            since = checked_since(since)
            intake = await asyncio.to_thread(self._intake, store, progress)
            result: ImportResult = await intake.run(
                path, threads, format=format, since=since, dry_run=dry_run, report=report, followed=followed
            )
            if not dry_run and not followed:  # what a follower imports, it tells itself
                await self._tell(store, path, msgspec.structs.replace(result, warnings=[]), threads)
        return result

    def listen(self, listener: Listener) -> Callable[[], None]:
        """`listener` is called with what each import brings, whoever wants it. Call what is returned to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def _tell(self, store: Store, path: str, result: ImportResult, threads: Threads) -> None:
        """`threads`: for the disk that has the files."""
        if not self._listeners or not (result.sessions or result.warnings):
            return
        paths = {path, *(one.path for one in result.warnings)}
        paths |= {found for one in result.sessions if (found := source_path(one.metadata))}
        real: dict[str, str] = {}
        with suppress(SessiondError):  # it was read a moment ago, and hangs now: its names are all that is known
            real = await threads.call(_without_links, paths)
        for listener in list(self._listeners):
            listener(store.name, path, result, real)

    async def followed(self, store: Store, since: str | None = None) -> FollowedSources:
        """For a follower that imports into `store`. `since` (RFC 3339): of files that are read whole, only sessions with a message
        since then. InvalidParams.
        """
        since = checked_since(since)

        def import_(path: str, tool: str | None) -> Awaitable[ImportResult]:
            return self.import_(
                path, store, format=tool, since=since, dry_run=False, progress=None, report=True, followed=True
            )

        def load() -> FollowedSources:
            from sessiond.service.followed_sources import FollowedSources  # see `_sources_of`

            return FollowedSources(
                *self._sources_of(store), import_, lambda path, result: self._tell(store, path, result, FOLLOWING)
            )

        return await asyncio.to_thread(load)

    async def came_back(self, store: Store, info: SessionInfo) -> SessionInfo:
        """A session was restored. If it came from another tool, its source may have gone on meanwhile."""
        path = source_path(info.metadata)
        if path is not None:
            _, sources = await asyncio.to_thread(self._sources_of, store)
            sources.came_back(path, tool_of(info.metadata))
        return info

    def _intake(self, store: Store, progress: Progress | None) -> Intake:
        from sessiond.service.intake import Intake  # see `_sources_of`

        return Intake(*self._sources_of(store), self._open_sessions.now, progress)

    def _sources_of(self, store: Store) -> tuple[ImportTarget, Sources]:
        # A daemon that imports nothing does not load all importers, and the loop is not the place to load them.
        from sessiond.service.imported_session import ImportTarget
        from sessiond.service.sources import Sources

        ledger = self._removals.load()
        place = ImportTarget(self._open_sessions, self._catalog, store, ledger)
        sources = self._sources.setdefault(store.name, Sources(store, self._catalog, ledger))
        return place, sources

    # Move

    async def move(self, one: OpenSession, store: Store, dry_run: bool) -> MoveResult:
        if dry_run or store is one.store:
            info, snapshot = await one.look(
                lambda session: (self._open_sessions.info(one), session.snapshot()), whole=True
            )
            return MoveResult(session=info, lost=await heavy(snapshot, lost, snapshot, store.format))
        target = self._open_sessions.of(store, one.local_id)
        turn = target.turn()  # takes both places now, so two moves never wait for each other

        async def move() -> MoveResult:
            session = await one.need(whole=True)
            async with turn:
                await target.notice_removal()
                losses = await heavy(session, lost, session, store.format)
                await self._move(one, target, session)
                return MoveResult(session=self._open_sessions.info(target), lost=losses)

        try:
            return await one.alone(move, self._moves.one)
        finally:
            turn.give_up()

    async def _move(self, one: OpenSession, target: OpenSession, session: Session) -> None:
        """The copy is complete before the original is removed. A crash in between leaves both."""
        given = session.snapshot()
        await target.stored.put(given)
        wanted = given if target.store.shared else session  # only a shared store may say something else: the author
        made = target.stored.fingerprint
        copy = await target.stored.read(whole=True)
        if not await heavy(session, _holds, copy, wanted):
            if target.stored.fingerprint != made:
                await target.stored.delete(copy, permanent=False)  # what the other program wrote is nowhere else
                raise Unavailable(
                    f"another program wrote {target.store.file_path(target.local_id)} while sessiond was creating it",
                    hint=f"{one.wire_id} remains where it is, and the other program's version is in the trash; try again",
                )
            await target.stored.remove()
            raise SessiondError(
                f"{target.store.format} did not reproduce {one.wire_id} exactly, so it was not moved",
                hint="please report this with `sessiond doctor`",
            )
        try:
            await self._removals.note_move(one.wire_id, session, target.store.name)
            await one.stored.remove()
        except SessiondError:
            await target.stored.remove()
            self._open_sessions.note_dirty(one)
            raise
        target.became_there(copy, begun=True)
        one.vanished(target.wire_id)
        await target.interrupt([message.id for message in copy.streaming()])


def _cut_to(fork: Session, seq: int, now: str) -> None:
    """Reduce a snapshot to what the session was at `seq`, as a separate session."""
    fork.apply(Truncated(seq=fork.seq, at=now, after_seq=seq))
    fork.drop_notes_after(seq)
    fork.seq = seq
    fork.created_at = fork.updated_at = now
    for message in fork.streaming():  # a copy does not know which of its messages are being streamed
        fork.replace_message(message.with_status("interrupted"))
    fork.forget_changes()


def _holds(copy: Session, original: Session) -> bool:
    """Return whether everything of `original` is in `copy`. It may have more notes: some folders share theirs among their sessions."""
    notes = {note.id: note for note in copy.notes}
    found = [notes.get(note.id) for note in original.notes]
    rest = copy.snapshot()
    rest.notes, rest.seq = list(original.notes), original.seq
    same_notes = all(
        a is not None and (a.heading, a.content, a.thread) == (b.heading, b.content, b.thread)
        for a, b in zip(found, original.notes, strict=True)
    )
    return same_notes and copy.seq >= original.seq and content_equal(rest, original)


def _render(session: Session, fmt: str) -> bytes:
    if fmt == "jsonl":
        return jsonl.encode(session, {})[0].data
    from sessiond.exporters import export  # most exports are of the daemon's own format

    chunks: Iterator[str] = export(session, session.messages(), fmt)
    return "".join(chunks).encode("utf-8", "replace")


def _without_links(paths: Iterable[str]) -> dict[str, str]:
    """Blocks."""
    return {path: os.path.realpath(path) for path in paths}


def _place_of(path: str) -> str:
    """The folder that an import reads, as far as its name tells: a look at it might wait for its disk."""
    return os.path.dirname(path) if os.path.splitext(path)[1] else path


def checked_since(since: str | None) -> str | None:
    """Return the time as times are written here. InvalidParams."""
    try:
        return None if since is None else strict_timestamp(since)
    except (ValueError, OverflowError) as error:
        raise InvalidParams(
            "since: expected an RFC 3339 timestamp such as 2026-01-11T14:30:22.000Z", field="since"
        ) from error
