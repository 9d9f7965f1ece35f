"""Standard input, output and error as a command needs them, whatever it was started with.

Somebody may wait for every line, so a line goes out when it ends, also into a pipe. What the reader's encoding does not
have is shown as `?`. Standard output that fails raises `OutputFailed`, which is not an OSError: nobody can take it for a
connection to the daemon that ended. Standard error that fails costs only what it would have said.
"""

from __future__ import annotations

import errno
import io
import locale
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputFailed(Exception):
    """Standard output takes no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.unread = error.errno == errno.EPIPE
        """Whoever read it has seen enough."""


class _Raw(io.FileIO):
    """A descriptor that says once that it failed, and from then on takes everything and keeps nothing: Python flushes
    what is left when it ends, and would complain again.
    """

    def __init__(self, fd: int, *, silent: bool) -> None:
        super().__init__(fd, "w", closefd=False)
        self._silent = silent
        self._failed = False

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        if self._failed:
            return size
        try:
            return self._write(data)
        except OSError as error:
            self._failed = True
            if self._silent:
                return size
            raise OutputFailed(error) from None

    def _write(self, data: ReadableBuffer) -> int:
        while (taken := super().write(data)) is None:  # somebody else made it non-blocking
            poll = select.poll()
            poll.register(self.fileno(), select.POLLOUT)
            poll.poll()
        return taken


def open_standard() -> None:
    """Replace `sys.stdin`, `sys.stdout` and `sys.stderr`. Their descriptors must be open."""
    if sys.stdin is None:
        sys.stdin = open(0, encoding=_encoding(None), errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _text(1, _encoding(sys.stdout), "replace", silent=False)
    sys.stderr = _text(2, _encoding(sys.stderr), "backslashreplace", silent=True)


def _text(fd: int, encoding: str, errors: str, *, silent: bool) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(_Raw(fd, silent=silent))
    return io.TextIOWrapper(buffer, encoding=encoding, errors=errors, line_buffering=True)


def _encoding(stream: object) -> str:
    """As Python chose it; where it found the stream closed, it chose none."""
    return getattr(stream, "encoding", None) or locale.getencoding()


def must_be_read() -> None:
    """OutputFailed where nobody can read standard output any more. For commands that may wait long before they write."""
    wait(None)


def wait(fd: int | None) -> None:
    """Until there is something to read from `fd`; without one, not at all. OutputFailed once nobody reads us."""
    poll = select.poll()
    if fd is not None:
        poll.register(fd, select.POLLIN)
    output = _descriptor()
    if output is not None:
        poll.register(output, 0)
    for ready, events in poll.poll(None if fd is not None else 0):
        if ready == output and events & (select.POLLERR | select.POLLHUP):
            raise OutputFailed(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def _descriptor() -> int | None:
    try:
        return sys.stdout.fileno()
    except (OSError, ValueError):  # a test has put something of its own there
        return None
