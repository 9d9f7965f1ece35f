"""Defines what a service runs, and what a service manager can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

WRITTEN = "Written by `sessiond service install`; `sessiond service remove` deletes it."
"""In each of our files, so that a file that somebody else wrote is recognized."""


class Definition(NamedTuple):
    """The program with its arguments, and the variables that the daemon must share with its clients."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


class Manager(Protocol):
    """A service manager of one user."""

    name: str
    path: str
    """Where its file for our service is."""

    def text(self, definition: Definition) -> str:
        """The file. SessiondError if it cannot express the definition."""

    def start(self, *, changed: bool) -> None:
        """Have the service run now and at every login; restart it if its file changed. SessiondError."""

    def stop(self) -> None:
        """Have the service run neither now nor at the next login. SessiondError."""

    def forget(self) -> None:
        """Drop what the manager knows of the file, which is gone. SessiondError."""

    def running(self) -> bool | None:
        """Return whether the service runs now; None if the manager cannot be asked."""

    def start_by_hand(self) -> str:
        """The command with which a person starts the service."""
