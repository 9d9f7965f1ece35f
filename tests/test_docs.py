"""Rules about the shape of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
COLUMNS = 100
GENERATED = {"configuration.md", "protocol.md", "performance.md", "reference"}
"""Written by programs (`sessiond.rpc.reference`, `tests.bench`, `scripts.reference_pages`), which do not wrap."""
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "changelog.d").glob("*.md"), *DOCS.rglob("*.md")])
UNBROKEN = re.compile(r"^ *(?:[-*] |\d+\. )?\S+[.,;:)]*$")
"""A line of one word, such as a link, which cannot be wrapped."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(text: str) -> list[tuple[int, str]]:
    """The numbered lines of a page that are neither code, nor of a table, nor a picture."""
    found, fence = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence and not line.startswith(("|", "    ", "<img", "![")):
            found.append((number, line))
    return found


def test_docs_lines_are_at_most_100_columns() -> None:
    """Prose is wrapped; tables, code and single words that are longer are not."""
    written = [path for path in PAGES if not {path.name, path.parent.name} & GENERATED]
    too_long = [
        f"{name(path)}:{number}"
        for path in written
        for number, line in prose(path.read_text())
        if len(line) > COLUMNS and not UNBROKEN.match(line)
    ]
    assert too_long == []


def test_links_lead_to_files() -> None:
    """Every link of a page into the project leads to a file or folder that is there, and to a heading that is in it."""
    for path in PAGES:
        text = "\n".join(line for _, line in prose(path.read_text()))
        for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            if "://" in target:
                continue
            found = path.parent / target if target else path
            assert found.exists(), (name(path), target)
            if heading:
                assert heading in headings(found.read_text()), (name(path), target, heading)


def headings(text: str) -> set[str]:
    """The anchors of a page's headings."""
    lines = (line for line in text.splitlines() if line.startswith("#"))
    return {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines}


def test_words_of_the_glossary_are_in_order() -> None:
    """Each section of the glossary is sorted, and each word in italics has an entry, or is the beginning of one."""
    text = (DOCS / "glossary.md").read_text()
    entry = r"^- \*\*(.+?)\*\*: "
    for section in text.split("\n## ")[1:]:
        words = [word.lower() for word in re.findall(entry, section, re.MULTILINE)]
        assert words == sorted(words)
    known = re.findall(entry, text, re.MULTILINE)
    for word in re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)", text.partition("\n## ")[2]):
        assert any(word.startswith(one) for one in known), word
