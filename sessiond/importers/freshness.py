"""Tells whether a tool still writes what is read: one that has moved goes on writing its files, but what is read of them ends."""

from __future__ import annotations

from sessiond.model.values import epoch_ms, timestamp

_DAYS = 3
"""A tool also writes its files when nobody speaks: when it starts, or keeps its accounts. Few days pass with only that."""


def days_after(moment: str) -> str:
    """A time as late after `moment` as nothing that belongs to it should be. Both RFC 3339."""
    try:
        return timestamp(epoch_ms(moment) + _DAYS * 86_400_000)
    except OverflowError:
        return moment


def doubt(newest: str, written: str) -> str | None:
    """Return what to say of files that were `written` (RFC 3339), and whose `newest` record is of then; None if nothing."""
    if not newest or written <= days_after(newest):
        return None
    return f"the newest record is of {newest[:10]}, but its files were written on {written[:10]}; newer ones may not be read"
