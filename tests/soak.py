"""Long runs: `tests/soak --seconds N` does rounds of kill -9 until the time is over, and meanwhile runs simulated daemons;
it prints what it counted.

    rounds, acknowledged, lost, doubled, reordered, changed; simulated lives

A life in which anything was wrong is named with its seed, the home of a real one is kept, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from sessiond.formats import registry
from tests.killing import ROUNDS_OF_A_LIFE, Figures, live
from tests.simulation.people import story
from tests.zygote import Zygote


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/soak", description="Rounds of kill -9 under eight clients, and simulated lives."
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long to go on (default: an hour)")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="end earlier, after so many rounds")
    parser.add_argument("--seed", default=str(int(time.time())), help="of everything; printed")
    parser.add_argument("--homes", type=int, default=2, help="lives at once")
    parser.add_argument("--no-simulation", dest="simulate", action="store_false", help="only real daemons")
    wanted = parser.parse_args()
    logging.disable(logging.CRITICAL)  # simulated disks fail all the time
    simulated, broken = 0, list[str]()
    deadline = time.monotonic() + wanted.seconds
    print(f"seed {wanted.seed}", flush=True)
    zygote, total, life = Zygote(), Figures(), 0
    with ThreadPoolExecutor(wanted.homes) as pool:
        while time.monotonic() < deadline and total.rounds < wanted.rounds:
            some = [(f"{wanted.seed} {life + n}", Figures()) for n in range(wanted.homes)]
            under_way = [pool.submit(live, zygote, seed, ROUNDS_OF_A_LIFE, one) for seed, one in some]
            while wanted.simulate and not all(one.done() for one in under_way):
                simulated += 1
                broken += simulate(f"{wanted.seed} {simulated}", registry.NAMES[simulated % len(registry.NAMES)])
            for ended in under_way:
                ended.result()
            for _, one in some:
                total.add(one)
            life += wanted.homes
            print(f"{total}; {simulated} simulated lives, {len(broken)} broken", flush=True)
    zygote.close()
    for seed in total.seeds:
        print(f"wrong in the life of seed {seed}")
    for line in broken:
        print(line)
    return 1 if total.wrong or broken else 0


def simulate(seed: str, fmt: str) -> list[str]:
    """What went wrong in one simulated life, in a line that reproduces it."""
    try:
        story(seed, fmt, 4)
    except Exception as error:
        return [f"story({seed!r}, {fmt!r}, 4): {type(error).__name__}: {error}"]
    return []


if __name__ == "__main__":
    sys.exit(main())
