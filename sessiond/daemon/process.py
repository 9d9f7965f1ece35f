"""The daemon's life: lock, parts, listeners, and an orderly end.

    lock taken ── no ──> "taken", exit 75
        │ yes
    configuration, log, journal, stores, index ── wrong ──> the reason, exit 1
        │
    socket bound, record written, "ready"
        │  SIGTERM, SIGINT, daemon/stop, or idle for long
    listeners closed, everything saved, exit 0

The lock is taken first and released last, so a data folder never has two daemons, whatever else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from typing import NoReturn

from sessiond.daemon.memory import leave_the_old_alone
from sessiond.endpoint import NoHome, Places, places, read_endpoint
from sessiond.errors import SessiondError
from sessiond.fs import FileSystem, Lock, RealFileSystem

EX_FAILED, EX_TAKEN = 1, 75
_LEFT_BEHIND_S = 5.0
"""How long a child that a killed daemon was just starting may take to load its program, which releases the lock."""
_OPEN_FILES = 10_240
"""More than all clients and sessions need at once; macOS allows no more."""
_SWITCH_INTERVAL_S = 0.0005
"""A lone client waits while the journal's thread and the loop hand over to each other; Python's default of 5 ms would dominate that."""

_MAY_BE_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP}
"""Python ignores the first two itself, so that an error is raised in their place, and `nohup` the third."""

_held: list[Lock] = []
"""Locks of this process, so that nothing releases them before its end."""


def main(flags: Mapping[str, object], ready_fd: int | None) -> NoReturn:
    """Run the daemon until it is told to end. `ready_fd`: a pipe for one word to the process that started it.

    Ends the process without waiting for its threads: everything that matters is closed by then, and a thread that hangs on
    an unresponsive disk would keep the process for ever. Until the process ends, the lock covers what such a thread still
    writes.
    """
    _own_signals()
    code = run(flags, ready_fd)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _own_signals() -> None:
    """Undo what the program that started us did to its signals, which a new program inherits. Blocked, SIGTERM would not end us;
    with SIGCHLD ignored nobody would learn how the processes that work for us ended, nor would they of their own.
    """
    for number in signal.valid_signals() - _MAY_BE_IGNORED:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def run(flags: Mapping[str, object], ready_fd: int | None) -> int:
    """The same, but returns the exit code. The lock remains held: the end of the process releases it."""
    os.umask(0o077)
    _allow_open_files()
    say = _Word(ready_fd)
    try:
        where = places()
    except NoHome as error:
        return say.failed(str(error), None)
    try:
        fs = RealFileSystem()
        lock = _take_lock(fs, where, patience_s=_LEFT_BEHIND_S if ready_fd is None else 0.0)
        if lock is None:
            say.taken(where)
            return EX_TAKEN
        _held.append(lock)
        return _run(fs, where, flags, say)
    except SessiondError as error:
        return say.failed(error.message, error.hint)
    except OSError as error:
        return say.failed(*_in_words(error, where))
    except Exception as error:  # a bug of ours: stderr gets the traceback, the waiting process one line
        traceback.print_exc()
        return say.failed(f"the daemon failed ({type(error).__name__}: {error})", "please report it")


def _allow_open_files() -> None:
    """Allow as many open files as the system lets us have: the limit of a shell is often less than our clients need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):  # the system has another bound
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _run(fs: FileSystem, where: Places, flags: Mapping[str, object], say: _Word) -> int:
    """Runs with the lock held. Slow imports happen only here: of twelve daemons that start at once eleven never get this far."""
    from sessiond import config as configuration
    from sessiond.daemon.core import live
    from sessiond.daemon.data_version import check_vintage, mark_vintage
    from sessiond.daemon.log import logging_to

    check_vintage(fs, where)
    config = configuration.load(fs, where, flags=flags)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with logging_to(where, config.limits, on_stderr=say.to_people):
        mark_vintage(fs, where)
        try:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            return 0 if loop.run_until_complete(live(fs, where, config, say.ready)) else EX_FAILED
        except SessiondError as error:  # the cause is outside: people do not need a traceback
            logging.getLogger("sessiond.daemon").error("the daemon ends: %s", error.message)
            raise
        except Exception:
            logging.getLogger("sessiond.daemon").exception("the daemon ends")
            raise


def _take_lock(fs: FileSystem, where: Places, patience_s: float) -> Lock | None:
    """The data folder's lock, held for life; None if another process has it. OSError.

    `patience_s`: how long to wait if the owner has died and a child that it was just starting still holds an inherited copy.
    (A client that starts a daemon tries again by itself.)
    """
    fs.make_dirs(where.data)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return fs.lock(where.lock_file)
        except BlockingIOError:
            record = read_endpoint(where.data)
            if (record is not None and _lives(record.pid)) or time.monotonic() >= deadline:
                return None
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:
            return b") Z " not in file.read()
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user, or this system lacks the file
        return True


class _Word:
    """The one message to the process that started us: on its pipe, or on stderr for people and service managers."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    @property
    def to_people(self) -> bool:
        return self._fd is None

    def _say(self, text: str) -> None:
        if self._fd is not None and self._fd >= 0:
            with contextlib.suppress(OSError):  # that process is gone; we run nevertheless
                os.write(self._fd, text.encode("utf-8", "replace"))
            os.close(self._fd)
            self._fd = -1

    def ready(self) -> None:
        leave_the_old_alone()
        self._say("ready")

    def taken(self, where: Places) -> None:
        if self._fd is None:
            record = read_endpoint(where.data)
            holder = f"a daemon (pid {record.pid})" if record else "another daemon"
            _on_stderr(f"{holder} owns {where.data}; stop it with `sessiond stop` first")
        self._say("taken")

    def failed(self, message: str, hint: str | None) -> int:
        text = f"{message}; {hint}" if hint else message
        if self._fd is None:
            _on_stderr(text)
        self._say(f"failed {text}")
        return EX_FAILED


def _in_words(error: OSError, where: Places) -> tuple[str, str | None]:
    """Say in words why a start failed, and what to do about it."""
    path = error.filename if isinstance(error.filename, str) else where.data
    if error.errno == errno.ENOSPC and _lacks_inodes(path):
        return (
            f"the disk of {path} is full: it has no inodes left for another file",
            "remove files that you do not need",
        )
    if error.errno == errno.ENOSPC:
        return f"the disk of {path} is full", "make room on it"
    if error.errno == errno.EDQUOT:
        return f"{path} could not be written: your quota on its disk is used up", "make room, or ask for more"
    if error.errno == errno.EROFS:
        return f"{path} is on a file system that is read-only", "mount it so that it can be written to"
    return str(error), None


def _lacks_inodes(path: str) -> bool:
    while True:
        try:
            found = os.statvfs(path)
        except OSError:
            if path in ("", "/"):
                return False
            path = os.path.dirname(path)
        else:
            return found.f_files > 0 and found.f_favail == 0


def _on_stderr(text: str) -> None:
    sys.stderr.write(f"sessiond: {text}\n")
