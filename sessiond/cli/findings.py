"""What `doctor` says of one thing that it looked at."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Mend = Callable[[], str | None]
"""Puts it right and says how, keeping a copy of what it changes; None where it could not be. OSError."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `problem` None: it is well. `mend` None: nothing here can put it right."""

    what: str
    problem: str | None = None
    hint: str | None = None
    mend: Mend | None = None
