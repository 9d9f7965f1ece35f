"""The folder in which a tool goes on, checked before anything is written."""

from __future__ import annotations

import os

from sessiond.errors import InvalidParams
from sessiond.model.session import Session

_CWD = "--cwd DIR names the folder to work in"


def workplace(session: Session, wanted: str | None) -> str:
    """The folder that was asked for, or the session's own, or the current one; without links. InvalidParams if it cannot be used."""
    if wanted == "":
        raise InvalidParams("--cwd is empty", hint="name a folder, or leave out --cwd", field="cwd")
    given = wanted or session.cwd or os.getcwd()
    path = os.path.expanduser(given)
    if wanted is None and not os.path.isabs(path):
        raise _refused(f"the session's folder, {given}, is not an absolute path", _CWD)
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise _refused(f"{given}: no such folder here", _CWD)
    if not os.path.isdir(real):
        raise _refused(f"{given} is not a folder", _CWD)
    if not os.access(real, os.X_OK):
        raise _refused(f"you may not enter {given}", _CWD)
    try:
        os.fsencode(real).decode()
    except UnicodeError:
        shown = os.fsencode(real).decode("utf-8", "replace")
        hint = "rename it, or name another folder with --cwd"
        raise _refused(f"{shown}: the name is not UTF-8, so no tool can note it down", hint) from None
    return real


def _refused(message: str, hint: str) -> InvalidParams:
    return InvalidParams(message, hint=hint, field="cwd")
