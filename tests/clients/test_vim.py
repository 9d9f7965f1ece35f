"""The Vim plugin, in Vim, against a real daemon."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients import vim_scenarios
from tests.clients.vims import ROOT, WIRE, House, house, run_script, vim
from tests.programs import need

CLIENT = ROOT / "clients" / "vim"
TESTS = CLIENT / "test"
SCRIPTS = sorted(path for path in TESTS.glob("*.vim") if path.stem not in ("run", "help", "wire", "shown"))
SCRIPT = ["vim", "-Nu", "NONE", "-i", "NONE", "-es", "-S", str(TESTS / "run.vim")]
KEY = "draft:vim"


@pytest.fixture
def at() -> Iterator[House]:
    need("vim")
    with house() as made:
        yield made


@pytest.fixture
def command(at: House) -> Callable[..., list[str]]:
    need("tmux")
    return lambda *arguments: vim(at, *arguments)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_in_vim(at: House, path: Path) -> None:
    """Every test of a file under clients/vim/test passes inside Vim."""
    run_script(at, SCRIPT, path)


@pytest.mark.parametrize("wire", WIRE, ids=lambda path: path.stem)
def test_transcript(at: House, wire: Path) -> None:
    """Over the plugin's own connection layer the daemon answers as the wire transcript says."""
    run_script(at, SCRIPT, TESTS / "wire.vim", wire)


def test_what_was_typed_survives_a_killed_vim(at: House, command: Callable[..., list[str]]) -> None:
    """Killed or hung up, the next Vim shows the draft, and the daemon has it until it is sent."""
    vim_scenarios.draft_survives(at, command, KEY)


def test_leaving_keeps_draft_and_session(at: House, command: Callable[..., list[str]]) -> None:
    """`:qall` right after typing asks nothing; the daemon has the draft, and the session file the message."""
    vim_scenarios.leaving_keeps_everything(at, command, KEY)


def test_the_first_tab_completes(at: House, command: Callable[..., list[str]]) -> None:
    vim_scenarios.first_tab(at, command)


def test_a_menu_chooses_a_session(at: House, command: Callable[..., list[str]]) -> None:
    """`:SessiondSwitch` alone shows all sessions, and Enter opens the one that is marked."""
    vim_scenarios.menu_chooses(at, command, "")


def test_an_agent_is_answered(at: House, command: Callable[..., list[str]]) -> None:
    """By a popup menu, by a text, and by a word after the command; in this session, or the one that waits."""
    vim_scenarios.answers_an_agent(at, command, "j")


def test_shared_live_with_a_script(at: House, command: Callable[..., list[str]]) -> None:
    """A script's messages and streamed replies are in Vim at once, and the other way round; an interrupted reply says so."""
    vim_scenarios.shared_with_a_script(at, command, "vim")


def test_every_command_is_documented() -> None:
    """The help has a tag for every command that the plugin makes, and for nothing else."""
    made = re.findall(
        r"^command! .*?(Sessiond\w+) \w+\.", (CLIENT / "plugin" / "sessiond.vim").read_text(), re.MULTILINE
    )
    assert sorted(made) == sorted(re.findall(r"\*:(\w+)\*", (CLIENT / "doc" / "sessiond.txt").read_text()))


def test_help_is_found(at: House) -> None:
    """`:help sessiond` works without `:helptags`: the tags that are next to the help are those that Vim would make."""
    made = at.path / "doc"
    made.mkdir()
    (made / "sessiond.txt").write_text((CLIENT / "doc" / "sessiond.txt").read_text())
    terminal = at.terminal(*vim(at, "-c", f"helptags {made}", "-c", "help sessiond"))
    terminal.shows("sessiond.txt [Help]")
    assert (CLIENT / "doc" / "tags").read_text() == (made / "tags").read_text()
