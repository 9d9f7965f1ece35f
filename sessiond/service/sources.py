"""Knows which files of other tools were already read to their end, and in which version.

A file that did not change since costs only a check of its size and time. The knowledge comes from the sessions' own metadata,
from the ledger, and from what this daemon read since it started; where something is missing, a file is read once more than
needed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from sessiond.errors import Unavailable
from sessiond.importers.changed_rows import is_due
from sessiond.importers.record import RowsRead, SkippedLine
from sessiond.importers.registry import fingerprint
from sessiond.index.values import ListQuery
from sessiond.misfits import Misfits
from sessiond.model.values import split_wire_id, timestamp
from sessiond.service.catalog import Catalog
from sessiond.service.kept_sources import KeptSources
from sessiond.service.source_ledger import SourceLedger
from sessiond.store.port import Store

_log = logging.getLogger(__name__)
_READING = 4
"""Increased when the importers find more in the same file than before: everything is read again then."""
_PAGE = 1000


class _Known(msgspec.Struct):
    tool: str = ""
    mark: str | None = None
    local_ids: set[str] = msgspec.field(default_factory=set)


def mark_of(path: str) -> str:
    """Identifies a version of a file; `metadata.source.fingerprint` of the session that was read last from it. OSError."""
    return f"{_READING}:{fingerprint(path)}"


def beside_of(mark: str) -> str:
    """The part of such a mark that is of the files beside it."""
    return mark.partition("+")[2]


class Sources:
    """The sources of one store."""

    def __init__(self, store: Store, catalog: Catalog, ledger: SourceLedger) -> None:
        self._store = store
        self._catalog = catalog
        self._ledger = ledger
        self._known: dict[str, _Known] = {}
        self._loaded = False
        self.due: set[str] = set()
        """Files that somebody who follows them should read again, although no write of theirs was told."""
        self.kept = KeptSources()
        self.rows: dict[str, RowsRead] = {}
        """Of databases whose sessions are all here: what tells which of them have changed."""
        self.copied: dict[str, str] = {}
        """Files that had to be copied when they were last read, with the reason."""
        self.unread = Misfits(_log, "could not be read")
        """Files that an error of ours or of the system kept from being read to their end: the next try may succeed."""

    async def load(self, *, must: bool = True) -> None:
        """Ask the index for the sessions' metadata, and the ledger; once, as soon as the index is complete. Unavailable: the
        ledger cannot be used now, and it `must` be.
        """
        if self._loaded or not self._catalog.over(self._store.name).is_set():
            return
        self._loaded = True
        try:
            await self._load()
        except BaseException as error:
            self._loaded = False
            if must or not isinstance(error, Unavailable):
                raise

    async def _load(self) -> None:
        await self._catalog.settled()
        for archived in (False, True):
            cursor: str | None = None
            while True:
                wanted = {"store": self._store.name, "archived": archived}
                query = ListQuery(limit=_PAGE, cursor=cursor, sort="createdAt", filter=wanted)
                page = await self._catalog.index.list(query)
                self._loaded = not page.lost
                if page.lost:
                    return
                for info in page.items:
                    if info.parent is not None and info.parent.get("seq") is not None:
                        continue  # a fork or a copy says where its words came from; it is not in the source
                    self._learn(info.session_id.rpartition("/")[2], info.metadata.get("source"))
                cursor = page.next_cursor
                if cursor is None:
                    break
        await self._ledger.were_removed(self._store.name, await self._in_trash())
        for file in await self._ledger.files(self._store.name):
            self._known[file.path] = _Known(file.tool, file.mark, set(file.local_ids))

    async def _in_trash(self) -> list[str]:
        """The sessions of other tools that were deleted: the ledger may have been lost since, or the daemon killed before it noted
        that another program removed a file.
        """
        deleted = [one.info for one in await self._store.trash() if one.reason == "deleted"]
        return [split_wire_id(one.session_id)[1] for one in deleted if "source" in one.metadata]

    def _learn(self, local_id: str, source: object) -> None:
        if not isinstance(source, dict) or not isinstance(source.get("path"), str):
            return
        known = self._known.setdefault(source["path"], _Known())
        known.local_ids.add(local_id)
        known.tool = str(source.get("tool"))
        if isinstance(source.get("fingerprint"), str) and known.mark is None:
            known.mark = source["fingerprint"]

    async def unchanged(
        self,
        path: str,
        tool: str | None,
        mark: str,
        has: Callable[[str], Awaitable[bool]] | None,
    ) -> int | None:
        """Return how many sessions of a file are here, if it was read to its end in this version; None if it must be read.

        `has`: says whether a session is here; one that is not does not keep its file from being read. None: it does.
        """
        known = self._known.get(path)
        if known is None or known.mark != mark or tool not in (None, known.tool):
            return None
        if has is not None:
            for local_id in known.local_ids:
                if not await has(local_id):
                    return None
        return len(known.local_ids)

    def mark(self, path: str) -> str | None:
        """The version in which the file was read to its end; None if it was not."""
        known = self._known.get(path)
        return None if known is None else known.mark

    def rows_due(self) -> list[str]:
        """Databases of which all rows should be looked at again, which the next reading does."""
        now = time.monotonic()
        due = [path for path, rows in self.rows.items() if is_due(rows, now)]
        for path in due:
            self.rows[path] = msgspec.structs.replace(self.rows[path], tails={}, partial=False)
        return due

    def local_ids(self, path: str) -> set[str]:
        """The sessions that a file had when it was last read."""
        known = self._known.get(path)
        return set() if known is None else set(known.local_ids)

    def forget(self, path: str, local_ids: set[str]) -> None:
        """The file no longer has these sessions."""
        self._known[path].local_ids -= local_ids

    def tool(self, path: str) -> str:
        return self._known[path].tool

    def forget_mark(self, path: str) -> None:
        """The file is not what was read."""
        if path in self._known:
            self._known[path].mark = None

    def came_back(self, path: str, tool: str) -> None:
        """A session of the file is here again, and lacks what the file said meanwhile: the file is to be read, now or by the next daemon."""
        self.forget_mark(path)
        self._ledger.read_to_end(self._store.name, path, tool, "")
        self.due.add(path)

    def take_due(self, covers: Callable[[str], bool]) -> list[str]:
        """Take those of `due` that a follower covers, and leave the others to other followers."""
        taken = {path for path in self.due if covers(path)}
        self.due -= taken
        return sorted(taken)

    def paths(self, without: str) -> list[str]:
        """The files that sessions came from, but for those with the mark `without`."""
        return [path for path, known in self._known.items() if known.mark != without]

    def remember(self, path: str, tool: str, mark: str, local_ids: Iterable[str]) -> None:
        """The file was read to its end in this version."""
        self._known[path] = _Known(tool, mark, set(local_ids))

    def was_read(self, path: str, tool: str, mark: str, local_ids: Iterable[str]) -> None:
        """Note, for the next daemon too, that the file was read to its end in this version."""
        self.remember(path, tool, mark, local_ids)
        self._ledger.read_to_end(self._store.name, path, tool, mark)


def size_of(path: str | SkippedLine) -> int:
    """Bytes of a file; 0 if that is unknown."""
    try:
        return os.path.getsize(path) if isinstance(path, str) else 0
    except OSError:
        return 0


def changed_at(path: str) -> str:
    """Return when a file, or the log next to a database, was last written, RFC 3339; in the future if that is unknown."""
    try:
        times = [os.stat(one).st_mtime_ns for one in (path, path + "-wal") if one == path or os.path.exists(one)]
        return timestamp(max(times) // 1_000_000)
    except (OSError, ValueError, OverflowError):
        return "9999"
