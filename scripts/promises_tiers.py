"""Writes the column `tier` of docs/promises.md: which runs of the tests hold each promise. `python -m scripts.promises_tiers`

The tiers are those of the tests that the row names: `unit` is in every run, `run` in those that judge a change, `all` in the long ones.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.suite.tiers import Tier, tiers_in

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "promises.md"
_COLUMN = 2
_TEST = re.compile(r"`(tests/[\w/.]+)`")


def tiers(tests: str) -> str:
    """`tests`: the cell that names them."""
    found = set[Tier]().union(*(tiers_in(name.rstrip("/.")) for name in _TEST.findall(tests)))
    return ", ".join(map(str, sorted(found)))


def with_tiers(page: str) -> str:
    """The page with its column written anew."""
    return "\n".join(_row(line) for line in page.split("\n"))


def _row(line: str) -> str:
    if not line.startswith("|"):
        return line
    cells = line.strip("|").split(" | ")
    if _TEST.search(cells[1]):
        cells[_COLUMN] = tiers(cells[1])
    return "|" + " | ".join(cells) + "|"


if __name__ == "__main__":
    PAGE.write_text(with_tiers(PAGE.read_text()))
