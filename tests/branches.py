"""Checks a branch measurement: `python -m tests.branches branches.json` (`sh tests/coverage` makes that file).

In `STRICT` every branch is taken, or says in `tests/uncovered.toml` why it is not. Elsewhere at least `SHARE` of them are.
An entry that is no longer needed is an error too, so the list remains accurate.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STRICT = ("sessiond/journal/", "sessiond/store/", "sessiond/transports/framing.py")
SHARE = 0.95


def main(measured: str) -> int:
    files: dict[str, Any] = json.loads(Path(measured).read_text())["files"]
    reasons = tomllib.loads((ROOT / "tests" / "uncovered.toml").read_text())
    taken: Counter[str] = Counter()
    there: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    wrong: list[str] = []
    for name, measure in sorted(files.items()):
        summary = measure["summary"]
        part = "strict" if name.startswith(STRICT) else "elsewhere"
        there[part] += summary["num_branches"]
        taken[part] += summary["covered_branches"]
        package = "/".join(name.split("/")[:2])
        there[package] += summary["num_branches"]
        missing[package] += summary["num_branches"] - summary["covered_branches"]
        if part == "strict":
            wrong += unexplained(name, measure["missing_branches"], reasons.get(name, {}))
    wrong += [f"{name}: there is no such file" for name in reasons if name not in files]
    for part in ("strict", "elsewhere"):
        share = taken[part] / max(1, there[part])
        print(f"{part}: {taken[part]} of {there[part]} branches, {share:.1%}")
    print(
        *(f"  {package}: {number} of {there[package]} are not" for package, number in missing.most_common() if number),
        sep="\n",
    )
    if taken["elsewhere"] < SHARE * there["elsewhere"]:
        wrong.append(f"elsewhere fewer than {SHARE:.0%} of the branches are taken")
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


def unexplained(name: str, missing: list[list[int]], reasons: dict[str, str]) -> list[str]:
    """Branches that begin at a line with no reason, and reasons whose line has no such branch."""
    lines = (ROOT / name).read_text().split("\n")
    begun: dict[str, list[int]] = {}
    for source, target in missing:
        begun.setdefault(lines[source - 1].strip(), []).append(target)
    wrong = [f"{name}: {line!r} never goes to line {to}" for line, to in begun.items() if line not in reasons]
    return wrong + [f"{name}: {line!r} needs no reason any more" for line in reasons if line not in begun]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
