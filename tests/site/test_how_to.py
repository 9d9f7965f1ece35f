"""The pages with commands: each is typed into a shell, line by line, by somebody with a home with a blank and tools of their own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import ROOT, Shell
from tests.site.blocks import DOCS, blocks, typed
from tests.test_readme import Reader

HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
OTHERS = [DOCS / f"{name}.md" for name in ("backup", "follow", "resume", "search", "stats", "tutorial")]
SESSION = "session-20260111-143022"
"""The session that examples speak of."""
TIMEOUT_S = 100
MAY_FAIL = {
    "sessiond doctor --acknowledge": "nothing was lost",
}
"""Commands that do something only after a fault."""
NOT_TYPED = {
    "stays until it is stopped": r"sessiond (tail|import --follow)",
    "starts another program": r".*--run",
    "needs an extra": r".*--semantic",
    "is of the machine that was lost": r".*\bDIR\b|(mv|mkdir) .*SESSIOND_HOME",
}
"""Why a command of a page other than a how-to page is not typed -> a pattern of such commands."""


@pytest.fixture
def reader() -> Iterator[Reader]:
    home = Shell()
    made = Reader(home)
    chats = made.path / "Downloads"
    chats.mkdir()
    (chats / "conversations.json").write_text(json.dumps([chat()]))
    (made.path / "projects").mkdir()
    shutil.copytree(ROOT / "tests" / "golden_data" / "v0.1.0" / "data" / "sessions", made.path / "saved-sessions")
    far = home.path / "bin" / "ssh"  # another machine, as far as a shell can tell
    far.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    far.chmod(0o755)
    yield made
    home.close()


def chat() -> dict[str, object]:
    """A conversation as ChatGPT exports it."""
    said = {
        "author": {"role": "user"},
        "content": {"content_type": "text", "parts": ["Which lock is taken first?"]},
        "create_time": 1.0,
    }
    nodes = {
        "a": {"id": "a", "parent": None, "children": ["b"]},
        "b": {"id": "b", "parent": "a", "children": [], "message": {"id": "b", **said}},
    }
    return {
        "title": "Locks",
        "id": "c",
        "conversation_id": "c",
        "create_time": 1.0,
        "current_node": "b",
        "mapping": nodes,
    }


def lines_of(page: Path) -> list[str]:
    """Commands, without comments."""
    found = [
        line.partition("  #")[0].strip()
        for block in blocks(page) if block.language == "console" or page in OTHERS
        for line in typed(block)
    ]  # fmt: skip
    if page in HOW_TO:
        return found
    return [
        re.sub(r"(?<![$\w])ID(?!=)\b", SESSION, line) for line in found
        if not any(re.match(pattern, line) for pattern in NOT_TYPED.values())
    ]  # fmt: skip


@pytest.mark.parametrize("page", [*HOW_TO, *OTHERS], ids=lambda page: page.stem)
def test_the_page_does_what_it_says(reader: Reader, page: Path) -> None:
    """Every command of the page succeeds, in the order of the page, in one shell."""
    if page.stem != "keep-your-history":
        assert reader.types("sessiond import --yes").returncode == 0
    if page in OTHERS:
        prepare(reader)
    lines = lines_of(page)
    assert lines
    script = "".join(f"{step(line)}\n" for line in lines)
    done = subprocess.run(
        ["bash", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=reader.env,
        cwd=reader.path,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def prepare(reader: Reader) -> None:
    """The session of the examples, and the files that they name."""
    with reader.home.client() as client:
        client.call("session/new", {"sessionId": SESSION, "name": "Lock order", "tags": ["work"]})
        said = [
            {"role": role, "content": f"TODO: the lock order, {n}"} for n, role in enumerate(("user", "assistant") * 25)
        ]
        client.call("session/append", {"sessionId": SESSION, "messages": said})
    (reader.path / "prices.json").write_text(
        '{"claude-x": {"input_cost_per_token": 0.000003, "output_cost_per_token": 0.000015}}'
    )
    for tool in ("codex", "pi", "qwen", "aider", "gemini"):
        program = reader.home.path / "bin" / tool
        program.write_text("#!/bin/sh\necho 1.0.0\n")
        program.chmod(0o755)


def step(line: str) -> str:
    """The command, and the end of the script if it fails."""
    if line in MAY_FAIL:
        return line
    return f"{line} || {{ echo 'failed: {line.translate(QUOTES)}' >&2; exit 9; }}"


QUOTES = str.maketrans("'", '"')


def test_python_of_the_pages_runs(reader: Reader) -> None:
    """Each Python block of a how-to page is a program that ends well."""
    for page in HOW_TO:
        for block in blocks(page):
            if block.language == "python":
                path = reader.path / "program.py"
                path.write_text(block.text)
                done = reader.types(f"PYTHONPATH='{ROOT}' {sys.executable} program.py")
                assert done.returncode == 0, (str(block), done.stderr)
