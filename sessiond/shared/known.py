"""The knowledge that a machine has of one shared session at the moment: the state that `SharedSession` changes, and what is read off it."""

from __future__ import annotations

from sessiond.errors import Unavailable
from sessiond.hub.port import NOTHING, seed
from sessiond.model.changes import Change
from sessiond.model.session import Session
from sessiond.shared.link import HubLink
from sessiond.shared.rendering import Rendering
from sessiond.shared.waiting import Waiting
from sessiond.store.folder import FolderStore
from sessiond.store.port import FileWarning
from sessiond.store.stored import StoredSession


class KnownSession:
    def __init__(self, link: HubLink, folder: FolderStore, files: StoredSession) -> None:
        self.local_id = files.local_id
        self._link = link
        self._folder = folder
        self._ledger = link.ledger
        self._files = files
        self._rendering = Rendering(folder, link.ledger, files)
        self._number = NOTHING
        self._digest = seed(self.local_id)
        self._loaded = False
        self._confirmed: Session | None = None
        """None while nothing waits: then the owner's session is the confirmed one."""
        self._waiting: list[Waiting] = []
        self._cuts = 0
        """How often the ledger had given up operations when this was read: see `Ledger.cuts`."""
        self._behind = False
        """A push was refused because the hub has more than the ledger."""
        self._told: list[Change] = []
        self.fetched = False
        self.moved_to: str | None = None
        self.shortens = False

    @property
    def provisional(self) -> int:
        return len(self._waiting) if self._loaded else self._ledger.waits.get(self.local_id, 0)

    def waits(self, seq: int) -> bool:
        return self._loaded and bool(self._waiting) and seq > self._number

    @property
    def dirty(self) -> bool:
        if self._loaded:
            return self._files.dirty or self._to_merge
        known = self._ledger.heads.get(self.local_id)
        return known is not None and not known.trashed and known.saved != known.number

    @property
    def _to_merge(self) -> bool:
        """True if the ledger has more from the hub, or the hub may take what waits."""
        if not self._loaded:
            return False
        known = self._ledger.head(self.local_id)
        return known.number != self._number or self._was_cut or bool(self._waiting and self._reachable)

    @property
    def _reachable(self) -> bool:
        """True if the hub can be reached, and what it has of the session can be read, as far as is known."""
        return self._link.up and self.local_id not in self._link.unreadable

    @property
    def _was_cut(self) -> bool:
        return self._ledger.cuts.get(self.local_id, 0) != self._cuts

    @property
    def size(self) -> int:
        return self._files.size

    @property
    def fingerprint(self) -> str | None:
        return None if self.dirty or self._waiting else self._files.fingerprint

    def warnings(self) -> list[FileWarning]:
        return self._files.warnings()

    def told(self) -> list[Change]:
        told, self._told = self._told, []
        return told

    async def check(self, session: Session) -> bool:
        return False

    async def agree(self) -> None:
        await self._link.reach()
        problem = self._link.unreadable.get(self.local_id)
        if problem is not None:
            raise Unavailable(
                problem, hint="appends without `expectedSeq` work meanwhile; `sessiond store status` says more"
            )

    async def orphans(self, session: Session) -> list[str]:
        open_ones = {message.id for message in session.streaming()}
        if not open_ones:
            return []
        former = self._ledger.lives - {self._ledger.replica}
        rows = await self._ledger.operations(self.local_id, NOTHING)
        left = [row.id for row in rows if row.id in open_ones and row.replica in former]
        left += [one.id for one in self._waiting if one.id in open_ones and one.names[0][0] in former]
        return [one for one in left if one is not None]

    async def exists(self) -> bool:
        self._ledger.check_open()
        known = self._ledger.heads.get(self.local_id)
        waits = self.local_id in self._ledger.waits
        return waits or self.local_id in self._ledger.listed or (known is not None and not known.trashed)
