"""The way from commands to the daemon: through the Python client, with what only a command wants of it.

A command waits for as long as the daemon takes, because a person can interrupt it. A request fails if
its connection ends twice. Commands that follow something, or must not start a daemon, have a single connection, which does
not come back.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

from sessiond import client
from sessiond.cli.output import ENDED
from sessiond.cli.streams import wait
from sessiond.client.blocking import Sessiond
from sessiond.client.connection import DaemonConnection
from sessiond.client.dialing import DaemonTarget, Local
from sessiond.client.requests import Answer, Request
from sessiond.client.wire import Incoming
from sessiond.endpoint import Places, places
from sessiond.errors import DaemonUnreachable
from sessiond.reach import is_held

T = TypeVar("T")
NAME = "cli"
"""What others see as the origin of changes that a command makes."""
_ATTEMPTS = 2
"""A daemon that is just stopping may accept a connection and close it."""
_ANSWER_S = 5.0
_LOOK_AGAIN_S = 0.02


def connect(*, start: bool = True, timeout_s: float = math.inf, name: str = NAME) -> Sessiond:
    """A client of this user's daemon, which is started if `start` is true. DaemonUnreachable, AnswerLost."""
    return client.connect(start=start, name=name, timeout_s=timeout_s, attempts=_ATTEMPTS)


class Single:
    """One connection. ConnectionError when it ends; DaemonUnreachable if an answer takes longer than `timeout_s`."""

    def __init__(self, target: DaemonTarget, *, introduced: bool = True, timeout_s: float = math.inf) -> None:
        """Without being `introduced` it may talk to a daemon of any version."""
        self._timeout_s = timeout_s
        self._heard: deque[Incoming] = deque()
        deadline = time.monotonic() + timeout_s
        if introduced:
            try:
                self._connection = DaemonConnection.to(target, NAME, deadline, self._heard.append)
            except ConnectionError:
                raise _ended() from None
        else:
            self._connection = DaemonConnection(target.dial(deadline), self._heard.append)

    def __enter__(self) -> Single:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, request: Request[T]) -> Answer[T]:
        """The answer. Raises the daemon's error as the SessiondError of its kind."""
        try:
            return self._connection.ask(request, time.monotonic() + self._timeout_s)
        except ConnectionError:
            raise _ended() from None
        except TimeoutError:
            late = f"the daemon did not answer within {self._timeout_s:g} s; run `sessiond doctor`"
            raise DaemonUnreachable(late) from None

    def notifications(self, *, while_read: bool = False) -> Iterator[Incoming]:
        """Yield what the daemon says by itself, until the connection ends.

        `while_read`: stop when nobody reads standard output any more (OutputFailed).
        """
        while True:
            while self._heard:
                yield self._heard.popleft()
            if while_read:
                wait(self._connection.fileno())
            try:
                self._connection.read(math.inf)
            except ConnectionError:
                raise _ended() from None


def _ended() -> ConnectionResetError:
    """Without an errno, because callers would take an EPIPE for one of standard output."""
    return ConnectionResetError(ENDED)


def connect_once() -> Single:
    """A single connection to this user's daemon, which is started if necessary."""
    return Single(Local(places(), start=True))


def connect_if_running(where: Places) -> Single | None:
    """For commands that start no daemon: None if no daemon is running; DaemonUnreachable if one is but cannot be reached."""
    deadline = time.monotonic() + _ANSWER_S
    while True:
        try:
            return Single(Local(where, start=False), introduced=False, timeout_s=_ANSWER_S)
        except DaemonUnreachable as error:
            if not is_held(where):
                return None
            if time.monotonic() > deadline:
                raise DaemonUnreachable(f"a daemon owns {where.data}, but {error.message}") from None
        time.sleep(_LOOK_AGAIN_S)  # it may be just starting or stopping


def ask_if_running(where: Places, request: Request[T]) -> Answer[T] | None:
    """The answer to a question, which may be asked twice; None if no daemon is running. Errors as for a Single."""
    for attempt in range(1, _ATTEMPTS + 1):
        connection = connect_if_running(where)
        if connection is None:
            return None
        with connection:
            try:
                return connection.ask(request)
            except ConnectionError:
                if attempt == _ATTEMPTS:
                    raise
    raise AssertionError("unreachable")
