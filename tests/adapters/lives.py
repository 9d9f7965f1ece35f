"""Random histories of an adapter's operations by two clients, with kill -9 of the daemon in the middle of them, beside a plain list
that does the same. After every operation the other client must see what the list says.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tests.adapters.conftest import KilledHome


class Side(Protocol):
    """One client of an adapter. `step` does something random to the list and, as an awaitable, the same for real."""

    def step(self, rng: random.Random, model: list[Any], number: int) -> Awaitable[Any]: ...

    async def all(self) -> list[Any]: ...


async def live(home: KilledHome, sides: list[Side], seed: str, *, steps: int, kills: int) -> None:
    """AssertionError with the seed and the step if anything is lost, doubled, out of order or answered wrongly."""
    rng = random.Random(seed)
    model: list[Any] = []
    deadly = set(rng.sample(range(steps), kills))
    killed = 0
    for number in range(steps):
        side, other = rng.sample(sides, 2)
        working = asyncio.ensure_future(side.step(rng, model, number))
        if number in deadly:
            await asyncio.sleep(rng.uniform(0.0, 0.004))  # chosen by the seed: nothing is waited for
            killed += await asyncio.to_thread(home.kill_now)
        await working
        found, wanted = json.dumps(await other.all()), json.dumps(model)
        assert found == wanted, f"seed {seed!r}, step {number}: {found} instead of {wanted}"
    assert killed == kills, f"seed {seed!r}: only {killed} of {kills} daemons were killed"


def spoken(number: int, rng: random.Random) -> str:
    return f"{number} " + "x" * rng.choice((0, 30, 3000))


def some(rng: random.Random, make: Callable[[int], Any]) -> list[Any]:
    return [make(part) for part in range(rng.randint(1, 4))]
