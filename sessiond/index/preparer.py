"""Prepares messages for the writing thread, many of them in a separate process, so that the daemon's interpreter is free for
requests.

The process is started when much waits, ends when nothing has come for a while, and keeps no state: if it dies, hangs or
cannot be started, its work is done here. See `prepared.py` for what is prepared.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from sessiond import pipes
from sessiond.index.prepared import Prepared, from_answer, prepare, prepare_requested, requested
from sessiond.model.message import Message

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preparing_worker.py")
START_BYTES = 512 * 1024
"""This much must have arrived, without a pause of IDLE_S, before a process is started for it."""
IDLE_S = 3.0
"""Without work for this long, the process ends."""
_AHEAD = 16
"""How many requests are under way: enough that the process never waits, few enough to cost little memory."""
ANSWER_S = 30.0
"""If an answer is due for this long, the process is killed."""
_FAILURES = 3
"""After this many deaths of the process in a row everything is prepared here."""

_log = logging.getLogger(__name__)


class PreparedBatch:
    """Some messages of one session. `result` can be called once `ready` is True."""

    __slots__ = ("_messages", "_result", "ready", "request")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.request: bytes | None = None
        """None: it cannot be sent, because it has numbers beyond 64 bits or lone surrogates. Then it is prepared here."""
        self._messages: Sequence[Message] = ()
        try:
            self.request = requested(messages)
        except (ValueError, OverflowError, RecursionError, TypeError):
            self._messages = messages
        self.ready = False
        self._result: Prepared | Exception | None = None

    def result(self) -> Prepared:
        """Raises what preparing them raised: a bug of ours."""
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result

    def take(self, result: Prepared | Exception) -> None:
        self._result = result
        self._messages, self.request = (), None
        self.ready = True

    def prepare_here(self) -> None:
        try:
            self.take(prepare(self._messages) if self.request is None else prepare_requested(self.request))
        except Exception as error:  # raised by `result`: one session must not stop all
            self.take(error)


class Preparer:
    """`on_ready` is called on one of its threads whenever jobs have become ready. Jobs become ready in order."""

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self._on_ready = on_ready
        self._waiting: deque[PreparedBatch] = deque()
        self._lately = 0
        """Bytes that arrived without a pause of IDLE_S."""
        self._last = 0.0
        self._changed = threading.Condition()
        self._closed = False
        self._worker: _Worker | None = None
        self._failures = 0
        self._thread: threading.Thread | None = None

    # Any thread

    def submit(self, messages: Sequence[Message], weight: int) -> PreparedBatch:
        """Returns at once. `weight`: about how many bytes they have."""
        job = PreparedBatch(messages)
        now = time.monotonic()
        with self._changed:
            self._waiting.append(job)
            self._lately = weight + (self._lately if now - self._last < IDLE_S else 0)
            self._last = now
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="index-prepare", daemon=True)
                self._thread.start()
            self._changed.notify()
        return job

    def close(self) -> None:
        """Nothing more will be submitted; waiting jobs are still completed. Blocks until they are."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    @property
    def process(self) -> int | None:
        """The id of the process while it runs."""
        worker = self._worker
        return worker.pid if worker is not None else None

    # The thread

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if self._worker is None and self._wants_worker():
                self._start()
            if self._worker is None:
                self._here(job)
            elif not self._worker.send(job):
                self._bury()
                self._here(job)
        self._end_worker()

    def _next(self) -> PreparedBatch | None:
        """Wait for the next job; meanwhile end a process that is idle or dead. None: there will be no more."""
        while True:
            with self._changed:
                patience = IDLE_S if self._worker is not None else None
                idle = not self._changed.wait_for(
                    lambda: self._waiting or self._closed or self._worker_died(), patience
                )
                if self._waiting:
                    return self._waiting.popleft()
                if self._closed:
                    return None
            if idle or self._worker_died():
                self._end_worker()

    def _worker_died(self) -> bool:
        return self._worker is not None and self._worker.dead

    def _wants_worker(self) -> bool:
        return self._lately > START_BYTES and self._failures < _FAILURES

    def _start(self) -> None:
        try:
            self._worker = _Worker(self._on_ready, self._noticed)
        except OSError as error:
            _log.warning("no process for the index could be started: %s", error)
            self._failures = _FAILURES

    def _noticed(self) -> None:
        """The process has ended: wake the thread that waits for work, so that it takes over the rest."""
        with self._changed:
            self._changed.notify()

    def _here(self, job: PreparedBatch) -> None:
        job.prepare_here()
        self._on_ready()

    def _end_worker(self) -> None:
        """Let it finish; if it died, do the rest here."""
        if self._worker is not None:
            if self._worker.end():
                self._failures = 0
                self._worker = None
            else:
                self._bury()

    def _bury(self) -> None:
        """The process has died. Do the requests under way here, in order."""
        worker, self._worker = self._worker, None
        assert worker is not None
        self._failures += 1
        _log.warning("the process that prepares for the index has ended; its work is done in the daemon")
        for job in worker.left():
            self._here(job)


class _Worker:
    """The process, the thread that reads its answers, and one that kills it if they stop, so that nothing waits for ever.
    `dead`: it no longer answers.
    """

    def __init__(self, on_ready: Callable[[], None], on_death: Callable[[], None]) -> None:
        self._on_ready = on_ready
        self._on_death = on_death
        self._process = pipes.start(_WORKER)
        self.pid = self._process.pid
        self.dead = False
        self._under_way: deque[PreparedBatch] = deque()
        self._room = threading.Semaphore(_AHEAD)
        self._ending = False
        self._progress = time.monotonic()
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, name="index-prepared", daemon=True)
        self._reader.start()
        self._guard = threading.Thread(target=self._watch, name="index-prepare-guard", daemon=True)
        self._guard.start()

    def send(self, job: PreparedBatch) -> bool:
        """Blocks while enough is under way. False: the process has died and did not take the job."""
        assert self._process.stdin is not None
        self._room.acquire()
        if job.request is None:
            return self._aside(job)
        if self.dead:
            return False
        self._progress = time.monotonic()
        self._under_way.append(job)
        try:
            pipes.write_frame(self._process.stdin, job.request)
        except OSError:
            self._process.kill()
            self._reader.join()
            self._under_way.remove(job)
            return False
        return True

    def _aside(self, job: PreparedBatch) -> bool:
        """The job cannot be sent, and its turn comes after those under way."""
        for _ in range(_AHEAD - 1):
            self._room.acquire()
        if self.dead:
            return False
        job.prepare_here()
        self._on_ready()
        self._room.release(_AHEAD)
        return True

    def end(self) -> bool:
        """Nothing more will be sent. Blocks until everything is ready; False: it died before that, and `left` has the rest."""
        assert self._process.stdin is not None
        self._progress, self._ending = time.monotonic(), True
        with contextlib.suppress(OSError):  # it died while bytes were on their way
            self._process.stdin.close()
        self._reader.join()
        self._guard.join()
        self._process.wait()
        return not self._under_way

    def left(self) -> list[PreparedBatch]:
        """After its death: the unfinished jobs, in order."""
        self.end()
        return list(self._under_way)

    def _watch(self) -> None:
        while not self._over.wait(min(1.0, ANSWER_S / 4)):
            due = self._under_way or self._ending
            if due and time.monotonic() - self._progress > ANSWER_S:
                _log.warning(
                    "the process that prepares for the index has not answered for %g s and is killed", ANSWER_S
                )
                self._process.kill()
                return

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            with self._process.stdout as answers:
                while (answer := pipes.read_frame(answers)) is not None:
                    self._under_way[0].take(from_answer(answer))
                    self._under_way.popleft()
                    self._progress = time.monotonic()
                    self._on_ready()
                    self._room.release()
        except msgspec.DecodeError:  # what it writes is not an answer
            self._process.kill()
        finally:
            self.dead = True
            self._over.set()
            self._room.release(_AHEAD)
            self._on_death()
