"""Every command and code block of the documentation is one that works: its options exist, and it can be parsed."""

from __future__ import annotations

import ast
import json
import tomllib

import click
import pytest

from sessiond.cli.examples import EXAMPLES
from sessiond.cli.group import COMMANDS, cli
from tests.site.blocks import PAGES, Block, blocks, invocations, parse, typed

BLOCKS = [block for page in PAGES for block in blocks(page)]
WITH_COMMANDS = [block for block in BLOCKS if any("sessiond" in line for line in typed(block))]


@pytest.mark.parametrize("block", WITH_COMMANDS, ids=str)
def test_commands_have_these_options(block: Block) -> None:
    """Each `sessiond` of a block is parsed by the command line itself."""
    for line in typed(block):
        for arguments in invocations(line):
            parse(arguments)


def test_an_option_that_does_not_exist_is_found() -> None:
    """The check fails where a page is wrong."""
    for line in ("x | sessiond append ID --rol user", "sessiond nosuch", "sessiond follow in"):
        (arguments,) = invocations(line)
        with pytest.raises(click.UsageError):
            parse(arguments)


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "python"], ids=str)
def test_python_is_python(block: Block) -> None:
    """A block of Python compiles."""
    ast.parse(block.text)


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language in ("json", "toml")], ids=str)
def test_data_is_data(block: Block) -> None:
    """A block of JSON or TOML is a document, or several one after the other."""
    if block.language == "toml":
        tomllib.loads(block.text)
        return
    decoder, rest = json.JSONDecoder(), block.text.replace("{ ... }", "{}").strip()
    while rest:
        _, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()


def leaves(group: click.Group, prefix: str = "") -> list[str]:
    """The full names of all commands that a person sees."""
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += leaves(command, f"{prefix}{name} ")
        elif not command.hidden:
            found.append(prefix + name)
    return found


def test_each_command_has_examples() -> None:
    """Each command and subcommand has one at least, and none is of a command that does not exist."""
    assert set(EXAMPLES) == set(leaves(cli))
    assert len(leaves(cli)) > len(COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_of_their_command(name: str) -> None:
    """An example runs the command under whose help it is shown, with options that exist, in a line that fits."""
    for example in EXAMPLES[name]:
        assert len(example.line) <= 90
        assert not example.says.endswith(".")
        found = list(invocations(example.line))
        assert any(arguments[: len(name.split())] == name.split() for arguments in found)
        for arguments in found:
            parse(arguments)
