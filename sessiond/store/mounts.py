"""All folder stores of the daemon: mounted, watched, saved by the timer, and looked after when their folders go away
and come back.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from sessiond.clock import Clock
from sessiond.formats import registry
from sessiond.formats.base import Format
from sessiond.fs import FileSystem, off_loop
from sessiond.limits import Limits
from sessiond.store.around import Journal
from sessiond.store.autosave import AutoSave, GrowingJournal
from sessiond.store.expiry import Expiry
from sessiond.store.files import StoreFiles
from sessiond.store.folder import FolderStore
from sessiond.store.mount import MARKER, Claim, Mounter, OutOfReach
from sessiond.store.moves import Moves
from sessiond.store.port import Event, HealthChanged
from sessiond.store.trash import Trash
from sessiond.store.watch import Watch

log = logging.getLogger(__name__)
_ROUND_S = 2.0
DEFAULT = "default"


class DaemonJournal(Journal, GrowingJournal, Protocol):
    """What the stores of a daemon need of its journal."""


class _Mounted:
    """A store with what belongs to its folder."""

    def __init__(self, store: FolderStore, files: StoreFiles, trash: Trash, claim: Claim | None) -> None:
        self.store = store
        self.files = files
        self.trash = trash
        self.claim = claim
        self.opened = False
        self.watch: Watch | None = None
        self.looking = asyncio.Lock()
        """One at a time takes the folder: a second attempt would find it in use, by ourselves."""


class Mounts:
    """`pending`: what the journal holds, by (store, session). `on_back(store)` is called when a folder that was out of
    reach is there again, `on_watched(store)` when what others write from now on is noticed, `on_event(name, event)` of all
    that a store tells.
    """

    def __init__(
        self,
        fs: FileSystem,
        data_dir: str,
        journal: DaemonJournal,
        clock: Clock,
        limits: Limits,
        *,
        interval_s: float,
        idle_s: float,
        pending: Mapping[tuple[str, str], list[bytes]],
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
        self._interval_s = interval_s
        self._idle_s = idle_s
        self._pending = dict(pending)
        self._mounted: dict[str, _Mounted] = {}
        self._mounter = Mounter(fs, data_dir)
        self.moves = Moves()
        """Of all stores, for a backup of all of them."""
        self._autosave = AutoSave(lambda: self.stores, journal, limits)
        self._expiry = Expiry(
            lambda: {name: mounted.trash for name, mounted in self._mounted.items()}, clock, limits, self.moves
        )
        self._rounds: asyncio.Task[None] | None = None

    # Mounting

    async def mount_default(self) -> FolderStore:
        """The store under the data folder, in the native format. It is ours as long as the data folder is."""
        root = posixpath.join(self._data_dir, "sessions")
        await off_loop(self._fs.make_dirs, root)
        mounted = self._make(DEFAULT, root, registry.get("jsonl"), marker=None)
        await self._open(mounted)
        return mounted.store

    async def mount(self, name: str, path: str, fmt: str) -> FolderStore:
        """An adopted folder. Out of reach, it is there all the same, and says so."""
        mounted = self._make(name, path, registry.get(fmt), marker=MARKER)
        async with mounted.looking:
            if mounted.claim is None:  # a round of `_look_around` may have come first
                await self._try_claim(mounted)
        return mounted.store

    def _make(self, name: str, root: str, fmt: Format, marker: str | None) -> _Mounted:
        files = StoreFiles(self._fs, root, fmt, marker=marker)
        trash = Trash(self._fs, posixpath.join(self._data_dir, "trash", name))
        store = FolderStore(
            name=name, fmt=fmt, files=files, trash=trash, journal=self._journal, clock=self._clock, limits=self._limits,
            run=off_loop, autosave_interval_s=self._interval_s, autosave_idle_s=self._idle_s, moves=self.moves,
        )  # fmt: skip
        store.subscribe(lambda event: self._on_event(name, event))
        mounted = _Mounted(store, files, trash, None)
        self._mounted[name] = mounted
        self.stores[name] = store
        return mounted

    async def _try_claim(self, mounted: _Mounted) -> None:
        store = mounted.store
        try:
            claim: Claim = await off_loop(self._mounter.claim, store.name, store.path)
        except OutOfReach as error:
            store.set_problem(HealthChanged("unavailable", str(error)))
            return
        mounted.claim = claim
        mounted.files.extras = claim.extras
        mounted.files.marker = MARKER if claim.writable else None
        store.set_problem(None if claim.writable else HealthChanged("readOnly", f"{store.path} cannot be written"))
        await self._open(mounted)

    async def _open(self, mounted: _Mounted) -> None:
        """Give it what the journal holds for it; once only."""
        if not mounted.opened:
            mounted.opened = True
            name = mounted.store.name
            mine = {session: batches for (store, session), batches in self._pending.items() if store == name}
            await mounted.store.open(mine)
            for session in mine:
                del self._pending[name, session]

    # Looking after them

    def start(self) -> None:
        self._autosave.start()
        self._expiry.start()
        self._rounds = asyncio.create_task(self._look_around(), name="store rounds")
        for mounted in self._mounted.values():
            self._start_watch(mounted)

    def started(self, name: str) -> None:
        """A store was mounted while everything runs."""
        self._start_watch(self._mounted[name])

    def _start_watch(self, mounted: _Mounted) -> None:
        if mounted.watch is None:
            mounted.watch = Watch(mounted.store, self._on_watched)
            mounted.watch.start()

    def files_of(self, name: str) -> StoreFiles:
        return self._mounted[name].files

    async def _look_around(self) -> None:
        while True:
            await asyncio.sleep(_ROUND_S)
            for mounted in list(self._mounted.values()):
                if mounted.store.name != DEFAULT:
                    try:
                        async with mounted.looking:
                            await self._look_at(mounted)
                    except OSError as error:  # of one folder: the others are looked after all the same
                        log.warning("store %s: %s", mounted.store.name, error)

    async def _look_at(self, mounted: _Mounted) -> None:
        store = mounted.store
        if mounted.claim is None:
            await self._try_claim(mounted)
            if mounted.claim is not None:
                log.info("store %s is back", store.name)
                self.on_back(store)
                await store.look_at_all()
        elif not await off_loop(mounted.files.reachable):
            mounted.claim.release()
            mounted.claim = None
            store.set_problem(HealthChanged("unavailable", f"{store.path} is gone, or is another folder now"))

    async def close(self) -> None:
        """Save everything and let go of the folders."""
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)
        await self._expiry.stop()
        await self._autosave.stop()
        for mounted in self._mounted.values():
            if mounted.watch is not None:
                await mounted.watch.stop()
        for mounted in self._mounted.values():
            await mounted.store.close()
            if mounted.claim is not None:
                mounted.claim.release()


def recognise(fs: FileSystem, path: str) -> tuple[str | None, int]:
    """(the format that a folder is most likely in, how many sessions it holds); None where it is nobody's."""
    best: tuple[int, str | None, int] = (0, None, 0)
    for name in registry.NAMES:
        fmt = registry.get(name)
        names = StoreFiles(fs, path, fmt).names()
        score = fmt.matches(names, lambda relative: fs.read(posixpath.join(path, relative), 0, 4096))
        if score > best[0]:
            best = (score, name, len(fmt.find(names)))
    return best[1], best[2]
