"""A finding: what `doctor` says about one thing that it examined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from sessiond.client.requests import Answer, Request

T = TypeVar("T")


class Ask(Protocol):
    """A question to the daemon, asked in the way of the caller, which starts none."""

    def __call__(self, request: Request[T]) -> Answer[T] | None:
        """Ask the running daemon; None if no daemon is running. SessiondError, OSError."""


Mend = Callable[[], str | None]
"""Repairs it and says how, keeping a copy of what it changes; None if it could not. OSError."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was examined. `problem` None: it is healthy. `mend` None: nothing here can repair it."""

    what: str
    problem: str | None = None
    hint: str | None = None
    mend: Mend | None = None
