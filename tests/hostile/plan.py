"""The steps of a life: drawn from a seed, and printed so that it can be repeated, whole or in part."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from sessiond.formats import registry

FOLDERS = {
    "gone": "renamed away or unmounted: there is nothing, or an empty mount point",
    "swapped": "another store at the same path",
    "closed": "no permission on the folder",
    "read-only": "mounted read-only",
    "full": "no room on its disk",
}
"""What happens to the folder of a store."""
FILES = {
    "away": "renamed away",
    "removed": "removed for good",
    "emptied": "emptied for good",
    "truncated": "cut at a random byte for good",
    "folder": "a folder in its place",
    "fifo": "a FIFO in its place",
    "unreadable": "mode 0000",
    "link": "a link to somebody's file in its place, or one that leads nowhere, or to a folder",
    "twin": "a second name of somebody's file in its place (hard link)",
    "written": "somebody adds a line of his own",
}
"""What happens to one thing in it, or in the data folder."""
FOR_GOOD = ("removed", "emptied", "truncated", "written")
LINKS = ("link", "twin")
TARGETS = ("session", "session", "session", "session", "beside", "beside", "marker", "hidden", "trash", "entry")
"""`beside`: a session's file under `.sessiond/`; `hidden`: that folder itself; `entry`: one entry in the trash."""


@dataclass
class Step:
    number: int
    what: str
    """`harm`, `kill`, `stop`, `ask` (the daemon, for all sessions), `doctor`."""
    how: str = ""
    target: str = ""
    store: str = ""
    lasts: int = 0
    """Put right so many steps later; 0: for good."""
    answers: int = 5
    """So many answers come before it."""

    def __str__(self) -> str:
        shown = f"{self.what} {self.how} {self.target} {self.store}".split()
        return f"{self.number}: {' '.join(shown)}" + (f" for {self.lasts}" if self.lasts else "")


@dataclass
class Life:
    seed: str
    stores: dict[str, str]
    """Name -> format; `default` is one of them."""
    mounted: set[str]
    """Those that are mounted, where anything can be; of `data` the data folder is a small disk of its own."""
    clients: int
    steps: list[Step] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"life {self.seed!r}: {self.clients} clients, stores {self.stores}, mounted {sorted(self.mounted)}"]
        return "\n".join([*lines, *(f"  {step}" for step in self.steps)])


def life(seed: str, without: Sequence[str] = (), fmt: str | None = None, target: str | None = None) -> Life:
    """`without`: harms that do not happen. `fmt`: all adopted folders are in that format."""
    rng = random.Random(seed)
    formats = [fmt] if fmt else rng.sample(registry.NAMES, rng.choice((1, 2, 2, 3)))
    stores = {"default": "jsonl", **{f"s{number}": one for number, one in enumerate(formats)}}
    mounted = {name for name in (*stores, "data") if rng.random() < 0.5} - {"default"}
    plan = Life(seed, stores, mounted, rng.randint(1, 3))
    for number in range(rng.randint(8, 40)):
        step = _step(rng, number, plan, target)
        if step.how not in without:
            plan.steps.append(step)
    return plan


def _step(rng: random.Random, number: int, plan: Life, target: str | None) -> Step:
    step = Step(number, "harm", answers=rng.choice((0, 1, 5, 5, 20)))
    drawn = rng.random()
    if drawn < 0.14:
        step.what = rng.choice(("kill", "kill", "kill", "stop"))
    elif drawn < 0.24:
        step.what = "ask"
    elif drawn < 0.26:
        step.what = "doctor"
    else:
        step.store = rng.choice(list(plan.stores))
        step.lasts = rng.choice((1, 1, 2, 3, 6))
        if rng.random() < 0.25 and target is None:
            step.target, step.how = "root", rng.choice(list(FOLDERS))
        else:
            step.target, step.how = target or rng.choice(TARGETS), rng.choice(list(FILES))
        if step.target in ("marker", "hidden") and step.how in ("removed", "emptied"):
            step.how = "away"  # without its marker a folder is nobody's, and stays so until somebody brings it back
        if step.how in FOR_GOOD:
            step.lasts = 0
    return step
