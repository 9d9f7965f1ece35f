"""Different editors on one session, round the circle: what one says, the next one shows, and answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients import vim_scenarios
from tests.clients.vims import ROOT, house, neovim, neovims, vim
from tests.programs import need

EMACS = ROOT / "clients" / "emacs"
LIMIT_S = 60


def emacs(folder: Path, env: dict[str, str], form: str) -> subprocess.Popen[str]:
    paths = ["-L", str(EMACS), "-L", str(EMACS / "test")]
    command = ["timeout", str(LIMIT_S), need("emacs"), "-Q", "--batch", *paths, "-l", "sessiond-live", "--eval", form]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=folder,
        text=True,
    )


@pytest.mark.timeout(180)
def test_emacs_vim_neovim_and_the_terminal_share_a_session():
    """Emacs says, Vim shows and says, Neovim shows and says, Emacs shows; the terminal has seen it all."""
    need("vim")
    editions = neovims()
    if not editions:
        need("nvim")
    with house() as at:
        client = at.client()
        client.call("session/new", sessionId="a", name="circle")
        in_vim = at.terminal(*vim(at, "sessiond://a"))
        in_neovim = at.terminal(*neovim(at, editions[0][0], "sessiond://a"))
        in_vim.shows("[circle:0]")
        in_neovim.shows("[circle:0]")
        in_emacs = emacs(
            at.path,
            {**at.env, "SESSIOND": str(at.path / "bin" / "sessiond"), "LC_ALL": "C.UTF-8"},
            '(sessiond-live-exchange "a" "Emacs から" "Neovim から")',
        )
        in_vim.shows("Emacs から")
        vim_scenarios.say(in_vim, "Vim から 🐌")
        in_neovim.shows("Vim から 🐌")
        vim_scenarios.say(in_neovim, "Neovim から")
        in_vim.shows("Neovim から")
        out, err = in_emacs.communicate(timeout=LIMIT_S + 10)
        assert in_emacs.returncode == 0, out + err
        shown = subprocess.run(
            ["sessiond", "show", "a"], env=at.env, capture_output=True, text=True, check=True, timeout=LIMIT_S
        ).stdout
        places = [shown.index(text) for text in ("Emacs から", "Vim から 🐌", "Neovim から")]
        assert places == sorted(places)
