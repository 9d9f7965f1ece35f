"""How far the explorations go: random histories, schedules, kills, cut files. One knob for all of them.

Without it each tries a few seeds that are always the same, so that a change is judged by what it does and not by luck. With
`sh tests/run --all --budget MINUTES` they go on for about as long as that, all together on two cores, from a seed that is new each
time. The run prints the seed; `SESSIOND_BUDGET=MINUTES SESSIOND_SEED=SEED pytest FILE` repeats what it found.
"""

from __future__ import annotations

import os

_USUAL_MIN = 10.0
"""With this budget an exploration makes its usual number of tries."""
_ENOUGH_MIN = 60.0

BUDGET_MIN = float(os.environ.get("SESSIOND_BUDGET", "0"))
SEED = int(os.environ.get("SESSIOND_SEED", "0"))
EVERYTHING = BUDGET_MIN >= _ENOUGH_MIN
"""Whether what can be tried one by one is tried whole, instead of a sample."""


def tries(few: int, usual: int) -> int:
    """How many tries to make. `few`: enough to see that the exploration itself still works, and quick."""
    return max(few, round(usual * BUDGET_MIN / _USUAL_MIN))


def seeds(few: int, usual: int) -> range:
    """The seeds to try, as many as `tries` says."""
    return range(SEED, SEED + tries(few, usual))


def told() -> str:
    """For the head of a run."""
    if not BUDGET_MIN:
        return "explorations: a few fixed seeds"
    return f"explorations: SESSIOND_BUDGET={BUDGET_MIN:g} SESSIOND_SEED={SEED}"
