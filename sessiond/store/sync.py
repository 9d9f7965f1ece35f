"""Keeping one session and its files in step: loading, saving, and merging what somebody else wrote.

Rules:

- The io lock of the session is held during each of the three, so reads, saves and merges of one session never overlap.
- A save writes what is pending, cheaply where the format can append, else the whole file; a file that is not the
  version seen last is merged first.
- A merge reads the new version, gives what is new in it seqs above every known one, makes that numbering durable,
  replays what is pending, and
  puts what the edit took away into the trash. Only then is anyone told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sessiond.clock import Clock
from sessiond.errors import BadFile, ReadOnly, SessionNotFound, Unavailable
from sessiond.formats.base import Decoded, Files, Format, Problem, Unlike, Write
from sessiond.formats.sidecar import decode_sidecar, sidecar_path, torn_at
from sessiond.fs import DiskFailed
from sessiond.limits import Limits
from sessiond.model.changes import Change, Created
from sessiond.model.session import Absent, Session, content_equal
from sessiond.model.values import timestamp
from sessiond.store.around import Marks, Run
from sessiond.store.decay import SEARCHED_BYTES, judge
from sessiond.store.files import ATTEMPTS, UNSEEN, OutsideChange, Print, Snapshot, StoreFiles
from sessiond.store.glances import glance_at
from sessiond.store.merge import highest_seq, removed_messages, replay
from sessiond.store.port import Event, FileWarning, Reloaded, Saved, Vanished
from sessiond.store.tracked import Tracked
from sessiond.store.trash import Trash

log = logging.getLogger(__name__)
T = TypeVar("T")


class Sync:
    def __init__(
        self, *, store: str, fmt: Format, files: StoreFiles, trash: Trash, marks: Marks, clock: Clock, limits: Limits, run: Run,
        emit: Callable[[Event], None],
    ) -> None:  # fmt: skip
        self.store = store
        self.format = fmt
        self.files = files
        self.trash = trash
        self.marks = marks
        self.clock = clock
        self.limits = limits
        self.run = run
        self.emit = emit
        self._remember: Callable[..., Sequence[Write]] | None = getattr(fmt, "remember", None)
        self.doubtful = False
        """A sync failed: what the files show may not be on the disk, and no later sync proves that it is."""

    # Loading

    async def load(self, tracked: Tracked, *, whole: bool = True) -> None:
        """Fill `tracked.session`. The caller holds io. SessionNotFound, BadFile."""
        whole = whole or tracked.rewrite
        for _ in range(ATTEMPTS):
            # At once, for the way to a thread and back costs as much as a small session.
            first = min((change.seq for change in tracked.pending), default=None)
            snapshot, decoded = await self.run(self._read_at_once, tracked.local_id, first, whole)
            if decoded is not None and decoded.session.absent:
                if self._glanced(tracked, snapshot, decoded):
                    return
                whole = True
                continue
            try:
                await self._load(tracked, snapshot, decoded)
            except OutsideChange:
                continue
            return
        raise self._restless(tracked)

    def _restless(self, tracked: Tracked) -> BadFile:
        path = self.files.path(self.format.main_path(tracked.local_id))
        hint = "stop the program that writes it, then open the session again"
        return BadFile(f"{path} changes faster than it can be read", hint=hint, path=path, line=None)

    async def bring(self, tracked: Tracked, *, whole: bool) -> None:
        """`tracked.session` as files and journal have it; `whole` False: its older messages may be absent. The caller holds
        io. SessionNotFound, BadFile; None where somebody has just removed it.
        """
        if tracked.session is None:
            await self.load(tracked, whole=whole)
            return
        await self.compare(tracked)
        if whole and tracked.session is not None and tracked.session.absent:
            await self.merge(tracked)
            if tracked.session is not None and tracked.session.absent:
                raise self._restless(tracked)

    def _read_at_once(self, local_id: str, pending_from: int | None, whole: bool) -> tuple[Snapshot, Decoded | None]:
        """A session's files, and what they say where the journal has nothing to add. `whole` False: of a large one what its
        end says, in which messages are absent.
        """
        seen = None if whole else glance_at(self.files, self.limits, local_id, pending_from)
        if seen is not None:
            return seen
        snapshot = self.files.read(local_id)
        if pending_from is not None or self.format.main_path(local_id) not in snapshot.files:
            return snapshot, None
        return snapshot, self.format.decode(local_id, snapshot.files)

    def _glanced(self, tracked: Tracked, snapshot: Snapshot, decoded: Decoded) -> bool:
        """Fill `tracked.session` with what the end of its file told. False where it takes all messages to say what the journal
        adds to that.
        """
        try:
            if len(replay(decoded, tracked.pending)) != len(tracked.pending):
                return False
        except Absent:
            return False
        tracked.session, tracked.prints, tracked.problems = decoded.session, snapshot.prints, []
        self._note_dirty(tracked)
        return True

    async def _load(self, tracked: Tracked, snapshot: Snapshot, decoded: Decoded | None) -> None:
        main = self.format.main_path(tracked.local_id)
        created = next((change for change in tracked.pending if isinstance(change, Created)), None)
        if main not in snapshot.files and created is None:
            raise SessionNotFound(f"no session {tracked.local_id!r} in the store {self.store!r}")
        if tracked.recovered:
            await self._cut_torn(tracked, snapshot, created)
        if main not in snapshot.files:
            # A sidecar without its file is what is left of another life of this id, or of a first save: the journal has it all.
            for path in [path for path in snapshot.files if path.startswith(".sessiond/")]:
                del snapshot.files[path]
        if decoded is None or tracked.pending or tracked.recovered or tracked.session is not None:
            decoded = await self._decode(tracked, snapshot.files)
        elif decoded.fatal is not None:
            raise self.bad_file(decoded.fatal)
        missing = replay(decoded, tracked.pending)
        if tracked.recovered and tracked.pending and missing != tracked.pending:
            await self._write_anew(tracked, snapshot)
        await self._keep_pending(tracked, missing)
        if decoded.unlike is not None and main in snapshot.files:
            await self._look_into(tracked, decoded, decoded.unlike, snapshot)
        if decoded.renumbered and main in snapshot.files:
            await self._make_numbering_durable(tracked, decoded, snapshot)
        tracked.session = decoded.session
        tracked.prints = snapshot.prints
        tracked.problems = decoded.problems
        tracked.rewrite = tracked.rewrite or decoded.incomplete
        self._note_dirty(tracked)

    def _note_dirty(self, tracked: Tracked) -> None:
        if tracked.dirty:
            tracked.changed(self.clock.monotonic())
        else:
            tracked.current()

    async def _decode(self, tracked: Tracked, files: Files) -> Decoded:
        floor = highest_seq(tracked.session, tracked.pending)
        decoded: Decoded = await self.run(self.format.decode, tracked.local_id, files, floor)
        if decoded.fatal is not None:
            raise self.bad_file(decoded.fatal)
        return decoded

    def bad_file(self, problem: Problem) -> BadFile:
        path = self.files.path(problem.path)
        where = f"{path}:{problem.line}" if problem.line else path
        return BadFile(
            f"{where} {problem.message}",
            hint="the file is left as it is; mend it or move it away",
            path=path,
            line=problem.line,
        )

    async def _cut_torn(self, tracked: Tracked, snapshot: Snapshot, created: Created | None) -> None:
        """A crash may have cut our own append short. What is incomplete goes aside and is written again from the
        journal.
        """
        main = self.format.main_path(tracked.local_id)
        content = snapshot.files.get(main)
        if content is None:
            return
        side, _ = decode_sidecar("", snapshot.files.get(sidecar_path(tracked.local_id)))
        position = torn_at(side, content)
        # An empty file may be all that an earlier save left: what waits beside it counts, so it is not taken away.
        unborn = position is None and created is not None and not await self._readable(tracked.local_id, snapshot.files)
        if position is None and not unborn:
            return
        name = main.replace("/", "%2F")
        aside = await self.run(self.trash.keep_bytes, name, content)
        log.warning(
            "store %s: a save of %s was cut short by a crash; the file as it was lies in %s",
            self.store,
            tracked.local_id,
            aside,
        )
        writes = [Write(main, content[:position], "replace") if position is not None else Write(main, b"", "remove")]
        snapshot.prints.update(await self._perform(writes, snapshot.prints))
        if position is not None:
            snapshot.files[main] = content[:position]
        else:
            del snapshot.files[main], snapshot.prints[main]

    async def _write_anew(self, tracked: Tracked, snapshot: Snapshot) -> None:
        """The files show what the journal still has: a save was cut short. If its sync failed, only the page cache may have it,
        and another sync of the same pages would succeed and mean nothing. The same bytes in new files can be relied on.
        """
        writes = [Write(path, content, "replace") for path, content in snapshot.files.items()]
        try:
            snapshot.prints.update(await self._perform(writes, snapshot.prints))
        except OSError as error:
            tracked.rewrite = True  # the next save does it
            log.warning("store %s: %s could not be written anew: %s", self.store, tracked.local_id, error)

    async def _keep_pending(self, tracked: Tracked, pending: list[Change]) -> None:
        """Of what waits, keep what the files do not hold. Where they hold all of it, a save of ours lost only its mark: say so to the
        journal, or it would be kept for this session for ever.
        """
        before, tracked.pending = tracked.pending, pending
        if before and not pending and not tracked.rewrite:
            try:
                await self.run(self.files.sync_main, tracked.local_id)
            except OSError as error:  # the journal keeps it till a disk that works says that it is there; it can be read all the same
                self.doubtful = self.doubtful or isinstance(error, DiskFailed)
                log.warning("store %s: %s may not be on the disk yet: %s", self.store, tracked.local_id, error)
            else:
                self._note_saved(tracked, before[-1].seq)

    async def _perform(self, writes: Sequence[Write], expected: Mapping[str, Print]) -> dict[str, Print]:
        try:
            return await self.run(self.files.perform, writes, expected)  # type: ignore[no-any-return]
        except DiskFailed:
            self.doubtful = True
            raise

    def _note_saved(self, tracked: Tracked, seq: int) -> None:
        """Let the journal forget, unless a sync in this folder failed: then it has to bring all of it again at the next start."""
        if not self.doubtful:
            self.marks.note_saved(self.store, tracked.local_id, seq)

    async def _readable(self, local_id: str, files: Files) -> bool:
        decoded: Decoded = await self.run(self.format.decode, local_id, files)
        return decoded.fatal is None

    async def _look_into(self, tracked: Tracked, decoded: Decoded, unlike: Unlike, snapshot: Snapshot) -> None:
        """The file is not what was written last. An edit, or what a crash left of a save, is taken as it is; damage is told."""
        main, side = self.format.main_path(tracked.local_id), sidecar_path(tracked.local_id)
        if not tracked.recovered:
            content, prints = snapshot.files[main], snapshot.prints
            problem = await self.run(judge, main, content, unlike, prints[main], prints.get(side), SEARCHED_BYTES)
            if problem is not None:
                log.warning("store %s: %s: %s", self.store, self.files.path(main), problem.message)
                decoded.problems.append(problem)
                return
        decoded.unlike = None
        try:
            await self._make_numbering_durable(tracked, decoded, snapshot)
        except OSError as error:  # it is tried again at the next load
            log.warning("store %s: the sum of %s is not brought up to date: %s", self.store, tracked.local_id, error)

    async def _make_numbering_durable(self, tracked: Tracked, decoded: Decoded, snapshot: Snapshot) -> None:
        writes = self.format.adopt_numbering(decoded, snapshot.files)
        snapshot.prints.update(await self._perform(writes, snapshot.prints))

    # Saving

    async def save(self, tracked: Tracked) -> Saved | None:
        """Bring the file up to date. The caller holds io. OSError where the disk will not, Unavailable where somebody else writes it
        all the time; everything stays pending then.
        """
        for _ in range(ATTEMPTS):
            if tracked.session is None:
                await self.load(tracked)
            session = tracked.session
            assert session is not None
            if tracked.dirty and session.absent:  # nothing is written before all that is there was read
                await self.merge(tracked)
                continue
            if not tracked.dirty or (session.is_blank and not tracked.prints and not tracked.rewrite):
                return None
            pending = list(tracked.pending)
            try:
                prints = await self._write(tracked, session, pending)
            except (OutsideChange, FileNotFoundError):  # the latter: removed between a look and a read
                await self._wait_until_settled(tracked)
                await self.merge(tracked)
                continue
            return self.saved(tracked, session, pending, prints)
        raise Unavailable(
            f"{self.files.path(self.format.main_path(tracked.local_id))} is being written by somebody else all the time",
            hint="everything acknowledged is safe in the journal; it is saved as soon as the file stands still",
        )

    async def _write(
        self, tracked: Tracked, session: Session, pending: list[Change]
    ) -> dict[str, tuple[int, int, int]]:
        writes: Sequence[Write] | None = None
        main = self.format.main_path(tracked.local_id)
        snapshot = session.snapshot()
        understood = not tracked.problems and not session.streaming()
        shared = await self.run(self._shared_prints)  # before they are read, so that a write in between is noticed
        if not tracked.rewrite:
            tail = await self.run(self.files.tail, tracked.local_id)
            side = await self.run(self.files.read_side, tracked.local_id)
            writes = await self.run(self.format.update, snapshot, tail, side, pending)
        expected = {path: one for path, one in tracked.prints.items() if path not in self.files.shared_files()} | shared
        if writes is None:
            before: Snapshot = await self.run(self.files.read, tracked.local_id)
            if before.prints.get(main) != expected.get(main):
                raise OutsideChange(main)
            expected = before.prints
            writes = await self.run(self.format.encode, snapshot, before.files)
        most = expected.get(main, (0, 0, 0))[1] + sum(len(one.data) for one in writes)
        if self._remember is not None and understood and most >= self.limits.glanced_file_bytes:
            writes = await self.run(self._remember, writes, snapshot, self.limits.glanced_file_bytes)
        written = await self._perform(writes, expected)
        # What another session wrote into a shared file is saved with ours, and is merged when the files are compared next.
        shared_files = self.files.shared_files()
        unseen = {path: UNSEEN for path in shared_files if expected.get(path) != tracked.prints.get(path)}
        done: dict[str, tuple[int, int, int]] = expected | written | unseen
        return done

    def _shared_prints(self) -> dict[str, tuple[int, int, int]]:
        """Of the files that several sessions share, as they stand now: each session appends to them in its turn."""
        found = {path: self.files.print_of(path) for path in self.files.shared_files()}
        return {path: one for path, one in found.items() if one is not None}

    def saved(
        self, tracked: Tracked, session: Session, pending: list[Change], prints: dict[str, tuple[int, int, int]]
    ) -> Saved:
        """The files are `prints` now, and hold `session` with the changes `pending`."""
        tracked.prints = prints
        done = len(pending)
        # What was committed while the file was being written waits for the next save.
        tracked.pending = tracked.pending[done:]
        through = pending[-1].seq if pending else session.seq
        tracked.current()
        if tracked.pending:
            tracked.changed(self.clock.monotonic())
        else:
            tracked.problems = [p for p in tracked.problems if not p.fatal]
        self._note_saved(tracked, through)
        main = self.format.main_path(tracked.local_id)
        size = max(prints.get(main, (0, 0, 0))[1], 0)
        return Saved(
            local_id=tracked.local_id, path=self.files.path(main), bytes=size, saved_at=timestamp(self.clock.now_ms())
        )  # fmt: skip

    # Merging

    async def compare(self, tracked: Tracked) -> bool:
        """Look at the files; merge if somebody else wrote them. The caller holds io. True if anything was merged or is
        gone.
        """
        prints = await self.run(self.files.prints, tracked.local_id)
        if prints == tracked.prints or (tracked.session is None and not tracked.pending):
            return False
        shared = self.files.shared_files()
        mine = {
            path
            for path in prints.keys() | tracked.prints.keys()
            if path not in shared and path.startswith(".sessiond/")
        }
        if all(
            prints.get(path) == tracked.prints.get(path)
            for path in prints.keys() | tracked.prints.keys()
            if path not in mine
        ):
            tracked.prints = prints
            return False
        await self._wait_until_settled(tracked)
        await self.merge(tracked)
        return True

    async def _wait_until_settled(self, tracked: Tracked) -> None:
        """An outside change is read once size and mtime stood still."""
        last = None
        for _ in range(ATTEMPTS):
            now = await self.run(self.files.prints, tracked.local_id)
            if now == last:
                return
            last = now
            await asyncio.sleep(self.limits.settle_s)

    async def merge(self, tracked: Tracked) -> None:
        """Take in what somebody else wrote, or removed, and the messages that are absent. The caller holds io."""
        if tracked.session is None:
            await self.load(tracked)
            return
        for _ in range(ATTEMPTS):
            snapshot: Snapshot = await self.run(self.files.read, tracked.local_id)
            if self.format.main_path(tracked.local_id) not in snapshot.files:
                if tracked.prints.get(self.format.main_path(tracked.local_id)) is None:
                    shared = self.files.shared_files()
                    tracked.prints = {path: one for path, one in snapshot.prints.items() if path not in shared}
                    return
                if not await self.run(self.files.reachable):
                    raise Unavailable(
                        f"{self.files.root} is out of reach", hint="bring the folder back; nothing of it was changed"
                    )
                await self._gone(tracked)
                return
            try:
                if tracked.session.absent:
                    await self._complete(tracked, snapshot)
                else:
                    async with tracked.gate:
                        await self._merge(tracked, snapshot)
            except OutsideChange:
                continue
            return

    async def _merge(self, tracked: Tracked, snapshot: Snapshot) -> None:
        old = tracked.session
        assert old is not None
        decoded = await self._decode(tracked, snapshot.files)
        outside, decoded.unlike = decoded.unlike is not None, None
        pending = replay(decoded, tracked.pending)
        new = decoded.session
        new.seq = max(new.seq, old.seq)
        if content_equal(old, new) and not decoded.incomplete:
            # Touched, or written with the same content: nothing happened. The session that others hold stays.
            if outside:
                await self._make_numbering_durable(tracked, decoded, snapshot)
            tracked.prints, tracked.problems = snapshot.prints, decoded.problems
            await self._keep_pending(tracked, pending)
            return
        await self._replace(tracked, old, decoded, snapshot, pending)

    async def _complete(self, tracked: Tracked, snapshot: Snapshot) -> None:
        """The whole of a session that was only glanced at. What was told of it stays, unless the file says otherwise."""
        try:
            decoded = await self._decode(tracked, snapshot.files)  # changes may be committed meanwhile
        except BadFile as error:  # what was shown of it stays, with this beside it
            tracked.problems = [Problem(self.format.main_path(tracked.local_id), error.data.get("line"), error.message)]
            raise
        async with tracked.gate:
            old = tracked.session
            assert old is not None
            unseen = snapshot.prints == tracked.prints
            pending = replay(decoded, tracked.pending)
            sound = decoded.unlike is None and not (decoded.problems or decoded.renumbered or decoded.incomplete)
            if unseen and sound and len(pending) == len(tracked.pending) and old.agrees(decoded.session):
                old.complete(decoded.session)
                tracked.problems = decoded.problems
                return
            log.warning("store %s: %s is not what a glance at it told", self.store, tracked.local_id)
            if unseen and decoded.unlike is not None:
                await self._look_into(tracked, decoded, decoded.unlike, snapshot)
            else:
                decoded.unlike = None
            decoded.session.seq = max(decoded.session.seq, old.seq)
            await self._replace(tracked, old.at_hand(), decoded, snapshot, pending)

    async def _replace(
        self, tracked: Tracked, old: Session, decoded: Decoded, snapshot: Snapshot, pending: list[Change]
    ) -> None:
        """What the files say takes the place of what was known. The caller holds io and gate."""
        new = decoded.session
        new.seq += 1  # the merge itself, so that a client that was away knows that it must read again
        writes = self.format.adopt_numbering(decoded, snapshot.files)
        snapshot.prints.update(await self._perform(writes, snapshot.prints))
        if removed_messages(old, new):
            await self.discard(old, f"{old.local_id[:100]}.was-{old.seq}", "edited")
        tracked.session, tracked.prints, tracked.problems = new, snapshot.prints, decoded.problems
        await self._keep_pending(tracked, pending)
        tracked.rewrite = decoded.incomplete
        if tracked.dirty:
            tracked.changed(self.clock.monotonic())
        self.emit(Reloaded(new, self.warnings(tracked)))

    async def _gone(self, tracked: Tracked) -> None:
        """The file was deleted by somebody: his will. What was known lies in the trash."""
        async with tracked.gate:
            if tracked.session is not None:
                await self.discard(tracked.session.at_hand(), tracked.local_id, "deleted")
            await self._take_away(tracked)
        self.emit(Vanished(tracked.local_id))

    async def delete(self, tracked: Tracked) -> None:
        """Files and journal know nothing of the session any more. The caller holds io and gate. OSError, ReadOnly: it goes on
        as it is, and its file is written again as soon as that can be.
        """
        try:
            await self._take_away(tracked)
        except (OSError, ReadOnly):
            tracked.prints = await self.run(self.files.prints, tracked.local_id)
            if tracked.session is not None:
                tracked.rewrite = True
                tracked.changed(self.clock.monotonic())
            raise

    async def _take_away(self, tracked: Tracked) -> None:
        await self.run(self.files.remove, tracked.local_id)
        await self.marks.note_gone(self.store, tracked.local_id)
        tracked.session, tracked.pending, tracked.prints = None, [], {}
        tracked.current()

    async def discard(self, session: Session, trash_id: str, reason: str, files: Files | None = None) -> None:
        at = timestamp(self.clock.now_ms())

        def put() -> None:
            self.trash.put(trash_id, session, files or {}, at=at, reason=reason)

        await self.run(put)

    def warnings(self, tracked: Tracked) -> list[FileWarning]:
        return [FileWarning(self.files.path(p.path), p.line, p.message) for p in tracked.problems]
