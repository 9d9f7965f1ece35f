"""The reasons why a copy cannot be made where it is wanted, and what to do about them."""

from __future__ import annotations

import errno
import os

from sessiond.errors import SessiondError, Unavailable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


def not_installed(program: str) -> Unavailable:
    hint = "install it, or choose another tool: sessiond resume --targets lists those that are installed"
    return Unavailable(f"{program} is not installed, or not on the PATH", hint=hint)


def cannot_write(path: str, error: OSError) -> SessiondError:
    """For an error of the disk, after which nothing is left of the copy."""
    if error.errno in _NO_ROOM:
        hint = "nothing was copied; free some space there, then run the command again"
    elif error.errno in _NOT_ALLOWED:
        hint = "nothing was copied; make that place writable, then run the command again"
    else:
        hint = "nothing was copied; put that right, then run the command again"
    named = str(error.filename or "")
    place = named if os.path.isabs(named) else os.path.dirname(path)  # a file without a name is opened as "."
    return Unavailable(f"{place}: {error.strerror}", hint=hint)
