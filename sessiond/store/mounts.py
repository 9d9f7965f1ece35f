"""All folder stores of the daemon: mounts them, watches them, and notices when their folders disappear and come back."""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from sessiond.clock import Clock
from sessiond.errors import SessiondError
from sessiond.formats import registry
from sessiond.formats.base import Format
from sessiond.fs import FileSystem, Threads, off_loop, off_loop_to_save
from sessiond.limits import SAVING_THREADS, STORE_PATIENCE_S, Limits
from sessiond.store.context import Journal, Run
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.mount import MARKER, Claim, Mounter, OutOfReach, Ownership
from sessiond.store.move_guard import MoveGuard
from sessiond.store.port import Event, StoreProblem
from sessiond.store.trash import Trash
from sessiond.store.watch import Watch

log = logging.getLogger(__name__)
DEFAULT = "default"


class _Mounted:
    """A store and what belongs to its folder."""

    def __init__(self, store: FolderStore, files: StoreFiles, trash: Trash, run: Run, *, own: bool) -> None:
        self.store = store
        self.run = run
        """Threads for the folder's disk."""
        self.files = files
        self.trash = trash
        self.claim: Claim | None = None
        self.opened = False
        self.own = own
        """The folder is in the data folder, so it has neither lock nor marker."""
        self.watch: Watch | None = None


class Mounts:
    """`pending`: what the journal holds, by (store, session). `on_back(store)` is called when a folder that could not be
    reached is available again, `on_watched(store)` when a watch has begun, `on_event(name, event)` for every event of a
    store.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        journal: Journal,
        clock: Clock,
        limits: Limits,
        *,
        pending: Mapping[tuple[str, str], list[bytes]],
        ownership: Ownership | None = None,
        on_back: Callable[[FolderStore], None] = lambda _: None,
        on_watched: Callable[[FolderStore], Awaitable[object]] | None = None,
        on_event: Callable[[str, Event], None] = lambda _name, _event: None,
    ) -> None:
        self.stores: dict[str, FolderStore] = {}
        self.on_back = on_back
        self._on_watched = on_watched
        self._on_event = on_event
        self._fs = fs
        self._data_dir = data_dir
        self._journal = journal
        self._clock = clock
        self._limits = limits
        self._pending = dict(pending)
        self._ownership = ownership
        self._mounted: dict[str, _Mounted] = {}
        self._mounter = Mounter(fs, data_dir)
        for inner in ("trash", "extras"):
            fs.confine(data_dir, inner)
        self.moves = MoveGuard()
        """Shared by all stores, for a backup of all of them."""
        self._rounds: asyncio.Task[None] | None = None
        self._looks: dict[str, asyncio.Task[None]] = {}
        """Under way, by the store's name. One attempt at a time may claim a folder: a second one would find it in use, by
        ourselves.
        """

    # Mounting

    async def mount_default(self) -> FolderStore:
        """The store under the data folder, in the native format. It is ours as long as the data folder is."""
        return await self._mount_own(DEFAULT, posixpath.join(self._data_dir, "sessions"), self._journal)

    async def mount_shared(self, name: str, root: str, journal: Journal) -> FolderStore:
        """The folder of a shared store, under the data folder. `journal`: what its changes go to instead of the daemon's."""
        return await self._mount_own(name, root, journal)

    async def _mount_own(self, name: str, root: str, journal: Journal) -> FolderStore:
        mounted = self._make(name, root, registry.get("jsonl"), marker=None, journal=journal, own=True)
        try:
            await off_loop(self._fs.make_dirs, root)
        except OSError as error:  # something else is in its place, or permission was removed
            log.warning("%s: %s", root, error)
        await self._look_at_own(mounted)
        return mounted.store

    async def mount(self, name: str, path: str, fmt: str, *, accepted: bool = False) -> FolderStore:
        """Mount an adopted folder. If it cannot be reached, or its disk does not answer soon, the store exists nevertheless
        and reports that. `accepted`: as in `Mounter.claim`.
        """
        mounted = self._make(name, path, registry.get(fmt), marker=MARKER, journal=self._journal, own=False)
        first = asyncio.create_task(self._try_claim(mounted, accepted=accepted), name=f"mount {name}")
        self._looks[name] = first
        done, _ = await asyncio.wait({first}, timeout=STORE_PATIENCE_S)
        if done:
            del self._looks[name]
            first.result()
        else:
            log.warning("store %s: its disk does not answer", name)
            mounted.store.set_problem(StoreProblem("unavailable", f"the disk of {path} does not answer"))
            first.add_done_callback(lambda _: self._answered(mounted, first))
        return mounted.store

    async def accept(self, name: str) -> None:
        """Take the folder of a store that could not be mounted: a person says that it is the right one."""
        mounted = self._mounted[name]
        if name in self._looks:
            await asyncio.wait({self._looks[name]}, timeout=STORE_PATIENCE_S)
        if mounted.claim is not None or name in self._looks:
            return
        look = self._looks[name] = asyncio.create_task(self._look_at(mounted, accepted=True), name=f"accept {name}")
        look.add_done_callback(partial(self._looked, name))
        await asyncio.wait({look}, timeout=STORE_PATIENCE_S)

    def _answered(self, mounted: _Mounted, first: asyncio.Task[None]) -> None:
        """The folder was mounted after nobody waited for it any longer."""
        del self._looks[mounted.store.name]
        if first.cancelled():
            return
        if (error := first.exception()) is not None:
            log.warning("store %s: %s", mounted.store.name, error)
        elif mounted.claim is not None:
            self._take(mounted, mounted.claim)
            self._back(mounted.store)

    def _back(self, store: FolderStore) -> None:
        log.info("store %s is back", store.name)
        self.on_back(store)
        store.touched_all()

    def _make(self, name: str, root: str, fmt: Format, *, marker: str | None, journal: Journal, own: bool) -> _Mounted:
        self._fs.confine(root)
        files = StoreFiles(self._fs, root, fmt, marker=marker)
        if own and self._ownership is not None:
            files.is_lost = self._ownership.is_lost
        trash = Trash(self._fs, posixpath.join(self._data_dir, "trash", name))
        run: Run = off_loop
        run_save: Run = off_loop_to_save
        if not own:
            threads = Threads(f"store {name}", saving=SAVING_THREADS)
            run, run_save = threads.run, threads.save
        store = FolderStore(
            name=name,
            fmt=fmt,
            files=files,
            trash=trash,
            journal=journal,
            clock=self._clock,
            limits=self._limits,
            run=run,
            run_save=run_save,
            run_ours=off_loop,
        )
        mine = {session: batches for (store, session), batches in self._pending.items() if store == name}
        store.expect(mine)
        for session in mine:
            del self._pending[name, session]
        store.subscribe(lambda event: self._on_event(name, event))
        mounted = _Mounted(store, files, trash, run, own=own)
        self._mounted[name] = mounted
        self.stores[name] = store
        return mounted

    async def _try_claim(self, mounted: _Mounted, *, accepted: bool = False) -> None:
        store = mounted.store
        take = partial(self._mounter.claim, store.name, store.path, accepted=accepted)
        try:
            claim: Claim = await mounted.run(take)
        except OutOfReach as error:
            store.set_problem(StoreProblem("unavailable", str(error)))
            return
        self._take(mounted, claim)
        await self._open(mounted)

    def _take(self, mounted: _Mounted, claim: Claim) -> None:
        mounted.claim = claim
        mounted.files.extras = claim.extras
        mounted.files.marker = MARKER if claim.store_id is not None else None
        mounted.files.store_id = claim.store_id
        store = mounted.store
        store.set_problem(None if claim.writable else StoreProblem("readOnly", f"{store.path} cannot be written"))

    async def _open(self, mounted: _Mounted) -> None:
        """Open the store when its folder is first available."""
        if not mounted.opened:
            mounted.opened = True
            await mounted.store.open()

    # Looking after them

    def start(self) -> None:
        self._rounds = asyncio.create_task(self._look_around(), name="store rounds")
        for mounted in self._mounted.values():
            self._start_watch(mounted)

    def started(self, name: str) -> None:
        """A store was mounted while the daemon was running."""
        self._start_watch(self._mounted[name])

    def _start_watch(self, mounted: _Mounted) -> None:
        if mounted.watch is None:
            mounted.watch = Watch(mounted.store, self._on_watched)
            mounted.watch.start()

    def trashes(self) -> dict[str, Trash]:
        """By the store's name, as they are now."""
        return {name: mounted.trash for name, mounted in self._mounted.items()}

    def files_of(self, name: str) -> StoreFiles:
        return self._mounted[name].files

    async def _look_around(self) -> None:
        """Each look is a task of its own: one of a disk that hangs lasts until it answers."""
        while True:
            await asyncio.sleep(self._limits.look_around_s)
            for name, mounted in self._mounted.items():
                if name not in self._looks:
                    look = self._looks[name] = asyncio.create_task(self._look_once(mounted), name=f"look at {name}")
                    look.add_done_callback(partial(self._looked, name))

    def _looked(self, name: str, look: asyncio.Task[None]) -> None:
        del self._looks[name]
        if not look.cancelled() and look.exception() is not None:
            log.error("store %s could not be looked at", name, exc_info=look.exception())

    async def _look_once(self, mounted: _Mounted) -> None:
        look = self._look_at_own if mounted.own else self._look_at
        try:
            await look(mounted)
        except (OSError, SessiondError) as error:  # of one folder: the others are still looked after
            log.warning("store %s: %s", mounted.store.name, error)

    async def _look_at_own(self, mounted: _Mounted) -> None:
        """A folder of ours has neither lock nor marker: it is available as long as it can be used."""
        store = mounted.store
        away = store.problem is not None and store.problem.kind == "unavailable"
        if not await mounted.run(mounted.files.reachable):
            if not away:
                store.set_problem(
                    StoreProblem("unavailable", f"{store.path} is gone, or permission to use it was removed")
                )
        elif away or not mounted.opened:
            store.set_problem(None)
            await self._open(mounted)
            if away:
                self._back(store)

    async def _look_at(self, mounted: _Mounted, *, accepted: bool = False) -> None:
        store = mounted.store
        if mounted.claim is None:
            await self._try_claim(mounted, accepted=accepted)
            if mounted.claim is not None:
                self._back(store)
        elif not await mounted.run(mounted.files.reachable):
            mounted.claim.release()
            mounted.claim = None
            store.set_problem(
                StoreProblem("unavailable", f"{store.path} is gone or has been replaced by another folder")
            )
        elif not mounted.claim.writable:
            await self._try_to_write(mounted)

    async def _try_to_write(self, mounted: _Mounted) -> None:
        """A folder that was read-only may be writable by now."""
        try:
            claim: Claim = await mounted.run(self._mounter.claim, mounted.store.name, mounted.store.path)
        except OutOfReach:
            return  # the next round reports it
        if claim.writable:
            self._take(mounted, claim)
            log.info("store %s is writable again", mounted.store.name)
            mounted.store.touched_all()

    async def close(self) -> None:
        """Release the folders, after everything is saved."""
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
        for look in self._looks.values():
            look.cancel()
        if self._looks:  # one whose disk hangs ends with the process
            await asyncio.wait(self._looks.values(), timeout=STORE_PATIENCE_S)
        await asyncio.gather(*(one.watch.stop() for one in self._mounted.values() if one.watch is not None))
        for mounted in self._mounted.values():
            if mounted.claim is not None:
                mounted.claim.release()


def recognise(fs: FileSystem, path: str) -> tuple[str | None, int]:
    """(the format that a folder is most likely in, how many sessions it holds); None as the format if nothing recognises it."""
    best: tuple[int, str | None, int] = (0, None, 0)
    for name in registry.NAMES:
        fmt = registry.get(name)
        found = StoreFiles(fs, path, fmt).names()
        score = fmt.matches(found, lambda relative: _head(fs, posixpath.join(path, relative)))
        if score > best[0]:
            best = (score, name, len(fmt.find(found)))
    return best[1], best[2]


def _head(fs: FileSystem, path: str) -> bytes:
    """Return nothing of what is not a file that can be read: a link to a folder, a pipe, a file of another user."""
    try:
        return fs.read(path, 0, 4096)
    except OSError:
        return b""
