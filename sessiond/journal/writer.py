"""Group commit: one thread writes and syncs all waiting records together.

    a record:  queued ──> in a batch ──> written ──> synced ──> acknowledged, with its lsn
                              │             └── a sync failed, or a cut ──> Indeterminate
                              └── the disk is full, or a failed write was cut off again ──> ReadOnly

    the writer:  open ──close──> closed, which refuses everything

Theory of operation
-------------------
The loop puts each record into the queue and keeps a future for it. The thread takes all waiting records, up to the size of a
batch; `Segments` writes them with one write and makes them durable with one sync; then one `call_soon_threadsafe` settles
the futures of the whole batch. Before that the thread itself reports a small batch (`on_durable`): the answer to a lone
append reaches its client although the loop sleeps. If nothing waits for anything else, the loop is not even woken: the next
request wakes it, or the thread does after a moment. A sync costs about as much for one record as for a thousand, and while
one batch is synced the next one gathers, so nothing waits for a timer. The loop never waits for the disk: `put` does not
block, and no lock that the loop takes is held during disk work. A wake-up for each future would cost the loop more than the
futures do.

An order is a queue entry that is not a record: purge, rotate, hold, let go, close. It takes its place in the same queue and
ends the batch before it, so it runs after everything earlier and before everything later. Only the thread changes the
segments.

A batch with only SAVED marks is written but not synced: nothing waits for them, and losing one costs a save, not data. So
those of one turn of the loop go to the thread together, and the loop does not hear of them again. They must not wait for longer:
after a crash a mark that was lost makes changes look unsaved, and an outside edit that removed one of them would be undone.
Whatever comes after the marks takes them along, because a mark that came after a GONE would also cover what was changed since.

The state of the disk is in `Segments`; the thread tells the loop when it changes (`on_state`).

- ReadOnly: nothing of the batch was written. If the disk is only full, the next commit tries again. Marks that shared a
  batch with changes are tried again without them, in the space that the reserve has freed.
- Indeterminate: after a failed sync or a failed cut it is unknown what the next start will find. That is final, and later
  commits get ReadOnly until a restart: a second sync would succeed over pages that the kernel has already dropped. A bug of
  ours ends in the same way.

What must never happen:

- a future has its lsn, or `on_durable` is called, before its record, and every record before that one, is synced;
- a client that was answered by `on_durable` finds the earlier state: its batch is in `_outcomes` by then, and `settle` runs
  before its next request;
- a record is refused with ReadOnly, and a later start finds it: its client may have sent it again;
- a failed sync is tried again;
- a future is never settled: every error settles its batch, and `close` queues its order and refuses later calls in one turn
  of the loop, so nothing is behind that order;
- a caller withdraws a record by cancelling: what is in the queue is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

import msgspec

from sessiond.eager import EagerFuture, turn
from sessiond.errors import Indeterminate, ReadOnly, TooLarge
from sessiond.fs import FileSystem
from sessiond.journal.damage import Loss
from sessiond.journal.record import MAX_BODY_BYTES, RecordEntry, RecordKind, body_bytes, check_entry
from sessiond.journal.recovery import DamagedRange
from sessiond.journal.replay import Key, replay
from sessiond.journal.segments import JournalExtent, ReadOnlyState, Segments
from sessiond.limits import Limits
from sessiond.shield import shielded

_log = logging.getLogger(__name__)


class Recovery(msgspec.Struct, frozen=True):
    """The remains of the last daemon in the journal."""

    pending: dict[Key, list[bytes]]
    """(store, session) -> the payloads of its changes that are not known to be saved, in order."""
    damage: list[DamagedRange]


class _QueuedEntry(msgspec.Struct, frozen=True):
    entry: RecordEntry
    future: asyncio.Future[Any] | None
    """Resolves with the lsn for changes, with None for a mark. Nothing waits for a SAVED mark."""
    on_durable: OnDurable | None = None


class _Order(msgspec.Struct, frozen=True):
    """Something other than a record, done after everything that was queued before it."""

    call: Callable[[], None]
    future: asyncio.Future[None]


OnDurable: TypeAlias = Callable[[], bool]
"""Called on the journal's thread when a record is durable; must not block. True: nothing waits for anything else, so the
loop may learn of it a moment later.
"""
_MOMENT_S = 0.001
_Item: TypeAlias = _QueuedEntry | _Order
_Outcome: TypeAlias = int | ReadOnly | Indeterminate
"""The lsn of the first record of a batch, or why nothing of it was written."""
_ANSWERED_EARLY = 4
"""Largest number of records in a batch that is answered early. With more of them the loop is awake, and a thread that writes
would wait for it after every write.
"""


class JournalWriter:
    """The journal as the event loop sees it. All methods are called on the loop; none of them blocks it."""

    def __init__(self, segments: Segments, limits: Limits) -> None:
        self._segments = segments
        self._record_bytes = min(limits.record_bytes, MAX_BODY_BYTES)
        self._batch_bytes = limits.commit_batch_bytes
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._outcomes: deque[tuple[list[_QueuedEntry], _Outcome]] = deque()
        """What the thread has finished and the loop has not settled yet."""
        self._loop_knows = True
        """The thread has woken the loop for all of them."""
        self._marks: list[_QueuedEntry] = []
        """SAVED marks of this turn of the loop, so that one wake-up of the thread serves many. They go before all that comes later."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._closed = False
        self.on_state: Callable[[ReadOnlyState | None], None] = lambda _: None
        """Called on the loop when writing ends (the state) and when it works again (None)."""
        self._told: ReadOnlyState | None = segments.state
        self.on_loss: Callable[[], None] = lambda: None
        """Called on the loop when new damage is found."""
        self._known_losses = len(segments.losses())

    @classmethod
    async def recover(
        cls,
        fs: FileSystem,
        folder: str,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], bytes] = lambda: os.urandom(16),
    ) -> tuple[JournalWriter, Recovery]:
        """Read the journal, repair it, and begin to write. On a full or failed disk it starts with `read_only` set.

        BadFile if a newer version wrote it; OSError if the folder is missing and cannot be created.
        """
        segments = Segments(fs, folder, limits, clock)

        def read() -> Recovery:
            contents = segments.recover(new_id)
            pending = replay(record for _, record in contents.records)
            payloads = {key: [record.entry.payload for record in kept] for key, kept in pending.items()}
            return Recovery(payloads, contents.damage)

        recovery = await asyncio.to_thread(read)
        writer = cls(segments, limits)
        writer._thread.start()
        return writer, recovery

    @property
    def lsn(self) -> int:
        """The lsn of the last record that was written."""
        return self._segments.lsn

    @property
    def total_bytes(self) -> int:
        """Bytes on the disk, in all segments."""
        return self._segments.total_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes on the disk, in held files."""
        return self._segments.held_bytes

    @property
    def read_only(self) -> ReadOnlyState | None:
        """The reason why commits are refused. Unless it is final, the next commit tries again, and clears it if there is space."""
        return self._segments.state

    def losses(self) -> list[Loss]:
        """Return what was durable and is lost, until it is acknowledged."""
        return self._segments.losses()

    def check(self) -> None:
        """ReadOnly if the disk failed: nothing may be acknowledged from then on, even what does not need the journal."""
        self._segments.check()

    def oldest_pending(self) -> list[Key]:
        """The sessions to save so that the oldest segment that is still needed can be removed."""
        return self._segments.oldest_pending()

    def commit(
        self, store: str, session: str, seq: int, payload: bytes, on_durable: OnDurable | None = None
    ) -> asyncio.Future[int]:
        """Queue a batch of changes, the last of which has this seq. The future resolves with its lsn when it is durable.
        `on_durable` may be called before that.

        Raises TooLarge at once. The future may raise ReadOnly (nothing was written) or Indeterminate (it may or may not be
        there). Cancelling the future does not withdraw the changes.
        """
        entry = RecordEntry(RecordKind.CHANGES, store, session, seq, payload)
        if body_bytes(entry) > self._record_bytes:
            raise TooLarge(f"a change of {len(payload)} bytes is too large to be recorded", limit=self._record_bytes)
        return self._hand_over(entry, on_durable)

    def settle(self) -> None:
        """Settle the futures whose outcome is known, and let their waiters continue. A client that was answered by
        `on_durable` may ask at once for what it changed, so this is called before any request is taken. Must not be called
        by an eager task.
        """
        if self._outcomes:
            with turn:
                while self._outcomes:
                    _settle(*self._outcomes.popleft())
                turn.finish()

    def note_saved(self, store: str, session: str, seq: int) -> None:
        """Every change up to `seq` is durable in the session's file and its folder. Nothing waits for the mark."""
        if not self._closed:
            if not self._marks:
                self._loop.call_soon(self._hand_over_marks)
            self._marks.append(_QueuedEntry(RecordEntry(RecordKind.SAVED, store, session, seq), None))

    def note_gone(self, store: str, session: str) -> asyncio.Future[None]:
        """Earlier changes no longer count for the session. When the future is done, no restart brings them back.

        Errors as in `commit`; with ReadOnly the session's changes are still pending.
        """
        return self._hand_over(RecordEntry(RecordKind.GONE, store, session))

    async def purge(self, store: str, session: str) -> None:
        """Like `note_gone`, and afterwards no byte of the session is in the journal's files. Commits wait while it rewrites
        them.

        ReadOnly, Indeterminate: some of it may still be there; purge again after a restart.
        """
        await self._order(lambda: self._segments.purge(store, session))

    async def rotate_and_trim(self) -> None:
        """Begin a new segment and remove those that are not needed. ReadOnly, Indeterminate."""

        def rotate() -> None:
            self._segments.rotate()
            self._segments.trim()

        await self._order(rotate)

    async def try_again(self) -> None:
        """Write again, if the disk was full and has room now. ReadOnly, Indeterminate."""
        await self._order(self._segments.try_again)

    async def hold_back(self) -> bool:
        """Move the changes that the oldest segment is kept for to a separate file. Returns whether the journal is shorter
        now. ReadOnly, Indeterminate.
        """
        shorter: list[bool] = []
        await self._order(lambda: shorter.append(self._segments.hold_back()))
        return shorter[0]

    async def acknowledge(self) -> int:
        """Acknowledge all `losses`. Returns how many there were. ReadOnly."""
        counts: list[int] = []
        await self._order(lambda: counts.append(self._segments.acknowledge()))
        return counts[0]

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[JournalExtent]:
        """The present journal, with everything acknowledged, for a copy: none of it is removed meanwhile. Also works on a
        journal that is read-only. ReadOnly if it is closed. Nothing may be purged meanwhile.
        """
        found: list[JournalExtent] = []
        order = self._order(lambda: found.append(self._segments.hold()))
        try:  # from here on: a caller that is cancelled while waiting has to let go, too
            await shielded(order)
            yield found[0]
        finally:
            if not self._closed:
                await shielded(self._order(self._segments.let_go))

    async def close(self) -> None:
        """Write everything that was queued before; later commits are refused."""
        if not self._closed:
            stopped = self._order(self._segments.close)
            self._closed = True
            await stopped
            await asyncio.to_thread(self._thread.join)

    # From the loop to the thread and back

    def _hand_over(self, entry: RecordEntry, on_durable: OnDurable | None = None) -> asyncio.Future[Any]:
        if wrong := check_entry(entry):
            raise ValueError(wrong)
        future: EagerFuture[object] = EagerFuture()
        if self._closed:
            _fail(future, ReadOnly("the journal is closed", reason="closed"))
        else:
            self._hand_over_marks()
            self._queue.put(_QueuedEntry(entry, future, on_durable))
        return future

    def _hand_over_marks(self) -> None:
        if self._marks:
            marks, self._marks = self._marks, []
            for one in marks:
                self._queue.put(one)

    def _order(self, call: Callable[[], None]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        if self._closed:
            _fail(future, ReadOnly("the journal is closed", reason="closed"))
        else:
            self._hand_over_marks()
            self._queue.put(_Order(call, future))
        return future

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            _log.debug("the loop is closed, and nothing waits any longer")

    # On the thread

    def _run(self) -> None:
        running = True
        while running:
            batch, order = self._take()
            if batch:
                self._write(batch)
            if order is not None:
                self._obey(order)
                running = order.call != self._segments.close
            self._tell_state()

    def _tell_state(self) -> None:
        """Tell the loop whether the journal can be written, if that has changed."""
        state, told = self._segments.state, self._told
        if (state and state.final) != (told and told.final):
            self._told = state
            self._tell(lambda: self.on_state(state))
        known, self._known_losses = self._known_losses, len(self._segments.losses())
        if self._known_losses > known:
            self._tell(self.on_loss)

    def _take(self) -> tuple[list[_QueuedEntry], _Order | None]:
        """Everything that waits, up to the next order and the size of a batch."""
        batch: list[_QueuedEntry] = []
        size = 0
        item = self._next()
        while not isinstance(item, _Order):
            batch.append(item)
            size += len(item.entry.payload)
            if size >= self._batch_bytes or not self._queue.qsize():
                return batch, None
            item = self._queue.get()
        return batch, item

    def _next(self) -> _Item:
        """Before the next item, which may take long, tell the loop what it has not heard yet."""
        item = None
        if not self._loop_knows:
            with contextlib.suppress(Empty):
                item = self._queue.get(timeout=_MOMENT_S)
            if self._outcomes:
                self._tell_outcomes()
            self._loop_knows = True
        return self._queue.get() if item is None else item

    def _write(self, batch: list[_QueuedEntry]) -> None:
        segments = self._segments
        entries = [waiting.entry for waiting in batch]
        marks = [waiting for waiting in batch if waiting.entry.kind is not RecordKind.CHANGES]
        try:
            sync = any(waiting.future is not None for waiting in batch)
            segments.write(entries, sync=sync, durable=lambda lsn: self._announce(batch, lsn))
        except ReadOnly as error:
            if marks and len(marks) < len(batch):
                # The changes may have been too large; the marks, for which the reserve was given up, may still fit.
                self._announce([waiting for waiting in batch if waiting.entry.kind is RecordKind.CHANGES], error)
                self._write(marks)
                return
            segments.count_saved(entries)
            self._announce(batch, error)
        except Indeterminate as error:
            self._announce(batch, error)
        except BaseException as error:  # a bug here must not make anything wait for ever
            self._give_up(error)
            self._announce(batch, Indeterminate("the journal's writer failed", reason=str(error)))
        if marks:
            self._quietly(segments.trim)

    def _obey(self, order: _Order) -> None:
        try:
            order.call()
        except (ReadOnly, Indeterminate) as error:
            failure: BaseException | None = error
        except BaseException as error:
            self._give_up(error)
            failure = Indeterminate("the journal's writer failed", reason=str(error))
        else:
            failure = None

        self._loop_knows = True

        def settle() -> None:
            self.settle()
            if failure is not None:
                _fail(order.future, failure)
            elif not order.future.done():
                order.future.set_result(None)

        self._tell(settle)

    def _announce(self, batch: list[_QueuedEntry], outcome: _Outcome) -> None:
        if all(waiting.future is None for waiting in batch):
            return  # the loop need not wake for marks
        self._outcomes.append((batch, outcome))
        self._loop_knows = False
        hurry = True
        if isinstance(outcome, int) and len(batch) <= _ANSWERED_EARLY:
            told = [waiting.on_durable is not None and waiting.on_durable() for waiting in batch]
            hurry = not all(told)
        if hurry:
            self._tell_outcomes()

    def _tell_outcomes(self) -> None:
        self._loop_knows = True
        self._tell(self.settle)

    def _quietly(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        _log.error("the journal's writer failed; the daemon is read-only from now on", exc_info=error)
        self._segments.fail(error)


def _settle(batch: list[_QueuedEntry], outcome: _Outcome) -> None:
    for place, waiting in enumerate(batch):
        if waiting.future is None or waiting.future.done():
            continue
        if isinstance(outcome, int):
            waiting.future.set_result(outcome + place if waiting.entry.kind is RecordKind.CHANGES else None)
        else:  # one exception each: they gather tracebacks as they are raised
            _fail(waiting.future, type(outcome)(outcome.message, hint=outcome.hint, **outcome.data))


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen: a mark that nothing waits for causes no warning at exit
