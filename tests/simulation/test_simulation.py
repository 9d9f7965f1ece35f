"""Whole lives of the daemon's core under a seeded scheduler; then the same with Hypothesis choosing what happens."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from hypothesis.strategies import integers, sampled_from

from tests.simulation.people import Town, story
from tests.suite.explore import seeds

SEEDS = seeds(few=1, usual=2)


@pytest.mark.parametrize("fmt", ["jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl"])
def test_lives_under_a_seeded_scheduler(fmt: str) -> None:
    """Writers that retry, owners that cut, clear, delete and restore, watchers that come, go and stall; calls that fail, full
    disks, clocks that jump, kills and power failures: what was acknowledged is there once, nobody is told anything twice
    or out of order, and nothing fails that nobody looks at.
    """
    steps = 0
    for seed in SEEDS:
        try:
            steps += story(f"{fmt} {seed}", fmt, 3).steps
        except BaseException:
            print(f"reproduce: story('{fmt} {seed}', {fmt!r}, 3)")
            raise
    assert steps > 50 * len(SEEDS)


class Fates(RuleBasedStateMachine):
    """Hypothesis looks for the shortest row of fates that breaks a promise."""

    @initialize(seed=integers(0, 10**6))
    def begin(self, seed: int) -> None:
        self.town = Town(f"fates {seed}")
        self.town.boot()

    @rule(seconds=sampled_from((0.05, 0.4, 1.5)))
    def live(self, seconds: float) -> None:
        lived = self.town.live(seconds)
        assert not self.town.world.loop.faults, self.town.world.loop.faults
        if not lived:
            self.town.die()
            self.town.boot()

    @rule()
    def misfortune(self) -> None:
        self.town.misfortune()

    @rule()
    def relief(self) -> None:
        self.town.relief()

    @rule()
    def die(self) -> None:
        self.town.die()
        self.town.boot()

    def teardown(self) -> None:
        if hasattr(self, "town"):
            self.town.finish()
            self.town.end()


TestFates = Fates.TestCase
TestFates.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
