"""Spelling: codespell, with a list of words that it takes for mistakes and that are ours."""

from __future__ import annotations

import subprocess
import sys

from tests.shell import ROOT

NOT_PROSE = (".json", ".png", ".svg", ".cast", ".lock")
WHERE = ("*.md", "docs", "sessiond", "scripts", "examples", "clients", "changelog.d")
WORDS = ROOT / "tests" / "site" / "words.txt"


def test_what_people_read_is_spelt_right() -> None:
    """Docs, changelog, messages, comments and the clients' texts have no misspelling that codespell knows."""
    listed = subprocess.run(["git", "ls-files", "-z", *WHERE], cwd=ROOT, check=True, capture_output=True, text=True)
    names = [
        name for name in listed.stdout.split("\0") if name and "/vendor/" not in name and not name.endswith(NOT_PROSE)
    ]
    assert len(names) > 400
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(WORDS), *names]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_misspelling_is_found(tmp_path) -> None:
    """The check fails where a word is wrong."""
    (tmp_path / "page.md").write_text("This is teh page.\n")
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(WORDS), str(tmp_path)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 65
