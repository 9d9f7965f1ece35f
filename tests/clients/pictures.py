"""Makes every picture of the documentation from the real programs:  python -m tests.clients.pictures [GROUP]...

Beside the pictures it writes `made-from.json`: for each group a digest of the files that the pictures show. A test fails if a
picture is older than what it shows.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.shell import ROOT

FOLDER = ROOT / "docs" / "images"
RECORD = FOLDER / "made-from.json"


def _page() -> None:
    from tests.clients import page_pictures

    page_pictures.take(FOLDER)


def _terminal() -> None:
    from tests.clients import terminal_pictures
    from tests.clients.vims import house

    with house() as at:
        terminal_pictures.conversation(at)
        terminal_pictures.take(FOLDER, at)
    for look in terminal_pictures.THEMES:
        with house() as at:
            terminal_pictures.conversation(at)
            terminal_pictures.take_three(FOLDER, at, look)


def _demo() -> None:
    from tests.clients import terminal_pictures
    from tests.clients.vims import house

    with house() as at:
        terminal_pictures.record_demo(FOLDER, at)


def _vscode() -> None:
    from tests.clients import vscode_pictures

    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        vscode_pictures.take(FOLDER, Path(folder))


def _agent_host() -> None:
    from tests.clients import agent_host_pictures

    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        work = Path(folder) / "locks"
        work.mkdir()
        agent_host_pictures.take(FOLDER, work)


GROUPS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "page": (_page, ("clients/browser", "tests/clients/page_pictures.py")),
    "terminal": (
        _terminal,
        ("clients/emacs", "clients/vim", "clients/neovim", "clients/repl/sessiond_repl", "sessiond/cli/hits.py",
         "sessiond/cli/list_table.py", "sessiond/cli/tail.py", "tests/clients/terminal_pictures.py"),
    ),
    "demo": (_demo, ("sessiond/cli/demo.py", "tests/clients/terminal_pictures.py")),
    "vscode": (_vscode, ("clients/vscode/src", "clients/vscode/package.json", "tests/clients/vscode_pictures.py")),
    "agent-host": (
        _agent_host,
        ("sessiond/agent_host/shapes.py", "sessiond/agent_host/turns.py", "tests/clients/agent_host_pictures.py"),
    ),
}  # fmt: skip
"""Group -> what takes its pictures, and the files and folders that they show. Only files that git knows count."""


def digest(paths: Sequence[str]) -> str:
    """Of the contents of all files at these paths, tests of the clients excepted."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, check=True, capture_output=True).stdout
    whole = hashlib.sha256()
    for name in sorted(filter(None, listed.decode().split("\0"))):
        if "/test/" not in name and not name.endswith(".md"):
            whole.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return whole.hexdigest()[:16]


def main(groups: Sequence[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for group in groups or GROUPS:
        take, shown = GROUPS[group]
        take()
        made[group] = digest(shown)
        RECORD.write_text(json.dumps(made, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
