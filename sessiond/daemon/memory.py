"""Gives memory that is free within the process back to the system."""

from __future__ import annotations


def give_back() -> None:
    """Call this on a thread: it takes some milliseconds for every hundred megabytes. Does nothing if the C library lacks the call."""
    import ctypes  # imported late, so that the first answer does not wait

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
