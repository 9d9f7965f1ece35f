"""The code blocks of the documentation, and the `sessiond` commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from sessiond.cli.group import cli

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_PUNCTUATION = set("|&;()<>")


class Block(NamedTuple):
    """A fenced block; `line` is the number of its fence in the page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        lines = [line.removeprefix(found[1]) for line in found[3].splitlines()]
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[2], "\n".join(lines) + "\n")


def typed(block: Block) -> list[str]:
    """What a reader types: all lines of a script, those after the prompt of a session in a terminal."""
    if block.language == "sh":
        return [line for line in block.text.splitlines() if line.strip()]
    if block.language == "console":
        return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]
    return []


def invocations(line: str) -> Iterator[list[str]]:
    """The arguments of each `sessiond` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:  # the quote goes on in the next line
        return
    current: list[str] | None = None
    begins = True
    for word in words:
        if set(word) <= _PUNCTUATION:
            if current is not None:
                yield current
            current, begins = None, word[0] not in "<>"
        elif current is not None:
            current.append(word)
        elif begins and word.rpartition("/")[2] == "sessiond":
            current = []
        else:
            begins = "=" in word or word.endswith("$")
    if current is not None:
        yield current


def parse(arguments: list[str]) -> None:
    """As the command line does it, without running anything. click.UsageError."""
    words = [_there(word) for word in arguments]
    try:
        context = cli.make_context("sessiond", words)
        command: click.Command = cli
        while isinstance(command, click.Group) and (rest := _rest(context)):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, found.make_context(name, rest, parent=context)
    except click.exceptions.Exit:  # --help, --version
        return


def _there(word: str) -> str:
    """A file or folder that exists here, as the one of the reader's home does on the reader's machine."""
    if not word.startswith("~/"):
        return word
    return __file__ if Path(word).suffix else "/"


def _rest(context: click.Context) -> list[str]:
    """What a group has not parsed: the name of a command and its arguments."""
    return [*getattr(context, "_protected_args", ()), *context.args]
