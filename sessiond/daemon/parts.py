"""Puts journal, stores, index and service together in the one order that works.

The journal is read before any store opens, because its changes are not in their files yet; the index comes last, because it
is derived from both. The end is in reverse order: the service lets go, the stores save, the journal closes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from sessiond.clock import Clock
from sessiond.config import DEFAULT_STORE, Config
from sessiond.daemon.expiry import Expiry
from sessiond.daemon.health import Health
from sessiond.daemon.reading import SessionDocuments
from sessiond.daemon.upkeep import Upkeep
from sessiond.endpoint import Places
from sessiond.fs import FileSystem, off_loop
from sessiond.fs.scratch import remove_left_behind
from sessiond.index.index import Index
from sessiond.journal.writer import JournalWriter
from sessiond.schema.daemon import JournalStatus, ReadOnlyStatus
from sessiond.service.sessions import Service, SessionsStatus
from sessiond.store.folder import FolderStore
from sessiond.store.mount import Ownership
from sessiond.store.mounts import Mounts
from sessiond.store.port import Store

if TYPE_CHECKING:
    from sessiond.daemon.adoption import Adoption
    from sessiond.daemon.backup import Backups
    from sessiond.daemon.following import Following
    from sessiond.daemon.sharing import Sharing

_log = logging.getLogger(__name__)


def load_the_rest() -> None:
    """Import what the first answers do not need, so that a start does not wait for it. This happens while the daemon is
    quiet and not at first use: by then an upgrade may have replaced the files by another version's.
    """
    try:
        import sessiond.daemon.adoption
        import sessiond.daemon.backup
        import sessiond.index.search
        import sessiond.store.bulk_write  # noqa: F401
    except ImportError as error:  # an upgrade was faster; the rest of the daemon keeps running
        _log.warning("not all of the program could be loaded: %s", error)


class DaemonParts:
    """The parts of the daemon. Call `open` first and `close` last."""

    def __init__(self, fs: FileSystem, where: Places, config: Config, clock: Clock) -> None:
        self._fs = fs
        self._where = where
        self._config = config
        self._clock = clock
        self.health = Health()
        self._data_folder = Ownership(fs, where.lock_file)
        self._journal_folder: Ownership | None = None
        self._journal: JournalWriter | None = None
        self._mounts: Mounts | None = None
        self._index: Index | None = None
        self._service: Service | None = None
        self._upkeep: Upkeep | None = None
        self._expiry: Expiry | None = None
        self._sharing: Sharing | None = None
        self._editing = asyncio.Lock()
        """Held by whoever changes the configuration."""

    async def open(self) -> Service:
        """Open everything; the service is then ready for requests. SessiondError, OSError."""
        config, where = self._config, self._where
        journal, recovery = await JournalWriter.recover(self._fs, where.data + "/journal", config.limits)
        self._journal = journal
        self._journal_folder = Ownership(self._fs, where.data + "/journal")
        for damage in recovery.damage:
            _log.warning("journal damaged: %s", damage)
        journal.on_state = self.health.journal
        self.health.watch(journal)
        if journal.read_only is not None:
            self.health.journal(journal.read_only)
        mounts = self._mounts = Mounts(
            self._fs,
            where.data,
            journal,
            self._clock,
            config.limits,
            pending=recovery.pending,
            ownership=self._data_folder,
            on_back=self._store_is_back,
            on_watched=self._store_is_watched,
            on_event=self.health.store,
        )
        await mounts.mount_default()
        adopted = [store for store in config.stores if store.hub is None and store.name != DEFAULT_STORE]
        await asyncio.gather(*(mounts.mount(store.name, store.path, store.format) for store in adopted))
        if any(store.hub is not None for store in config.stores):
            from sessiond.daemon.sharing import Sharing  # most users share nothing

            tell, tell_hub = self.health.store, self.health.hub
            self._sharing = Sharing(where, config.stores, mounts, self._clock, config.limits, tell, tell_hub)
            await self._sharing.open()
        for name in {name for name, _ in recovery.pending} - mounts.stores.keys():
            _log.warning("the journal holds changes for the store %r, which is not configured; they are kept", name)
        await off_loop(remove_left_behind)  # whoever deletes something for good must find its words nowhere
        await off_loop(self._make_way, where)
        self._index = Index(where.index_file, config.limits, on_refill=self._refill)
        await self._index.open()
        stores: dict[str, Store] = dict(mounts.stores)
        if self._sharing is not None:
            stores |= self._sharing.stores
        self._service = Service(
            stores=stores,
            index=self._index,
            clock=self._clock,
            limits=config.limits,
            home_paths=[where.data, where.config, where.cache, where.run, where.log],
            adopt_folder=self._adopt,
            moves=mounts.moves,
            interval_s=config.autosave_interval_s,
            idle_s=config.autosave_idle_s,
            ledger_path=f"{where.data}/imports.db",
        )
        await self._service.start()
        self._upkeep = Upkeep(journal, self._service.open_sessions, config.limits)
        self._upkeep.start()
        mounts.start()
        if self._sharing is not None:
            self._sharing.start()
        self._expiry = Expiry(mounts.trashes, self._clock, config.limits, mounts.moves)
        self._expiry.start()
        if config.follow_tools:
            self.following.begin()
        return self._service

    async def _adopt(self, path: str, name: str | None, fmt: str | None) -> FolderStore:
        return await self.adoption.adopt(path, name, fmt)

    def _make_way(self, where: Places) -> None:
        """Create a folder for the index, and remove anything in its place that SQLite would wait for: the index may be
        deleted at any time.
        """
        self._fs.make_dirs(where.cache)
        there = self._fs.stat(where.index_file)
        if there is not None and not (there.is_file or there.is_dir):
            _log.warning("%s is not a regular file; removing it", where.index_file)
            self._fs.remove(where.index_file)

    def _store_is_back(self, store: FolderStore) -> None:
        if self._service is not None:
            self._service.catalog.start([self._service.stores[store.name]])

    async def _store_is_watched(self, store: FolderStore) -> None:
        """Files that were written between the check at the start and the first hint are in neither."""
        if self._service is not None:
            await self._service.catalog.over(store.name).wait()
            await self._service.catalog.check(self._service.stores[store.name])

    def _refill(self) -> None:
        """The index lost its content."""
        if self._service is not None:
            self._service.catalog.start(list(self._service.stores.values()))

    async def close(self) -> None:
        """Save and release everything. What cannot be saved remains in the journal."""
        if "following" in self.__dict__:
            await self.following.close()
        for keeper in (self._upkeep, self._expiry):
            if keeper is not None:
                await keeper.stop()
        if self._sharing is not None:
            await self._sharing.stop()
        if self._service is not None:
            await self._service.close()
        if self._sharing is not None:
            await self._sharing.close()
        if self._mounts is not None:
            await self._mounts.close()
        if self._index is not None:
            await self._index.close()
        if self._journal is not None:
            await self._journal.close()

    def is_displaced(self) -> bool:
        """Return whether the data folder was moved or replaced: what is at its path is not ours. Blocks."""
        return self._data_folder.is_lost()

    def lacks_journal(self) -> bool:
        """Return whether the journal was moved or removed, so that a crash would lose what only it has. Blocks."""
        return self._journal_folder is not None and self._journal_folder.is_lost()

    def documents(self) -> SessionDocuments:
        """Session files as stock editors see them."""
        assert self._mounts is not None
        assert self._service is not None
        return SessionDocuments(self._mounts.stores, self._service)

    @cached_property
    def backups(self) -> Backups:
        from sessiond.daemon.backup import Backups  # see `load_the_rest`

        assert self._journal is not None
        assert self._mounts is not None
        assert self._service is not None
        return Backups(
            self._fs,
            self._where,
            self._config,
            self._clock,
            self._journal,
            self._mounts,
            self._service.open_sessions,
            {} if self._sharing is None else self._sharing.ledgers,
            self._service.removals,
        )

    @cached_property
    def adoption(self) -> Adoption:
        from sessiond.daemon.adoption import Adoption  # see `load_the_rest`

        assert self._mounts is not None
        return Adoption(self._fs, self._where, self._config, self._mounts, self._editing)

    @cached_property
    def following(self) -> Following:
        from sessiond.daemon.following import Following  # most users follow nothing

        assert self._service is not None
        return Following(self._fs, self._where, self._config, self._service, self._editing)

    @property
    def follows(self) -> bool:
        """True if it imports what other tools write, so that it must not exit when it is idle."""
        return "following" in self.__dict__ and bool(self.following.tools)

    async def status(self) -> SessionsStatus:
        assert self._service is not None
        return await self._service.status()

    async def acknowledge(self) -> int:
        """Acknowledge all damage to the journal. ReadOnly."""
        assert self._journal is not None
        return await self._journal.acknowledge()

    def released(self) -> int:
        """About how many bytes of sessions were released since the last call."""
        return 0 if self._service is None else self._service.released()

    def unsaved(self) -> bool:
        return self._service is not None and bool(self._service.open_sessions.dirty)

    @property
    def settle(self) -> Callable[[], None]:
        """Settles the futures of what the journal has made durable by now."""
        assert self._journal is not None
        return self._journal.settle

    def journal_status(self) -> JournalStatus:
        journal = self._journal
        assert journal is not None
        return JournalStatus(bytes=journal.total_bytes, lsn=journal.lsn, held=journal.held_bytes)

    def read_only(self) -> ReadOnlyStatus | None:
        assert self._journal is not None
        state = self._journal.read_only
        return None if state is None else ReadOnlyStatus(reason=state.reason, since=state.since, final=state.final)
