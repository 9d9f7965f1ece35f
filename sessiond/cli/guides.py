"""The pages of the documentation that `sessiond help TOPIC` shows, and where the built site is.

In a wheel both are inside the package; in a checkout they are in `docs/` and, once it was built, in `site/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Guide(NamedTuple):
    """`page` is a path below `docs/`; `says` is what it is about, as one clause."""

    page: str
    says: str


GUIDES = {
    "start": Guide("tutorial.md", "a first session, two tools, outside edits, ten minutes"),
    "history": Guide("how-to/keep-your-history.md", "keep what Claude Code, Codex and other tools write"),
    "share": Guide("how-to/share-a-session.md", "share a session between Emacs, VS Code, Vim and the terminal"),
    "search": Guide("how-to/search-everything.md", "find what was said, anywhere"),
    "machines": Guide("how-to/two-machines.md", "use it from two machines"),
    "scripts": Guide("how-to/use-it-from-a-script.md", "use it from a shell or from Python"),
    "client": Guide("how-to/write-a-client.md", "write a client"),
    "backup": Guide("backup.md", "back up, restore, move to another machine"),
    "trouble": Guide("troubleshooting.md", "what a message means, and what to do"),
    "repair": Guide("how-to/what-if-it-breaks.md", "repair files, a damaged journal; start again"),
    "words": Guide("glossary.md", "what our words mean"),
    "promises": Guide("promises.md", "what is promised, and which test shows it"),
    "configuration": Guide("configuration.md", "every setting, its default, and its variable"),
    "errors": Guide("reference/errors.md", "every kind of error, and what to do"),
}
"""Topic -> its page, in the order in which they are listed."""


def folder() -> Path:
    """Return where the pages are."""
    return _beside("docs")


def site() -> Path | None:
    """The built site's first page; None if this copy was made without the site."""
    index = _beside("site") / "index.html"
    return index if index.is_file() else None


def _beside(name: str) -> Path:
    """In the package, or next to it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / name
    return installed if installed.is_dir() else package.parent / name
