"""Session files in LSP clients that know nothing of sessiond: Emacs' eglot, Neovim's own, ALE in Vim. Real programs, a real daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.vims import House, house, neovims, run_script
from tests.programs import need

STOCK = Path(__file__).with_name("stock")


@pytest.fixture
def at() -> Iterator[House]:
    """A home with the session `a` saved in two formats, and a file with a broken line."""
    with house() as made:
        client = made.client()
        talk = [
            {"role": "user", "content": "Which lock\nis first?"},
            {"role": "assistant", "content": "zebra-word", "metadata": {"model": "m-1"},
             "toolCalls": [{"id": "c", "name": "grep", "arguments": {}}]},
        ]  # fmt: skip
        client.call("session/new", sessionId="a", name="Locks", messages=talk)
        folder = made.path / "amacs"
        folder.mkdir()
        client.call("store/adopt", path=str(folder), name="org", format="amacs")
        client.call(
            "session/new",
            sessionId="agent-chat",
            store="org",
            messages=[{"role": "user", "content": "one\ntwo"}, {"role": "assistant", "content": "three\nfour"}],
        )
        paths = {one["sessionId"]: one["path"] for one in client.call("session/save")["saved"]}
        for session_id in ("a", "org/agent-chat"):
            if session_id not in paths:
                [saved] = client.call("session/save", sessionId=session_id)["saved"]
                paths[session_id] = saved["path"]
        broken = Path(paths["a"]).with_name("broken.jsonl")
        lines = Path(paths["a"]).read_text().splitlines()
        broken.write_text("\n".join([lines[0].replace('"a"', '"broken"'), lines[1], '{"role": "user", "cont']) + "\n")
        made.env |= {
            "SESSIOND_FILE": paths["a"],
            "SESSIOND_BROKEN": str(broken),
            "SESSIOND_ORG": paths["org/agent-chat"],
        }
        yield made


def check_effects(at: House) -> None:
    """The actions had their effect: a fork of `a`; and what was only read has not changed."""
    sessions = at.home.client().call("session/list")["sessions"]
    assert [info["parent"]["sessionId"] for info in sessions if info["parent"]] == ["a"]
    assert {info["sessionId"]: info["messageCount"] for info in sessions}["a"] == 2


def test_eglot(at: House) -> None:
    """imenu, eldoc, xref, code actions and Flymake show what the daemon knows of the file."""
    emacs = need("emacs")
    if not list(Path("/usr/share/emacs/site-lisp/elpa").glob("eglot-*")):
        need("elpa-eglot")
    said = run_script(at, [emacs, "-Q", "--batch", "-l", str(STOCK / "eglot.el")], STOCK / "eglot.el")
    assert said.count("ok ") >= 8, said
    check_effects(at)


@pytest.mark.parametrize("nvim", neovims() or [("nvim", "none")], ids=lambda found: found[1])
def test_neovim(at: House, nvim: tuple[str, str]) -> None:
    """Symbols, hover, folds, code actions and diagnostics in Neovim's own client."""
    program = need(nvim[0])
    script = STOCK / "neovim.lua"
    said = run_script(at, [program, "--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {script}"], script)
    assert said.count("ok ") >= 9, said
    check_effects(at)


def test_vim_with_ale(at: House) -> None:
    """Vim has no LSP client of its own; ALE shows diagnostics, hover and symbols."""
    vim = need("vim")
    if not os.path.isdir("/usr/share/vim-ale"):
        need("vim-ale")
    script = STOCK / "ale.vim"
    said = run_script(at, [vim, "-Nu", "NONE", "-i", "NONE", "-n", "-es", "-S", str(script)], script)
    assert said.count("ok ") == 3, said
