"""Says whether this installation can search by meaning. Separate from the search itself, which a daemon loads only if it can."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from os.path import dirname, join


@cache
def can_find_meaning() -> bool:
    """Return whether the extra `semantic` is installed, including its model. Imports nothing of it; reads the disk."""
    found = importlib.util.find_spec("wordllama")
    if found is None or found.origin is None or importlib.util.find_spec("numpy") is None:
        return False
    return os.path.isdir(join(dirname(found.origin), "weights"))
