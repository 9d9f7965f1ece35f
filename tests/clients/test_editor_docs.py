"""The pages under docs/editors: every piece of configuration and code on them is run in its program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.clients.everyone import lisp_command
from tests.clients.vims import ROOT, House, house, neovims
from tests.programs import need
from tests.shell import wait_until

PAGES = ROOT / "docs" / "editors"
LIMIT_S = 60
DEFINED = re.compile(
    r"\((?:sessiond-test|ert-deftest|deftest) (?:sessiond-)?([\w-]+)|^ *def (?:g:Test_)?(\w+)\(|^    '([a-z].*)',$",
    re.MULTILINE,
)
"""A test in Emacs Lisp or Lisp, in Vim or Python, in Lua."""
SUFFIXES = (".py", ".el", ".vim", ".lua", ".lisp")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def at() -> Iterator[House]:
    with house() as made:
        yield made


def snippets(page: str, language: str) -> list[str]:
    """The pieces of a page in a language, with the paths of this checkout."""
    text = (PAGES / f"{page}.md").read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page}.md has no {language}"
    return [piece.replace("/path/to/clients/", f"{ROOT}/clients/") for piece in found]


def run(at: House, *command: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["timeout", str(LIMIT_S), *command], input=stdin, capture_output=True, text=True, env=at.env, check=False, cwd=at.path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def names(at: House) -> list[str | None]:
    return [info["name"] for info in at.client().call("session/list")["sessions"]]


def said(at: House) -> list[str]:
    client = at.client()
    session = client.call("session/list")["sessions"][0]["sessionId"]
    return [message["content"] for message in client.call("session/read", sessionId=session)["messages"]]


def test_emacs(at: House) -> None:
    """The line of the configuration is enough for M-x sessiond-new, and the code next to it does what it says."""
    setup, code, gptel = snippets("emacs", "elisp")
    (at.path / "init.el").write_text(setup + gptel)
    (at.path / "code.el").write_text(code)
    form = '(progn (call-interactively (function sessiond-new)) (load-file "code.el") (while (sessiond-pending-p) (sit-for 0.01)))'
    run(at, need("emacs"), "-Q", "--batch", "-l", "init.el", "--eval", form)
    assert sorted(map(str, names(at))) == ["From Lisp", "None"]
    assert said(at) == ["Hello"]


def conversation(at: House, screen, page: str) -> None:
    """The input that the page asks for, typed."""
    typed = snippets(page, "vim")
    commands = next(piece for piece in typed if piece.startswith(":")).splitlines()
    for command in commands:
        screen.type(command, "Enter")
        if command.startswith(":SessiondNew "):
            screen.shows(f"[{command.removeprefix(':SessiondNew ')}:0]")
    wait_until(lambda: said(at) == [commands[-1].removeprefix(":SessiondSay ")])
    screen.shows(":1]")


def test_vim(at: House) -> None:
    """With the lines of the page as the whole vimrc its commands work, and the status line is right."""
    need("tmux")
    vimrc, _, statusline = snippets("vim", "vim")
    (at.path / ".vimrc").write_text("set nocompatible nomore\n" + vimrc + statusline)
    conversation(at, at.terminal(need("vim"), "-i", "NONE", "-n"), "vim")


@pytest.mark.parametrize("nvim", neovims() or [("nvim", "none")], ids=lambda found: found[1])
def test_neovim(at: House, nvim: tuple[str, str]) -> None:
    """With the lines of the page as the whole init.lua its commands work, in every Neovim, and the status line is right."""
    need("tmux")
    setup, statusline, command = snippets("neovim", "lua")
    folder = at.path / ".config" / "nvim"
    folder.mkdir(parents=True)
    command = command.replace("/path/to/sessiond", str(at.path / "bin" / "sessiond"))
    (folder / "init.lua").write_text(setup + statusline + command)
    conversation(at, at.terminal(need(nvim[0]), "-i", "NONE", "-n"), "neovim")


def test_terminal(at: House) -> None:
    """The agent's line of the page runs as it is there, and its answer is kept."""
    (agent,) = snippets("terminal", "sh")
    at.env["PYTHONPATH"] += os.pathsep + str(ROOT / "clients" / "repl")
    out = run(at, "sh", stdin=agent)
    assert "there are 1 so far" in out
    assert said(at) == ["how many messages are there?", "there are 1 so far"]


def test_lisp(at: House) -> None:
    """The lines of the page load the system, and its program does what it says."""
    setup, program, repl = snippets("lisp", "lisp")
    (at.path / "program.lisp").write_text(setup + program)
    run(at, *lisp_command(at), "--load", "program.lisp", "--quit")
    assert names(at) == ["Auth bug"]
    assert said(at) == ["Fix the bug in auth.lisp", "Looking at auth.lisp ..."]
    first = repl.splitlines()[0]
    assert "to come back" in first
    out = run(at, *lisp_command(at), "--eval", first, "--quit", stdin="kept 保\n/quit\n")
    assert "To go on: (sessiond:start-repl :session-id" in out
    assert said(at) == ["kept 保"]


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.md")))
def test_links(page: str) -> None:
    """Every link of a page into the project leads to a file that is there."""
    for target in re.findall(r"\]\(([^)#]+)", (PAGES / f"{page}.md").read_text()):
        assert "://" in target or (PAGES / target).is_file(), target


def test_setup_prints_what_the_page_says(at: House) -> None:
    """`sessiond setup EDITOR` prints the first piece of the editor's page."""
    for page, language in (("emacs", "elisp"), ("vim", "vim"), ("neovim", "lua"), ("lisp", "lisp")):
        assert snippets(page, language)[0] in run(at, "sessiond", "setup", page)


def defined(*folders: str) -> set[str]:
    """The names of all tests and files under these folders, as tests/clients/README.md writes them."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    found = {name for path in paths for name in (path.name, path.stem.removeprefix("sessiond-"))}
    for path in paths:
        for groups in DEFINED.findall(path.read_text()):
            found.add(re.sub(r"[^\w -]", "", "".join(groups)).replace(" ", "_"))
    return found


def test_the_table_names_tests() -> None:
    """Every test that tests/clients/README.md names is there, by that name or one that continues after it, in the suite of its column."""
    here, emacs, vim, neovim = (
        defined(name) for name in ("tests", *(f"clients/{one}/test" for one in ("emacs", "vim", "neovim")))
    )
    lisp = defined("clients/lisp/test") | {f"wire-{path.stem}" for path in (ROOT / "tests" / "wire").glob("*.wire")}
    suites = [[emacs], [here | vim, here | neovim], [here], [lisp]]
    everything = [here | emacs | vim | lisp]
    lines = (ROOT / "tests" / "clients" / "README.md").read_text().splitlines()
    rows = [line.split("|")[2:-1] for line in lines if line.startswith("| ")]
    named = [
        (name, suite)
        for cells in rows
        for column, cell in zip(suites if len(cells) > 1 else [everything], cells, strict=True)
        for name in re.findall(r"`([\w.-]+)`", cell)
        for suite in column
    ]
    assert len(named) > 100
    assert [name for name, suite in named if not any(f"{one}_".startswith(f"{name}_") for one in suite)] == []
