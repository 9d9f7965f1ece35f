"""Standard input, output and error as commands need them, however the process was started.

Somebody may wait for every line, so each line is flushed when it ends, also into a pipe. Characters that the output's
encoding lacks are shown as `?`. If standard output fails, `OutputFailed` is raised, which is not an OSError: nothing can
mistake it for a lost connection to the daemon. If standard error fails, only its text is lost.
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
    """Standard output cannot be written any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output: {error.strerror}")
        self.unread = error.errno == errno.EPIPE
        """The reader has seen enough and closed it."""


class _Raw(io.FileIO):
    """A descriptor that reports its first failure and then silently drops everything: Python flushes what is left when it
    exits, and would complain again.
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
        while (taken := super().write(data)) is None:  # another process made it non-blocking
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
    """The encoding that Python chose, or the locale's if Python found the stream closed and chose none."""
    return getattr(stream, "encoding", None) or locale.getencoding()


def must_be_read() -> None:
    """OutputFailed if nobody can read standard output any more. For commands that may wait long before they write."""
    wait(None)


def wait(fd: int | None) -> None:
    """Wait until `fd` can be read; with None, do not wait. OutputFailed once nobody reads our output."""
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
    except (OSError, ValueError):  # a test has replaced it
        return None
