"""Lives in hostile surroundings for any length of time: `python -m tests.hostile --seconds N [--seed S]`.

It prints what it counted, and each life in which something went wrong, with its steps and the command that repeats it. The
exit code is 1 if there was one. `--life SEED --times N` repeats one; `--shrink` leaves out steps while it still fails.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from sessiond.formats import registry
from tests.hostile.plan import FILES, FOLDERS, Life, life
from tests.hostile.run import live
from tests.zygote import Zygote

APART = "SESSIOND_HOSTILE_APART"
"""Set in the process that has its own mounts."""
MODES_COUNT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
"""Root ignores modes; without these it does not."""


class Figures:
    def __init__(self) -> None:
        self.lives = 0
        self.bad: list[str] = []
        """Seeds."""
        self.kinds: Counter[str] = Counter()

    def __str__(self) -> str:
        return f"{self.lives} lives, {len(self.bad)} in which something went wrong {dict(self.kinds)}"


class Lives:
    """`draw(seed)`: the plan of a life."""

    def __init__(self, draw: object, *, mounts: bool) -> None:
        self.draw = draw
        self.mounts = mounts
        within = MODES_COUNT if os.geteuid() == 0 and shutil.which("setpriv") else ()
        self.zygote = Zygote(within)
        self.figures = Figures()
        self._lock = threading.Lock()

    def one(self, plan: Life) -> bool:
        """Whether all went well."""
        faults, done = live(self.zygote, plan, mounts=self.mounts)
        with self._lock:
            self.figures.lives += 1
            if faults:
                self.figures.bad.append(plan.seed)
                self.figures.kinds.update({fault.split()[0] for fault in faults})
                print("\n".join([str(plan), "  done:", *(f"    {one}" for one in done), *faults]) + "\n", flush=True)
        return not faults

    def all(self, plans: Iterator[Life], seconds: float, at_once: int) -> None:
        deadline = time.monotonic() + seconds

        def some() -> None:
            while time.monotonic() < deadline:
                with self._lock:
                    plan = next(plans, None)
                if plan is None:
                    return
                self.one(plan)

        with ThreadPoolExecutor(at_once) as pool:
            for ended in [pool.submit(some) for _ in range(at_once)]:
                ended.result()

    def shrunk(self, plan: Life, times: int) -> Life:
        """Without the steps that it fails without, too."""
        step = 0
        while step < len(plan.steps):
            fewer = Life(plan.seed, plan.stores, plan.mounted, plan.clients, plan.steps[:step] + plan.steps[step + 1 :])
            if all(self.one(fewer) for _ in range(times)):
                step += 1
            else:
                plan = fewer
        return plan


def apart(arguments: Sequence[str]) -> int | None:
    """Run the same in a namespace whose mounts go with it. None where that cannot be, or is so already."""
    if APART in os.environ or shutil.which("unshare") is None:
        return None
    command = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    probe = [*command, "sh", "-c", 'd=$(mktemp -d) && mount -t tmpfs tmpfs "$d" && umount "$d" && rmdir "$d"']
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return None
    again = [*command, sys.executable, "-m", "tests.hostile", *arguments]
    return subprocess.run(again, env={**os.environ, APART: "yes"}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description="Lives in hostile surroundings.")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long to go on (default: an hour)")
    parser.add_argument("--lives", type=int, help="no more than so many")
    parser.add_argument("--seed", default=str(int(time.time())), help="of everything; printed")
    parser.add_argument("--life", help="only the life of this seed")
    parser.add_argument("--times", type=int, default=1, help="with --life: how often")
    parser.add_argument("--steps", help="with --life: only these steps (1,4,7)")
    parser.add_argument("--shrink", action="store_true", help="with --life: leave out what it fails without")
    parser.add_argument("--format", choices=registry.NAMES, help="of all adopted folders")
    parser.add_argument("--target", help="of all harm: session, beside, marker, hidden, trash, entry")
    parser.add_argument("--without", default="", help=f"harms that do not happen: {', '.join([*FOLDERS, *FILES])}")
    parser.add_argument("--at-once", type=int, default=3, help="lives at once")
    parser.add_argument("--no-mounts", action="store_true", help="as where nothing can be mounted")
    wanted = parser.parse_args()
    code = None if wanted.no_mounts else apart(sys.argv[1:])
    if code is not None:
        return code
    print(f"seed {wanted.life or wanted.seed}", flush=True)

    def draw(seed: str) -> Life:
        plan = life(seed, wanted.without.split(","), wanted.format, wanted.target)
        if wanted.steps:
            plan.steps = [step for step in plan.steps if str(step.number) in wanted.steps.split(",")]
        return plan

    lives = Lives(draw, mounts=APART in os.environ)
    if wanted.life and wanted.shrink:
        print(f"shrunk: {lives.shrunk(draw(wanted.life), wanted.times)}")
        return 1
    seeds = (
        itertools.repeat(wanted.life, wanted.times)
        if wanted.life
        else (f"{wanted.seed} {n}" for n in itertools.count())
    )
    lives.all(map(draw, itertools.islice(seeds, wanted.lives)), wanted.seconds, wanted.at_once)
    lives.zygote.close()
    print(lives.figures)
    for seed in lives.figures.bad:
        print(f"  again: python -m tests.hostile --life {seed!r} --times 10")
    return 1 if lives.figures.bad else 0


if __name__ == "__main__":
    sys.exit(main())
