"""The table of tiers, and what is taken of it."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import promises
from tests.shell import ROOT
from tests.suite import needs
from tests.suite.selection import dealt
from tests.suite.tiers import BUDGETS, TABLE, Tier, lowest_in, tier_of

U, R, A = Tier.UNIT, Tier.RUN, Tier.ALL
SOME = {
    "tests": R,
    "tests/a": U,
    "tests/a/test_b.py": A,
    "tests/a/test_b.py::test_c": R,
    "tests/a/test_b.py::test_d[x/y]": U,
}


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("tests/other/test_x.py::test_x", R),
        ("tests/a/test_x.py::Class::test_x[a::b/c]", U),
        ("tests/a/test_b.py::test_x", A),
        ("tests/a/test_b.py::test_c[1]", R),
        ("tests/a/test_b.py::test_d[x/y]", U),
        ("tests/a/test_b.py::test_d[z]", A),
        ("tests/ab/test_x.py", R),
    ],
)
def test_the_longest_beginning_decides(name: str, tier: Tier) -> None:
    assert tier_of(name, SOME) is tier


def test_a_file_is_looked_into_if_any_of_its_tests_may_be_taken() -> None:
    assert (lowest_in("tests/a/test_b.py", SOME), lowest_in("tests/a", SOME), lowest_in("tests/c", SOME)) == (U, U, R)


def test_each_line_of_the_tables_speaks_of_something() -> None:
    """Of a folder, a file, or a test that is in its file."""
    for name in (*TABLE, *needs.NEEDS):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        if test:
            assert f"def {test.partition('[')[0].rpartition('::')[2]}(" in (ROOT / path).read_text(), name


def test_each_tier_has_a_budget() -> None:
    assert set(BUDGETS) == set(Tier)


def test_unit_tests_run_no_daemon_and_no_other_program() -> None:
    """Neither by themselves nor by what they import from here."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if lowest_in(path.relative_to(ROOT).as_posix()) is Tier.UNIT and path.parent.name != "suite":
            imported = re.findall(r"^(?:from|import) ([\w.]+)", path.read_text(), re.MULTILINE)
            assert not {"tests.programs", "tests.shell", "tests.home", "tests.zygote"}.intersection(imported), path


def item(name: str) -> Any:
    return SimpleNamespace(nodeid=name)


def test_files_that_take_long_begin_each_part() -> None:
    """And the tests of a file stay together, in their order."""
    files = {"tests/test_short.py": 4, "tests/test_longest.py": 3, "tests/test_long.py": 3, "tests/test_unknown.py": 2}
    items = [item(f"{file}::test_{number}") for file, count in files.items() for number in range(count)]
    seconds = {"tests/test_short.py": 1.0, "tests/test_longest.py": 60.0, "tests/test_long.py": 50.0}
    found = [one.nodeid for one in dealt(items, seconds, 2)]
    assert sorted(found) == sorted(one.nodeid for one in items)
    assert found[0] == "tests/test_longest.py::test_0"
    assert found[len(found) // 2 + 1] == "tests/test_long.py::test_0"
    assert [name for name in found if "short" in name] == [f"tests/test_short.py::test_{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("arguments", "wanted", "unwanted"),
    [
        (["tests/store"], {"extra:dev"}, {"agents", "vscode", "apt:emacs-nox", "apt:chromium"}),
        (["tests/store/test_files.py::test_x", "-x"], {"extra:dev"}, {"agents", "vscode", "apt:emacs-nox"}),
        (["tests/clients/test_vim.py"], {"apt:vim", "vscode"}, {"agents"}),
        ([], {"agents", "vscode", "apt:emacs-nox", "apt:chromium", "inspector"}, set()),
        (["-x"], {"agents"}, set()),
    ],
)
def test_what_is_installed_is_what_the_named_tests_use(
    arguments: list[str], wanted: set[str], unwanted: set[str]
) -> None:
    command = [sys.executable, "-m", "tests.suite.needs", *arguments]
    words = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    assert wanted <= words
    assert not unwanted & words


def test_the_installer_needs_no_more_than_python() -> None:
    """It runs before anything is installed."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import tests.suite.needs",
    ]
    subprocess.run(command, check=True)


def test_each_promise_names_its_tier() -> None:
    """`python -m scripts.promises` writes them. Each names at least one test."""
    page = promises.PAGE.read_text()
    assert promises.with_tiers(page) == page, "run python -m scripts.promises"
    rows = page.partition("| --- | --- | --- | --- | --- |\n")[2].partition("\n\n")[0].splitlines()
    assert len(rows) > 70
    assert all(row.split(" | ")[2] for row in rows)


def test_the_planted_bugs_of_each_promise_are_listed() -> None:
    assert promises.BUGS_PAGE.read_text() == promises.bugs_page(promises.PAGE.read_text()), (
        "run python -m scripts.promises"
    )


def test_two_files_of_tests_have_one_name_only_in_packages() -> None:
    """Otherwise the second cannot be imported, or the first, by the order in which they are found."""
    loose = [path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    names = [path.name for path in loose]
    assert [path for path in loose if names.count(path.name) > 1] == []
