"""Long runs: `tests/soak --seconds N` does rounds of kill -9 until the time is over, and prints what it counted.

    rounds, acknowledged, lost, doubled, reordered, changed

A life in which anything was wrong is named with its seed, its home is kept, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests.killing import ROUNDS_OF_A_LIFE, Figures, live
from tests.zygote import Zygote


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/soak", description="Rounds of kill -9 under eight clients.")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long to go on (default: an hour)")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="end earlier, after so many rounds")
    parser.add_argument("--seed", default=str(int(time.time())), help="of everything; printed")
    parser.add_argument("--homes", type=int, default=2, help="lives at once")
    wanted = parser.parse_args()
    deadline = time.monotonic() + wanted.seconds
    print(f"seed {wanted.seed}", flush=True)
    zygote, total, life = Zygote(), Figures(), 0
    with ThreadPoolExecutor(wanted.homes) as pool:
        while time.monotonic() < deadline and total.rounds < wanted.rounds:
            some = [(f"{wanted.seed} {life + n}", Figures()) for n in range(wanted.homes)]
            for ended in [pool.submit(live, zygote, seed, ROUNDS_OF_A_LIFE, one) for seed, one in some]:
                ended.result()
            for _, one in some:
                total.add(one)
            life += wanted.homes
            print(total, flush=True)
    zygote.close()
    for seed in total.seeds:
        print(f"wrong in the life of seed {seed}")
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
