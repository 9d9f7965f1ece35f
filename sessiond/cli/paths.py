"""Paths between this process and the daemon.

A file name is bytes. This process decodes them as its locale says, the daemon always as UTF-8, and the wire carries text. So
a path is converted to what the daemon calls it before it goes over the wire.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sessiond.errors import InvalidParams


def arguments(given: Sequence[str]) -> Sequence[str]:
    """The command line, decoded so that file names in it lead to their files: Python decodes arguments with the C library,
    but encodes file names with a table of its own, and in some locales the two differ.
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
    """`path` as the daemon opens it. InvalidParams if it is not valid UTF-8."""
    try:
        return os.fsencode(path).decode()
    except UnicodeError:
        hint = "rename it, or make a link to it with a plain name"
        raise InvalidParams(
            f"{path}: the name is not valid UTF-8, and the daemon accepts only names that are", hint=hint
        ) from None


def label(path: str) -> str:
    """The same for people to read; the result may not be a usable path."""
    return os.fsencode(path).decode("utf-8", "replace")


def here(path: str) -> str:
    """The path with which this process opens what the daemon calls `path`."""
    return os.fsdecode(path.encode("utf-8", "surrogateescape"))
