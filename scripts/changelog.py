"""The changelog and its fragments: python -m scripts.changelog shows what is not released yet.

A fragment is a file `changelog.d/SUBJECT.KIND.md` with the text of one entry, so two branches that each add an entry never
conflict. A release moves the fragments into `CHANGELOG.md`, whose form is that of Keep a Changelog 1.1.
"""

from __future__ import annotations

import datetime
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FILE = "CHANGELOG.md"
FOLDER = "changelog.d"
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""In the order in which a release lists them."""
COLUMNS = 100
_README = "README.md"
_UNRELEASED = "## [Unreleased]\n"


class Fragment(NamedTuple):
    """One entry that is not in the changelog yet."""

    path: Path
    kind: str
    text: str

    def entry(self) -> str:
        """As a bullet of the changelog."""
        return textwrap.fill(
            self.text,
            COLUMNS,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def fragments(root: Path) -> list[Fragment]:
    """All fragments, in the order of their names. ValueError for a file that is not a fragment."""
    found = []
    for path in sorted((root / FOLDER).iterdir()):
        if path.name == _README:
            continue
        name = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", path.name)
        if name is None or name[1] not in KINDS:
            raise ValueError(f"{FOLDER}/{path.name} must be called SUBJECT.KIND.md (KIND: {', '.join(KINDS)})")
        text = " ".join(path.read_text("utf-8").split())
        if not text or text.startswith(("-", "*", "#")):
            raise ValueError(f"{FOLDER}/{path.name} must be one entry: sentences, without a bullet or heading")
        found.append(Fragment(path, name[1], text))
    return found


def unreleased(text: str, added: Iterable[Fragment]) -> str:
    """The body of the next release: what the changelog has under Unreleased, and the fragments. ValueError."""
    entries = _entries(_split(text)[1])
    for fragment in added:
        entries.setdefault(fragment.kind, []).append(fragment.entry())
    return "\n\n".join(f"### {kind.title()}\n\n" + "\n".join(entries[kind]) for kind in KINDS if kind in entries)


def release(text: str, added: Iterable[Fragment], version: str, day: datetime.date) -> str:
    """The changelog with all that as the section of `version`. ValueError if it has such a section, or there is nothing new."""
    if f"\n## [{version}]" in text:
        raise ValueError(f"{FILE} already has a section for {version}")
    body = unreleased(text, added)
    if not body:
        raise ValueError(f"nothing to release: {FOLDER} has no entries, and {FILE} has none under Unreleased")
    before, _, after = _split(text)
    return f"{before}{_UNRELEASED}\n## [{version}] - {day.isoformat()}\n\n{body}\n{after and chr(10)}{after}"


def _split(text: str) -> tuple[str, str, str]:
    """What is before, in and after the section Unreleased. ValueError if that is missing."""
    before, heading, rest = text.partition(_UNRELEASED)
    if not heading:
        raise ValueError(f"{FILE} has no section {_UNRELEASED.strip()!r}")
    body, older, after = rest.partition("\n## ")
    return before, body, f"## {after}" if older else ""


def _entries(body: str) -> dict[str, list[str]]:
    """The entries of a section by kind. ValueError for a heading or text in no group."""
    found: dict[str, list[str]] = {}
    first, *groups = re.split(r"^### ", body, flags=re.MULTILINE)
    if first.strip():
        raise ValueError(f"{FILE}: text under Unreleased that is in no group: {first.strip()[:40]!r}")
    for group in groups:
        heading, _, entries = group.partition("\n")
        if heading.lower() not in KINDS:
            raise ValueError(f"{FILE}: unknown group {heading!r} (one of {', '.join(KINDS)})")
        found[heading.lower()] = [entries.strip()]
    return found


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    try:
        print(unreleased((root / FILE).read_text("utf-8"), fragments(root)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
