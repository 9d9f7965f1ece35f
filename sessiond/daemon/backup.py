"""`daemon/backup`: a consistent copy of everything, made while the daemon keeps working.

Sessions and trash are copied first, without haste. Then comes the one moment that the copy represents: until the copy is
done, no session enters or leaves the trash, and the journal keeps all its segments. The journal is copied as it is then, and
after it everything that changed since the first pass is copied again. So every session file in the copy is at least as new
as every mark about it in the journal's copy, as after a crash; and everything acknowledged before that moment is in one of
the two. The ledgers of shared stores are copied after that moment too: they hold what waits for a hub.

What is known of other tools' sessions is copied just before it, so that it never names a message that the copy lacks: a
follower would take it for one that somebody removed. What people did remove is added to it after that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import posixpath
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import msgspec

import sessiond
from sessiond.backups.copying import BackupTree, Unreadable, walk
from sessiond.backups.manifest import (
    CONFIG,
    DATA,
    MANIFEST,
    SHARED,
    VERSION,
    Manifest,
    NotCopied,
    StoreCopied,
    folder_of,
    ledger_of,
)
from sessiond.clock import Clock
from sessiond.config import DEFAULT_STORE, Config
from sessiond.endpoint import Places
from sessiond.errors import AlreadyExists, InvalidParams, ReadOnly, SessiondError
from sessiond.formats.sidecar import FOLDER
from sessiond.fs import NAMED, FileSystem, is_temporary
from sessiond.journal import JournalExtent, JournalWriter
from sessiond.journal.recovery import read_journal
from sessiond.model.values import JsonObject, timestamp
from sessiond.schema.daemon import BackupResult
from sessiond.schema.types import FileWarning
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.output_paths import outside
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.mount import MARKER
from sessiond.store.mounts import Mounts

log = logging.getLogger(__name__)
Progress = Callable[[JsonObject], None]
_IMPORTS = "imports.db"
_OURS_ALONE = (
    "lock", "endpoint", "token", "journal", "sessions", "trash", "shared", _IMPORTS, f"{_IMPORTS}-journal"
)  # fmt: skip
"""Entries of the data folder that are not simply copied: they belong to this process, are secret, or are copied separately."""
_LOOK_S = 5.0
"""How long it waits until a session whose file was removed is in the trash."""
_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)


class LedgerToCopy(Protocol):
    """The part of the ledger of a shared store that is needed here; `shared.ledger.Ledger` implements it."""

    path: str

    async def copy_to(self, path: str) -> None:
        """OSError, sqlite3.Error."""


class RemovalsToCopy(Protocol):
    """The part of the ledger of imported sources that is needed here; `service.removals.Removals` implements it."""

    async def copy_to(self, path: str) -> bool:
        """Copy the ledger to `path`, and return whether there was one to copy. SessiondError, OSError."""

    async def copy_removed_to(self, path: str) -> None:
        """SessiondError, OSError."""


class Backups:
    """Makes one backup at a time; a second request waits."""

    def __init__(
        self,
        fs: FileSystem,
        where: Places,
        config: Config,
        clock: Clock,
        journal: JournalWriter,
        mounts: Mounts,
        open_sessions: OpenSessions,
        ledgers: Mapping[str, LedgerToCopy],
        removals: RemovalsToCopy,
    ) -> None:
        """`ledgers`: of the shared stores, by their names."""
        self._removals = removals
        self._open_sessions = open_sessions
        self._ledgers = ledgers
        self._fs = fs
        self._where = where
        self._config = config
        self._clock = clock
        self._journal = journal
        self._mounts = mounts
        self._one = asyncio.Lock()

    async def make(self, path: str, progress: Progress | None) -> BackupResult:
        """InvalidParams, AlreadyExists; ReadOnly if the target's disk fails. If it ends early for any reason, even by
        cancellation, nothing of it is left.
        """
        async with self._one:
            target = await NAMED.run(self._target, path)
            tag = f"sessiond-{hashlib.sha256(os.fsencode(self._where.data)).hexdigest()[:8]}"
            tree = BackupTree(self._fs, target, tag)
            try:
                await NAMED.run(tree.begin)
                copy = _Copy(
                    self._fs,
                    self._where,
                    self._config,
                    self._mounts,
                    self._open_sessions,
                    self._ledgers,
                    self._removals,
                    tree,
                    progress,
                )
                manifest = await copy.fill(self._journal, timestamp(self._clock.now_ms()))
                await NAMED.run(tree.finish)
            except BaseException as error:
                await NAMED.run(self._abandon, tree)
                if isinstance(error, OSError):
                    raise self._refused(path, error) from error
                raise
        log.info("backup of %d files in %s", manifest.files, target)
        result = BackupResult(files=manifest.files, bytes=manifest.bytes, lsn=manifest.lsn)
        if manifest.warnings:
            result.warnings = [FileWarning(one.path, one.line, one.message) for one in manifest.warnings]
        return result

    def _target(self, path: str) -> str:
        homes = [self._where.data, self._where.config, self._where.cache, self._where.run, self._where.log]
        outside(path, homes, self._mounts.stores.values())
        path = os.path.normpath(path)
        folder, name = os.path.split(path)
        if not os.path.isdir(folder) or not name:
            raise InvalidParams(f"path: {folder} is not a folder", hint="create it first", field="path")
        if os.path.lexists(path):
            raise AlreadyExists(
                f"{path} already exists", hint="a backup goes into a new folder: name another", path=path
            )
        return os.path.join(os.path.realpath(folder), name)

    def _abandon(self, tree: BackupTree) -> None:
        try:
            tree.abandon()
        except OSError as error:
            log.warning("an unfinished backup could not be removed: %s", error)

    def _refused(self, path: str, error: OSError) -> Exception:
        reason = error.strerror or str(error)
        if isinstance(error, FileExistsError):
            return AlreadyExists(f"{path} already exists", hint="name another folder", path=path)
        if error.errno in _PLACE:
            return InvalidParams(f"path: {path} cannot be written: {reason}", field="path")
        return ReadOnly(
            f"the backup cannot be written to {path}: {reason}",
            hint="free some space there or choose another disk; nothing of the backup is left, and sessiond itself is not affected",
            reason=reason,
        )


class _Copy:
    """One backup in progress."""

    def __init__(
        self,
        fs: FileSystem,
        where: Places,
        config: Config,
        mounts: Mounts,
        open_sessions: OpenSessions,
        ledgers: Mapping[str, LedgerToCopy],
        removals: RemovalsToCopy,
        tree: BackupTree,
        progress: Progress | None,
    ) -> None:
        self._removals = removals
        self._open_sessions = open_sessions
        self._ledgers = ledgers
        self._waiting: dict[str, int] = {}
        """Shared store -> changes in its ledger's copy that wait for the hub."""
        self._fs = fs
        self._where = where
        self._config = config
        self._mounts = mounts
        self._tree = tree
        self._progress = progress
        self._done = self._total = 0
        self._looked_at: set[str] = set()
        self._sessions: dict[str, dict[str, bool]] = {}
        """Store -> session -> whether its files were understood."""
        self._warnings: dict[str, NotCopied] = {}

    async def fill(self, journal: JournalWriter, now: str) -> Manifest:
        await self._first_passes()
        await NAMED.run(self._trash)
        async with self._mounts.moves.none(), self._imports(), journal.held() as held:
            await NAMED.run(self._journal, held)
            await self._first_passes()  # of stores that were adopted meanwhile
            for name in list(self._sessions):
                await self._second_pass(self._mounts.stores[name])
            await NAMED.run(self._trash)
            for name, ledger in self._ledgers.items():
                await self._ledger(name, ledger)
            await NAMED.run(self._beside)
        manifest: Manifest = await NAMED.run(self._manifest, held, now)
        return manifest

    # Stores

    async def _first_passes(self) -> None:
        for name, store in list(self._mounts.stores.items()):
            if name not in self._looked_at:
                self._looked_at.add(name)
                await self._first_pass(store)

    async def _first_pass(self, store: FolderStore) -> None:
        if store.problem is not None and store.problem.kind == "unavailable":
            self._warn(store.path, f"the store {store.name!r} cannot be reached: nothing of it was copied")
            return
        self._sessions[store.name] = {}
        try:
            found: dict[str, str] = await NAMED.run(self._mounts.files_of(store.name).find)
        except OSError as error:
            self._warn(store.path, f"the store {store.name!r} cannot be read: {error.strerror}")
            return
        self._total += len(found)
        for local_id in found:
            await self._session(store, local_id)
            self._done += 1
            if self._progress is not None:
                done = f"{self._done} of {self._total} sessions"
                self._progress({"message": done, "percentage": 100 * self._done // self._total})

    async def _session(self, store: FolderStore, local_id: str) -> None:
        whole = self._open_sessions.stores.get(store.name, store)  # a shared store is more than its folder
        async with self._open_sessions.of(whole, local_id).still():
            await NAMED.run(self._copy_session, self._mounts.files_of(store.name), store.name, local_id)

    def _copy_session(self, files: StoreFiles, store: str, local_id: str) -> None:
        main = files.format.main_path(local_id)
        there = [
            one for one in files.format.paths(local_id) if self._copy(files.path(one), self._name(files, store, one))
        ]
        if main not in there:
            self._sessions[store].pop(local_id, None)
            return
        content = {one: self._fs.read(self._tree.path(self._name(files, store, one))) for one in there}
        fatal = files.format.decode(local_id, content).fatal
        self._sessions[store][local_id] = fatal is None
        if fatal is not None:
            self._warn(files.path(main), f"{fatal.message}; it was copied as it is", fatal.line)

    async def _second_pass(self, store: FolderStore) -> None:
        """Copy what changed since the first pass. Sessions whose files were removed meanwhile go into the trash first."""
        files, known = self._mounts.files_of(store.name), self._sessions[store.name]
        try:
            found: dict[str, str] = await NAMED.run(files.find)
            if not await NAMED.run(files.reachable):
                raise FileNotFoundError(errno.ENOENT, "it can no longer be reached", store.path)
        except OSError as error:
            self._warn(store.path, f"the store {store.name!r} could not be checked again: {error.strerror}")
            return
        for local_id in [one for one in known if one not in found]:
            # Do not wait behind a delete of the same session, which itself waits for the end of this.
            with contextlib.suppress(TimeoutError):
                whole = self._open_sessions.stores.get(store.name, store)
                async with asyncio.timeout(_LOOK_S):
                    await self._open_sessions.look_outside(whole, local_id)
            await self._session(store, local_id)
        stale: list[str] = await NAMED.run(self._stale, files, store.name, list(found))
        for local_id in stale:
            await self._session(store, local_id)
        if files.marker is not None:
            await NAMED.run(self._copy, files.path(files.marker), self._name(files, store.name, MARKER))

    def _stale(self, files: StoreFiles, store: str, found: list[str]) -> list[str]:
        """Sessions with a file whose copy is not the present version."""
        return [one for one in found if any(self._is_stale(files, store, path) for path in files.format.paths(one))]

    def _is_stale(self, files: StoreFiles, store: str, relative: str) -> bool:
        stat = self._fs.stat(files.path(relative))
        copy = self._tree.copies.get(self._name(files, store, relative))
        if stat is None or copy is None:
            return (stat is None) != (copy is None)
        return copy.version != (stat.ino, stat.size, stat.mtime_ns)

    # The daemon's own files

    def _journal(self, held: JournalExtent) -> None:
        for path, size in held.files:
            self._copy(path, f"{DATA}/journal/{posixpath.basename(path)}", size)
        self._copy_tree(f"{self._where.data}/journal/damaged", f"{DATA}/journal/damaged")

    async def _ledger(self, name: str, ledger: LedgerToCopy) -> None:
        """Through SQLite: the file may be in the middle of a write."""
        rough = self._tree.path(f".{name}.ledger")
        try:
            await ledger.copy_to(rough)
            self._waiting[name] = await NAMED.run(self._keep_ledger, rough, name)
        except (sqlite3.Error, ValueError) as error:
            if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), rough) from error
            lost = "what waits for the hub is not in this backup"
            self._warn(ledger.path, f"cannot be copied, so {lost}: {error}")
            if self._fs.has_name(rough):
                self._fs.remove(rough)

    def _keep_ledger(self, rough: str, name: str) -> int:
        from sessiond.shared.ledger_file import count_waiting  # already loaded if there is a ledger

        waiting = count_waiting(rough)
        self._copy(rough, ledger_of(name))
        self._fs.remove(rough)
        return waiting

    @contextlib.asynccontextmanager
    async def _imports(self) -> AsyncIterator[None]:
        """Copy what is known of other tools' sessions: see above."""
        rough = self._tree.path(f".{_IMPORTS}")
        there = False
        try:
            there = await self._removals.copy_to(rough)
        except SessiondError as error:
            if self._fs.has_name(rough):
                self._fs.remove(rough)
            lost = "after a restore, what was deleted of other tools' sessions may come back"
            self._warn(f"{self._where.data}/{_IMPORTS}", f"{error.message}; {lost}")
        yield
        if there:
            await self._removals.copy_removed_to(rough)
            await NAMED.run(self._copy, rough, f"{DATA}/{_IMPORTS}")
            await NAMED.run(self._fs.remove, rough)

    def _trash(self) -> None:
        self._copy_tree(f"{self._where.data}/trash", f"{DATA}/trash")

    def _beside(self) -> None:
        data = self._where.data
        for name in sorted(self._fs.list_dir(data)):
            if name not in _OURS_ALONE and not is_temporary(name):
                try:
                    stat = self._fs.stat(f"{data}/{name}")
                except OSError as error:
                    self._passed(f"{data}/{name}", error)
                    continue
                if stat is not None and stat.is_dir:
                    self._copy_tree(f"{data}/{name}", f"{DATA}/{name}")
                elif stat is not None and stat.is_file:
                    self._copy(f"{data}/{name}", f"{DATA}/{name}")
        self._left_stores()
        self._copy(self._config.file, f"{CONFIG}/config.toml")

    def _left_stores(self) -> None:
        """Replicas and ledgers of shared stores that are not configured any more."""
        root = f"{self._where.data}/shared"
        ours = {*self._ledgers, *(f"{name}.ledger{end}" for name in self._ledgers for end in ("", "-wal", "-shm"))}
        there = walk(self._fs, root, passed=self._passed)
        for relative in [one for one in there if one.partition("/")[0] not in ours]:
            self._copy(posixpath.join(root, relative), f"{SHARED}/{relative}")

    def _copy_tree(self, source: str, name: str) -> None:
        """Copy exactly what is there now."""
        there = walk(self._fs, source, passed=self._passed)
        found = [relative for relative in there if not is_temporary(posixpath.basename(relative))]
        for relative in found:
            self._copy(posixpath.join(source, relative), f"{name}/{relative}")
        wanted = {f"{name}/{relative}" for relative in found}
        for copy in [one for one in self._tree.copies if one.startswith(f"{name}/") and one not in wanted]:
            self._tree.drop(copy)

    def _copy(self, source: str, name: str, size: int | None = None) -> bool:
        try:
            there = self._tree.copy(source, name, size)
        except Unreadable as error:
            self._tree.drop(name)
            self._warn(source, str(error))
            return False
        if not there and self._fs.has_name(source):
            self._warn(source, "is a dangling link")
        return there

    def _passed(self, path: str, error: OSError) -> None:
        self._warn(path, f"cannot be examined: {error.strerror or error}")

    def _warn(self, path: str, message: str, line: int | None = None) -> None:
        self._warnings[path] = NotCopied(path, message, line)

    def _manifest(self, held: JournalExtent, now: str) -> Manifest:
        tree = self._tree
        contents = read_journal(self._fs, tree.path(f"{DATA}/journal"), self._config.limits.damaged_copies)
        for damage in contents.damage:
            if not damage.torn:
                segment = f"{self._where.data}/journal/{posixpath.basename(damage.path)}"
                self._warn(segment, f"the journal is damaged: {damage.reason}")
        stores = [
            StoreCopied(
                name=name,
                format=self._mounts.stores[name].format,
                path=self._mounts.stores[name].path,
                sessions=len(sessions),
                unreadable=sorted(one for one, understood in sessions.items() if not understood),
                shared=name in self._ledgers,
                waiting=self._waiting.get(name, 0),
            )
            for name, sessions in self._sessions.items()
        ]
        trash: dict[str, int] = {}
        for copy in tree.copies:
            parts = copy.split("/")
            if parts[:2] == [DATA, "trash"] and parts[-1] == "meta.json":
                trash[parts[2]] = trash.get(parts[2], 0) + 1
        manifest = Manifest(
            version=VERSION,
            made_by=sessiond.__version__,
            created_at=now,
            data_dir=self._where.data,
            lsn=held.lsn,
            records=len(contents.records),
            stores=stores,
            trash=trash,
            files=len(tree.copies),
            bytes=tree.total_bytes,
            warnings=list(self._warnings.values()),
        )
        tree.put(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        return manifest

    def _name(self, files: StoreFiles, store: str, relative: str) -> str:
        """The name of a store's file in the tree. Sidecars of a read-only folder are in the data folder."""
        if files.extras is not None and relative.startswith(FOLDER + "/"):
            return f"{DATA}/extras/{store}/{relative}"
        return f"{folder_of(store, DEFAULT_STORE, shared=store in self._ledgers)}/{relative}"
