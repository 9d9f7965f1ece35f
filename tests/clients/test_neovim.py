"""The Neovim plugin, in every installed Neovim, against a real daemon."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients import vim_scenarios
from tests.clients.vims import ROOT, WIRE, House, house, neovim, neovims, run_script, vim
from tests.programs import need
from tests.shell import wait_until

CLIENT = ROOT / "clients" / "neovim"
TESTS = CLIENT / "test"
SCRIPTS = sorted(path for path in TESTS.glob("*.lua") if path.stem not in ("run", "help", "wire", "shown"))
KEY = "draft:neovim"


@pytest.fixture(params=neovims() or [("nvim", "none")], ids=lambda found: found[1])
def nvim(request: pytest.FixtureRequest) -> str:
    """Each Neovim."""
    return need(request.param[0])


@pytest.fixture
def at(nvim: str) -> Iterator[House]:
    with house() as made:
        yield made


@pytest.fixture
def script(nvim: str) -> list[str]:
    return [nvim, "--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {TESTS / 'run.lua'}"]


@pytest.fixture
def command(at: House, nvim: str) -> Callable[..., list[str]]:
    need("tmux")
    return lambda *arguments: neovim(at, nvim, *arguments)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_in_neovim(at: House, script: list[str], path: Path) -> None:
    """Every test of a file under clients/neovim/test passes inside Neovim."""
    run_script(at, script, path)


@pytest.mark.parametrize("wire", WIRE, ids=lambda path: path.stem)
def test_transcript(at: House, script: list[str], wire: Path) -> None:
    """Over the plugin's own connection layer the daemon answers as the wire transcript says."""
    run_script(at, script, TESTS / "wire.lua", wire)


def test_what_was_typed_survives_a_killed_neovim(at: House, command: Callable[..., list[str]]) -> None:
    """Killed or hung up, the next Neovim shows the draft, and the daemon has it until it is sent."""
    vim_scenarios.draft_survives(at, command, KEY)


def test_leaving_keeps_draft_and_session(at: House, command: Callable[..., list[str]]) -> None:
    """`:qall` right after typing asks nothing; the daemon has the draft, and the session file the message."""
    vim_scenarios.leaving_keeps_everything(at, command, KEY)


def test_the_first_tab_completes(at: House, command: Callable[..., list[str]]) -> None:
    vim_scenarios.first_tab(at, command)


def test_the_first_completion_of_a_script(at: House, nvim: str) -> None:
    """Nothing but the plugin has been loaded."""
    at.client().call("session/new", sessionId="a", name="shown")
    ask = "echo getcompletion('SessiondSwitch sho', 'cmdline')"
    done = subprocess.run(
        [*neovim(at, nvim), "--headless", "-c", ask, "-c", "qall!"],
        env=at.env,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.startswith("['a  shown"), done


def test_a_menu_chooses_a_session(at: House, command: Callable[..., list[str]]) -> None:
    """`:SessiondSwitch` alone asks by vim.ui.select, here by number."""
    vim_scenarios.menu_chooses(at, command, "1")


def test_an_agent_is_answered(at: House, command: Callable[..., list[str]]) -> None:
    """By `vim.ui.select`, by a text, and by a word after the command; in this session, or the one that waits."""
    vim_scenarios.answers_an_agent(at, command, "2")


def test_shared_live_with_a_script(at: House, command: Callable[..., list[str]]) -> None:
    """A script's messages and streamed replies are in Neovim at once, and the other way round; an interrupted reply says so."""
    vim_scenarios.shared_with_a_script(at, command, "neovim")


def test_vim_and_neovim_share_a_session(at: House, command: Callable[..., list[str]]) -> None:
    """Each shows what the other says and renames, also after the daemon was killed under both."""
    need("vim")
    client = at.client()
    one = vim_scenarios.shown(at, command, client)
    two = at.terminal(*vim(at, "sessiond://a"))
    two.shows("[shown:0]")
    vim_scenarios.say(one, "Neovim から 😀")
    two.shows("Neovim から 😀")
    vim_scenarios.say(two, "Vim から 🐌")
    one.shows("Vim から 🐌")
    one.type(":SessiondName 共有", "Enter")
    two.shows("[共有:2]")
    at.kill_daemon(client)
    # A crash took nothing, and each starts the daemon again.
    one.shows("reconnected")
    two.shows("reconnected")
    vim_scenarios.say(two, "after the crash")
    one.shows("after the crash")
    one.shows("[共有:3]")
    fresh = at.client()
    assert vim_scenarios.contents(fresh, "a") == ["Neovim から 😀", "Vim から 🐌", "after the crash"]
    one.type(":qall", "Enter")
    wait_until(lambda: one.ended)


def test_every_command_is_documented() -> None:
    """The help has a tag for every command that the plugin makes, and for nothing else."""
    made = re.findall(r"^command\('(\w+)'", (CLIENT / "plugin" / "sessiond.lua").read_text(), re.MULTILINE)
    assert sorted(made) == sorted(re.findall(r"\*:Sessiond(\w+)\*", (CLIENT / "doc" / "sessiond.txt").read_text()))


def test_help_is_found(at: House, command: Callable[..., list[str]]) -> None:
    """`:help sessiond` works without `:helptags`: the tags that are next to the help are those that Neovim would make."""
    made = at.path / "doc"
    made.mkdir()
    (made / "sessiond.txt").write_text((CLIENT / "doc" / "sessiond.txt").read_text())
    terminal = at.terminal(*command("-c", f"helptags {made}", "-c", "help sessiond"))
    terminal.shows("sessiond.txt [Help]")
    assert (CLIENT / "doc" / "tags").read_text() == (made / "tags").read_text()
