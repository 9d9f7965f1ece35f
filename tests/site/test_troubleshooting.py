"""The messages that the troubleshooting page quotes are the program's own, and the commands that it names exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.site.blocks import DOCS, ROOT, invocations, parse

PAGE = (DOCS / "troubleshooting.md").read_text("utf-8")
QUOTED = [
    message.strip() for _, message in re.findall(r"^### (`+) ?(.+?) ?\1$", PAGE, re.MULTILINE)
]  # fmt: skip
INLINE = sorted(set(re.findall(r"`(sessiond [^`.]+)`", re.sub(r"^#.*$", "", PAGE, flags=re.MULTILINE))))
"""The commands in running text."""
CLIENTS = ("*.js", "*.ts", "*.vim", "*.lua", "*.el")
_GAP = "\0"
"""In place of what a template fills in."""
_MARK = re.compile(r"%[sdg]|\{[^{}]*\}")


@cache
def templates() -> tuple[str, ...]:
    """Every string of the program as Python puts it together, and every line of the clients."""
    found = [
        text
        for path in (ROOT / "sessiond").rglob("*.py")
        for text in strings(ast.parse(path.read_text("utf-8")))
        if len(text) > 8
    ]
    for pattern in CLIENTS:
        for path in (ROOT / "clients").rglob(pattern):
            if not {"node_modules", "test", "out", "dist"} & set(path.parts):
                found += path.read_text("utf-8").splitlines()
    return tuple(found)


def strings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else _GAP for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _MARK.sub(_GAP, node.value)


def is_said(message: str) -> bool:
    """Whether one template says it, each `...` standing for what is filled in."""
    pattern = re.compile(".*".join(re.escape(part) for part in message.split("...")))
    return any(pattern.search(template) for template in templates())


@pytest.mark.parametrize("message", QUOTED)
def test_the_program_says_so(message: str) -> None:
    """Each message of a heading occurs in the source."""
    assert len(message.replace("...", "").strip()) >= 8
    assert is_said(message)


def test_a_message_that_nobody_says_is_found() -> None:
    """The check fails where the page is wrong."""
    assert len(QUOTED) > 40
    assert not is_said("the daemon could not be begun: ...")
    assert not is_said("unknown key ... at [...]")


@pytest.mark.parametrize("line", INLINE)
def test_commands_exist(line: str) -> None:
    """Each command in the text is parsed by the command line itself."""
    for arguments in invocations(line):
        parse(arguments)
