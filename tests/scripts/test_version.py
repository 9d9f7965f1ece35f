"""The version has one source."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import sessiond
from scripts import version
from tests.shell import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with only the files that hold the version."""
    for name in (version.SOURCE, *version.COPIES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("name", version.COPIES)
def test_every_copy_says_what_the_source_says(name: str) -> None:
    """`scripts/release` writes them all; a version that somebody changed by hand in one file is noticed."""
    assert version.read(ROOT, name) == version.read(ROOT) == sessiond.__version__


def test_the_package_has_no_version_of_its_own() -> None:
    """hatch reads the source."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == version.SOURCE


def test_no_other_file_holds_the_version() -> None:
    """A file of a new client that holds it must be added to the copies."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    pattern = rf"version[^0-9]+{re.escape(sessiond.__version__)}\b"
    found = subprocess.run(
        ["git", "grep", "-liE", pattern, "--", "sessiond", "clients", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(found.stdout.splitlines()) == sorted([version.SOURCE, *version.COPIES])


def test_a_new_version_is_written_everywhere(copy: Path) -> None:
    """Nothing else in the files changes."""
    before = {name: (copy / name).read_text() for name in (version.SOURCE, *version.COPIES)}
    assert version.write(copy, "12.0.7") == list(before)
    for name, text in before.items():
        assert version.read(copy, name) == "12.0.7"
        assert (copy / name).read_text().replace("12.0.7", sessiond.__version__) == text


@pytest.mark.parametrize("wrong", ["1.2", "1.2.3rc1", "v1.2.3", "1.2.3 ", ""])
def test_a_version_is_three_numbers(copy: Path, wrong: str) -> None:
    """npm, ASDF and Emacs have no common form for anything else. Nothing is written."""
    with pytest.raises(ValueError, match="MAJOR"):
        version.write(copy, wrong)
    assert version.read(copy) == sessiond.__version__


def test_a_file_without_the_line_is_an_error(copy: Path) -> None:
    """A file whose form changed would otherwise keep the old version."""
    (copy / "clients/lisp/sessiond.asd").write_text('(defsystem "sessiond")\n')
    with pytest.raises(ValueError, match=r"sessiond\.asd must have exactly one line"):
        version.write(copy, "1.2.3")
    assert version.read(copy) == sessiond.__version__
