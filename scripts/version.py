"""The project's version. Its source is `sessiond/__init__.py`; hatch reads it from there.

Other package managers want it in files of their own. `scripts/release` writes it there too.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = "sessiond/__init__.py"
COPIES = (
    "clients/browser/package.json",
    "clients/emacs/sessiond.el",
    "clients/lisp/sessiond.asd",
    "clients/vscode/package.json",
)
_LINES = {
    ".py": r'^__version__ = "(.+)"$',
    ".json": r'^  "version": "(.+)",$',
    ".el": r"^;; Version: (.+)$",
    ".asd": r'^  :version "(.+)"$',
}
"""Suffix -> the line that holds the version; the group is the version."""
_FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def parse(version: str) -> tuple[int, int, int]:
    """The three numbers of MAJOR.MINOR.PATCH, which all the package managers accept. ValueError."""
    found = _FORM.fullmatch(version)
    if found is None:
        raise ValueError(f"invalid version {version!r} (use MAJOR.MINOR.PATCH, for example 1.2.3)")
    return int(found[1]), int(found[2]), int(found[3])


def read(root: Path, name: str = SOURCE) -> str:
    """The version in one of the files. ValueError if it has no such line, or several."""
    text, start, end = _find(root, name)
    return text[start:end]


def write(root: Path, version: str) -> list[str]:
    """Set the version in all the files; their names. ValueError, and then no file has changed."""
    parse(version)
    found = {name: _find(root, name) for name in (SOURCE, *COPIES)}
    for name, (text, start, end) in found.items():
        (root / name).write_text(text[:start] + version + text[end:], "utf-8")
    return list(found)


def _find(root: Path, name: str) -> tuple[str, int, int]:
    """A file's text, and where in it the version begins and ends."""
    text = (root / name).read_text("utf-8")
    found = list(re.finditer(_LINES[Path(name).suffix], text, re.MULTILINE))
    if len(found) != 1:
        raise ValueError(f"{name} must have exactly one line with its version, not {len(found)}")
    return text, found[0].start(1), found[0].end(1)
