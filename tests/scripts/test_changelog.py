"""The changelog keeps its form, and fragments go into it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from scripts import changelog
from tests.shell import ROOT

DAY = datetime.date(2026, 3, 1)
OLD = """# Changelog

Words.

## [Unreleased]

### Fixed

- Written by hand.

## [0.1.0] - 2026-01-01

### Added

- Everything.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with an empty folder of fragments."""
    (tmp_path / changelog.FOLDER).mkdir()
    (tmp_path / changelog.FOLDER / "README.md").write_text("How to.\n")
    return tmp_path


def put(folder: Path, name: str, text: str) -> None:
    (folder / changelog.FOLDER / name).write_text(text)


def test_what_is_not_released_can_be_released() -> None:
    """The changelog and the fragments of this checkout have the form that a release needs."""
    text = (ROOT / changelog.FILE).read_text()
    released = changelog.release(text, changelog.fragments(ROOT), "999.0.0", DAY)
    assert "## [Unreleased]\n\n## [999.0.0] - 2026-03-01\n\n### Added\n\n- " in released


def test_fragments_join_what_was_written_by_hand(folder: Path) -> None:
    """By kind, in the order of Keep a Changelog; long entries are wrapped; older releases keep their text."""
    put(folder, "b.added.md", "A new\ncommand.\n")
    put(folder, "a.fixed.md", "word " * 30)
    put(folder, "c.security.md", "A hole is closed.")
    done = changelog.release(OLD, changelog.fragments(folder), "0.2.0", DAY)
    words = " ".join(["word"] * 19)
    assert done == (
        "# Changelog\n\nWords.\n\n## [Unreleased]\n\n## [0.2.0] - 2026-03-01\n\n"
        "### Added\n\n- A new command.\n\n"
        f"### Fixed\n\n- Written by hand.\n- {words}\n  {' '.join(['word'] * 11)}\n\n"
        "### Security\n\n- A hole is closed.\n\n"
        "## [0.1.0] - 2026-01-01\n\n### Added\n\n- Everything.\n"
    )


def test_the_next_release_starts_from_an_empty_section(folder: Path) -> None:
    """What a release wrote can be released again only with something new, and under another version."""
    done = changelog.release(OLD, [], "0.2.0", DAY)
    with pytest.raises(ValueError, match="nothing to release"):
        changelog.release(done, changelog.fragments(folder), "0.3.0", DAY)
    put(folder, "x.removed.md", "An option.")
    with pytest.raises(ValueError, match=r"already has a section for 0\.2\.0"):
        changelog.release(done, changelog.fragments(folder), "0.2.0", DAY)
    again = changelog.release(done, changelog.fragments(folder), "0.3.0", DAY)
    assert again.index("[0.3.0]") < again.index("- An option.") < again.index("[0.2.0]") < again.index("[0.1.0]")


def test_the_first_release_has_none_before_it() -> None:
    """The text ends with one line break."""
    first = OLD.partition("\n## [0.1.0]")[0]
    assert changelog.release(first, [], "0.1.0", DAY).endswith(
        "[0.1.0] - 2026-03-01\n\n### Fixed\n\n- Written by hand.\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.md", "Text."),
        ("x.feature.md", "Text."),
        ("x.added.txt", "Text."),
        ("x.added.md", " \n"),
        ("x.added.md", "- Text."),
    ],
)
def test_a_file_that_is_not_a_fragment_is_an_error(folder: Path, name: str, text: str) -> None:
    """A release would otherwise leave it out, or spoil the list."""
    put(folder, name, text)
    with pytest.raises(ValueError, match=name):
        changelog.fragments(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("### Fixed", "### Repaired", "unknown group 'Repaired'"),
        ("### Fixed", "Fixed:", "in no group: 'Fixed:"),
        ("[Unreleased]", "Unreleased", "has no section"),
    ],
)
def test_a_section_of_another_form_is_an_error(old: str, new: str, message: str) -> None:
    """Its entries would otherwise be lost."""
    with pytest.raises(ValueError, match=message):
        changelog.unreleased(OLD.replace(old, new, 1), [])
