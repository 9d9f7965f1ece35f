"""The daemon's log: rotating files that only the user can read, written by a separate thread.

It records what happened to which session, never a session's content.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

from sessiond.endpoint import APP, Places, make_private_dir
from sessiond.limits import Limits

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s"


@contextmanager
def logging_to(where: Places, limits: Limits, *, on_stderr: bool) -> Iterator[None]:
    """Log into `log/sessiond.log` (and on stderr) until the block ends. If the file cannot be written, only the log is lost."""
    formatter = _OneLine(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handlers: list[logging.Handler] = [logging.StreamHandler()] if on_stderr else []
    problem = None
    try:
        make_private_dir(where.log)
        handlers.append(_PrivateRotatingFile(f"{where.log}/{APP}.log", limits))
    except OSError as error:
        problem = error
    for handler in handlers:
        handler.setFormatter(formatter)
    logging.raiseExceptions = False  # a full disk must not fill stderr with errors of the log itself
    waiting: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    entrance = logging.handlers.QueueHandler(waiting)
    listener = logging.handlers.QueueListener(waiting, *handlers)
    root = logging.getLogger()
    root.addHandler(entrance)
    root.setLevel(logging.INFO)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs every change, ours too
    logging.captureWarnings(True)
    listener.start()
    if problem is not None:
        logging.getLogger(__name__).warning("no log file: %s", problem)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.removeHandler(entrance)
        listener.stop()
        for handler in handlers:
            handler.close()


class _OneLine(logging.Formatter):
    """A message is one line without control characters: file names and errors of others cannot colour a reader's terminal or
    imitate our lines. Our tracebacks follow unchanged.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        record.message = _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], record.message)
        return super().formatMessage(record)


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """Mode 0600, whatever the umask is."""

    def __init__(self, path: str, limits: Limits) -> None:
        super().__init__(
            path, maxBytes=limits.log_bytes, backupCount=limits.log_files, encoding="utf-8", errors="replace"
        )

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, errors=self.errors, opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    # O_NONBLOCK: a FIFO in its place fails at once, instead of blocking the start until there is a reader.
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    os.fchmod(fd, 0o600)
    return fd
