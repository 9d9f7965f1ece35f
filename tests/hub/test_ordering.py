"""Every state that a few daemons and a hub can reach is right, and each rule is needed. See `tests/hub/ordering.py`.

With a budget of an hour two larger worlds are visited, too: 340,000 states, about half a minute.
"""

from __future__ import annotations

import pytest

from tests.hub.ordering import FAULTS, Broken, Limits, Model, explore
from tests.suite.explore import EVERYTHING

SMALL = Limits(writes=(2, 1))
WORLDS = {
    "two writers and a restored hub": SMALL,
    "two careful writers, restored twice": Limits(writes=(1, 1), careful=2, restores=2),
    "two busy writers": Limits(writes=(2, 2), restores=0),
}
if EVERYTHING:
    WORLDS["two busy writers and a restored hub"] = Limits(writes=(2, 2))
    WORLDS["three writers and a restored hub"] = Limits(writes=(1, 1, 1), careful=0)


@pytest.mark.parametrize("limits", WORLDS.values(), ids=WORLDS)
def test_no_state_is_wrong(limits: Limits) -> None:
    """The order is the same everywhere in the end, and holds everything that was said to be safe."""
    assert explore(Model(limits)) > 5_000


@pytest.mark.parametrize("fault", FAULTS)
def test_each_rule_is_needed(fault: str) -> None:
    """Without the rule some state is wrong, and the checker says how to get there."""
    with pytest.raises(Broken, match=r"after: .*;"):
        explore(Model(SMALL, fault))
