"""The main promise, on a real daemon: kill -9 at a random moment, and every acknowledged word is there once, in order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.killing import ROUNDS_OF_A_LIFE, Figures, live
from tests.suite.explore import SEED, tries
from tests.zygote import Zygote

LIVES = tries(few=1, usual=5)


@pytest.mark.timeout(300)
def test_eight_clients_and_one_kill_after_the_other():
    """After each restart every acknowledged message is there exactly once, under the seq that was answered, and in the
    order in which its client sent it; at the end of a life the session files say the same.
    """
    zygote = Zygote()
    figures = [Figures() for _ in range(LIVES)]
    # Two homes at once: one starts while the other writes.
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(live, zygote, f"ci {SEED + n}", ROUNDS_OF_A_LIFE, one) for n, one in enumerate(figures)]
        for one in ended:
            one.result()
    zygote.close()
    for one in figures:
        print(one)
        assert not one.wrong, one.seeds
    rounds = sum(one.rounds for one in figures)
    assert rounds == LIVES * ROUNDS_OF_A_LIFE
    assert sum(one.acked for one in figures) > 2 * rounds  # few on a machine that has much else to do
