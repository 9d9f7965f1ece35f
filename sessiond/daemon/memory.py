"""Memory that is free within the process, back to the system."""

from __future__ import annotations


def give_back() -> None:
    """To be called on a thread: it takes some milliseconds for every hundred megabytes. Does nothing where the C library knows no such call."""
    import ctypes  # off the way to the first answer

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
