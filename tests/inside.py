"""What tests know of the inside of other objects, further in than these objects' own tests would look: all of it, in one place.

A change of the inside then has one file of tests to go through. `tests/test_house.py` allows such names nowhere else.
"""

from __future__ import annotations

import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiond.client import Sessiond
    from sessiond.index.index import Index


def database(index: Index) -> sqlite3.Connection:
    """The writer's own connection. It may be used from any thread while nothing is being written."""
    return index._writer._db


def next_chunk(index: Index) -> int:
    return index._writer._batch._docs.next_chunk


def semantic_worker(index: Index) -> Any:
    """What talks to the process that makes vectors."""
    assert index._semantic is not None
    return index._semantic._worker


def idle_regex_processes(index: Index) -> list[subprocess.Popen[bytes]]:
    return [] if index._regex is None else index._regex._processes._idle


def end_idle_regex_processes(index: Index) -> None:
    assert index._regex is not None
    index._regex._processes.end_idle()


def connection(client: Sessiond) -> Any:
    """A client's connection: the same object for as long as it is the same connection."""
    return client._link._connection


@contextmanager
def turn(client: Sessiond, within_s: float) -> Iterator[None]:
    """A context in which this thread alone uses the client's connection."""
    link = client._link
    lock = link._lock
    link._begin_turn(lock, "a turn", time.monotonic() + within_s, within_s)
    try:
        yield
    finally:
        link._end_turn(lock)


def requests_kept(session: Any) -> int:
    """How many requests pygls remembers for a connection that speaks LSP."""
    return len(session._protocol._request_futures)


def waiting(event: Any) -> int:
    """How many threads wait for a `threading.Event`."""
    return len(event._cond._waiters)
