"""How often Python searches for cycles while an import decodes."""

from __future__ import annotations

import gc

import pytest

from sessiond.collector import NEW_OBJECTS, few_searches


def test_the_usual_threshold_comes_back_with_the_last() -> None:
    """Two that overlap, whichever ends first, and one that fails, leave the threshold that was there."""
    before = gc.get_threshold()
    first, second = few_searches(), few_searches()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (NEW_OBJECTS, *before[1:])
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (NEW_OBJECTS, *before[1:])
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before
    with pytest.raises(OSError, match="full"), few_searches():
        raise OSError("full")
    assert gc.get_threshold() == before
