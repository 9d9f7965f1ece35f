"""Reads another tool's SQLite file where it is while the tool has it open: what it shows at one instant, in one read transaction.

Nothing is created beside the file, and no byte or time of it and of its log changes. SQLite alone does not promise that:

    the log             is created if it is gone, and removed if the file is empty. So the file is locked against its last
                        user's leaving before anyone looks for the log, and an empty file is not opened.
    the log's index     (`-shm`) is created, or made again when nobody else uses it. So it is opened with `readonly_shm`; what
                        a killed tool left behind is then read without its index.
    locks               of a process on a file all go when it closes any descriptor of that file, such as one with which
                        its first bytes were read. So the lock is one of an open file description, which stays.

The snapshot keeps the tool's log from being reset, so it is held for `HELD_S` at most. Whatever is not read by then is read
from a copy of the snapshot: the reading begins again there, and passes over the events that it has given.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from urllib.parse import quote

from sessiond.fs.scratch import scratch_folder
from sessiond.importers.record import Event

HELD_S = 3.0
"""How long a snapshot is held. Tools wait about five seconds for each other."""
_WAIT_S = 0.05
"""How long a lock of the tool is waited for."""
_READERS_S = 60.0
"""How long our own snapshots are waited for. Each is held for `HELD_S`, and then as long as it takes to copy."""
_PAUSE_S = 0.01
_SHARED_AT, _SHARED_BYTES = 0x40000002, 510
"""The bytes of a database that are locked by all who use it, and by one who wants it alone."""
_OPEN_FILE_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)

_users = threading.Condition()
_read: Counter[str] = Counter()
"""How many snapshots there are of a file in this process."""
_written: Counter[str] = Counter()
"""How many writers there are of a file in this process."""

Told = Callable[[sqlite3.Connection], Iterator[Event]]


@contextmanager
def written(path: str) -> Iterator[None]:
    """Enter this to write to a tool's database: all connections of a process share the log's index, which is read-only while there
    is a snapshot. Waits for the snapshots of the file to end, which they do within seconds. OperationalError if they do not.
    """
    path = os.path.realpath(path)
    with _users:
        _written[path] += 1
    try:
        with _users:
            if not _users.wait_for(lambda: not _read[path], _READERS_S):
                raise sqlite3.OperationalError("sessiond is still reading it")
        yield
    finally:
        with _users:
            _written[path] -= 1


def _begin(path: str) -> None:
    with _users:
        if _written[path]:
            raise NotInPlace("a session is being copied into it")
        _read[path] += 1


def _ended(path: str) -> None:
    with _users:
        _read[path] -= 1
        _users.notify_all()


class NotInPlace(Exception):
    """The file cannot be read where it is. The message says why."""


def prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, for reading only. Text that is not UTF-8 comes with replacements."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    # A schema that is not trusted may not even have an index on json_extract, as Kilo's has. It can do no harm here: the
    # connection only reads, and has no functions of ours.
    connection.execute("PRAGMA trusted_schema = ON")
    connection.execute("PRAGMA query_only = ON")
    return connection


class DatabaseSnapshot:
    """A snapshot of the file at `path`, which is not a link, as it is now. Raises NotInPlace. `events` must be called, and closes it."""

    def __init__(self, path: str) -> None:
        self._held = ExitStack()
        """What the tool notices of us."""
        self._copy = ExitStack()
        self._lock = threading.Lock()
        """Held by the thread that reads, or that moves the reading to a copy."""
        self._stream: Iterator[Event] | None = None
        self._given = 0
        self._moved = False
        try:
            self._connection = self._opened(path)
        except BaseException:
            self._held.close()
            raise
        self._until = time.monotonic() + HELD_S

    def _opened(self, path: str) -> sqlite3.Connection:
        try:
            _begin(path)
            self._held.callback(_ended, path)
            self._held.callback(os.close, _in_use(path))
            if os.path.getsize(path) == 0:
                raise NotInPlace("it is empty, and all is in its log")
            if not os.path.exists(path + "-wal") or not os.path.exists(path + "-shm"):
                raise NotInPlace("its log is not complete: -wal and -shm")
            uri = f"file:{quote(os.fsencode(path))}?mode=ro&readonly_shm=1"
            connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._held.enter_context(closing(connection))
            prepared(connection).execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except (OSError, sqlite3.Error) as error:
            raise NotInPlace(str(error)) from error
        return connection

    def events(self, told: Told) -> Iterator[Event]:
        """Those that `told` gives, which must be the same if it is called with another connection to the same rows."""
        timer = threading.Timer(HELD_S, self._move, (told,))  # whoever takes the events may pause
        timer.daemon = True
        self._stream = told(self._connection)
        timer.start()
        try:
            while (event := self._next(told)) is not None:
                yield event
        finally:
            timer.cancel()
            with self._lock:
                self._moved = True
                self._end()
                self._copy.close()

    def _next(self, told: Told) -> Event | None:
        if time.monotonic() > self._until:
            self._move(told)
        with self._lock:
            assert self._stream is not None
            event = next(self._stream, None)
            self._given += 1
        return event

    def _move(self, told: Told) -> None:
        """Go on from a copy of the snapshot, which ends."""
        with self._lock:
            if self._moved:
                return
            self._moved = True
            try:
                folder = self._copy.enter_context(scratch_folder())
                copy = sqlite3.connect(os.path.join(folder, "copy.db"), check_same_thread=False)
                self._copy.enter_context(closing(copy))
                copy.execute("PRAGMA synchronous = OFF")
                self._connection.backup(copy)
            except (OSError, sqlite3.Error) as error:
                self._end()
                self._stream = _failing(error)
            else:
                self._end()
                self._stream = islice(told(prepared(copy)), self._given, None)

    def _end(self) -> None:
        """Let go of the tool's file. The stream goes first: its open queries would hold the snapshot."""
        stream, self._stream = self._stream, None
        if isinstance(stream, Generator):
            stream.close()
        del stream
        self._held.close()


def _failing(error: Exception) -> Iterator[Event]:
    yield from ()
    raise error


def _in_use(path: str) -> int:
    """A descriptor with the lock that all who use a database have on it: nobody can take the log away. NotInPlace, OSError."""
    if _OPEN_FILE_LOCK is None:
        raise NotInPlace("this system has no locks of open files")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, _SHARED_AT, _SHARED_BYTES, 0)
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.fcntl(descriptor, _OPEN_FILE_LOCK, lock)
        except OSError as error:
            if isinstance(error, (BlockingIOError, PermissionError)) and time.monotonic() < until:
                time.sleep(_PAUSE_S)
                continue
            os.close(descriptor)
            raise NotInPlace(f"the tool has it to itself: {error.strerror}") from error
        return descriptor
