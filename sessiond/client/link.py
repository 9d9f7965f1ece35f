"""A blocking connection that comes back: requests are sent again over the next connection where that does no harm.

Theory of operation
-------------------
A link has at most one connection. Calls take turns: each has the connection to itself until its response arrives, and opens one
if needed:

    the response comes              the connection stays
    the connection ends             another one is made, and the request is sent again, if that does no harm (`Request.again`):
                                    a message that has an id is not appended twice. Otherwise AnswerLost: it may be done
    the deadline, or an interrupt   the connection is dropped: a response that came later would be taken for that of the next call

An interrupt, or any error of a signal handler, may come between any two lines. So a turn is ended twice, and ending it does nothing in
a thread that has none: a lock that stayed taken would be one that nobody gets for ever.

`close` may be called by any thread, and by the garbage collector in the midst of a call. So it takes no turn: it shuts the
socket down under whoever waits on it, and that thread closes the descriptor. Were it closed here, another file could have
got its number meanwhile. A process that was forked has its parent's connection and must not write to it (`_forked`).

What must never happen: a request that does harm twice is sent twice; a response is taken for that of another request.
"""

from __future__ import annotations

import math
import time
from _thread import RLock, get_ident
from _weakref import ref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from sessiond.client import forks
from sessiond.client.connection import DaemonConnection
from sessiond.client.dialing import LONGEST_PAUSE_S, LOOK_AGAIN_S, DaemonTarget
from sessiond.client.failures import answer_lost, closed, error_of, no_answer
from sessiond.client.requests import Answer, Request
from sessiond.client.tape import Tape
from sessiond.errors import InvalidParams, SessiondError

T = TypeVar("T")


class Closable(Protocol):
    """Something that is closed together with its link."""

    def close(self) -> None: ...


class Link:
    """May be used from several threads; their requests go one after the other. `timeout_s`: the deadline of a call that names
    none. `attempts`: how many connections a request may go over.
    """

    def __init__(self, target: DaemonTarget, name: str, timeout_s: float, attempts: float = math.inf) -> None:
        self.target = target
        self.name = name
        self.timeout_s = timeout_s
        self.attempts = attempts
        self.closed = False
        self._lock = RLock()
        self._turn_of: int | None = None
        """The thread that has the connection to itself."""
        self._connection: DaemonConnection | None = None
        self._feeds: list[ref[Closable]] = []
        forks.keep(self, Link._forked)

    def reach(self, timeout_s: float | None = None) -> None:
        """Connect now. DaemonUnreachable, Unauthorized."""
        self._over("initialize", timeout_s, lambda connection, deadline: None, again=True)

    def call(self, request: Request[T], timeout_s: float | None = None) -> T:
        """Returns the result. Raises the daemon's own SessiondError; DaemonUnreachable, NoAnswer, AnswerLost, Closed."""
        return self.answer(request, timeout_s).value

    def answer(self, request: Request[T], timeout_s: float | None = None) -> Answer[T]:
        """Do the same as `call`, but return the result also as the daemon sent it."""
        sendings = 0

        def ask(connection: DaemonConnection, deadline: float) -> Answer[T]:
            nonlocal sendings
            sendings += 1
            return connection.ask(request, deadline, resent=sendings > 1)

        return self._over(request.method, timeout_s, ask, again=request.again)

    def play(self, tape: Tape, timeout_s: float | None, *, to_end: bool) -> None:
        """Send what a tape holds. With `to_end` until all of it is durable, else only until little enough is in flight.

        Errors as for `call`.
        """

        def send(connection: DaemonConnection, deadline: float) -> None:
            tape.over(connection)
            while True:
                while not tape.full and (params := tape.next()) is not None:
                    tape.sent(connection.send("session/extend", params, deadline))
                connection.read_waiting()
                oldest = tape.oldest
                if oldest is None:
                    return
                if not connection.has(oldest) and not (to_end or tape.full):
                    return
                answer = connection.wait(oldest, deadline)
                if answer.error is not None:
                    tape.refused(answer)
                    raise error_of(answer.error)
                tape.acknowledged()

        if tape.refusal is not None:
            raise error_of(tape.refusal.error)
        self._over("session/extend", timeout_s, send, again=True)

    def close(self) -> None:
        """End the connection and all feeds; whoever waits in another thread gets Closed. Does not wait for anything."""
        forks.process()
        self.closed = True
        connection = self._connection
        if connection is not None:
            connection.end()
        self._drop_if_unused()
        for feed in [one() for one in self._feeds]:
            if feed is not None:
                feed.close()

    def _forked(self) -> None:
        self._lock = RLock()
        self._turn_of = None
        self._connection = None

    def owns(self, feed: Closable) -> None:
        """Close this feed together with the link, if the feed still exists by then."""
        self._feeds = [one for one in self._feeds if one() is not None]
        self._feeds.append(ref(feed))

    def _over(
        self, method: str, timeout_s: float | None, work: Callable[[DaemonConnection, float], T], *, again: bool
    ) -> T:
        """Return what `work` returns, over one connection or, where that ends and `again` says so, over the next."""
        patience = self.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + patience
        pause = LOOK_AGAIN_S
        attempt = 0
        forks.process()
        self._check_turn(method)
        lock = self._lock  # a child that forks in the midst of a turn gets another
        try:
            self._begin_turn(lock, method, deadline, patience)
            while True:
                begun = False
                attempt += 1
                try:
                    connection = self._connected(deadline)
                    begun = True
                    return work(connection, deadline)
                except SessiondError:
                    raise  # the connection is as good as before
                except TimeoutError:
                    self._drop()
                    raise no_answer(method, patience) from None
                except OSError:
                    self._drop()
                    if self.closed:
                        raise closed() from None
                    if (begun and not again) or attempt >= self.attempts:
                        raise answer_lost(method) from None
                    if time.monotonic() >= deadline:
                        raise no_answer(method, patience) from None
                except BaseException:
                    self._drop()  # an interrupt, perhaps in the middle of a line
                    raise
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(2 * pause, LONGEST_PAUSE_S)
        finally:
            try:
                self._end_turn(lock)
            finally:  # again: an interrupt may come between any two lines
                self._end_turn(lock)
            if self.closed:
                self._drop_if_unused()

    def _connected(self, deadline: float) -> DaemonConnection:
        if self.closed:
            raise closed()
        if self._connection is None:
            made = DaemonConnection.to(self.target, self.name, deadline)
            self._connection = made
            if self.closed:  # by another thread meanwhile
                self._drop()
                raise closed()
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _check_turn(self, method: str) -> None:
        """InvalidParams in the midst of another call of this thread."""
        if self._turn_of == get_ident():
            raise InvalidParams(
                f"{method} was called in the midst of another call of the same client",
                hint="let a progress callback or a signal handler use a client of its own: `connect()`",
            )

    def _begin_turn(self, lock: RLock, method: str, deadline: float, patience: float) -> None:
        """Wait until nobody else uses the connection. NoAnswer."""
        left = -1.0 if patience == math.inf else max(0.0, deadline - time.monotonic())
        if not lock.acquire(timeout=left):
            raise no_answer(method, patience)
        self._turn_of = get_ident()

    def _end_turn(self, lock: RLock) -> None:
        """Let others use the connection, if this thread has it. It may be called again: only its owner can release this lock."""
        if self._turn_of == get_ident():
            self._turn_of = None
        with suppress(RuntimeError):
            lock.release()

    def _drop_if_unused(self) -> None:
        """Close the connection, unless another thread waits on its descriptor: that thread does it when it wakes."""
        if self._turn_of != get_ident() and self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()
