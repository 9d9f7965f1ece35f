"""The feeding thread: takes what is fed in order, writes it in transactions, and survives a broken file and a full
disk.

- A transaction begins with the first thing that waits, and commits when nothing more does, but no sooner than
  COMMIT_EVERY_S after the
  last commit: a single append is found at once, a thousand a second cost twenty commits.
- The file broken, deleted or replaced: a fresh one is made, and `refill` is called, for somebody to feed everything
  again.
- The disk full (or any other failure to write): what waits is kept up to `index_waiting_bytes` and tried again every
  RETRY_S. What is more is
  not kept; its session's fingerprint is taken away once there is room, and `refill` is called.
"""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from sessiond.index import schema
from sessiond.index.batch import Batch
from sessiond.index.chunks import DamagedChunk

COMMIT_EVERY_S = 0.05
TRANSACTION_S = 0.1
"""No transaction takes in more than fits into this."""
RETRY_S = 1.0
TRANSACTION_BYTES = 4 * 1024 * 1024
"""Nor more than this."""

_log = logging.getLogger(__name__)


class Step(msgspec.Struct, frozen=True):
    """One thing that was fed. `weight`: about how many bytes it keeps in memory."""

    session_id: str
    weight: int
    apply: Callable[[Batch], None]


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
        self.waiting_bytes = 0
        self._refill = refill
        self._queue: queue.SimpleQueue[Step | Future[None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="index-writer", daemon=True)
        self._room = threading.Condition()
        self._suspect = threading.Event()
        self._closing = threading.Event()
        self._file: tuple[int, int] | None = None
        self._marks: list[Future[None]] = []
        self._broken_in_a_row = 0

    # Any thread

    def open(self) -> str:
        """Open or make the file and start the thread. `kept`, `unclean` or `fresh`. Raises OSError or sqlite3.Error."""
        db, state = schema.open_or_make(self.path)
        self._take(db)
        self.fresh = state == "fresh"
        self._thread.start()
        return state

    def submit(self, step: Step) -> None:
        """Returns at once."""
        if self.problem is not None and self.waiting_bytes > self._most_waiting:
            self.lost.add(step.session_id)
            return
        with self._room:
            self.waiting_bytes += step.weight
        self._queue.put(step)

    def mark(self) -> Future[None]:
        """Done when all that was submitted before is committed, or when it turns out that it cannot be now."""
        mark: Future[None] = Future()
        mark.set_running_or_notify_cancel()  # from here on nobody can cancel it
        self._queue.put(mark)
        return mark

    def suspect(self, generation: int) -> None:
        """A reader met damage in the file of that generation: it is replaced."""
        if generation == self.generation:
            self._suspect.set()
            self.mark()

    def intact(self) -> bool:
        """Whether the file at `path` is still the one that is open."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._file

    def wait_for_room(self) -> None:
        """Block while more waits than may."""
        with self._room:
            self._room.wait_for(
                lambda: self.waiting_bytes <= self._most_waiting or self.problem is not None or self._closing.is_set()
            )

    def close(self) -> None:
        """Write what waits, close the file, end the thread."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join()

    # The thread

    def _take(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._batch = Batch(db, self.lost)
        found = os.stat(self.path)
        self._file = (found.st_dev, found.st_ino)
        self.generation += 1

    def _run(self) -> None:
        last_commit = 0.0
        ending = False
        while not ending:
            first = self._queue.get()
            steps, ending = self._gather(first, last_commit + COMMIT_EVERY_S)
            self._write(steps)
            last_commit = time.monotonic()
            with self._room:
                self.waiting_bytes -= sum(step.weight for step in steps)
                self._room.notify_all()
            self._release_marks()
        self._end()

    def _release_marks(self) -> None:
        marks, self._marks = self._marks, []
        for mark in marks:
            mark.set_result(None)

    def _gather(self, first: Step | Future[None] | None, not_before: float) -> tuple[list[Step], bool]:
        """What waits, and what comes till `not_before`, till somebody asks for a commit, or till it is enough for one
        transaction.
        """
        steps: list[Step] = []
        item = first
        weight = 0
        while True:
            if item is None:
                return steps, True
            if isinstance(item, Future):
                self._marks.append(item)
            else:
                steps.append(item)
                weight += item.weight
            if weight > TRANSACTION_BYTES:
                return steps, False
            rest = 0.0 if self._marks else not_before - time.monotonic()
            try:
                item = self._queue.get(timeout=rest) if rest > 0 else self._queue.get_nowait()
            except queue.Empty:
                return steps, False

    def _write(self, steps: list[Step]) -> None:
        """All of them, in as many transactions as it takes; never raises."""
        at = 0
        while at < len(steps) or self._suspect.is_set():
            try:
                if self._suspect.is_set() or not self.intact():
                    raise schema.Unusable("the file is gone or damaged")
                at += self._transaction(steps[at:])
                self._broken_in_a_row = 0
                self._recovered()
            except Exception as error:
                if not self._survive(error):
                    self.lost.update(step.session_id for step in steps[at:])
                    return
                if self._broken_in_a_row > 1 and at < len(steps):
                    self.lost.add(steps[at].session_id)  # a fresh file broke on it too: it is not the file
                    at += 1

    def _transaction(self, steps: list[Step]) -> int:
        """Write the first steps in one transaction. How many they were."""
        begun = time.monotonic()
        done = 0
        self._batch.begin()
        for step in steps:
            try:
                step.apply(self._batch)
            except (sqlite3.Error, schema.Unusable, DamagedChunk):
                raise
            except Exception:
                _log.exception("the index could not take in a part of session %s", step.session_id)
                self.lost.add(step.session_id)
            done += 1
            if time.monotonic() - begun > TRANSACTION_S:
                break
        self._batch.commit()
        return done

    def _recovered(self) -> None:
        if self.problem is not None:
            _log.warning("the index can be written again")
            self.problem = None
            if self.lost:
                self._refill()

    def _survive(self, error: Exception) -> bool:
        """After a failed transaction: whether to try again. Waits for a moment where only time can help."""
        try:
            self._batch.roll_back()
        except (sqlite3.Error, DamagedChunk):
            _log.debug("rolling back failed too", exc_info=True)
        if schema.is_damage(error):
            _log.warning("the index is replaced by a fresh one: %s", error)
            self._broken_in_a_row += 1
            return self._replace()
        if self.problem is None:
            _log.warning("the index cannot be written: %s", error)
        self.problem = str(error) or type(error).__name__
        self._release_marks()
        with self._room:
            self._room.notify_all()
        return not self._closing.wait(RETRY_S)

    def _replace(self) -> bool:
        try:
            self._db.close()
            self._take(schema.make(self.path))
        except (OSError, sqlite3.Error) as error:
            self.problem = str(error)
            return not self._closing.wait(RETRY_S)
        self._suspect.clear()
        self.fresh = True
        self._refill()
        return True

    def _end(self) -> None:
        try:
            if self.problem is None and self.intact():
                schema.seal(self._db, self.path)
            else:
                self._db.close()
        except (OSError, sqlite3.Error) as error:
            _log.warning("the index was not closed cleanly: %s", error)
            self._db.close()
