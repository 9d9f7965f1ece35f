"""Ends the process of a test that goes on beyond its limit, as one does that takes the alarm of pytest-timeout for an error of its own.

Where several processes run the tests, this one has failed then, as after any crash, and another process takes the tests that follow.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Generator

import pytest

GRACE_S = 30.0
"""After the alarm: it ends the test and what it has set up, if anything can."""


def _limit_s(item: pytest.Item) -> float:
    """How long a test may take; 0: as long as it likes."""
    marked = item.get_closest_marker("timeout")
    if marked is not None:
        return float(marked.args[0] if marked.args else marked.kwargs["timeout"])
    return float(item.config.getoption("timeout") or item.config.getini("timeout") or 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    limit = _limit_s(item)
    if limit:
        faulthandler.dump_traceback_later(limit + GRACE_S, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
