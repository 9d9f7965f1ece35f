"""All errors, as one tree. Wire codes are assigned in `rpc/`, not here.

    SessiondError
    ├── InvalidParams      a field of a request is missing, of the wrong type, or out of range
    ├── SessionNotFound    the session is not in a store, nor in the trash if that was searched
    ├── Conflict           another change came first, or the same id with other content
    ├── AlreadyExists      an id or a path is taken
    ├── BadFile            a session file that cannot be read; it is left untouched
    ├── TooLarge           a named limit was exceeded
    ├── ReadOnly           the disk failed or is full; reading still works
    ├── Indeterminate      the disk failed midway: the change may or may not be stored
    ├── Unavailable        a store cannot be reached (unmounted, locked by another daemon)
    ├── Unauthorized       no token, a wrong one, or a forbidden origin
    ├── Cancelled          ended by the caller or by a time limit before anything was durable
    ├── ConfigError        the configuration cannot be used; reported at start
    └── DaemonUnreachable  no daemon is running and none could be started

`message` says what happened, `hint` what the reader can do about it, `data` what a program needs to decide.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar

OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
"""The process, or the system, has too many files and connections open."""
FEWER_FILES = "close some clients, or start the daemon with a higher limit of open files (`ulimit -n`)"
"""What to do about it."""


class SessiondError(Exception):
    """Root of the tree. Clients decide by `kind`."""

    kind: ClassVar[str] = "internalError"

    def __init__(self, message: str, *, hint: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data

    def again(self) -> SessiondError:
        """The same error for one more caller: an exception gathers tracebacks each time that it is raised."""
        return type(self)(self.message, hint=self.hint, **self.data)


class InvalidParams(SessiondError):
    kind = "invalidParams"


class SessionNotFound(SessiondError):
    kind = "sessionNotFound"


class Conflict(SessiondError):
    """`data["seq"]` is the session's current seq."""

    kind = "conflict"


class AlreadyExists(SessiondError):
    kind = "alreadyExists"


class BadFile(SessiondError):
    """`data["path"]` and `data["line"]` (1-based, or None) say where."""

    kind = "badFile"


class TooLarge(SessiondError):
    """`data["limit"]` is the limit that was exceeded, in its own unit."""

    kind = "tooLarge"


class ReadOnly(SessiondError):
    """`data["reason"]` is the operating system's message. Nothing was acknowledged that is not durable."""

    kind = "readOnly"


class Indeterminate(SessiondError):
    kind = "indeterminate"


class Unavailable(SessiondError):
    kind = "unavailable"


class Unauthorized(SessiondError):
    kind = "unauthorized"


class Cancelled(SessiondError):
    kind = "cancelled"


class ConfigError(SessiondError):
    kind = "configError"


class DaemonUnreachable(SessiondError):
    kind = "daemonUnreachable"
