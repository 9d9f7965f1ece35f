"""Lives of two writers and a watcher while the daemon is killed, stopped and cut off (`histories.py`)."""

from __future__ import annotations

import pytest

from tests.client.histories import Life
from tests.suite.explore import seeds
from tests.zygote import Zygote

LIVES = seeds(few=1, usual=2)


def _live(zygote: Zygote, seed: str, *, kills: bool, of_asyncio: bool) -> Life:
    life = Life(zygote, seed, kills=kills, of_asyncio=of_asyncio)
    life.live()
    wrong = life.wrong()
    assert not wrong, f"seed {seed!r}, kept in {life.folder}: " + "\n".join(wrong[:20])
    life.remove()
    return life


@pytest.mark.parametrize("of_asyncio", [False, True], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("number", LIVES)
def test_every_acknowledged_message_is_there_once(zygote: Zygote, number: int, of_asyncio: bool) -> None:
    """Under kill -9, cut and torn connections, delays and SIGSTOP; and the watcher is told of each change once and in order."""
    life = _live(zygote, f"killed {number}", kills=True, of_asyncio=of_asyncio)
    assert all(kept.messages for kept in life.kept)


@pytest.mark.parametrize("of_asyncio", [False, True], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("number", LIVES)
def test_no_change_is_missed_while_the_daemon_lives(zygote: Zygote, number: int, of_asyncio: bool) -> None:
    """Without kills the daemon knows every change, so the watcher never has to read again."""
    life = _live(zygote, f"cut {number}", kills=False, of_asyncio=of_asyncio)
    assert life.rereads == 0
