"""Reads a session from its files, and merges outside edits into the session in memory.

Theory of operation
-------------------
A session is in three places: its files, the journal, and memory. Other programs may write the files at any time, and a crash
may have cut our own write anywhere. The journal holds what we acknowledged and have not saved. The session in memory is the
files as we saw them last (`FileState.prints`) plus `FileState.pending`.

    nothing known ──read──> partial ──complete──> known ──changed, merge──> known
                      └───────────────────────────^  └──merge──> gone

read      Decodes the files and replays the journal's changes on top. Replay skips what the files already hold, so it
          may run at any crash point, and again after a crash during recovery.
partial   Only the end of a large native file was read. What is shown is provisional: `read_rest` reads the whole file
          while commits continue, `complete` puts it in place.
merge     Decodes another program's version, with every new message numbered above all seqs that we ever gave; replays
          `pending`; puts what the edit removed into the trash; makes the numbering durable. Only then does it return,
          and only then may the owner tell anyone.
displaced What is in the file's place cannot be understood, or is not a file: it is left alone, and what was known goes into
          the trash.
gone      The main file existed and is missing. That counts as intended: what was known goes into the trash. If the whole
          folder is away, nothing was deleted and nothing is done.

What must never happen: a file that could not be understood is written; a version that nobody read is overwritten (each
write names the version that it replaces, and raises OutsideChange if another one is there); a client hears of a seq
that a restart would give to something else.

Work that grows with the session's length runs in functions that `run` puts on a thread. No commit may run during `complete`
and `merge`: the owner ensures that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence

import msgspec

from sessiond.errors import BadFile, SessionNotFound
from sessiond.formats.base import Decoded, Files, Problem, Unlike, Write
from sessiond.formats.names import id_in_trash
from sessiond.formats.sidecar import Sidecar, decode_sidecar, sidecar_path, torn_at
from sessiond.fs import DiskFailed
from sessiond.model.changes import Appended, Change, Created
from sessiond.model.session import Absent, Session, content_equal
from sessiond.store.context import StoreContext
from sessiond.store.corruption import SEARCHED_BYTES, judge
from sessiond.store.create import left_beside
from sessiond.store.file_state import FileState
from sessiond.store.files import ATTEMPTS, FilesSnapshot, Print
from sessiond.store.merge import removed_messages, removed_notes, replay
from sessiond.store.partial_load import glance_at
from sessiond.store.port import OutsideChange
from sessiond.store.trash import copy_name

log = logging.getLogger(__name__)


class Rest(msgspec.Struct):
    """All of a session that was partially loaded. `floor`: messages without a seq were given seqs above it."""

    snapshot: FilesSnapshot
    decoded: Decoded
    floor: int


class _Merged(msgspec.Struct):
    """The result of merging another program's version with the journal, ready to be put in place."""

    session: Session | None
    """None: it has the same content as the session in memory."""
    problems: list[Problem]
    pending: list[Change]
    """The pending changes that the files lack."""
    numbering: Sequence[Write]
    removed: bool = False
    incomplete: bool = False


class Merging:
    """Merging for one session. The methods update `known`; none of them keeps a session."""

    def __init__(self, around: StoreContext, known: FileState) -> None:
        self._around = around
        self._known = known
        self._files = around.files
        self._format = around.format
        self._run = around.run
        self._main = around.format.main_path(known.local_id)

    # Reading

    async def read(self, *, whole: bool) -> Session:
        """SessionNotFound, BadFile."""
        known = self._known
        whole = whole or known.rewrite
        for _ in range(ATTEMPTS):
            # In one call, because the way to a thread and back costs as much as a small session.
            first = min((change.seq for change in known.pending), default=None)
            snapshot, decoded = await self._run(self._read_at_once, first, whole)
            if decoded is not None and decoded.session.absent:
                if self._glanced(snapshot, decoded):
                    glanced: Session = decoded.session
                    return glanced
                whole = True
                continue
            try:
                return await self._taken_in(snapshot, decoded)
            except OutsideChange:
                continue
        raise self._around.restless(known.local_id)

    def _read_at_once(self, pending_from: int | None, whole: bool) -> tuple[FilesSnapshot, Decoded | None]:
        """The files, and their content if the journal has nothing to add. `whole` False: for a large session the content of
        its end, with messages absent.
        """
        local_id = self._known.local_id
        seen = None if whole else glance_at(self._files, self._around.limits, local_id, pending_from)
        if seen is not None:
            return seen
        snapshot = self._files.read(local_id)
        if pending_from is not None or self._main not in snapshot.files:
            return snapshot, None
        return snapshot, self._format.decode(local_id, snapshot.files)

    def _glanced(self, snapshot: FilesSnapshot, decoded: Decoded) -> bool:
        """Accept the content of the file's end. False if the journal's changes need all messages."""
        known = self._known
        try:
            if len(replay(decoded, known.pending)) != len(known.pending):
                return False
        except Absent:
            return False
        known.prints, known.problems = snapshot.prints, []
        return True

    async def _taken_in(self, snapshot: FilesSnapshot, decoded: Decoded | None) -> Session:
        known = self._known
        created = next((change for change in known.pending if isinstance(change, Created)), None)
        if self._main not in snapshot.files and created is None:
            await self._keep_orphan()
            raise await self._around.no_file(known.local_id)
        if known.recovered:
            await self._cut_torn(snapshot, created)
        if self._main not in snapshot.files:
            # A sidecar without its file is left from an earlier session of this id, or from a first save: the journal has
            # everything.
            for path in [path for path in snapshot.files if path.startswith(".sessiond/")]:
                del snapshot.files[path]
        if decoded is None or known.pending or known.recovered:
            decoded = await self._decode(snapshot.files, known.highest_seq(None))
        elif decoded.fatal is not None:
            raise self._around.bad_file(decoded.fatal)
        missing: list[Change] = await self._run(replay, decoded, known.pending)
        if known.recovered and known.pending and missing != known.pending:
            await self._write_anew(snapshot)
        await self._keep_pending(missing)
        if decoded.unlike is not None and self._main in snapshot.files:
            await self._look_into(decoded, decoded.unlike, snapshot)
        if decoded.dropped and self._main in snapshot.files:
            await self._keep_dropped(decoded)
        if decoded.renumbered and self._main in snapshot.files:
            await self._make_numbering_durable(decoded, snapshot)
        known.prints, known.problems = snapshot.prints, decoded.problems
        known.rewrite = known.rewrite or decoded.incomplete
        if not known.dirty:
            known.current()
        return decoded.session

    async def _keep_orphan(self) -> None:
        """The session's file was removed while no daemon ran. What the journal has of it goes into the trash, and so does
        what only the sidecar still has: there may be no other copy.
        """
        known, around = self._known, self._around
        beside: Session | None = await self._run(left_beside, self._files, known.local_id)
        if not known.pending and (beside is None or around.problem is not None):
            return
        if not await self._run(self._files.reachable):
            raise around.gone_away()
        left = self.left_over(beside)
        if not await self._run(self._in_trash, left):
            await around.discard(left, known.local_id, "deleted")
            told = "store %s: the file of %s is gone; changes that were not saved in it are in the trash"
            log.warning(told, around.name, known.local_id)
        await around.take_away(known)

    def left_over(self, beside: Session | None = None) -> Session:
        """The pending changes, on top of the content next to the file, for when the file itself cannot be read."""
        known = self._known
        left = beside or Session(known.local_id, known.pending[0].at)
        for change in known.pending:
            fresh = change
            if isinstance(change, Appended):
                new = [wire for wire in change.messages if left.message(wire["id"]) is None]
                if not new:
                    continue
                fresh = Appended(seq=change.seq, at=change.at, messages=new)
            with contextlib.suppress(KeyError):  # it changes a message that was in the file
                left.apply(fresh)
        return left

    def _in_trash(self, left: Session) -> bool:
        """Return whether a crash interrupted a delete: then everything that is left is in the trash with the rest."""
        try:
            there = self._around.trash.get(self._known.local_id)[0]
        except (SessionNotFound, BadFile, OSError):
            return False
        pending = self._known.pending
        newest = pending[-1].seq if pending else left.seq
        return there.seq >= newest and all(there.message(one.id) is not None for one in left.messages())

    async def _decode(self, files: Files, floor: int) -> Decoded:
        decoded: Decoded = await self._run(self._format.decode, self._known.local_id, files, floor)
        if decoded.fatal is not None:
            raise self._around.bad_file(decoded.fatal)
        return decoded

    async def _cut_torn(self, snapshot: FilesSnapshot, created: Created | None) -> None:
        """A crash may have cut our own append short. The incomplete part is set aside and written again from the journal."""
        local_id, main = self._known.local_id, self._main
        content = snapshot.files.get(main)
        if content is None:
            return
        side, _ = decode_sidecar("", snapshot.files.get(sidecar_path(local_id)))
        position = torn_at(side, content) if side is not None and self._may_be_torn(side) else None
        # An empty file may be all that an earlier save left: the changes pending for it count, so it is not removed.
        unborn = position is None and created is not None and not await self._readable(snapshot.files)
        if position is None and not unborn:
            return
        aside = await self._run(self._around.trash.keep_bytes, copy_name(main), content)
        told = "store %s: a save of %s was cut short by a crash; the file as it was is in %s"
        log.warning(told, self._around.name, local_id, aside)
        writes = [Write(main, content[:position], "replace") if position is not None else Write(main, b"", "remove")]
        snapshot.prints.update(await self._around.perform(writes, snapshot.prints))
        if position is not None:
            snapshot.files[main] = content[:position]
        else:
            del snapshot.files[main], snapshot.prints[main]

    def _may_be_torn(self, side: Sidecar) -> bool:
        """Return whether the journal still has what the last append wrote. Otherwise that was complete, and a file that ends within it
        was edited: what is left would be in the journal no more.
        """
        return any(change.seq <= side.through for change in self._known.pending)

    async def _readable(self, files: Files) -> bool:
        decoded: Decoded = await self._run(self._format.decode, self._known.local_id, files)
        return decoded.fatal is None

    async def _write_anew(self, snapshot: FilesSnapshot) -> None:
        """The files show what the journal still has: a save was cut short. If its sync failed, it may be only in the page
        cache, and another sync of the same pages would succeed and mean nothing. The same bytes in new files are reliable.
        """
        writes = [Write(path, content, "replace") for path, content in snapshot.files.items()]
        try:
            snapshot.prints.update(await self._around.perform(writes, snapshot.prints))
        except OSError as error:
            self._known.rewrite = True  # the next save does it
            told = "store %s: %s could not be rewritten: %s"
            log.warning(told, self._around.name, self._known.local_id, error)

    async def _keep_pending(self, pending: list[Change]) -> None:
        """Keep those of the pending changes that the files lack. If they have all of them, a save of ours lost only its
        mark: tell the journal, or it would be kept for this session for ever.
        """
        known, around = self._known, self._around
        before, known.pending = known.pending, pending
        if before and not pending and not known.rewrite:
            try:
                await self._run(self._files.sync_main, known.local_id)
            except OSError as error:  # the journal keeps it until a working disk confirms it; it can still be read
                around.doubtful = around.doubtful or isinstance(error, DiskFailed)
                log.warning("store %s: %s may not be on the disk yet: %s", around.name, known.local_id, error)
            else:
                around.note_saved(known, before[-1].seq)

    async def _keep_dropped(self, decoded: Decoded) -> None:
        """The file was emptied or cut while no daemon ran: what only we had of it goes into the trash."""
        there = decoded.session
        left = Session(there.local_id, there.created_at)
        left.update({"name": there.name, "model": there.model, "cwd": there.cwd, "tags": there.tags})
        for message in decoded.dropped:
            left.add_message(message)
        left.seq = there.seq
        await self._around.discard(left, id_in_trash(there.local_id, there.seq), "edited")

    async def _look_into(self, decoded: Decoded, unlike: Unlike, snapshot: FilesSnapshot) -> None:
        """The file is not what was written last. An edit, or the remains of a save after a crash, is accepted; damage is reported."""
        main, side = self._main, sidecar_path(self._known.local_id)
        if not self._known.recovered:
            content, prints = snapshot.files[main], snapshot.prints
            problem = await self._run(judge, main, content, unlike, prints[main], prints.get(side), SEARCHED_BYTES)
            if problem is not None:
                log.warning("store %s: %s: %s", self._around.name, self._files.path(main), problem.message)
                decoded.problems.append(problem)
                return
        decoded.unlike = None
        try:
            await self._make_numbering_durable(decoded, snapshot)
        except OSError as error:  # tried again at the next load
            told = "store %s: the sum of %s was not updated: %s"
            log.warning(told, self._around.name, self._known.local_id, error)

    async def _make_numbering_durable(self, decoded: Decoded, snapshot: FilesSnapshot) -> None:
        writes = await self._run(self._format.adopt_numbering, decoded, snapshot.files)
        await self._run(self._around.keep_damaged_sidecar, self._known.local_id, snapshot.files, writes)
        snapshot.prints.update(await self._around.perform(writes, snapshot.prints))

    # The rest of a partial load

    async def read_rest(self, session: Session) -> Rest | None:
        """Read all of the files while commits continue. None: they have gone, or are being written. BadFile."""
        try:
            snapshot: FilesSnapshot = await self._run(self._files.read, self._known.local_id)
        except (OutsideChange, FileNotFoundError):  # the latter: removed between a check and a read
            return None
        return await self._rest_in(session, snapshot) if self._main in snapshot.files else None

    async def _rest_in(self, session: Session, snapshot: FilesSnapshot) -> Rest:
        known = self._known
        floor = known.highest_seq(session)
        try:
            return Rest(snapshot, await self._decode(snapshot.files, floor), floor)
        except BadFile as error:  # what was shown of it remains, with this as a warning
            known.problems = [Problem(self._main, error.data.get("line"), error.message)]
            raise

    async def complete(self, old: Session, rest: Rest | None) -> Session | None:
        """Put the rest in place. What was shown of the session remains, unless the file says otherwise. As `merge`."""
        if rest is None or (rest.decoded.renumbered and rest.floor != self._known.highest_seq(old)):
            return await self._completed_anew(old)
        try:
            return await self._completed(old, rest)
        except OutsideChange:
            return await self._completed_anew(old)

    async def _completed_anew(self, old: Session) -> Session | None:
        """Complete it from the files as they are now. BadFile if they never stop changing."""
        for _ in range(ATTEMPTS):
            try:
                snapshot: FilesSnapshot = await self._run(self._files.read, self._known.local_id)
                if self._main not in snapshot.files:
                    return await self._missing(old, snapshot)
                return await self._completed(old, await self._rest_in(old, snapshot))
            except (OutsideChange, FileNotFoundError):  # as above
                continue
        raise self._around.restless(self._known.local_id)

    async def _completed(self, old: Session, rest: Rest) -> Session:
        """OutsideChange if the files were written since they were read."""
        known, decoded, snapshot = self._known, rest.decoded, rest.snapshot
        unseen = snapshot.prints == known.prints
        pending: list[Change] = await self._run(replay, decoded, known.pending)
        sound = decoded.unlike is None and not (decoded.problems or decoded.renumbered or decoded.incomplete)
        # A file that was only touched, or written again as it was, is the one that was checked, as its sum says.
        same = (unseen or old.is_checked) and sound and len(pending) == len(known.pending)
        if same and await self._run(old.agrees, decoded.session):
            old.complete(decoded.session)
            known.prints, known.problems = snapshot.prints, decoded.problems
            return old
        if not old.is_checked:
            log.warning("store %s: the whole of %s differs from its partial load", self._around.name, known.local_id)
        if unseen and decoded.unlike is not None:
            await self._look_into(decoded, decoded.unlike, snapshot)
        else:
            decoded.unlike = None
        decoded.session.seq = max(decoded.session.seq, old.seq)
        there = old.at_hand()
        merged = await self._run(self._differing, there, decoded, snapshot.files, pending)
        return await self._put_in_place(there, merged, snapshot)

    # Merging

    async def changed(self) -> bool:
        """Return whether another program wrote the files, as soon as size and mtime do not change any more."""
        known = self._known
        try:
            prints = await self._run(self._files.prints, known.local_id)
        except BadFile:
            if self._main not in known.prints:
                raise
            return True  # the file is not there as it was: `merge` keeps what we know of it, and reports what is wrong
        if prints == known.prints:
            return False
        shared = self._files.shared_files()
        theirs = [
            path for path in prints.keys() | known.prints.keys() if path in shared or not path.startswith(".sessiond/")
        ]
        if all(prints.get(path) == known.prints.get(path) for path in theirs):
            before, known.prints = known.prints, prints
            known.rewrite = known.rewrite or await self._run(self._lacks_sidecar, before)
            return False
        last = None
        for _ in range(ATTEMPTS):
            now = await self._run(self._files.prints, self._known.local_id)
            if now == last:
                break
            last = now
            await asyncio.sleep(self._around.limits.settle_s)
        return True

    def _lacks_sidecar(self, before: Mapping[str, Print]) -> bool:
        """Return whether the sidecar was removed or damaged: we have its content in memory, and rewrite it."""
        path = sidecar_path(self._known.local_id)
        if path not in before:
            return False
        try:
            content = self._files.read_side(self._known.local_id).get(path)
        except FileNotFoundError:
            content = None
        side, problems = decode_sidecar(path, content)
        return side is None and not any(problem.fatal for problem in problems)

    async def merge(self, old: Session) -> Session | None:
        """The session as it is now. The same object: nothing happened. None: it is gone, and in the trash."""
        known = self._known
        for _ in range(ATTEMPTS):
            try:
                snapshot: FilesSnapshot = await self._run(self._files.read, known.local_id)
                if self._main not in snapshot.files:
                    return await self._missing(old, snapshot)
                if old.absent:
                    return await self._completed_anew(old)
                if snapshot.prints == known.prints:
                    return old  # called twice for the same edit
                merged = await self._run(self._merged, old, snapshot.files, known.highest_seq(old))
                return await self._put_in_place(old, merged, snapshot)
            except (OutsideChange, FileNotFoundError):  # the latter: removed between a check and a read
                continue
            except (BadFile, PermissionError):
                await self._keep_displaced(old)
                raise
        return old  # it is being written constantly: the next look finds it

    async def _keep_displaced(self, old: Session) -> None:
        """Something that cannot be understood is in the file's place (cut short, emptied, a FIFO): only we know what was in
        the file. That goes into the trash, once for each such replacement.
        """
        known = self._known
        there = await self._run(self._displacing)
        if self._main in known.prints and there not in (None, known.prints[self._main], known.displacing):
            await self._around.discard(old.at_hand(), id_in_trash(old.local_id, old.seq), "edited")
            known.displacing = there
            told = "store %s: %s can no longer be understood; its previous content is in the trash"
            log.warning(told, self._around.name, self._files.path(self._main))

    def _displacing(self) -> Print | None:
        """The version of whatever is at the main file's path. None if that cannot be determined."""
        try:
            stat = self._files.fs.stat(self._files.path(self._main))
        except OSError:
            return None
        return None if stat is None else (stat.ino, stat.size if stat.is_file else -1, stat.mtime_ns)

    async def _missing(self, old: Session, snapshot: FilesSnapshot) -> Session | None:
        known = self._known
        if known.prints.get(self._main) is None:  # it was never saved
            shared = self._files.shared_files()
            known.prints = {path: one for path, one in snapshot.prints.items() if path not in shared}
            return old
        if not await self._run(self._files.reachable):
            raise self._around.gone_away()
        await self._around.discard(old.at_hand(), known.local_id, "deleted")
        await self._around.take_away(known)
        return None

    def _merged(self, old: Session, files: Files, floor: int) -> _Merged:
        """Runs on a thread, where decoded content that is not needed is also freed. BadFile."""
        decoded = self._format.decode(self._known.local_id, files, floor)
        if decoded.fatal is not None:
            raise self._around.bad_file(decoded.fatal)
        outside, decoded.unlike = decoded.unlike is not None, None
        pending = replay(decoded, self._known.pending)
        decoded.session.seq = max(decoded.session.seq, old.seq)
        if content_equal(old, decoded.session) and not decoded.incomplete:
            # Touched, or written with the same content: nothing happened. The session object remains.
            numbering = self._format.adopt_numbering(decoded, files) if outside else []
            return _Merged(None, decoded.problems, pending, numbering)
        return self._differing(old, decoded, files, pending)

    def _differing(self, old: Session, decoded: Decoded, files: Files, pending: list[Change]) -> _Merged:
        new = decoded.session
        new.seq += 1  # for the merge itself, so that a client that was away knows that it must read again
        numbering = self._format.adopt_numbering(decoded, files)
        removed = bool(removed_messages(old, new) or removed_notes(old, new))
        return _Merged(new, decoded.problems, pending, numbering, removed, decoded.incomplete)

    async def _put_in_place(self, old: Session, merged: _Merged, snapshot: FilesSnapshot) -> Session:
        """Replace what was known by what the files say."""
        known = self._known
        await self._run(self._around.keep_damaged_sidecar, known.local_id, snapshot.files, merged.numbering)
        snapshot.prints.update(await self._around.perform(merged.numbering, snapshot.prints))
        if merged.removed:
            await self._around.discard(old, id_in_trash(old.local_id, old.seq), "edited")
        known.prints, known.problems = snapshot.prints, merged.problems
        await self._keep_pending(merged.pending)
        if merged.session is None:
            return old
        known.rewrite = merged.incomplete
        return merged.session
