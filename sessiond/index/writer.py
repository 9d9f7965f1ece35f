"""The feeding thread: takes what is fed in order, writes it in transactions, and survives a broken file and a full
disk.

- A transaction begins with the first thing that waits, and commits when nothing more does, but no sooner than
  COMMIT_EVERY_S after the last commit: a single append is found at once, a thousand a second cost twenty commits.
- Whole sessions come in long transactions, which cost much less by the message than short ones. They are written a
  slice at a time as they come: where somebody waits for a single change, the transaction takes it in and ends.
- The file broken, deleted or replaced: a fresh one is made, and `refill` is called, for somebody to feed everything
  again.
- The disk full (or any other failure to write): what waits is kept up to `index_waiting_bytes` and tried again every
  RETRY_S. What is more is
  not kept; its session's fingerprint is taken away once there is room, and `refill` is called.
- Something that cannot be written whatever the disk does: the transaction is repeated in halves, down to the one step
  that fails. It is given up, and its session counts as lost.
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

from sessiond.index import erase, schema
from sessiond.index.batch import Batch
from sessiond.index.checkpointer import Checkpointer
from sessiond.index.feed_queue import FeedQueue, Mark, Step
from sessiond.index.values import Unseen

COMMIT_EVERY_S = 0.05
TRANSACTION_S = 0.2
"""No transaction takes in more than fits into this."""
TRANSACTION_BYTES, SMALL_TRANSACTION_BYTES = 8 * 1024 * 1024, 640 * 1024
"""Nor more than this, for larger ones cost no less by the message; the second while somebody asks, who waits for its end."""
SLICE, LARGE_SLICE = 128, 1024
"""Documents that are written at a time, in 4 and 25 ms: small ones while somebody types a search, say. Every statement gives
the interpreter lock away and waits for it, and makes a segment that FTS5 has to merge, so large ones cost less.
"""
TYPING_S = 0.1
"""So long after one question the next is expected."""
MERGE_IDLE_S, MERGE_PAUSE_S = 1.0, 0.05
"""When nothing has come for so long, what whole sessions left in many segments is put together, with pauses."""
MERGE_WEIGHT = 1024 * 1024
"""A transaction of so much is worth it, and about so much is written at a time."""
RETRY_S = 1.0
LITTLE_BYTES = 64 * 1024
"""Written in a moment, which is worth waiting for."""

_FAULTS = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""What SQLite says of values that it does not take."""

_log = logging.getLogger(__name__)


class Writer:
    """`generation` grows with every fresh file; readers open it anew then. `refill` is called on the writing thread."""

    def __init__(self, path: str, waiting_bytes: int, refill: Callable[[], None]) -> None:
        self.path = path
        self._most_waiting = waiting_bytes
        self.generation = 0
        self.problem: str | None = None
        """Why nothing can be written at the moment; None: all is well."""
        self.lost: set[str] = set()
        self.fresh = False
        """The file was empty when it was opened or replaced."""
        self._refill = refill
        self._lanes = FeedQueue()
        self._checkpointer = Checkpointer(path)
        self._thread = threading.Thread(target=self._run, name="index-writer", daemon=True)
        self._erasures: list[Future[bool]] = []
        self._cleaning = False
        self._soiled = True
        """What was removed since the last `erase` may have left traces."""
        self._suspect = threading.Event()
        self._closing = threading.Event()
        self._file: tuple[int, int] | None = None
        self._marks: list[Mark] = []
        self._waiting_for_room: list[Mark] = []
        self._broken_in_a_row = 0
        self._alone = False
        self._unmerged = False
        """Words may lie in more segments than they should."""
        self._merging = False
        self._stale = False
        """What is known of the file may not be what is in it: it is opened anew before anything is written."""
        self._tried = 0
        """Steps that the last transaction took in."""

    # Any thread

    def open(self) -> str:
        """Open or make the file and start the thread. `kept`, `unclean` or `fresh`. Raises OSError or sqlite3.Error."""
        db, state = schema.open_or_make(self.path)
        self._take(db)
        self.fresh = state == "fresh"
        self._checkpointer.start()
        self._thread.start()
        return state

    def submit(self, step: Step, *, ahead: bool = False) -> None:
        """Returns at once. The lanes are explained in lanes.py."""
        if self.problem is not None and self._lanes.weight > self._most_waiting:
            self.lost.add(step.session_id)
        else:
            self._lanes.put(step, ahead=ahead)

    def mark(self, *, bulk: bool) -> Mark:
        """Done when all that was submitted to a lane before is committed, or when it turns out that it cannot be now."""
        return self._lanes.mark(bulk=bulk)

    def ask(self) -> bool:
        """Somebody asks: whether he has to wait for single changes that are not committed."""
        return self._lanes.ask()

    @property
    def unseen(self) -> int:
        """Of how many sessions something that lists show is not committed."""
        return self._lanes.unseen

    def shown(self) -> dict[str, Unseen]:
        """What that is, by session."""
        return self._lanes.shown()

    def room(self) -> Mark | None:
        """Done when there is room again; None: there is."""
        if self._lanes.weight <= self._most_waiting or self.problem is not None:
            return None
        mark: Mark = Future()
        mark.set_running_or_notify_cancel()
        self._waiting_for_room.append(mark)
        self._lanes.mark(bulk=True)  # so that somebody looks, even if all was written meanwhile
        return mark

    @property
    def behind(self) -> bool:
        """Parts of whole sessions wait to be written."""
        return self._lanes.behind

    @property
    def soon(self) -> bool:
        """Whether what waits in the bulk lane is little, or a single change that should not wait there."""
        return self._lanes.weight < LITTLE_BYTES or self._lanes.single_behind

    def diverted(self, session_id: str) -> bool:
        return self._lanes.diverted(session_id)

    def poke(self) -> None:
        """What a step waits for may have become ready."""
        self._lanes.poke()

    @property
    def erasing(self) -> bool:
        """Whether the file is built anew, or is about to be."""
        return bool(self._erasures) or self._cleaning

    def erase(self) -> Future[bool]:
        """Nothing is left in the files of what was removed and committed before; False: some of it may be. Others wait meanwhile."""
        done: Future[bool] = Future()
        done.set_running_or_notify_cancel()
        self._erasures.append(done)
        self.mark(bulk=False)  # so that somebody looks
        return done

    def suspect(self, generation: int) -> None:
        """A reader met damage in the file of that generation: it is replaced."""
        if generation == self.generation:
            self._suspect.set()
            self.mark(bulk=False)

    def intact(self) -> bool:
        """Whether the file at `path` is still the one that is open."""
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
        self._db = db
        self._batch = Batch(db, self.lost)
        self._stale = False
        found = os.stat(self.path)
        self._file = (found.st_dev, found.st_ino)
        self.generation += 1

    def _run(self) -> None:
        last_commit = 0.0
        while not self._lanes.ended():
            steps = self._gather(last_commit + COMMIT_EVERY_S)
            self._merging = self._unmerged and not steps and not self._marks and not self._closing.is_set()
            if self._merging:
                self._merge()
            self._write(steps)
            last_commit = time.monotonic()
            self._lanes.written(steps)
            self._release_marks()
            self._erase()
        self._erase()
        self._end()

    def _gather(self, not_before: float) -> list[Step]:
        """What a transaction begins with: single changes that wait, and that come till `not_before` or till somebody asks for
        a commit; or the first part of a whole session.

        Single changes that somebody waits for have every other transaction for themselves.
        """
        steps: list[Step] = []
        self._alone = self._lanes.waited_for and not self._alone
        item = self._lanes.take((MERGE_PAUSE_S if self._merging else MERGE_IDLE_S) if self._unmerged else None)
        while item is not None:
            if isinstance(item, Step):
                steps.append(item)
                if item.bulk or len(steps) >= SLICE:
                    break
            else:
                self._marks.append(item)
            wait = 0.0 if self._marks else max(0.0, not_before - time.monotonic())
            item = self._lanes.take(wait, live_only=self._alone)
        return steps

    def _take_more(self, steps: list[Step], seconds: float) -> bool:
        """Whether the transaction that wrote all `steps` goes on with another, waited for at most so long. What somebody
        waits for comes first, and ends it; what nobody waits for makes it no longer than it was begun.
        """
        if self._marks or steps[-1].late:
            return False
        item = self._lanes.take(seconds)
        if isinstance(item, Step):
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

    def _write(self, steps: list[Step]) -> None:
        """All of them, in as many transactions as it takes, and what comes meanwhile, which is put to them; never raises."""
        at, most = 0, sys.maxsize
        while at < len(steps) or self._suspect.is_set():
            try:
                self._tried = 0
                if self._suspect.is_set() or not self.intact():
                    raise schema.Unusable("the file is gone or damaged")
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
                        self._give_up(steps[at], error)
                        at += 1
                    most = max(1, self._tried // 2)
                elif not self._survive(error):
                    self.lost.update(step.session_id for step in steps[at:])
                    return
                elif self._broken_in_a_row > 1 and at < len(steps):
                    self.lost.add(steps[at].session_id)  # a fresh file broke on it too: it is not the file
                    at += 1

    def _transaction(self, steps: list[Step], start: int, most: int) -> int:
        """Write the steps from `start` on in one transaction, no more than `most`. How many they were."""
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
        """Put some segments together, in a transaction of its own. What cannot be is left as it is."""
        self._unmerged = False
        if self._stale:
            return
        try:
            self._batch.begin()
            more = self._batch.merge()
            self._batch.commit()
        except Exception as error:  # whatever it is, nothing that was fed waits for it
            _log.info("segments of the index could not be put together: %s", error)
            self._roll_back()
            if schema.is_damage(error):
                self._suspect.set()
        else:
            self._unmerged = more
            self._checkpointer.logged(MERGE_WEIGHT)

    def _erase(self) -> None:
        """For all that wait for it. Where the file cannot be cleaned it goes as a whole: everything in it can be fed again."""
        if not self._erasures:
            return
        self._cleaning = True
        waiting, self._erasures = self._erasures, []
        self._marks += self._lanes.done_marks()  # nobody else waits for what follows
        self._release_marks()
        written = self.problem is None and not self._stale
        if self._soiled:
            try:
                if not written or not self.intact():
                    raise schema.Unusable("what was removed is not out of it")
                self._batch.forget_roles()
                erase.erase(self._db, self.path)
            except Exception as error:  # whatever it is, no word that somebody wants gone may stay
                _log.warning("the index is replaced by a fresh one, for it could not be cleaned: %s", error)
                written = self._replace() and written
            self._soiled = not written
        self._cleaning = False
        for done in waiting:
            done.set_result(written)

    def _give_up(self, step: Step, error: Exception) -> None:
        _log.error("the index could not take in a part of session %s", step.session_id, exc_info=error)
        self.lost.add(step.session_id)

    def _recovered(self) -> None:
        if self.problem is not None:
            _log.warning("the index can be written again")
            self.problem = None
            if self.lost:
                self._refill()

    def _survive(self, error: Exception) -> bool:
        """After a failed transaction: whether to try again. Waits for a moment where only time can help."""
        self._roll_back()
        if schema.is_damage(error):
            _log.warning("the index is replaced by a fresh one: %s", error)
            return self._replace()
        return self._wait(error)

    def _wait(self, error: Exception) -> bool:
        """Until it is worth another try; False: there is no time for one. Nobody who waits for what was fed is kept so long."""
        if self.problem is None:
            _log.warning("the index cannot be written: %s", error)
        self.problem = str(error) or type(error).__name__
        self._marks += self._lanes.take_marks()
        self._release_marks()
        return not self._closing.wait(RETRY_S)

    def _roll_back(self) -> None:
        if self._stale:
            return
        try:
            self._batch.roll_back()
        except Exception:  # whatever it is, what the batch holds now is not what the file holds
            _log.warning("a transaction of the index could not be taken back; its file is opened anew", exc_info=True)
            self._stale = True

    def _reopen(self) -> None:
        """The same file on another connection, with what the last commit left in it."""
        self._db.close()
        self._db = schema.reopen(self.path)
        self._batch.go_on(self._db)
        self._stale = False

    def _replace(self) -> bool:
        self._suspect.set()  # until it is done: the connection is closed, and the file may be gone
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
        try:
            if self.problem is None and self.intact():
                schema.seal(self._db, self.path)
            else:
                self._db.close()
        except (OSError, sqlite3.Error) as error:
            _log.warning("the index was not closed cleanly: %s", error)
            self._db.close()


def _is_fault(error: Exception) -> bool:
    """Whether what was fed cannot be written as it is, and no other disk, file or time would change that."""
    if schema.is_damage(error):
        return False
    return isinstance(error, _FAULTS) or not isinstance(error, (sqlite3.Error, OSError, MemoryError))
