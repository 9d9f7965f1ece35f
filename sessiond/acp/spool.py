"""The spool: the file that keeps what passes on one connection until it is in sessions.

It is the queue between the process that passes bytes and the one that records them, and what a later recorder starts from
after either was killed. So memory stays bounded however slow the daemon is, and everything in it can be delivered again:
ids of messages follow from the name of the spool and the order of its frames.

file    frames, the first of kind HEAD
frame   kind (1 byte), milliseconds since 1970 (8, little endian), length (4), then that many bytes

An end that a kill cut off is not a frame; the reader stops there. Whoever writes or delivers a spool holds a lock on it.
The standard library only: an editor waits for the import.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

HEAD, EDITOR, AGENT, END = b"H", b"E", b"A", b"X"
SUFFIX = ".spool"
MOST_WAITING = 32 << 20
"""Bytes that wait in memory while the disk is full."""
_FRAME = struct.Struct("<cQI")


class Spool:
    """One spool file that this process writes. The lock is held as long as a process has the descriptor open."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.left_out = 0
        """Bytes of what was said that were too many to wait."""
        self._waiting = bytearray()
        self._broken_off: set[bytes] = set()
        """The kinds of which something was left out, perhaps in the middle of a line."""

    @property
    def waiting(self) -> int:
        """Return how many bytes are not in the file yet."""
        return len(self._waiting)

    @property
    def name(self) -> str:
        """By which ids of messages begin."""
        return os.path.basename(self.path).partition(".")[0]

    @classmethod
    def made(cls, folder: str, head: bytes) -> Spool:
        """A new one in `folder`, which is made if it is missing. OSError."""
        for private in (os.path.dirname(folder), folder):  # the mode is only for the last one that is made
            os.makedirs(private, mode=0o700, exist_ok=True)
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(6).hex()}{SUFFIX}"
        path = os.path.join(folder, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made = cls(path, descriptor)
        made.write(HEAD, head)
        return made

    def write(self, kind: bytes, data: bytes) -> None:
        """Add a frame with one write, so that a kill leaves it whole or cut, and nothing after it. OSError: it waits."""
        self.add(kind, data)
        self.flush()

    def add(self, kind: bytes, data: bytes) -> None:
        """Let a frame wait for `flush`. Beyond a bound, what is said is left out."""
        if kind in (EDITOR, AGENT):
            if self._waiting and len(self._waiting) + len(data) > MOST_WAITING:
                self.left_out += len(data)
                self._broken_off.add(kind)
                return
            if kind in self._broken_off:
                self._broken_off.remove(kind)
                data = b"\n" + data  # the halves of two lines must not become one
        self._waiting += _FRAME.pack(kind, time.time_ns() // 1_000_000, len(data)) + data

    def flush(self) -> None:
        """Write what waits, and go on in the middle of a frame if a full disk took only a part of it. OSError."""
        while self._waiting:
            del self._waiting[: os.write(self.descriptor, self._waiting)]


class SpoolReader:
    """Reads frames, and later those that were added meanwhile."""

    def __init__(self, descriptor: int, at: int = 0) -> None:
        """`at`: where a frame begins."""
        self._descriptor = descriptor
        self._at = at

    @property
    def at(self) -> int:
        """Return where the last frame that was read ends."""
        return self._at

    def frames(self, until: float = math.inf) -> Iterator[tuple[bytes, int, bytes]]:
        """Kind, time and data of each frame that is whole, was not read yet, and begins before byte `until`. OSError."""
        while self._at < until:
            head = os.pread(self._descriptor, _FRAME.size, self._at)
            if len(head) < _FRAME.size:
                return
            kind, at, length = _FRAME.unpack(head)
            data = _all(self._descriptor, length, self._at + _FRAME.size)
            if len(data) < length:
                return
            self._at += _FRAME.size + length
            yield kind, at, data


class MadeSessions:
    """The sessions that the steps of a spool made, in a file beside it: the agent's id -> ours, and how much was said in each.

    When a spool is read again after a kill, a session or a message that is not there any more was removed by somebody, and must not
    be made again from what the spool has of it.
    """

    def __init__(self, spool: str) -> None:
        """`spool`: its path. OSError."""
        self._path = f"{spool}.made"
        self._ids: dict[str, str] = {}
        self._said: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            for line in file:
                with contextlib.suppress(ValueError):  # a kill cut it off
                    key, made = json.loads(line)
                    if isinstance(made, int):
                        self._said[key] = made
                    else:
                        self._ids[key] = made

    def id_of(self, key: str) -> str | None:
        return self._ids.get(key)

    def note(self, key: str, session_id: str) -> None:
        """OSError."""
        if self._ids.get(key) != session_id:
            self._ids[key] = session_id
            self._add(key, session_id)

    def said(self, key: str) -> int:
        """Return how many messages of a session were taken: the first ones of the spool."""
        return self._said.get(key, 0)

    def note_said(self, key: str, number: int) -> None:
        """So many were taken. OSError."""
        if number > self.said(key):
            self._said[key] = number
            self._add(key, number)

    def _add(self, key: str, made: str | int) -> None:
        with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(b"\n" + json.dumps([key, made]).encode())  # the line before may be cut off

    def remove(self) -> None:
        """The spool is about to go. OSError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def waiting(folder: str) -> list[str]:
    """The spools in a folder, oldest first."""
    try:
        found = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX)]
    except FileNotFoundError:
        return []
    heads = {path: head_of(path) for path in found}
    return sorted(found, key=lambda path: (head.at if (head := heads[path]) is not None else 0, path))


def locked(path: str) -> int | None:
    """A descriptor with the lock; None if another process has it, or if the file is gone. OSError."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


class SpoolHead(NamedTuple):
    """The beginning of a spool. `at`: milliseconds since 1970."""

    at: int
    about: dict[str, Any]

    @property
    def ended(self) -> bool:
        """True if the process that passed the bytes is gone. A spool that does not say which it was has not ended."""
        pid = self.about.get("pid")
        if not isinstance(pid, int):
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def head_of(path: str) -> SpoolHead | None:
    """None: it is gone, or cut off at its beginning."""
    try:
        with open(path, "rb") as file:
            for kind, at, data in SpoolReader(file.fileno()).frames():
                about = json.loads(data) if kind == HEAD else None
                return SpoolHead(at, about) if isinstance(about, dict) else None
    except (FileNotFoundError, ValueError):
        return None
    return None


def is_locked(path: str) -> bool:
    """Return whether another process writes or delivers it. OSError."""
    descriptor = locked(path)
    if descriptor is None:
        return os.path.exists(path)
    os.close(descriptor)
    return False


def _all(descriptor: int, length: int, at: int) -> bytes:
    """That many bytes, or fewer at the end of the file."""
    data = os.pread(descriptor, length, at)
    while len(data) < length and (more := os.pread(descriptor, length - len(data), at + len(data))):
        data += more
    return data
