"""Which planted bugs an everyday run plants: those near what has changed, and ten others, which are others after each commit.

Of those near a large change it plants twelve, which are others after each commit, too. All of them take three quarters of an hour;
`sh tests/run --all` and `pytest tests/planted` plant them all.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.planted.planting import Planted

ROOT = Path(__file__).resolve().parents[2]
NEAR = 12
OTHERS = 10


def chosen(bugs: Sequence[Planted], changed: set[str], turn: int) -> list[Planted]:
    """`changed`: files, from the root of the project. `turn`: a number that grows with each commit."""
    near = [one for one in bugs if changed.intersection((one.path, *one.tests))]
    others = [one for one in bugs if one not in near]
    return _turn_of(near, NEAR, turn) + _turn_of(others, OTHERS, turn)


def _turn_of(bugs: list[Planted], count: int, turn: int) -> list[Planted]:
    """At most `count` of them, the next ones at each turn."""
    begin = turn * count % max(1, len(bugs))
    return (bugs[begin:] + bugs[:begin])[:count]


def changed_since_release() -> set[str]:
    """Files that differ from the last tag; without one, from the last commit but one. Empty where git knows neither."""
    since = _git("describe", "--tags", "--abbrev=0") or "HEAD~1"
    return set(_git("diff", "--name-only", since).splitlines())


def commits() -> int:
    return int(_git("rev-list", "--count", "HEAD") or 0)


def _git(*arguments: str) -> str:
    """What git prints; nothing where it fails, as in an unpacked release or a clone without a past."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
