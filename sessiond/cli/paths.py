"""Paths between this process and the daemon.

A file name is bytes. This process reads them as its locale says, the daemon always as UTF-8, and the wire carries text. So
a path that goes over the wire is first what the daemon would call it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sessiond.errors import InvalidParams


def arguments(given: Sequence[str]) -> Sequence[str]:
    """The command line, so that a file name in it leads to its file: Python decodes arguments by the C library, and encodes
    names by a table of its own, which in some locales is another one.
    """
    if sys.getfilesystemencoding() == "utf-8" or not given:
        return given
    try:
        with open("/proc/self/cmdline", "rb") as file:
            raw = file.read().split(b"\0")[:-1]
    except OSError:
        return given
    return [os.fsdecode(one) for one in raw[-len(given) :]]


def on_wire(path: str) -> str:
    """`path` as the daemon opens it. InvalidParams where its name is not valid UTF-8."""
    try:
        return os.fsencode(path).decode()
    except UnicodeError:
        hint = "rename it, or make a link to it whose name is plain"
        raise InvalidParams(
            f"{path}: the name is not valid UTF-8, and the daemon takes names as text only", hint=hint
        ) from None


def label(path: str) -> str:
    """The same for people to read; it need not lead anywhere."""
    return os.fsencode(path).decode("utf-8", "replace")


def here(path: str) -> str:
    """As this process opens what the daemon calls `path`."""
    return os.fsdecode(path.encode("utf-8", "surrogateescape"))
