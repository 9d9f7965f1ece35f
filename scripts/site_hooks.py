"""What mkdocs does to pages beyond its configuration. mkdocs calls these functions by their names.

Pages link to other files of the sources, which the site does not have: such a link becomes the file's path. The index of
decisions is made from the decisions. A prompt is not copied with the command after it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_PROMPT = re.compile(r'<span class="gp">([$#] ?)</span>')
_HEADING = re.compile(r"^# (\d+)\. (.+)$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the index of decisions, and each decision below it in the navigation."""
    from mkdocs.structure.files import File

    rows = []
    for path in sorted(Path(config.docs_dir, "decisions").glob("[0-9]*.md")):
        heading = _HEADING.search(path.read_text("utf-8"))
        assert heading is not None, path
        rows.append(f"- [{heading[1]}. {heading[2]}]({path.name})")
    text = "# Decisions\n\nEach record says what was decided, why, and what else was considered.\n\n" + "\n".join(rows)
    files.append(File.generated(config, "decisions/index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links that leave the site."""
    folder = os.path.dirname(page.file.src_uri)

    def without(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if "://" in target:
            return found[0]
        path = os.path.normpath(os.path.join(folder, target))
        known = files.get_file_from_path(path)
        if known is not None and known.inclusion.is_included():  # type: ignore[no-untyped-call]
            return found[0]
        shown = os.path.normpath(os.path.join("docs", path))
        return f"{text} (`{shown}`)" if text.strip("`") not in (shown, os.path.basename(shown)) else f"`{shown}`"

    return _LINK.sub(without, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let css/site.css show the prompts, so that the copy button takes only what is typed."""
    return _PROMPT.sub(r'<span class="gp" data-prompt="\1"></span>', html)
