"""*Resume in…* in each client: the real program starts `sessiond resume` in a terminal, and the copy is there."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sessiond.cli.resume import TOOLS
from tests.clients.browsers import PATIENCE_MS, Web, browser, say, web
from tests.clients.terminal_pictures import conversation, emacs, in_neovim, in_vim
from tests.clients.tmux import Terminal
from tests.clients.vims import ROOT, House, house
from tests.shell import wait_until

__all__ = ["browser", "web"]
OTHERS = sorted(set(TOOLS) - {"sessiond"})
SOURCES = [
    "clients/emacs/sessiond-commands.el",
    "clients/vim/autoload/sessiond/resume.vim",
    "clients/neovim/lua/sessiond/resume.lua",
    "clients/vscode/src/commands.ts",
    "clients/browser/page/views/resume.js",
]
STARTED = {
    "emacs": (emacs, ("M-x",), "sessiond-resume", "claude"),
    "vim": (in_vim, (), ":SessiondResume claude", None),
    "neovim": (in_neovim, (), ":SessiondResume claude", None),
}


def stub(at: House) -> None:
    """A `claude` that says what it was started with, and stays."""
    path = at.path / "bin" / "claude"
    path.write_text('#!/bin/sh\necho "stub: $*"\nsleep 60\n')
    path.chmod(0o755)


@pytest.mark.parametrize("editor", STARTED)
def test_an_editor_goes_on_in_another_tool(editor: str) -> None:
    """A terminal opens in the editor, the copy is a file of the other tool's, and the tool is started with its id."""
    start, keys, typed, answer = STARTED[editor]
    with house() as at:
        conversation(at)
        client = at.client()
        client.call("session/update", sessionId="locks", cwd=str(at.path))
        client.close()
        stub(at)
        place = at.path / "terminal"
        place.mkdir()
        terminal = Terminal(start(at, "light"), at.env, place, 120, 40)
        try:
            terminal.shows("written down?")
            terminal.type("", *keys)
            terminal.say(typed)
            if answer:
                terminal.shows("Go on in:")
                terminal.say(answer)
            shown = terminal.shows("stub: ")
            copies = list((at.path / ".claude" / "projects").rglob("*.jsonl"))
            assert len(copies) == 1
            assert "Which lock is taken first?" in copies[0].read_text()
            assert copies[0].stem in re.sub(r"\s", "", shown)
        finally:
            terminal.close()


@pytest.mark.parametrize("editor", ["vim", "neovim"])
def test_only_the_command_is_wanted(editor: str) -> None:
    """With `!` the command is in the unnamed register, nothing is started and nothing is written."""
    start = STARTED[editor][0]
    with house() as at:
        conversation(at)
        stub(at)
        place = at.path / "terminal"
        place.mkdir()
        terminal = Terminal(start(at, "light"), at.env, place, 120, 40)
        try:
            terminal.shows("written down?")
            terminal.say(":SessiondResume! codex")
            terminal.say(f":call writefile([getreg()], '{at.path}/register')")
            wait_until(lambda: (at.path / "register").exists() and (at.path / "register").read_text())
            assert (at.path / "register").read_text() == "sessiond resume locks --in codex --run\n"
            assert not (at.path / ".claude").exists()
            terminal.say(":SessiondResume nosuch")
            terminal.shows("nosuch is not a tool")
        finally:
            terminal.close()


@pytest.mark.parametrize("editor", STARTED)
def test_the_tools_that_are_installed_come_first(editor: str) -> None:
    """Completion offers all, because a tool may be on another path than the editor's; Emacs says which are not installed."""
    start, keys, typed, _ = STARTED[editor]
    with house() as at:
        conversation(at)
        stub(at)
        (at.path / "bin" / "claude").rename(at.path / "bin" / "qwen")
        at.env["PATH"] = f"{at.path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"  # without other tools
        place = at.path / "terminal"
        place.mkdir()
        terminal = Terminal(start(at, "light"), at.env, place, 120, 40)
        try:
            terminal.shows("written down?")
            if editor == "emacs":
                terminal.type("", *keys)
                terminal.say(typed)
                terminal.shows("Go on in:")
                terminal.type("", "Tab", "Tab")
                terminal.shows("aider  (not installed)")
                shown = terminal.shows("pi  (not installed)").rpartition("*Completions*")[0]
                assert "qwen  (not" not in shown
                assert shown.index("qwen") < shown.index("aider")
            else:
                place = at.path / "completions"
                terminal.say(f":call writefile(getcompletion('SessiondResume ', 'cmdline'), '{place}')")
                wait_until(lambda: place.exists() and len(place.read_text().split()) == len(OTHERS))
                assert place.read_text().split() == ["qwen", *(one for one in OTHERS if one != "qwen")]
        finally:
            terminal.close()


def test_the_page_gives_the_command(web: Web) -> None:
    """The page shows the command for the chosen tool, and puts it onto the clipboard; it writes nothing."""
    client = web.client()
    client.call("session/new", sessionId="c", name="Copied")
    say(client, "c", "hello")
    page = web.open(web.context(permissions=["clipboard-read", "clipboard-write"]))
    web.show(page, "c")
    page.get_by_role("button", name="Resume in…").click()
    expect(page.locator("#resume-command")).to_have_text("sessiond resume c --in claude --run")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("sessiond resume --targets")
    expect(dialog.get_by_label("Tool")).to_be_focused()
    page.select_option("#field-tool", "pi")
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator("#notice")).to_contain_text("on the clipboard", timeout=PATIENCE_MS)
    assert page.evaluate("navigator.clipboard.readText()") == "sessiond resume c --in pi --run"


def test_the_pages_command_can_be_read_and_selected(web: Web) -> None:
    """An id as long as one can be stays inside the dialog on a small screen; a click selects the whole command, for a browser that
    gives no clipboard, whose refusal is said in the dialog."""
    client = web.client()
    client.call("session/new", sessionId="long" * 20, name="Long")
    page = web.open(web.context(viewport={"width": 360, "height": 640}))
    web.show(page, "long" * 20)
    page.get_by_role("button", name="Resume in…").click()
    dialog, shown = page.get_by_role("dialog"), page.locator("#resume-command")
    expect(shown).to_be_visible()
    outer, inner = dialog.bounding_box(), shown.bounding_box()
    assert outer is not None and inner is not None
    assert inner["x"] >= outer["x"] and inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    assert dialog.evaluate("(it) => it.scrollWidth <= it.clientWidth")
    shown.click()
    assert page.evaluate("getSelection().toString()") == f"sessiond resume {'long' * 20} --in claude --run"
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_role("alert")).to_contain_text("select the command and copy it")


@pytest.mark.parametrize("source", SOURCES)
def test_each_client_knows_the_tools(source: str) -> None:
    """The tools that a client offers are those of the command."""
    text = Path(ROOT, source).read_text()
    found = re.search(r"(?:TOOLS|tools)\s*=?\s*(?:=\s*)?(?:\[|\{|'\()([^\])}]*)", text[text.lower().index("tools") :])
    assert found
    assert sorted(re.findall(r"[\"']([a-z]+)[\"']", found[1])) == OTHERS
