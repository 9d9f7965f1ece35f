"""Histories for any length of time: `python -m tests.history --seconds N [--seed S]`.

It prints what it counted, and each history that no order explains with its story and the command that runs its life again.
The exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.history.check import check, summary
from tests.history.plan import THEMES, life
from tests.history.run import live
from tests.zygote import Zygote

STORIES = 25
"""Side by side in one life."""


class Figures:
    def __init__(self, *, politely: bool = False) -> None:
        self.politely = politely
        self.histories = 0
        self.requests = 0
        self.undecided = 0
        self.wrong: Counter[str] = Counter()
        """By theme."""
        self.all: Counter[str] = Counter()
        self.reports: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.histories} histories, {self.requests} requests, {sum(self.wrong.values())} wrong, "
            f"{self.undecided} undecided"
        )

    def of_life(self, zygote: Zygote, seed: str, stories: int, theme: str | None = None) -> None:
        """Run one life, and judge its histories."""
        try:
            histories = live(zygote, life(seed, stories, theme), politely=self.politely)
        except (AssertionError, OSError) as error:  # no daemon, or one that went by itself
            self.reports.append(f"life {seed!r} could not be lived: {error!r}")
            return
        for history in histories:
            verdict = check(history)
            self.histories += 1
            self.requests += len(history.ops())
            self.undecided += bool(verdict.undecided)
            self.all[history.story.theme] += 1
            if verdict.wrong:
                self.wrong[history.story.theme] += 1
                self.reports.append(summary(history, verdict))


def run(
    seeds: Iterator[str],
    seconds: float,
    figures: Figures,
    stories: int = STORIES,
    theme: str | None = None,
    at_once: int = 2,
) -> None:
    """Lives until the time is over or there are no more seeds."""
    deadline = time.monotonic() + seconds
    zygote = Zygote()

    lock = threading.Lock()

    def one_more() -> str | None:
        with lock:
            return next(seeds, None) if time.monotonic() < deadline else None

    def some() -> None:
        while (seed := one_more()) is not None:
            figures.of_life(zygote, seed, stories, theme)

    with ThreadPoolExecutor(at_once) as pool:
        for ended in [pool.submit(some) for _ in range(at_once)]:
            ended.result()
    zygote.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description="Random histories, checked.")
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long to go on (default: an hour)")
    parser.add_argument("--seed", default=str(int(time.time())), help="of everything; printed")
    parser.add_argument("--life", help="run only the life of this seed")
    parser.add_argument("--times", type=int, default=1, help="with --life: how often")
    parser.add_argument(
        "--stories", type=int, default=STORIES, help="side by side in a life; a life is another one with another number"
    )
    parser.add_argument("--theme", choices=THEMES, help="of all stories; a life is another one with it")
    parser.add_argument("--at-once", type=int, default=2, help="lives at once")
    parser.add_argument("--show", type=int, default=3, help="stories of wrong histories to print of each theme")
    parser.add_argument(
        "--politely", action="store_true", help="one request at a time: what is wrong then is not a matter of order"
    )
    wanted = parser.parse_args()
    print(f"seed {wanted.life or wanted.seed}", flush=True)
    endless = (f"{wanted.seed} {number}" for number in itertools.count())
    seeds = itertools.repeat(wanted.life, wanted.times) if wanted.life else endless
    figures = Figures(politely=wanted.politely)
    run(seeds, wanted.seconds, figures, wanted.stories, wanted.theme, wanted.at_once)
    shown: Counter[str] = Counter()
    for report in figures.reports:
        theme = report.partition("theme: ")[2].partition(");")[0]
        shown[theme] += 1
        if shown[theme] <= wanted.show:
            print(report + "\n")
    for theme, count in figures.all.items():
        print(f"  {theme}: {figures.wrong[theme]} wrong of {count}")
    print(figures)
    return 1 if figures.reports else 0


if __name__ == "__main__":
    sys.exit(main())
