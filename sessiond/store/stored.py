"""One session as a folder store keeps it. Implements `port.Stored`.

The life of a change: `commit` gives it to the journal and waits until it is durable there; then it is applied to the session
and is pending; `save` writes it into the session's file; then the journal may forget it. A crash anywhere in between is
repaired at the next start from the journal, whose changes are replayed on top of the file's content.

A commit and a save may be under way at the same time: a save writes a snapshot, and removes from `pending` only what was in
that. All other calls come one at a time; the owner of the session ensures that.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from sessiond.errors import AlreadyExists, BadFile, ReadOnly, SessiondError, TooLarge
from sessiond.formats.base import Write
from sessiond.formats.names import id_in_trash
from sessiond.fs import DiskFailed
from sessiond.journal.writer import OnDurable
from sessiond.limits import KIB
from sessiond.model.changes import Appended, Change, encode_changes
from sessiond.model.session import Absent, Session
from sessiond.model.values import join_wire_id
from sessiond.store.context import StoreContext
from sessiond.store.create import left_beside, make
from sessiond.store.file_state import FileState
from sessiond.store.files import UNSEEN, FilesSnapshot, Print
from sessiond.store.partial_load import check, lacks
from sessiond.store.port import Complete, FileWarning, OfThisMachine, OutsideChange, SavedSession
from sessiond.store.reconcile import Merging, Rest
from sessiond.store.trash import copy_name

log = logging.getLogger(__name__)
_ROOM_FOR_AN_ANSWER = 4 * KIB
"""What a response holds in addition to the largest message that it must be able to carry."""
_encode = msgspec.json.Encoder().encode

_DISK = "free some space or repair the disk"
_ADVICE = dict.fromkeys((errno.EACCES, errno.EPERM), "check the mode and owner of the file and of its folder")


class StoredSession(OfThisMachine):
    """`failed(error)`, `worked()`: called after each save, so that the store knows the state of its folder."""

    def __init__(
        self,
        around: StoreContext,
        local_id: str,
        recovered: list[Change],
        *,
        twice: bool = False,
        failed: Callable[[str, OSError], None],
        worked: Callable[[], None],
    ) -> None:
        self.local_id = local_id
        self._around = around
        self._known = FileState(local_id, recovered)
        self._known.twice = twice
        self._merging = Merging(around, self._known)
        self._main = around.format.main_path(local_id)
        self._failed = failed
        self._worked = worked
        self._partial = around.format.abilities.partial_load
        self.shortens = self._partial is not None
        self._largest = around.limits.message_bytes - _ROOM_FOR_AN_ANSWER

    # What is known

    @property
    def dirty(self) -> bool:
        return self._known.dirty

    @property
    def size(self) -> int:
        return max(self._known.prints.get(self._main, (0, 0, 0))[1], 0)

    @property
    def fingerprint(self) -> str | None:
        return None if self.dirty else fingerprint(self._known.prints)

    @property
    def versions(self) -> str:
        """Identifies the versions of the files that were seen or written last."""
        return fingerprint(self._known.prints)

    def warnings(self) -> list[FileWarning]:
        return [FileWarning(self._around.files.path(p.path), p.line, p.message) for p in self._known.problems]

    async def exists(self) -> bool:
        """Return whether the session is on the disk or in the journal; or was on the disk, and its removal is not noticed yet: what is known
        of it would be lost with its id.
        """
        self._around.check_reachable(self.local_id)
        if self.dirty or self._main in self._known.prints:
            return True
        try:
            return await self._around.run(self._around.files.print_of, self._main) is not None
        except BadFile:
            if not await self._around.run(self._around.files.reachable):
                raise self._around.gone_away() from None
            return True

    # Reading

    async def read(self, *, whole: bool) -> Session:
        self._around.check_reachable(self.local_id)
        with self._around.reading(self.local_id):
            return await self._merging.read(whole=whole)

    async def lacks(self, session: Session, message_ids: Sequence[str]) -> bool:
        if session.is_checked:
            return False  # it knows the ids: its file has at least one of these
        expected = self._known.prints.get(self._main)
        if not await self._around.run(lacks, self._around.files, self._main, expected, message_ids):
            return False
        session.note_new(message_ids)
        return True

    async def check(self, session: Session) -> bool:
        expected, absent = dict(self._known.prints), session.absent
        if session.is_checked or self.size < self._around.limits.whole_session_bytes:
            return False
        with self._around.reading(self.local_id):
            args = self._around.files, self.local_id, expected, session.first_seq
            ids = await self._around.run(check, *args)
        if ids is None or len(ids) != absent or session.absent != absent or self._known.prints != expected:
            return False
        session.note_checked(ids)
        return True

    async def read_rest(self, session: Session) -> Complete:
        with self._around.reading(self.local_id):
            rest = await self._merging.read_rest(session)
        return partial(self._complete, session, rest)

    async def _complete(self, session: Session, rest: Rest | None) -> Session | None:
        with self._around.reading(self.local_id):
            return await self._merging.complete(session, rest)

    async def changed(self) -> bool:
        self._around.check_reachable()
        with self._around.reading(self.local_id):
            return await self._merging.changed()

    async def merge(self, session: Session) -> Session | None:
        self._around.check_reachable()
        with self._around.reading(self.local_id):
            return await self._merging.merge(session)

    # Changing

    async def commit(
        self, session: Session, changes: list[Change], on_durable: OnDurable | None = None, *, agreed: bool = False
    ) -> None:
        if session.absent:
            session.check(changes)
        await self._recorded(changes, on_durable)
        # From here on it is durable. No await until session and pending reflect that.
        for change in changes:
            session.apply(change)
        self._known.pending += changes

    def took(self, changes: Sequence[Change]) -> None:
        """Changes were applied to the session that are durable elsewhere: the next save writes them."""
        self._known.pending += changes

    async def start_anew(self, *, ours: bool) -> None:
        """Remove the files; the next save writes all of the session. Unless they are `ours`, the trash has a copy."""
        known, around = self._known, self._around
        with around.on_disk(f"{self.local_id} cannot be written again"):
            seen = await around.run(around.files.print_of, self._main) if ours else None
            await around.take_away(known, seen)
        known.rewrite = True

    async def cut(self, session: Session, changes: list[Change]) -> Session:
        after: Session = await self._around.run(session.after, changes)
        await self._recorded(changes)
        self._known.pending += changes
        return after

    def _recorded(self, changes: list[Change], on_durable: OnDurable | None = None) -> Awaitable[int]:
        around = self._around
        if around.problem is not None:
            around.check_writable()
        payload = encode_changes(changes)
        if len(payload) > self._largest:
            self._check_sizes(changes)
        return around.journal.commit(around.name, self.local_id, changes[-1].seq, payload, on_durable)

    def _check_sizes(self, changes: list[Change]) -> None:
        """Every message must fit into a response. Most are far smaller, so sizes are checked only here."""
        for change in changes:
            for wire in change.messages if isinstance(change, Appended) else ():
                if len(_encode(wire)) > self._largest:
                    raise TooLarge(
                        f"the message {wire['id']!r} is too large to read back",
                        hint="split it into several messages",
                        limit=self._largest,
                    )

    # Making

    async def begin(self) -> None:
        await self._check_free()
        with self._around.on_disk(f"the remains of an earlier {self.local_id} cannot be removed"):
            left: Session | None = await self._around.run(left_beside, self._around.files, self.local_id)
            if left is not None:
                await self._around.discard(left, id_in_trash(self.local_id, left.seq), "deleted")
            await self._around.run(self._around.files.clear_leftovers, self.local_id)

    async def _check_free(self) -> None:
        self._around.check_writable(self.local_id)
        if await self.exists():
            raise AlreadyExists(f"the session {self.local_id!r} already exists in the store {self._around.name!r}")

    async def put(self, session: Session) -> SavedSession:
        await self._check_free()
        around = self._around
        try:
            prints = await make(session, around.format, around.files, around.run, around.limits)
        except OSError as error:
            around.doubtful = around.doubtful or isinstance(error, DiskFailed)
            raise ReadOnly(
                f"{around.path(self.local_id)} cannot be written: {error.strerror}",
                hint="free some space and try again",
                reason=str(error),
            ) from error
        return self._saved(session, [], prints)

    # Saving

    async def save(self, session: Session) -> SavedSession | None:
        known = self._known
        self._around.check_reachable()
        if session.absent and (known.twice or known.rewrite):
            raise Absent
        if known.twice and not self._behind:
            await self._look_into_trash(session)
        if not known.dirty or (session.is_blank and not known.prints and not known.rewrite):
            return None
        pending = list(known.pending)
        try:
            prints: dict[str, Print] = await self._around.run_save(self._write, session.snapshot(), pending)
        except FileNotFoundError as error:  # removed between a check and a read
            raise OutsideChange(self._main) from error
        except OSError as error:
            self._failed(self.local_id, error)
            raise ReadOnly(
                f"{self._around.path(self.local_id)} cannot be saved: {error.strerror}",
                hint=f"everything acknowledged is safe in the journal; {_ADVICE.get(error.errno or 0, _DISK)}",
                reason=error.strerror or str(error),
            ) from error
        self._worked()
        saved = self._saved(session, pending, prints)
        if known.twice:
            await self._settle(session)
        return saved

    async def _look_into_trash(self, session: Session) -> None:
        """Check whether an entry holds nothing beyond the session. If so the file is rewritten before the entry is removed:
        a sync may have failed in an earlier life, and the present file may be only in the page cache.
        """
        known, around = self._known, self._around
        known.twice = False
        try:
            snapshot: FilesSnapshot = await around.run(around.files.read, self.local_id)
            if await around.run(around.trash.holds_no_more, session.snapshot(), snapshot.files):
                known.twice = known.rewrite = True
        except OSError as error:  # the entry remains; the next start checks again
            log.warning("store %s: the trash cannot be searched for %s: %s", around.name, self.local_id, error)

    async def _settle(self, session: Session) -> None:
        """Called when the files are durable, and all were written after a failed delete or a daemon's death."""
        known, around = self._known, self._around
        known.twice = False
        if around.doubtful or known.dirty:
            return
        try:
            snapshot: FilesSnapshot = await around.run(around.files.read, self.local_id)
            if snapshot.prints == known.prints:
                await around.run(around.trash.settle, session.snapshot(), snapshot.files)
        except (OSError, OutsideChange) as error:  # as above
            log.warning("store %s: %s is in the trash as well: %s", around.name, self.local_id, error)

    def save_even_blank(self) -> None:
        """The next save gives even an empty session a file, so that the journal need not be kept for it."""
        self._known.rewrite = True

    def _write(self, snapshot: Session, pending: list[Change]) -> dict[str, Print]:
        """The whole save as one call on a thread: each way there and back costs the loop as much as the rest of a save.
        Meanwhile nothing else changes what is known about the files, except `pending`.
        """
        with self._around.sharing:
            return self._write_now(snapshot, pending)

    def _write_now(self, snapshot: Session, pending: list[Change]) -> dict[str, Print]:
        around, known = self._around, self._known
        files = around.files
        writes: Sequence[Write] | None = None
        understood = not known.problems and not snapshot.streaming()
        shared = self._shared_prints()  # taken before they are read, so that a write in between is noticed
        if not known.rewrite:
            tail = files.tail(self.local_id)
            side = files.read_side(self.local_id)
            writes = around.format.update(snapshot, tail, side, pending)
        expected = {path: one for path, one in known.prints.items() if path not in files.shared_files()} | shared
        if writes is None:
            before = files.read(self.local_id)
            if before.prints.get(self._main) != expected.get(self._main):
                raise OutsideChange(self._main)
            expected = before.prints
            writes = around.format.encode(snapshot, before.files)
            around.keep_damaged_sidecar(self.local_id, before.files, writes)
            if not writes and self._main in before.files:  # everything is in it already, or there is nothing to write
                decoded = around.format.decode(self.local_id, before.files)
                if decoded.fatal is not None:
                    raise around.bad_file(decoded.fatal)
        most = expected.get(self._main, (0, 0, 0))[1] + sum(len(one.data) for one in writes)
        if self._partial is not None and understood and most >= around.limits.glanced_file_bytes:
            writes = self._partial.remember(writes, snapshot, around.limits.glanced_file_bytes)
        written = around.write(writes, expected)
        # What another session wrote into a shared file is saved with ours, and is merged when the files are next compared.
        unseen = {path: UNSEEN for path in files.shared_files() if expected.get(path) != known.prints.get(path)}
        done: dict[str, Print] = expected | written | unseen
        return done

    def _shared_prints(self) -> dict[str, Print]:
        """The present versions of the files that several sessions share: each session appends to them in its turn."""
        files = self._around.files
        found = {path: files.print_of(path) for path in files.shared_files()}
        return {path: one for path, one in found.items() if one is not None}

    def _saved(self, session: Session, pending: list[Change], prints: dict[str, Print]) -> SavedSession:
        """The files now have the versions `prints`, and hold `session` with the changes `pending`."""
        known, around = self._known, self._around
        known.prints = prints
        # What was committed while the file was being written waits for the next save.
        known.pending = known.pending[len(pending) :]
        known.current()
        if not known.pending:
            known.problems = [problem for problem in known.problems if not problem.fatal]
        around.note_saved(known, pending[-1].seq if pending else session.seq)
        path = around.path(self.local_id)
        return SavedSession(local_id=self.local_id, path=path, bytes=self.size, saved_at=around.now())

    # Removing

    async def discard(self, session: Session, trash_id: str, reason: str) -> None:
        self._around.check_writable()
        with self._around.on_disk(f"{session.local_id} cannot be put into the trash"):
            await self._around.discard(session, trash_id, reason)

    async def delete(self, session: Session | None, *, permanent: bool) -> None:
        around = self._around
        around.check_writable(self.local_id)
        with around.on_disk(f"{self.local_id} cannot be deleted"):
            if permanent:
                await self._take_away(None, permanent=True)
            else:
                await self._take_away(await self._keep(session))

    async def erase(self) -> set[str]:
        around = self._around
        around.check_writable(self.local_id)
        with around.on_disk(f"{self.local_id} cannot be removed from the trash"):
            ids: set[str] = await around.run(around.trash.erase, self.local_id, self._main)
        await self.strike_out()
        return ids

    async def strike_out(self) -> None:
        around = self._around
        around.check_writable(self.local_id)
        if not self.dirty:
            await around.journal.purge(around.name, self.local_id)

    async def _keep(self, session: Session | None) -> FilesSnapshot | None:
        """Put a copy into the trash, with the files byte for byte if they hold everything of the session. Returns the files
        as they were; None if there is no copy.
        """
        around, known = self._around, self._known
        if session is not None and session.is_blank and not session.seq:
            return None
        if session is None and known.pending:
            # The file cannot be read. It goes into the trash as it is, together with its pending changes.
            left = self._merging.left_over()
            await around.discard(left, id_in_trash(self.local_id, left.seq), "deleted")
        if session is not None and self._main in known.prints and self._behind:
            with contextlib.suppress(SessiondError, OutsideChange):  # if it fails, the trash lacks the file
                await self.save(session)
        snapshot: FilesSnapshot = await around.run(around.files.read, self.local_id)
        shared = around.files.shared_files()
        files = {path: content for path, content in snapshot.files.items() if path not in shared}
        if session is not None and await self._kept_unread(snapshot):
            files = {}
        kept = Session(self.local_id, around.now()) if session is None else session
        current = session is None or not self._behind
        told = around.format.abilities.says_all and session is not None and not known.problems
        await around.discard(kept, self.local_id, "deleted", files if current else None, told=told, own=known.entry)
        known.entry = await around.run(around.trash.mark, self.local_id)
        return FilesSnapshot(files, snapshot.prints)

    async def _kept_unread(self, snapshot: FilesSnapshot) -> bool:
        """Return whether the file was written since it was read, so that it differs from the session. A copy of it goes into the trash."""
        if snapshot.prints.get(self._main) == self._known.prints.get(self._main):
            return False
        if self._main in snapshot.files:
            content = snapshot.files[self._main]
            await self._around.run(self._around.trash.keep_bytes, copy_name(self._main), content)
        return True

    @property
    def _behind(self) -> bool:
        return bool(self._known.pending) or self._known.rewrite

    async def _take_away(self, kept: FilesSnapshot | None, *, permanent: bool = False) -> None:
        """`kept`: its files when a copy of the session was put into the trash."""
        known, around = self._known, self._around
        before = {} if kept is None else kept.files
        seen = known.prints if kept is None else kept.prints
        try:
            await around.take_away(known, seen.get(self._main), permanent=permanent)
        except (OSError, SessiondError):
            # The session remains as it is; if its file cannot be brought back, it is written again as soon as possible.
            known.twice = known.twice or known.entry is not None
            if self._main in before:
                with contextlib.suppress(OSError):  # the first error is raised
                    if await around.run(around.files.put_back_missing, self.local_id, before):
                        known.prints = {}
            there = await around.run(around.files.prints, self.local_id)
            # A version that we do not know was written by another program, and nobody has read it yet.
            known.prints = {path: known.prints.get(path, one) for path, one in there.items()}
            if not before or not before.keys() <= known.prints.keys():
                known.rewrite, known.entry = True, None
            raise

    async def remove(self) -> None:
        self._around.check_writable(self.local_id)
        with self._around.on_disk(f"{self.local_id} cannot be deleted"):
            await self._take_away(None)

    async def out_of_trash(self) -> None:
        """Its entry in the trash is no longer needed: the session was restored from elsewhere."""
        around, trash = self._around, self._around.trash
        with around.on_disk(f"the entry of {self.local_id} in the trash cannot be removed"):
            entry = await around.run(trash.mark, self.local_id)
            if entry is not None:
                await around.run(trash.remove, self.local_id, entry)

    async def part_of(self) -> str | None:
        """Return the local id of the session of which the trash has an earlier state under this one's id. BadFile."""
        with self._around.on_disk(f"the trash cannot be searched for {self.local_id}"):
            found: str | None = await self._around.run(self._around.trash.part_of, self.local_id)
        return found

    async def in_trash(self) -> Session:
        """Return what the trash has under its id, as a session of its own. SessionNotFound."""
        with self._around.on_disk(f"{self.local_id} cannot be restored"):
            session: Session
            session, _, reason, was_id = await self._around.run(self._around.trash.get, self.local_id)
        self._stand_alone(session, reason, was_id)
        return session

    def _stand_alone(self, session: Session, reason: str, was_id: str) -> None:
        """Give it its id here; what was cut off says from which session."""
        session.local_id = self.local_id
        if reason != "deleted":
            session.parent = {"sessionId": join_wire_id(self._around.name, was_id), "seq": session.seq}

    async def restore(self) -> Session:
        around, trash = self._around, self._around.trash
        around.check_writable(self.local_id)
        with around.on_disk(f"{self.local_id} cannot be restored"):
            mark = await around.run(trash.mark, self.local_id)
            session: Session
            session, files, reason, was_id = await around.run(trash.get, self.local_id)
            if await self.exists():
                aside = id_in_trash(self.local_id, session.seq)
                raise AlreadyExists(
                    f"the session {self.local_id!r} already exists",
                    hint=f"delete it first: what is in the trash now is {aside!r} then, and is restored by that name",
                )
            if files and self.local_id == was_id:
                await around.run(around.files.put_back, self.local_id, files)
            else:
                self._stand_alone(session, reason, was_id)
                await self.put(session)
                files = {}
            if files:  # BadFile: the entry in the trash may hold more, and remains
                session = await self.read(whole=True)
            try:
                await around.run(trash.remove, self.local_id, mark)
            except OSError as error:  # the session is certainly back; the next save removes the entry
                self._known.twice = True
                log.warning("store %s: %s is in the trash as well: %s", around.name, self.local_id, error)
            return session


def fingerprint(prints: dict[str, Print]) -> str:
    """The fingerprint of the files of one session."""
    return ";".join(f"{ino}-{size}-{mtime}" for ino, size, mtime in (prints[path] for path in sorted(prints)))
