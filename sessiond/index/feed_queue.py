"""Steps that wait for the writing thread, in lanes: a rebuild of a million messages must not keep a new one waiting.

Theory of operation
-------------------
live    Single changes, which go first: somebody typed them a moment ago and may search for them.
late    What nobody waits for, such as the fingerprint of a file that was saved. At most one step of a session: it counts only until
        something newer of the session is put, and is then dropped.
bulk    Parts of whole sessions, which go last. A step of this lane may have a job, which another process prepares; the lane stops at
        it until it is ready.

The order of the steps of one session is kept: as long as one of them waits in the bulk lane, all of them go there (`_diverted`),
except those that are put `ahead`, which do not depend on the others.

put ──> a lane ──take──> the writer has it ──written──> it is committed, or given up

A query waits for a mark, which is done when everything before it in its lane is written. So a lane counts its steps until they are
written, not until they are taken. Lists do not wait: what they show of steps that are not written comes from here (`shown`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from sessiond.index.values import Unseen

if TYPE_CHECKING:
    from sessiond.index.batch import Batch
    from sessiond.index.preparer import PreparedBatch


Apply: TypeAlias = "Callable[[Batch], None]"


class _Lane:
    """Steps and marks in the order in which they came. `unwritten`: how many steps were put into it and are not written."""

    def __init__(self) -> None:
        self.items: deque[FeedStep | Mark] = deque()
        self.unwritten = 0

    def put(self, step: FeedStep) -> None:
        self.items.append(step)
        self.unwritten += 1
        step.lane = self

    def take_marks(self) -> list[Mark]:
        marks = [item for item in self.items if not isinstance(item, FeedStep)]
        self.items = deque(item for item in self.items if isinstance(item, FeedStep))
        return marks


class FeedStep(msgspec.Struct):
    """One thing that was fed. `weight`: about how many bytes it keeps in memory. `bulk`: it goes into that lane. `job`: must
    be ready before its turn; only in the bulk lane. `late`: nobody waits for it. `shows`: what lists show from now on.
    `smaller`: the same in several changes, for when it cannot be written as one, so that only what is bad in it is left out.
    `lane`: where it was put, if that counts it.
    """

    session_id: str
    weight: int
    apply: Apply
    bulk: bool = False
    job: PreparedBatch | None = None
    late: bool = False
    shows: Unseen | None = None
    smaller: Callable[[], Iterable[Apply]] | None = None
    lane: _Lane | None = None


Mark: TypeAlias = "Future[None]"
"""A mark in a lane; done when everything before it is written."""


class FeedQueue:
    """Thread-safe; only one thread takes."""

    def __init__(self) -> None:
        self._live = _Lane()
        self._bulk = _Lane()
        self._late: dict[str, FeedStep] = {}
        self._diverted: Counter[str] = Counter()
        """Session -> how many of its steps wait in the bulk lane."""
        self._unwritten_singles = 0
        """Single changes that were put into the bulk lane and are not written."""
        self._unseen: dict[str, Unseen] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._live_marks = 0
        self._last_live_mark = float("-inf")
        self.weight = 0
        """Weight of everything that was put and is not `written`."""

    def put(self, step: FeedStep, *, ahead: bool = False) -> None:
        """`ahead`: it goes into the live lane even if something of its session waits in the bulk lane."""
        with self._changed:
            self.weight += step.weight
            if step.shows is not None:
                self._unseen[step.session_id] = step.shows
            older = self._late.pop(step.session_id, None)
            if older is not None:
                self.weight -= older.weight
            if step.late and step.session_id not in self._diverted:
                self._late[step.session_id] = step
            elif step.bulk or (not ahead and step.session_id in self._diverted):
                self._diverted[step.session_id] += 1
                self._bulk.put(step)
                self._unwritten_singles += not step.bulk
            else:
                self._live.put(step)
            self._changed.notify()

    def mark(self, *, bulk: bool) -> Mark:
        """Done when everything now in the lane is written, or when it turns out that this is not possible at the moment. For
        the bulk lane this includes steps that nobody waits for.
        """
        mark: Mark = Future()
        mark.set_running_or_notify_cancel()  # from here on it cannot be cancelled
        with self._changed:
            (self._bulk if bulk else self._live).items.append(mark)
            if not bulk:
                self._live_marks += 1
                self._last_live_mark = time.monotonic()
            self._changed.notify()
        return mark

    def done_marks(self) -> list[Mark]:
        """Marks in the live lane that have nothing before them any longer."""
        found: list[Mark] = []
        with self._changed:
            while self._live.items and not isinstance(first := self._live.items[0], FeedStep):
                self._live.items.popleft()
                self._live_marks -= 1
                found.append(first)
        return found

    def take_marks(self) -> list[Mark]:
        """All marks in both lanes: nothing can be written at the moment. The steps remain."""
        with self._changed:
            self._live_marks = 0
            return [*self._live.take_marks(), *self._bulk.take_marks()]

    def close(self) -> None:
        """Nothing more will be put."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, seconds: float | None, *, live_only: bool = False) -> FeedStep | Mark | None:
        """The next one; waits at most this long. None: nothing came, or nothing will come any more (`ended`)."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._live.items
                    or ((self._late or self._bulk_ready()) and not live_only)
                    or (self._closed and not self._bulk.items)
                ),
                seconds,
            )
            if self._live.items:
                first = self._live.items.popleft()
                self._live_marks -= not isinstance(first, FeedStep)
                return first
            if self._late and not live_only:
                return self._late.pop(next(iter(self._late)))
            if live_only or not self._bulk_ready():
                return None
            item = self._bulk.items.popleft()
            if isinstance(item, FeedStep):
                self._diverted[item.session_id] -= 1
                if not self._diverted[item.session_id]:
                    del self._diverted[item.session_id]
            return item

    def _bulk_ready(self) -> bool:
        if not self._bulk.items:
            return False
        item = self._bulk.items[0]
        return not isinstance(item, FeedStep) or item.job is None or item.job.ready

    def poke(self) -> None:
        """A step in the bulk lane may have become ready."""
        with self._changed:
            self._changed.notify()

    @property
    def behind(self) -> bool:
        """True if anything put into the bulk lane is not written yet."""
        return self._bulk.unwritten > 0

    @property
    def single_behind(self) -> bool:
        """True if any unwritten step of the bulk lane is a single change."""
        return self._unwritten_singles > 0

    @property
    def waited_for(self) -> bool:
        """True if a client waits for steps in the live lane."""
        return self._live_marks > 0

    def ask(self) -> bool:
        """Called for every query: returns whether anything in the live lane is not written yet, so that the query has to wait."""
        self._last_live_mark = time.monotonic()
        return self._live.unwritten > 0

    def asked_within(self, seconds: float) -> bool:
        """Return whether a query came within the last `seconds`, whether it had to wait or not."""
        return time.monotonic() - self._last_live_mark < seconds

    @property
    def unseen(self) -> int:
        """The number of sessions with unwritten changes that lists show."""
        return len(self._unseen)

    def shown(self) -> dict[str, Unseen]:
        """Those changes, by session."""
        with self._changed:
            return self._unseen.copy()

    def diverted(self, session_id: str) -> bool:
        """Return whether a step of a session waits in the bulk lane."""
        return session_id in self._diverted

    def ended(self) -> bool:
        with self._changed:
            return self._closed and not self._live.items and not self._bulk.items and not self._late

    def written(self, steps: list[FeedStep]) -> None:
        with self._changed:
            self.weight -= sum(step.weight for step in steps)
            for step in steps:
                if step.lane is not None:
                    step.lane.unwritten -= 1
                    self._unwritten_singles -= step.lane is self._bulk and not step.bulk
                known = self._unseen.get(step.session_id) if step.shows is not None else None
                if known is not None and step.shows is not None and known.stamp <= step.shows.stamp:
                    del self._unseen[step.session_id]
