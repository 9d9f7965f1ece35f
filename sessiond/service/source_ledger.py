"""A record of what the sources of imported sessions said when they were last read, and of what people removed of it: digests, never words.

With it an import tells what the source changed from what was changed here, and what the source has lost from what it never
had; and a follower tells what a person removed here from what never came. There are three kinds of knowledge:

    digests    of each session, by the file that it came from. Written together, `_LATEST_S` after they were learnt at the
               latest. Where some are lost, a source's message replaces ours only if it has every word of it.
    files      that were read to their end, and in which version. Where some are lost, a file is read once more.
    removals   of sessions and messages that came from a source. Durable before the removal is answered, and known by the
               session, wherever its source is now. Sessions that are in the trash are added at every start.

That the file cannot be used at the moment does not mean that nothing was noted: a follower waits (Unavailable).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sessiond.errors import Unavailable
from sessiond.importers.record import digest_of
from sessiond.service.source_ledger_file import (
    WHOLE,
    DigestKey,
    Entries,
    FileRead,
    LedgerFile,
    Recalled,
    Removal,
    Unusable,
)
from sessiond.service.source_merge import SourceDigest, SourceGrowth

T = TypeVar("T")
_WAITING = 500
"""Digests that are written in one transaction."""
_MOST_WAITING = 2000
_LATEST_S = 2.0
"""How long a digest waits for others to be written with."""


class SourceLedger:
    """`path` None: in memory. Call it on the loop; the disk is used on a thread of its own, so nobody else waits for it.

    What cannot be written stays in memory and is tried again at the next write, up to `_MOST_WAITING` digests.
    """

    def __init__(self, path: str | None) -> None:
        self._file = LedgerFile(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._digests: dict[DigestKey, SourceDigest | None] = {}
        """Not written yet. None: to be forgotten."""
        self._grown: dict[DigestKey, list[SourceGrowth]] = {}
        """Not written yet: what sources said since, after their digest if that is not written either."""
        self._files: dict[tuple[str, str], tuple[str, str]] = {}
        self._removed: set[Removal] = set()
        """Could not be written."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._closing = False

    # Digests and files

    async def recall(self, store: str, local_id: str) -> Recalled:
        """Unavailable if that cannot be known now."""
        found = await self._read(lambda: self._file.recall(store, local_id), Recalled())
        by_path = dict(found.by_path)
        for (its_store, its_id, path), digest in self._digests.items():
            if (its_store, its_id) == (store, local_id):
                if digest is None:
                    by_path.pop(path, None)
                else:
                    by_path[path] = digest
        for (its_store, its_id, path), growths in self._grown.items():
            if (its_store, its_id) == (store, local_id) and path in by_path:
                by_path[path] = by_path[path].grown(growths)
        removed = {one for its_store, its_id, one in self._removed if (its_store, its_id) == (store, local_id)}
        messages = found.removed_messages | (removed - {WHOLE})
        return Recalled(by_path, found.removed or WHOLE in removed, messages, found.inherited, found.moved_to)

    async def digest(self, store: str, local_id: str, path: str) -> SourceDigest | None:
        """Return what `path` said of the session; None if it was not read yet. Unavailable."""
        key = (store, local_id, path)
        if key in self._digests:
            digest = self._digests[key]
            return None if digest is None else digest.grown(self._grown.get(key, ()))
        return (await self.recall(store, local_id)).by_path.get(path)

    async def keep(
        self, store: str, local_id: str, path: str, digest: SourceDigest, moved_from: str | None = None
    ) -> None:
        """Remember what `path` says of the session, once the session holds it. `moved_from`: the file's path before."""
        self._digests[store, local_id, path] = digest
        self._grown.pop((store, local_id, path), None)
        if moved_from is not None:
            self._digests[store, local_id, moved_from] = None
            self._grown.pop((store, local_id, moved_from), None)
        if len(self._digests) >= _WAITING:
            await self.flush()
        else:
            self._flush_soon()

    def grow(self, store: str, local_id: str, path: str, growth: SourceGrowth) -> None:
        """Remember what `path` says of the session at its end, after all that was kept of it."""
        self._grown.setdefault((store, local_id, path), []).append(growth)
        self._flush_soon()

    def read_to_end(self, store: str, path: str, tool: str, mark: str) -> None:
        self._files[store, path] = (tool, mark)

    async def files(self, store: str) -> list[FileRead]:
        """Unavailable if that cannot be known now."""
        await self.flush()
        return await self._read(lambda: self._file.files(store), [])

    async def sessions(self, store: str, path: str) -> list[str]:
        """Local ids of the sessions that `path` has or had. Unavailable if that cannot be known now."""
        await self.flush()
        return await self._read(lambda: self._file.sessions(store, path), [])

    # Removals

    async def remove(
        self, store: str, local_id: str, message_ids: Iterable[str] | None = None, *, later: bool = False
    ) -> None:
        """A person removes these messages, or (None) the session. When this returns, that is durable. Unavailable if another
        program keeps the file to itself, unless it may be noted `later`. If it cannot be written for another reason, the
        next write tries again: a full disk must not keep anybody from removing something.
        """
        digests = [WHOLE] if message_ids is None else [digest_of(one) for one in message_ids]
        rows = {(store, local_id, one) for one in digests}
        try:
            await self._on_thread(lambda: self._file.write_durably(Entries(removed=rows)))
        except Unusable as error:
            if error.locked and not later:
                raise self._unknown(error) from error
            self._removed |= rows
            self._flush_soon()

    async def move(self, store: str, local_id: str, to_store: str) -> None:
        """A person moves the session: sources that are imported into `store` go on in `to_store`. As `remove`; if it can only be
        written later, it stays removed, and is not followed there.
        """
        await self.flush()
        try:
            await self._on_thread(lambda: self._file.move(store, local_id, to_store))
        except Unusable:
            await self.remove(store, local_id)

    async def cut(self, store: str) -> set[str]:
        """Return the local ids of sessions of which messages were removed; none where that cannot be known now."""
        waiting = {local_id for its_store, local_id, one in self._removed if its_store == store and one != WHOLE}
        nothing: set[str] = set()
        try:
            return waiting | await self._read(lambda: self._file.cut(store), nothing)
        except Unavailable:  # they come back at the next import
            return waiting

    async def came_back(self, store: str, local_id: str) -> None:
        """Somebody asked for what was removed. Unavailable."""
        self._removed = {row for row in self._removed if row[:2] != (store, local_id)}
        await self._read(lambda: self._file.forget_removed(store, local_id), None)

    async def were_removed(self, store: str, local_ids: Iterable[str]) -> None:
        """These sessions were removed at some time. Unavailable."""
        rows = [(store, local_id, WHOLE) for local_id in local_ids]
        await self._read(lambda: self._file.write(Entries(removed=rows)), None)

    # The file

    def _flush_soon(self) -> None:
        if self._timer is None and not self._closing:
            self._timer = asyncio.get_running_loop().call_later(_LATEST_S, self._begin_flush)

    def _begin_flush(self) -> None:
        self._timer = None
        self._writing = asyncio.create_task(self.flush(), name="source ledger")

    async def flush(self) -> None:
        async with self._flushing:
            await self._flush()

    async def _flush(self) -> None:
        digests, files, removed = dict(self._digests), dict(self._files), set(self._removed)
        grown = {key: list(growths) for key, growths in self._grown.items()}
        if not digests and not grown and not files and not removed:
            return
        entries = Entries(digests=digests, grown=grown, files=files, removed=removed)
        taken = {key: self._grown[key] for key in grown}
        try:
            await self._on_thread(lambda: self._file.write(entries))
        except Unusable:  # the log says so
            self._flush_soon()
            for key in list(self._digests)[:-_MOST_WAITING]:
                del self._digests[key]
            for growths in self._grown.values():
                del growths[:-_MOST_WAITING]
            return
        # An entry stays at hand until it can be found in the file.
        written = {key for key, one in digests.items() if key in self._digests and self._digests[key] is one}
        self._digests = {key: one for key, one in self._digests.items() if key not in written}
        for key, growths in taken.items():
            if self._grown.get(key) is growths:  # otherwise a digest came since, which has them
                del growths[: len(grown[key])]
                if not growths:
                    del self._grown[key]
        self._files = {key: one for key, one in self._files.items() if files.get(key) is not one}
        self._removed -= removed

    async def copy_to(self, path: str) -> None:
        """A copy of everything that is known now. Unavailable; OSError if there is no room for it."""
        await self.flush()
        await self._read(lambda: self._file.copy_to(path), None)

    async def copy_removed_to(self, path: str) -> None:
        """Add what was removed to such a copy. Unavailable."""
        await self.flush()
        await self._read(lambda: self._file.copy_removed_to(path), None)

    async def close(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self.flush()
        await self._on_thread(self._file.close)
        self._thread.shutdown(wait=False)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _read(self, work: Callable[[], T], nothing: T) -> T:
        """`nothing` if there is no file and none can be made. Unavailable if there is one and it cannot be used."""
        try:
            return await self._on_thread(work)
        except Unusable as error:
            if error.is_there:
                raise self._unknown(error) from error
            return nothing

    def _unknown(self, error: Unusable) -> Unavailable:
        what = "another program keeps it to itself" if error.locked else str(error)
        return Unavailable(
            f"{self._file.path} cannot be used: {what}",
            hint="it says what was removed here of other tools' sessions; try again when it can be used",
        )
