"""What clients show of a shared store while its link is cut and healed: shared, waiting, offline since."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from sessiond.cli.status import hub_in_brief
from sessiond.client import HubStatus, connect
from tests.clients import vims, vscodes
from tests.clients.everyone import need_lisp
from tests.clients.test_emacs import CLIENT, Emacs, ended, quoted
from tests.clients.tmux import Terminal
from tests.shared.conftest import Machines
from tests.shared.machines import STORE, until, until_same
from tests.shared.test_sharing import shared_session
from tests.shell import ROOT, Shell

REPL = str(ROOT / "clients" / "repl")


def test_the_three_states_in_words() -> None:
    """A time of today has no date."""
    long_ago = HubStatus(state="offline", since="2026-01-11T14:30:22.000Z", pending=3)
    assert re.fullmatch(r"offline since 2026-01-1\d \d\d:\d\d, 3 waiting", hub_in_brief(long_ago))
    assert hub_in_brief(HubStatus(state="offline")) == "offline"
    assert hub_in_brief(HubStatus(state="online", since="2026-01-11T14:30:22.000Z", pending=3)) == "3 waiting"
    assert hub_in_brief(HubStatus(state="online")) == "shared"


def test_the_terminal_shows_what_is_shared(machines: Machines, tmp_path: Path) -> None:
    """In the line below the prompt, and a hub that is lost or back also above it; nothing in a session that is not shared."""
    a, b = machines(2)
    session = shared_session(a, b)
    b.until_shared()
    paths = os.pathsep.join((str(ROOT), REPL))
    env = {**b.home.env, "PYTHONPATH": paths}
    terminal = Terminal([sys.executable, "-m", "sessiond", "repl", "--session-id", session], env, tmp_path)
    try:
        assert "── user (Ada) #1 " in terminal.shows("[one:1]  shared")
        b.link.cut()
        terminal.shows("[one:1]  offline since ")
        terminal.type("from b", "Enter")
        screen = terminal.shows(" waiting")  # the message, and drafts of it
        assert re.search(r"\[one:[12]\]  offline since \d\d:\d\d, \d+ waiting", screen), screen
        assert re.search(r"── team: offline since \d\d:\d\d", screen), screen
        b.link.heal()
        terminal.shows("[one:2]  shared")
        until_same([a, b])
        assert a.texts(session) == ["first", "from b"]
        terminal.type("/new mine", "Enter")
        screen = terminal.shows("[mine:0]")
        assert "shared" not in screen.splitlines()[-1] + screen.partition("[mine:0]")[2]
        terminal.type("/quit", "Enter")
        until(lambda: terminal.ended)
    finally:
        terminal.close()


def test_emacs_shows_what_is_shared(machines: Machines, shell: Shell) -> None:
    """In the mode line: it asks once, and is told from then on."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.until_shared()
    shell.env["SESSIOND_HOME"] = machine.home.env["SESSIOND_HOME"]
    emacs = Emacs(shell, CLIENT)
    words = ("shared\\'", "offline since [0-9:]+\\'", "offline since [0-9:]+, 1 waiting\\'", "shared\\'")
    process = emacs.start(f"(sessiond-live-mode-line {quoted(session)} '({' '.join(map(quoted, words))}))")
    assert process.stderr is not None
    said = []

    def line() -> str:
        said.append(next((one for one in process.stderr or () if "[one:" in one), ""))
        return said[-1].strip()

    assert line() == "[one:1] shared"
    machine.link.cut()
    assert line().startswith("[one:1] offline since ")
    machine.append(session, "waits")
    assert line().endswith(", 1 waiting")
    machine.link.heal()
    assert line() == "[one:2] shared"
    ended(process)


@pytest.mark.parametrize("editor", ["vim", "neovim"])
def test_vim_shows_what_is_shared(machines: Machines, editor: str) -> None:
    """In the status line, and nothing there for a session that is not shared."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.until_shared()
    with vims.house() as at:
        at.env["SESSIOND_HOME"] = machine.home.env["SESSIOND_HOME"]
        if editor == "vim":
            command = vims.vim(at, f"sessiond://{session}")
        else:
            found = vims.neovims()
            if not found:
                pytest.fail("no Neovim is installed") if os.environ.get("CI") else pytest.skip("no Neovim is installed")
            command = vims.neovim(at, found[-1][0], f"sessiond://{session}")
        terminal = at.terminal(*command)
        assert "▌ user (Ada) · " in terminal.shows("[one:1] shared")
        machine.link.cut()
        terminal.shows("[one:1] offline since ")
        machine.append(session, "waits")
        assert re.search(r"\[one:2\] offline since \d\d:\d\d, 1 waiting", terminal.shows(", 1 waiting"))
        machine.link.heal()
        terminal.shows("[one:2] shared")
        terminal.type(":SessiondNew mine", "Enter")
        screen = terminal.shows("[mine:0]")
        assert "shared" not in screen.partition("[mine:0]")[2]
        terminal.type(":qa!", "Enter")
        until(lambda: terminal.ended)


def test_lisp_shows_what_is_shared(machines: Machines, tmp_path: Path) -> None:
    """In the prompt, and a hub that is lost or back has a line of its own; nothing in a session that is not shared."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.until_shared()
    program = tmp_path / "sessiond"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sessiond "$@"\n')
    program.chmod(0o755)
    env = {**machine.home.env, "PYTHONPATH": str(ROOT), "SESSIOND": str(program), "XDG_CACHE_HOME": str(tmp_path)}
    steps = (
        "(require :asdf)",
        f'(push #p"{ROOT / "clients" / "lisp"}/" asdf:*central-registry*)',
        "(defvar *nobody* (make-broadcast-stream))",
        '(let ((*standard-output* *nobody*) (*error-output* *nobody*)) (asdf:load-system "sessiond"))',
        f'(sessiond:start-repl :session-id "{session}")',
    )
    evals = [word for step in steps for word in ("--eval", step)]
    terminal = Terminal([need_lisp(), "--noinform", "--no-userinit", "--non-interactive", *evals], env, tmp_path)
    try:
        assert "user (Ada): first" in terminal.shows("[one:1] shared>")
        machine.link.cut()
        terminal.shows("(team: offline since ")
        terminal.shows("[one:1] offline since ")
        terminal.type("from Lisp", "Enter")
        assert re.search(r"\(team: offline since \d\d:\d\d, \d+ waiting\)", terminal.shows(" waiting)"))
        assert re.search(r"\[one:2\] offline since \d\d:\d\d, \d+ waiting>", terminal.shows(" waiting>"))
        machine.kill()
        machine.home.start()
        machine.link.heal()
        terminal.shows("(team: shared)")
        machine.until_shared()
        terminal.type("/name two", "Enter")
        terminal.shows("[two:2] shared>")
        assert machine.texts(session) == ["first", "from Lisp"]
        terminal.type("/new mine", "Enter")
        terminal.shows("[mine:0]>")
        terminal.type("/quit", "Enter")
        until(lambda: terminal.ended)
    finally:
        terminal.close()


@pytest.mark.timeout(300)
def test_vscode_shows_what_is_shared(machines: Machines) -> None:
    """In the status bar."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.call("session/update", sessionId=session, name="Ours")
    machine.until_shared()
    vscodes.installed()
    vscodes.build()
    with vims.house() as at:
        (at.path / "work").mkdir()
        at.env["SESSIOND_HOME"] = machine.home.env["SESSIOND_HOME"]
        with vscodes.whole(at, vscodes.package(at), at.path / "work") as page:
            page.get_by_role("tab", name="Sessions").click()
            vscodes.rows(page).filter(has_text="Ours").click()
            page.get_by_role("button", name=re.compile("Ours:1 shared")).wait_for()
            machine.link.cut()
            page.get_by_role("button", name=re.compile(r"Ours:1 offline since \d\d:\d\d")).wait_for()
            machine.append(session, "waits")
            page.get_by_role("button", name=re.compile(r"Ours:2 offline since \d\d:\d\d, 1 waiting")).wait_for()
            machine.link.heal()
            page.get_by_role("button", name=re.compile("Ours:2 shared")).wait_for()


def test_the_client_of_python_is_told_of_the_hub(machines: Machines) -> None:
    """Before `changes` returns, when the hub is lost, and again by a daemon that was started anew."""
    [machine] = machines(1)
    session = shared_session(machine)
    machine.until_shared()
    told: list[tuple[str, HubStatus]] = []

    def states() -> list[str]:
        assert {store for store, _ in told} <= {STORE}
        return [hub.state for _, hub in told]

    def shows(state: str, pending: int) -> bool:
        changes.wait(0.05)
        return bool(told) and (told[-1][1].state, told[-1][1].pending) == (state, pending)

    with connect(home=str(machine.home.path), start=False) as sessiond:
        changes = sessiond.session(session).changes(on_hub=lambda store, hub: told.append((store, hub)))
        assert states() == ["online"]
        machine.link.cut()
        until(lambda: shows("offline", 0))
        machine.append(session, "waits")
        until(lambda: shows("offline", 1))
        assert set(states()) == {"online", "offline"}
        told.clear()
        machine.kill()
        machine.home.start()
        until(lambda: shows("offline", 1))
        machine.link.heal()
        until(lambda: shows("online", 0))
