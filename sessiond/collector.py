"""Lets Python search for unreachable cycles less often while much is decoded.

What an import decodes lives until it is stored, and has no cycles. With Python's usual 700 new objects between two searches,
each of these objects is searched twice for nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000
"""Before a search of the young objects: 3 ms at most."""

_lock = threading.Lock()
_usual: tuple[int, int, int] = gc.get_threshold()
_users = 0


@contextmanager
def few_searches() -> Iterator[None]:
    """Several may overlap; the last one to end brings the usual threshold back."""
    global _usual, _users  # noqa: PLW0603  the collector is one for the process
    with _lock:
        if not _users:
            _usual = gc.get_threshold()
            gc.set_threshold(NEW_OBJECTS, *_usual[1:])
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                gc.set_threshold(*_usual)
