"""The words that terminals, editors and exports show are those that were said: all of them, once, in order.

Of every kind of block, call, result, mark and state. `test_words_page.py` does the same for the page.
"""

from __future__ import annotations

import difflib
import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients import vscodes
from tests.clients.said import Words, letters, texts, words, words_of
from tests.clients.test_emacs import CLIENT as EMACS
from tests.clients.test_emacs import Emacs
from tests.clients.vims import ROOT, House, house, neovims, run_script
from tests.importers.collected import CORPUS
from tests.programs import need
from tests.shell import Shell, on_terminal

DEADLINE_S = 280.0
pytestmark = pytest.mark.timeout(DEADLINE_S + 20)
Sessions = dict[str, list[dict[str, Any]]]


REAL = ("cline", "claude-code", "codex", "pi", "aider")
MOST = 1000
"""Messages of a session: as many as are asked for at once. The longest real one has 992."""


def fill(ask: Callable[..., Any], source: str) -> Sessions:
    """Sessions that were made up, or real ones. `ask(method, **params)`: the result of a request."""
    if source == "generated":
        sessions = Words(35).sessions()
        for session_id, messages in sessions.items():
            ask("session/new", sessionId=session_id, messages=messages)
        return sessions
    if not CORPUS.is_dir():
        pytest.skip("the corpus is not here")
    found = {}
    for tool in REAL:
        for one in ask("session/import", path=str(CORPUS / tool))["sessions"]:
            assert one["messageCount"] <= MOST
            found[one["sessionId"]] = ask("session/read", sessionId=one["sessionId"], last=MOST)["messages"]
    assert len(found) > len(REAL)
    return found


@contextmanager
def asking(shell: Shell) -> Iterator[Callable[..., Any]]:
    with shell.client(name="t") as client:
        yield lambda method, **params: client.call(method, params)


def compare(sessions: Sessions, shown: dict[str, str], *, ordered: bool = True, marked_up: bool = True) -> None:
    """Each session with what is shown of it. `ordered`: within a message, too. `marked_up`: as it was written."""
    assert sessions.keys() == shown.keys()
    wrong = [
        f"{session_id}: {one}"
        for session_id, messages in sessions.items()
        for one in (
            made_up(messages, shown[session_id], ordered)
            if session_id in MADE_UP
            else real(messages, shown[session_id], marked_up)
        )
    ]
    assert not wrong, "\n".join(wrong)


MADE_UP = Words(35).sessions().keys()


def made_up(messages: list[dict[str, Any]], shown: str, ordered: bool) -> Iterator[str]:
    """Every word once, in order."""
    said = [word for message in messages for word in words_of(message)]
    found = words(shown)
    if not ordered:
        said, found = ([*within(messages, each)] for each in (said, found))
    for what, a, b, c, d in difflib.SequenceMatcher(None, said, found, autojunk=False).get_opcodes():
        if what != "equal":
            yield f"{' '.join(said[a:b]) or '-'} is shown as {' '.join(found[c:d]) or '-'}"


def real(messages: list[dict[str, Any]], shown: str, marked_up: bool) -> Iterator[str]:
    """Every text of every message, in order."""
    everything, place = letters(shown), 0
    for message in messages:
        for forms in texts(message, marked_up=marked_up):
            found = [(at, text) for text in forms if (at := everything.find(text, place)) >= 0]
            if found:
                at, text = min(found)
                place = at + len(text)
            else:
                yield f"#{message['seq']} {message['role']} {forms[0][:200]}"


def within(messages: list[dict[str, Any]], found: list[str]) -> Iterator[str]:
    """`found`, with the words of each message sorted."""
    for message in messages:
        count = len(words_of(message))
        yield from sorted(found[:count])
        found = found[count:]
    yield from found


@pytest.fixture(params=["generated", "real"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def at() -> Iterator[House]:
    with house() as made:
        yield made


@pytest.mark.parametrize("format", ["markdown", "html", "org", "text"])
def test_exports(shell: Shell, source: str, format: str) -> None:
    """HTML and Org have a markup of their own, between the pieces that Markdown's is made of."""
    with asking(shell) as ask:
        sessions = fill(ask, source)
        exported = {one: ask("session/export", sessionId=one, format=format)["content"] for one in sessions}
    if format == "html":
        texts_only = re.compile(r"<(style|script|title)\b.*?</\1>|<[^>]*>", re.DOTALL)
        exported = {one: html.unescape(texts_only.sub(" ", text)) for one, text in exported.items()}
    compare(sessions, exported, marked_up=format in ("markdown", "text"))


def test_the_terminal(shell: Shell, source: str) -> None:
    """Into a pipe and on a terminal; there only with --full."""
    with asking(shell) as ask:
        sessions = fill(ask, source)
    compare(sessions, {one: shell("show", "--last", str(MOST), one).out for one in sessions})
    for session_id in [*sessions][5 :: max(5, len(sessions) // 20)]:
        code, full = on_terminal(shell, "show", "--full", "--no-pager", "--last", str(MOST), session_id)
        assert code == 0
        compare({session_id: sessions[session_id]}, {session_id: full})


def test_emacs(shell: Shell, source: str) -> None:
    with asking(shell) as ask:
        sessions = fill(ask, source)
    asked = " ".join(f"({json.dumps(one)} {len(messages)})" for one, messages in sessions.items())
    *shown, rest = Emacs(shell, EMACS).run(f"(sessiond-live-print '({asked}))").split("\f")
    assert rest == ""
    compare(sessions, dict(zip(sessions, shown, strict=True)))


def in_vim(at: House, source: str, command: list[str], script: Path, *, ordered: bool = True) -> None:
    sessions = fill(at.client().call, source)
    asked = at.path / "asked"
    asked.write_text("".join(f"{one} {len(messages)}\n" for one, messages in sessions.items()))
    run_script(at, command, script, asked, deadline=DEADLINE_S)
    *shown, rest = Path(f"{asked}.shown").read_text().split("\f\n")
    assert rest == ""
    compare(sessions, dict(zip(sessions, shown, strict=True)), ordered=ordered)


def test_vim(at: House, source: str) -> None:
    tests = ROOT / "clients" / "vim" / "test"
    command = [need("vim"), "-Nu", "NONE", "-i", "NONE", "-es", "-S", str(tests / "run.vim")]
    in_vim(at, source, command, tests / "shown.vim")


@pytest.mark.parametrize("nvim", neovims() or [("nvim", "none")], ids=lambda found: found[1])
def test_neovim(at: House, source: str, nvim: tuple[str, str]) -> None:
    """Lua does not know the order of the keys in an object."""
    tests = ROOT / "clients" / "neovim" / "test"
    command = [need(nvim[0]), "--headless", "-u", "NONE", "-i", "NONE", "-c", f"luafile {tests / 'run.lua'}"]
    in_vim(at, source, command, tests / "shown.lua", ordered=False)


def test_vscode(shell: Shell, source: str) -> None:
    """The document that it makes of a session."""
    vscodes.installed(vscodes.CLIENT / "node_modules")
    vscodes.build()
    with asking(shell) as ask:
        sessions = fill(ask, source)
        opened = [ask("session/open", sessionId=one, last=1000) for one in sessions]
    asked = shell.path / "opened"
    asked.write_text(json.dumps(opened))
    *shown, rest = vscodes.node("out/shown/shown.js", str(asked)).split("\f")
    assert rest == ""
    compare(sessions, dict(zip(sessions, shown, strict=True)))
