"""Live changes for the blocking client, over a connection of their own.

Theory of operation
-------------------
For each session there is a `SessionFollower`, which knows the seq that was given on last. A step makes everything current, then
reads once:

    no connection ──> connected, and every follower is stale ──each is opened since its last seq──> current ──a notification──> ...

A follower that misses something by itself (a gap in the seqs, `session/resync`, `session/reloaded`) becomes stale and is opened
again in the next step. So a lost connection is nothing special, and each change is given on once, in the order of its seqs.

What was learned waits in `_ready` until somebody takes it. An interrupt may come between any two lines, even between the two that
learn of a change and put it there. So after an interrupt each follower goes back to its last change in `_ready`, or else to the
last one that was taken (`_given`), and learns what came after that once more.

A connection that says nothing for a while is asked whether it is there: the daemon's machine may have gone without a word.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from sessiond.client import forks, requests
from sessiond.client.changes import Change
from sessiond.client.connection import DaemonConnection
from sessiond.client.dialing import LONGEST_PAUSE_S, LOOK_AGAIN_S
from sessiond.client.failures import closed, no_answer
from sessiond.client.follower import SessionFollower
from sessiond.client.hubs import Hubs, OnHub
from sessiond.client.link import Link
from sessiond.client.lookout import Lookout
from sessiond.client.requests import Request, read_notice, strange
from sessiond.client.wire import Incoming
from sessiond.errors import SessiondError, SessionNotFound

T = TypeVar("T")
SILENCE_S = 10.0
"""After so long without a word the daemon is asked whether it is still there."""


class Changes(Iterator[Change]):
    """An iterator over changes as they happen; a context manager. It ends when every session that it follows is deleted, or
    when it or its client is closed, also from another thread.

    It makes its connection again by itself. Where the daemon cannot be reached within the client's `timeout_s`, or does not
    respond, it raises DaemonUnreachable or NoAnswer; the next `next()` goes on where it was.
    """

    def __init__(
        self,
        link: Link,
        followers: Iterable[SessionFollower],
        lookout: Lookout | None = None,
        on_hub: OnHub | None = None,
    ) -> None:
        self._link = link
        self._followers = {one.session_id: one for one in followers}
        self._lookout = lookout
        self._hubs = None if on_hub is None else Hubs(on_hub)
        self._connection: DaemonConnection | None = None
        self._ready: deque[Change] = deque()
        self._given: dict[str, int] = {}
        """Session -> the seq of its last change that was taken."""
        self._closed = False
        self._lock = allocate_lock()
        """Held by whoever reads."""
        link.owns(self)
        forks.keep(self, Changes._forked)

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Changes:
        return self

    def __next__(self) -> Change:
        """The next change, waited for as long as it takes."""
        change = self.wait(None)
        if change is None:
            raise StopIteration
        return change

    def wait(self, timeout_s: float | None) -> Change | None:
        """The next change; None where none came within `timeout_s`, or where none will come any more."""
        forks.process()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with self._turn():
            while not self._ready:
                if self._over or (until is not None and time.monotonic() >= until):
                    return None
                try:
                    self._step(until)
                except SessiondError:
                    if self._over:
                        return None
                    raise
            change = self._ready[0]
            self._given[change.session_id] = change.seq
            self._ready.popleft()  # last: after an interrupt before this, the next `wait` gives the change
            return change

    def attend(self) -> None:
        """Connect and open what is followed, so that nothing after this is missed. SessiondError."""
        with self._turn():
            while not self._step(0.0):
                pass

    def close(self) -> None:
        """Does not wait for anything."""
        forks.process()
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.end()
        self._drop_if_unused()

    def _forked(self) -> None:
        """Parent and child each go on where this was, over connections of their own."""
        self._lock = allocate_lock()
        self._connection = None
        self._interrupted()  # another thread may have been reading

    def _step(self, until: float | None) -> bool:
        """Connect, or read once. Return whether the connection held."""
        try:
            self._attend()
            if until != 0.0 and not self._ready and not self._over:
                self._listen(until)
        except OSError:  # it ended, and nothing of it is of use
            self._lost()
            return False
        except msgspec.MsgspecError as error:
            self._lost()
            raise strange("word of a change", error) from None
        except Exception:
            raise
        except BaseException:  # an interrupt, perhaps between learning of a change and giving it on
            self._interrupted()
            raise
        return True

    def _interrupted(self) -> None:
        self._lost()
        seqs = self._given | {change.session_id: change.seq for change in self._ready}
        for follower in list(self._followers.values()):
            follower.interrupted(seqs.get(follower.session_id))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        lock = self._lock  # a child that forks in the midst of a turn gets another
        with lock:
            yield
        if self._closed:
            self._drop_if_unused()

    def _drop_if_unused(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._lost()
            finally:
                self._lock.release()

    @property
    def _over(self) -> bool:
        if self._closed or self._link.closed:
            return True
        return self._lookout is None and not self._ready and not self._followers

    def _attend(self) -> None:
        """Have a connection on which everything is open and nothing is left to read."""
        if self._connection is None:
            self._connection = self._connected()
        if self._hubs is not None and self._hubs.due:
            self._hubs.asking()
            self._hubs.answered(self._ask(requests.status()))
        if self._lookout is not None:
            self._look(self._lookout)
        for follower in list(self._followers.values()):
            self._catch_up(follower)
            if follower.gone:
                self._forget(follower)
        if self._lookout is not None:
            self._let_go(self._lookout)

    def _catch_up(self, follower: SessionFollower) -> None:
        while follower.stale:
            try:
                result = self._ask(requests.open_(follower.opening()))
            except SessionNotFound:
                if follower.known is None:
                    raise
                self._ready.append(follower.deleted(missed=True))
                return
            created_at = follower.created_at
            self._ready.extend(follower.opened(result))
            if created_at not in (None, follower.created_at):
                self._given.pop(follower.session_id, None)  # a seq of the session that was there before
            while follower.more_since is not None:
                page = requests.read(follower.session_id, since=follower.more_since, limit=requests.PAGE_MESSAGES)
                self._ready.extend(follower.page(self._ask(page)))

    def _look(self, lookout: Lookout) -> None:
        while (request := lookout.due(time.monotonic())) is not None:
            try:
                page = self._ask(request)
            except SessiondError as error:
                if not lookout.refused(error):
                    raise
                continue
            for session_id, since, created_at in lookout.listed(page, time.monotonic()):
                self._followers.setdefault(session_id, SessionFollower(session_id, since, created_at))

    def _let_go(self, lookout: Lookout) -> None:
        """Stop following sessions in which nothing happened for a while. What happens in one meanwhile shows in the next list."""
        for session_id in lookout.quiet(time.monotonic()):
            follower = self._followers.pop(session_id, None)
            if follower is None:
                lookout.gone(session_id)
                continue
            lookout.left(session_id, follower.known or 0, follower.created_at)
            if not follower.gone:
                self._ask(requests.close(session_id))

    def _connected(self) -> DaemonConnection:
        """Connect, as often as it takes, until the deadline. Closed, DaemonUnreachable, NoAnswer, Unauthorized."""
        deadline = time.monotonic() + self._link.timeout_s
        pause = LOOK_AGAIN_S
        while True:
            if self._closed or self._link.closed:
                raise closed()
            try:
                return DaemonConnection.to(self._link.target, self._link.name, deadline, self._hear)
            except TimeoutError:
                raise no_answer("initialize", self._link.timeout_s) from None
            except OSError:
                if time.monotonic() >= deadline:
                    raise no_answer("initialize", self._link.timeout_s) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _ask(self, request: Request[T]) -> T:
        """OSError where the connection ended; NoAnswer."""
        if self._connection is None:  # a callback forked, and this is the child
            raise ConnectionResetError("the connection is the parent's")
        deadline = time.monotonic() + self._link.timeout_s
        try:
            return self._connection.ask(request, deadline).value
        except TimeoutError:
            self._lost()
            raise no_answer(request.method, self._link.timeout_s) from None

    def _listen(self, until: float | None) -> None:
        """Read once. After a silence the daemon is asked whether it is there."""
        if self._connection is None:  # a callback forked, and this is the child
            raise ConnectionResetError("the connection is the parent's")
        silence = time.monotonic() + SILENCE_S
        look = self._lookout.next_look if self._lookout is not None else silence
        wake = min(one for one in (until, silence, look) if one is not None)
        try:
            self._connection.read(wake)
        except TimeoutError:
            if time.monotonic() >= silence:
                self._ask(requests.hello())

    def _hear(self, incoming: Incoming) -> None:
        if incoming.method == "store/hubChanged" and self._hubs is not None:
            self._hubs.heard(incoming.params)
        if incoming.method is None or not incoming.method.startswith("session/"):
            return
        notice = read_notice(incoming.params)
        follower = self._followers.get(notice.about)
        if follower is not None:
            before = len(self._ready)
            self._ready.extend(follower.told(incoming.method, notice))
            if self._lookout is not None and len(self._ready) > before:
                self._lookout.heard(follower.session_id, time.monotonic())
            if follower.gone:
                self._forget(follower)

    def _forget(self, follower: SessionFollower) -> None:
        self._followers.pop(follower.session_id, None)
        self._given.pop(follower.session_id, None)
        if self._lookout is not None:
            self._lookout.gone(follower.session_id)

    def _lost(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self._hubs is not None:
            self._hubs.due = True
        if self._lookout is not None:
            self._lookout.lost()
        for follower in list(self._followers.values()):
            follower.lost()
