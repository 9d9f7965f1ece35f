"""A bug is planted where it belongs, however the source is laid out, and whatever its function and its file are called since."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.planted.mutations import MUTATIONS
from tests.planted.planting import Planted, UprootedError, plant
from tests.suite.explore import seeds

PROGRAM = Path(__file__).resolve().parents[2] / "sessiond"
BUG = Planted("b", "a.py::Door.open", "if locked and not key:\n    return None", "pass", ())
DOOR = """
class Door:
    def open(self, locked, key):
        if locked and not key:
            return None
        return self

    def close(self, locked, key):
        if locked and not key:
            return None
"""


def _planted(folder: Path, source: str, bug: Planted = BUG, file: str = "a.py") -> str:
    (folder / file).write_text(source)
    return plant(bug, folder)[1]


@pytest.mark.parametrize(
    "other",
    [
        DOOR.replace(
            "if locked and not key:", "if (\n            locked  # it is\n            and not key\n        ):"
        ),
        DOOR.replace("    def open", "    @property\n    def open"),
        DOOR.replace("class Door:", "import os\n\nclass Door:"),
    ],
    ids=["laid out otherwise", "decorated", "moved down"],
)
def test_it_goes_into_its_function(tmp_path: Path, other: str) -> None:
    lines = _planted(tmp_path, other).splitlines()
    assert "        pass" in lines
    assert sum("locked and" in line for line in lines) == 1
    assert lines.index("        pass") < next(at for at, line in enumerate(lines) if "def close" in line)


def test_a_renamed_function_and_a_moved_one_are_found(tmp_path: Path) -> None:
    once = DOOR.partition("    def close")[0]
    assert "pass" in _planted(tmp_path, once.replace("def open", "def unlock"))
    (tmp_path / "a.py").write_text("")
    assert "pass" in _planted(tmp_path, once, file="b.py")
    (tmp_path / "a.py").unlink()
    assert plant(BUG, tmp_path)[0] == tmp_path / "b.py"


def test_what_is_nowhere_or_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UprootedError, match="2 times"):
        _planted(tmp_path, DOOR.replace("def open", "def unlock"))
    with pytest.raises(UprootedError, match="0 times elsewhere"):
        _planted(tmp_path, "")


def test_later_lines_are_indented_as_the_first_one(tmp_path: Path) -> None:
    bug = Planted("b", "a.py::Door.open", "return self", "if key:\n    return self\nreturn None", ())
    assert "        if key:\n            return self\n        return None" in _planted(tmp_path, DOOR, bug)


def test_a_planted_bug_is_a_program() -> None:
    """One that cannot even be compiled would be found by every test."""
    for bug in MUTATIONS:
        file, text = plant(bug, PROGRAM)
        if file.suffix == ".py":
            ast.parse(text, bug.name)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_formatter_uproots_none(tmp_path: Path, seed: int) -> None:
    """The whole program, with lines of another length: each is found, and some of them, in turn, make the same program as before."""
    other = tmp_path / "sessiond"
    shutil.copytree(PROGRAM, other, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROGRAM.parent / "clients" / "browser", tmp_path / "clients" / "browser")
    width = 60 + seed * 13 % 140
    command = [
        "ruff",
        "format",
        "--quiet",
        "--isolated",
        "--target-version",
        "py311",
        "--line-length",
        str(width),
        other,
    ]
    subprocess.run(command, check=True, timeout=60)
    for number, bug in enumerate(MUTATIONS):
        file, text = plant(bug, other)
        if number % 20 == seed % 20 and file.suffix == ".py":
            assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(plant(bug, PROGRAM)[1])), bug.name
