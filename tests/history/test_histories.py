"""Several clients at once, kills, edits from outside: an order explains every history."""

from __future__ import annotations

import math

import pytest

from tests.history.__main__ import STORIES, Figures, run
from tests.suite.explore import SEED, tries

HISTORIES = tries(few=100, usual=1000)
SHOWN = 5


@pytest.mark.timeout(600)
def test_an_order_explains_random_histories():
    """Requests of one connection take effect in the order in which they were sent, whatever the state of the session, and
    across kill -9; answers, notifications, files and the last state all agree with one order.
    """
    figures = Figures()
    lives = math.ceil(HISTORIES / STORIES)
    run((f"ci {number}" for number in range(SEED, SEED + lives)), math.inf, figures)
    print(figures)
    assert not figures.reports, "\n\n".join(figures.reports[:SHOWN])
    assert figures.histories >= HISTORIES * 0.9  # a life of huge sessions has fewer
    assert figures.undecided <= figures.histories // 100
