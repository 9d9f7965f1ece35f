"""The writing thread: takes what is fed in order, writes it in transactions, and survives a broken file and a full disk.

- A transaction begins with the first waiting step, and commits when nothing else waits, but no sooner than COMMIT_EVERY_S
  after the last commit: a single append is found at once, a thousand a second cost twenty commits.
- Whole sessions are written in long transactions, which cost much less for each message than short ones. They are written in
  slices as they arrive: when a client waits for a single change, the transaction takes it in and ends.
- The file is broken, deleted or replaced: a fresh one is created, and `refill` is called, so that everything is fed again.
- When nothing has arrived for a while, segments are merged, and then the vocabulary is brought up to date.
- The disk is full (or any other failure to write): up to `index_waiting_bytes` are kept and tried again every RETRY_S.
  Anything beyond that is dropped; its session's fingerprint is removed once there is space, and `refill` is called.
- A step cannot be written for a reason other than the disk: the transaction is repeated in halves, down to the one step that
  fails. It is tried once more in smaller steps, if it has any; what fails then is given up, and its session is named in
  `left_out`: waiting would not help, so the index does not count as incomplete.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from sessiond.index import erase, schema
from sessiond.index.batch import Batch
from sessiond.index.checkpointer import Checkpointer
from sessiond.index.documents import much_is_new
from sessiond.index.feed_queue import FeedQueue, FeedStep, Mark
from sessiond.index.values import Unseen
from sessiond.misfits import Misfits

if TYPE_CHECKING:
    from sessiond.index.vocabulary_builder import VocabularyBuilder

COMMIT_EVERY_S = 0.05
TRANSACTION_S = 0.2
"""The longest time for which a transaction takes in steps."""
TRANSACTION_BYTES, SMALL_TRANSACTION_BYTES = 8 * 1024 * 1024, 640 * 1024
"""The most bytes of a transaction: larger ones do not cost less for each message. The second while a client asks, because it
waits for the end.
"""
SLICE, LARGE_SLICE = 128, 1024
"""Documents that are written at a time, in 4 and 25 ms: small slices while a person types a search, for example. Every
statement releases the interpreter lock and waits for it, and makes a segment that FTS5 has to merge, so large slices cost
less.
"""
TYPING_S = 0.1
"""For this long after one query the next is expected."""
MERGE_IDLE_S, MERGE_PAUSE_S = 1.0, 0.05
"""When nothing has arrived for this long, the many segments that whole sessions left are merged, with pauses."""
MERGE_WEIGHT = 1024 * 1024
"""A transaction of this size justifies a merge, and about this much is written at a time."""
RETRY_S = 1.0
LITTLE_BYTES = 64 * 1024
"""This much is written in a moment, which is worth waiting for."""

_FAULTS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""SQLite's errors for values that it does not accept."""

_log = logging.getLogger(__name__)


class Writer:
    """`generation` grows with every fresh file; readers then open it again. `refill` is called on the writing thread."""

    def __init__(self, path: str, waiting_bytes: int, refill: Callable[[], None]) -> None:
        self.path = path
        self._most_waiting = waiting_bytes
        self.generation = 0
        self.problem: str | None = None
        """Why nothing can be written at the moment; None if it can."""
        self.lost: set[str] = set()
        self.left_out = Misfits(_log, "could not be indexed completely")
        """Sessions of which something cannot be indexed, though everything else of them is."""
        self.fresh = False
        """The file was empty when it was opened or replaced."""
        self._refill = refill
        self._lanes = FeedQueue()
        self._checkpointer = Checkpointer(path)
        self._builder: VocabularyBuilder | None = None
        """Of the vocabulary, once much was written."""
        self._thread = threading.Thread(target=self._run, name="index-writer", daemon=True)
        self._erasures: list[Future[bool]] = []
        self._cleaning = False
        self._soiled = True
        """Content that was removed since the last `erase` may have left traces."""
        self._suspect = threading.Event()
        self._closing = threading.Event()
        self._file: tuple[int, int] | None = None
        self._marks: list[Mark] = []
        self._waiting_for_room: list[Mark] = []
        self._broken_in_a_row = 0
        self._alone = False
        self._unmerged = False
        """Words may be in more segments than they should."""
        self._merging = False
        self._stale = False
        """What we know of the file may differ from its content: it is reopened before anything is written."""
        self._tried = 0
        """How many steps the last transaction took in."""

    # Any thread

    def open(self) -> str:
        """Open or create the file and start the thread. Returns `kept`, `unclean` or `fresh`. Raises OSError or sqlite3.Error."""
        db, state = schema.open_or_make(self.path)
        self._take(db)
        self.fresh = state == "fresh"
        self._checkpointer.start()
        self._thread.start()
        return state

    def submit(self, step: FeedStep, *, ahead: bool = False) -> None:
        """Returns at once. feed_queue.py explains the lanes."""
        if self.problem is not None and self._lanes.weight > self._most_waiting:
            self.lost.add(step.session_id)
        else:
            self._lanes.put(step, ahead=ahead)

    def mark(self, *, bulk: bool) -> Mark:
        """Done when everything submitted to a lane before is committed, or when it turns out that this is not possible now."""
        return self._lanes.mark(bulk=bulk)

    def ask(self) -> bool:
        """Called for every query: returns whether it has to wait for single changes that are not committed."""
        return self._lanes.ask()

    @property
    def unseen(self) -> int:
        """The number of sessions with uncommitted changes that lists show."""
        return self._lanes.unseen

    def shown(self) -> dict[str, Unseen]:
        """Those changes, by session."""
        return self._lanes.shown()

    def room(self) -> Mark | None:
        """Done when there is room again; None if there is."""
        if self._lanes.weight <= self._most_waiting or self.problem is not None:
            return None
        mark: Mark = Future()
        mark.set_running_or_notify_cancel()
        self._waiting_for_room.append(mark)
        self._lanes.mark(bulk=True)  # wakes the thread, even if everything was written meanwhile
        return mark

    @property
    def behind(self) -> bool:
        """True if parts of whole sessions wait to be written."""
        return self._lanes.behind

    @property
    def soon(self) -> bool:
        """True if only little waits in the bulk lane, or a single change that should not wait there."""
        return self._lanes.weight < LITTLE_BYTES or self._lanes.single_behind

    def diverted(self, session_id: str) -> bool:
        return self._lanes.diverted(session_id)

    def poke(self) -> None:
        """The data that a step waits for may have become ready."""
        self._lanes.poke()

    @property
    def erasing(self) -> bool:
        """True if the file is being rebuilt, or is about to be."""
        return bool(self._erasures) or self._cleaning

    def erase(self) -> Future[bool]:
        """Make sure that the files contain nothing of earlier, committed removals; False: they may. Other work waits meanwhile."""
        done: Future[bool] = Future()
        done.set_running_or_notify_cancel()
        self._erasures.append(done)
        self.mark(bulk=False)  # wakes the thread
        return done

    def _wake(self) -> None:
        self._lanes.mark(bulk=True)

    def suspect(self, generation: int) -> None:
        """A reader found damage in the file of that generation: replace it."""
        if generation == self.generation:
            self._suspect.set()
            self.mark(bulk=False)

    def intact(self) -> bool:
        """Return whether the file at `path` is still the one that is open."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._file

    def close(self) -> None:
        """Write what waits, close the file, end the thread."""
        self._closing.set()
        self._lanes.close()
        self._thread.join()

    # The thread

    def _take(self, db: sqlite3.Connection) -> None:
        self._stop_builder()  # of the file that was there before
        self._db = db
        self._batch = Batch(db, self.lost, self.left_out)
        self._stale = False
        found = os.stat(self.path)
        self._file = (found.st_dev, found.st_ino)
        self.generation += 1

    def _run(self) -> None:
        last_commit = 0.0
        while not self._lanes.ended():
            steps = self._gather(last_commit + COMMIT_EVERY_S)
            idle = not steps and not self._marks and not self._closing.is_set()
            self._merging = self._unmerged and idle
            if self._merging:
                self._merge()
            elif idle and self._wants_vocabulary():
                self._vocabulary().start(self._batch.last_chunk, self._batch.late_words)
            self._write(steps)
            last_commit = time.monotonic()
            self._lanes.written(steps)
            self._release_marks()
            self._erase()
            self._keep_vocabulary()
        self._erase()
        self._end()

    def _gather(self, not_before: float) -> list[FeedStep]:
        """The steps that begin a transaction: single changes that wait, or arrive until `not_before` or until a commit is
        requested; or the first part of a whole session.

        Single changes that a client waits for get every other transaction for themselves.
        """
        steps: list[FeedStep] = []
        self._alone = self._lanes.waited_for and not self._alone
        item = self._lanes.take(self._patience())
        while item is not None:
            if isinstance(item, FeedStep):
                steps.append(item)
                if item.bulk or len(steps) >= SLICE:
                    break
            else:
                self._marks.append(item)
            wait = 0.0 if self._marks else max(0.0, not_before - time.monotonic())
            item = self._lanes.take(wait, live_only=self._alone)
        return steps

    def _patience(self) -> float | None:
        """For how long nothing has to arrive before there is something else to do."""
        if self._unmerged:
            return MERGE_PAUSE_S if self._merging else MERGE_IDLE_S
        return MERGE_IDLE_S if self._wants_vocabulary() else None

    def _take_more(self, steps: list[FeedStep], seconds: float) -> bool:
        """Return whether the transaction that wrote all `steps` continues with another one; wait at most this long. A step that a
        client waits for comes first, and ends the transaction; a step that nobody waits for does not make it longer than
        intended.
        """
        if self._marks or steps[-1].late:
            return False
        item = self._lanes.take(seconds)
        if isinstance(item, FeedStep):
            steps.append(item)
            return True
        if item is not None:
            self._marks.append(item)
        return False

    def _release_marks(self) -> None:
        marks, self._marks = self._marks, []
        if self._lanes.weight <= self._most_waiting // 2 or self.problem is not None:
            waiting, self._waiting_for_room = self._waiting_for_room, []
            marks += waiting
        for mark in marks:
            mark.set_result(None)

    def _write(self, steps: list[FeedStep]) -> None:
        """Write all steps, in as many transactions as necessary, and those that arrive meanwhile, which are appended to
        `steps`; never raises.
        """
        at, most = 0, sys.maxsize
        while at < len(steps) or self._suspect.is_set():
            try:
                self._tried = 0
                if self._suspect.is_set() or not self.intact():
                    raise schema.IndexUnusable("the file is gone or damaged")
                if self._stale:
                    self._reopen()
                at += self._transaction(steps, at, most)
                most *= 2
                self._broken_in_a_row = 0
                self._recovered()
            except Exception as error:
                if self._tried and _is_fault(error):
                    self._roll_back()
                    if self._tried == 1:
                        at += 1
                        steps[at:at] = self._smaller(steps[at - 1], error)
                    most = max(1, self._tried // 2)
                elif not self._survive(error):
                    self.lost.update(step.session_id for step in steps[at:])
                    return
                elif self._broken_in_a_row > 1 and at < len(steps):
                    self.lost.add(steps[at].session_id)  # it broke a fresh file too, so the file is not the cause
                    at += 1

    def _transaction(self, steps: list[FeedStep], start: int, most: int) -> int:
        """Write at most `most` steps from `start` on in one transaction. Returns how many."""
        until = time.monotonic() + TRANSACTION_S
        at, weight = start, 0
        only_bulk = True
        self._batch.begin()
        while at < len(steps) or self._take_more(steps, max(0.0, until - time.monotonic()) if only_bulk else 0.0):
            step = steps[at]
            only_bulk = only_bulk and step.bulk
            at += 1
            self._tried = at - start
            step.apply(self._batch)
            weight += step.weight
            asked = self._lanes.asked_within(TYPING_S)
            if self._batch.waiting >= (SLICE if asked else LARGE_SLICE):
                self._batch.flush()
            if (
                weight > (SMALL_TRANSACTION_BYTES if asked else TRANSACTION_BYTES)
                or at - start >= most
                or time.monotonic() > until
            ):
                break
        self._batch.commit()
        self._soiled = True
        self._checkpointer.logged(weight)
        self._unmerged = self._unmerged or weight > MERGE_WEIGHT
        return at - start

    def _merge(self) -> None:
        """Merge some segments, in a separate transaction. If that fails they are left as they are."""
        self._unmerged = False
        if self._stale:
            return
        try:
            self._batch.begin()
            more = self._batch.merge()
            self._batch.commit()
        except Exception as error:  # in any case nothing that was fed waits for this
            _log.info("segments of the index could not be merged: %s", error)
            self._roll_back()
            if schema.is_damage(error):
                self._suspect.set()
        else:
            self._unmerged = more
            self._checkpointer.logged(MERGE_WEIGHT)

    def _wants_vocabulary(self) -> bool:
        covered, last = self._batch.covered, self._batch.last_chunk
        return not self._stale and much_is_new(covered, last) and self._vocabulary().due(covered, last)

    def _vocabulary(self) -> VocabularyBuilder:
        if self._builder is None:
            from sessiond.index.vocabulary_builder import VocabularyBuilder  # a start is faster

            self._builder = VocabularyBuilder(self.path, self._wake)
        return self._builder

    def _stop_builder(self) -> None:
        if self._builder is not None:
            self._builder.stop()

    def _keep_vocabulary(self) -> None:
        """Write the vocabulary that was read, in a separate transaction. If that fails, the old one serves."""
        built = None if self._builder is None else self._builder.take()
        if built is None or self._stale or built.late_words != self._batch.late_words:
            return
        try:
            self._batch.put_vocabulary(built.rows, built.covered)
        except Exception as error:  # in any case nothing that was fed waits for this
            _log.info("the vocabulary of the index could not be written: %s", error)
            self._roll_back()
            if schema.is_damage(error):
                self._suspect.set()
        else:
            self._checkpointer.logged(sum(map(len, built.rows)))

    def _erase(self) -> None:
        """Erase for everyone who waits for it. If the file cannot be cleaned it is replaced as a whole: its content can be fed again."""
        if not self._erasures:
            return
        self._cleaning = True
        waiting, self._erasures = self._erasures, []
        self._marks += self._lanes.done_marks()  # nothing else waits for what follows
        self._release_marks()
        written = self.problem is None and not self._stale
        if self._soiled:
            try:
                if not written or not self.intact():
                    raise schema.IndexUnusable("removed content is still in it")
                self._stop_builder()
                self._batch.forget_vocabulary()
                self._batch.forget_roles()
                erase.erase(self._db, self.path)
            except Exception as error:  # in any case content that was deleted for ever must not remain
                _log.warning("the index is replaced by a fresh one because it could not be cleaned: %s", error)
                written = self._replace() and written
            self._soiled = not written
        self._cleaning = False
        for done in waiting:
            done.set_result(written)

    def _smaller(self, step: FeedStep, error: Exception) -> list[FeedStep]:
        """The steps to try instead of one that cannot be written; none if it has no smaller ones: then it is given up."""
        if step.smaller is not None:
            with self.left_out.apart(step.session_id):
                return [FeedStep(step.session_id, 0, apply, step.bulk) for apply in step.smaller()]
        else:
            self.left_out.note(step.session_id, error)
        return []

    def _recovered(self) -> None:
        if self.problem is not None:
            _log.warning("the index can be written again")
            self.problem = None
            if self.lost:
                self._refill()

    def _survive(self, error: Exception) -> bool:
        """After a failed transaction: whether to try again. Waits for a moment if only time can help."""
        self._roll_back()
        if schema.is_damage(error):
            _log.warning("the index is replaced by a fresh one: %s", error)
            return self._replace()
        return self._wait(error)

    def _wait(self, error: Exception) -> bool:
        """Wait before another try. Return False if the writer is closing instead. Clients that wait for what was fed, or for an
        erasure, are released first.
        """
        if self.problem is None:
            _log.warning("the index cannot be written: %s", error)
        self.problem = str(error) or type(error).__name__
        self._marks += self._lanes.take_marks()
        self._release_marks()
        waiting, self._erasures = self._erasures, []
        for done in waiting:
            done.set_result(False)
        return not self._closing.wait(RETRY_S)

    def _roll_back(self) -> None:
        if self._stale:
            return
        try:
            self._batch.roll_back()
        except Exception:  # in any case the batch now differs from the file
            _log.warning("a transaction of the index could not be rolled back; its file is reopened", exc_info=True)
            self._stale = True

    def _reopen(self) -> None:
        """Open the same file on a new connection, in the state of the last commit."""
        self._db.close()
        self._db = schema.reopen(self.path)
        self._batch.go_on(self._db)
        self._stale = False

    def _replace(self) -> bool:
        self._suspect.set()  # until this is done: the connection is closed, and the file may be gone
        self._stale = True
        try:
            self._db.close()
            self._take(schema.make(self.path))
        except (OSError, sqlite3.Error) as error:
            return self._wait(error)
        self._broken_in_a_row += 1
        self._suspect.clear()
        self.fresh = True
        self._refill()
        return True

    def _end(self) -> None:
        self._checkpointer.close()
        self._stop_builder()
        try:
            if self.problem is None and self.intact():
                schema.seal(self._db, self.path)
            else:
                self._db.close()
        except (OSError, sqlite3.Error) as error:
            _log.warning("the index was not closed cleanly: %s", error)
            self._db.close()


def _is_fault(error: Exception) -> bool:
    """Return whether the data itself cannot be written, whatever the disk, file or time."""
    if schema.is_damage(error):
        return False
    return isinstance(error, _FAULTS) or not isinstance(error, (sqlite3.Error, OSError, MemoryError))
