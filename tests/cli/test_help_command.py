"""`sessiond help`: topics and commands, in a terminal and in a pipe."""

from __future__ import annotations

import pytest

from sessiond.cli.group import COMMANDS
from sessiond.cli.guides import GUIDES, folder
from tests.shell import Shell, on_terminal


def test_topics_and_commands_are_listed(shell: Shell) -> None:
    """Without an argument it lists every topic and every command that a person sees; no daemon is started."""
    done = shell("help")
    assert done.code == 0
    for name in (*GUIDES, *COMMANDS):
        assert f"\n  {name} " in done.out
    assert "welcome" not in done.out
    assert not shell.held()


@pytest.mark.parametrize("topic", GUIDES)
def test_a_topic_is_its_page(shell: Shell, topic: str) -> None:
    """In a pipe, a topic is its page as it is written."""
    done = shell("help", topic)
    assert done.code == 0
    assert done.out.startswith((folder() / GUIDES[topic].page).read_text())


def test_a_page_is_drawn_on_a_terminal(shell: Shell) -> None:
    """On a terminal, headings and code have no marks of Markdown left."""
    code, shown = on_terminal(shell, "help", "history")
    assert code == 0
    assert "Keep your history" in shown
    assert "```" not in shown
    assert "# Keep" not in shown


def test_a_command_is_its_help(shell: Shell) -> None:
    """The same text as --help, for subcommands too."""
    for words in (["list"], ["follow", "on"], ["service"]):
        assert shell("help", *words).out.strip() == shell(*words, "--help").out.strip()


def test_a_mistake_is_corrected(shell: Shell) -> None:
    """A word that is neither gets the nearest one, and exit code 2."""
    done = shell("help", "serch")
    assert done.code == 2
    assert "Did you mean 'search'?" in done.err
    assert shell("help", "follow", "in").code == 2
    assert "Did you mean 'list'?" in shell("lst").err


def test_a_topic_that_is_a_command_names_it(shell: Shell) -> None:
    """`search` is both: the page ends with where the command's help is."""
    assert "sessiond search --help" in shell("help", "search").out
