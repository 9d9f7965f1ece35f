"""A stopped daemon (SIGSTOP) does not prevent typing. The order of events shows it: typed text is on the screen while the
daemon is still stopped; nothing is measured.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.everyone import EMACS, LISP, TERMINAL, VIM, Hands, neovim_hands, opened, parametrized, say, type_text
from tests.clients.vims import House, house
from tests.home import Client
from tests.hostile.harm import standing_still
from tests.shell import wait_until

pytestmark = pytest.mark.timeout(180)
EDITORS = [EMACS, VIM, *neovim_hands()]


@pytest.fixture
def at() -> Iterator[House]:
    with house() as made:
        yield made


def said(client: Client) -> list[str]:
    return [message["content"] for message in client.call("session/read", sessionId="a")["messages"]]


def draft(client: Client, hands: Hands) -> str | None:
    return client.call("state/get", sessionId="a")["values"].get(hands.draft)


def waits(at: House) -> list[str]:
    """Every time that the editor has waited for the daemon, as it wrote it down."""
    path, log = at.path / "waits", at.path / "channel.log"
    found = path.read_text().splitlines() if path.exists() else []
    if log.exists():
        found += [line for line in log.read_text("utf-8", "replace").splitlines() if "Blocking" in line]
    return found


@parametrized(EDITORS)
def test_keys_work(at: House, hands: Hands) -> None:
    """Typing and sending work as usual while the daemon is stopped; when it continues, everything arrives. No key press and
    no notification has waited for the daemon at any time.
    """
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    # Notifications of every kind come in, also in the middle of typing.
    reply = {"id": "r", "role": "assistant", "content": "Once", "status": "streaming"}
    client.call("session/append", sessionId="a", messages=[reply])
    client.call("session/extend", sessionId="a", messageId="r", text=" upon")
    client.call("session/finish", sessionId="a", messageId="r")
    client.call("note/append", sessionId="a", heading="H", content="c")
    client.call("session/update", sessionId="a", name="renamed")
    screen.shows("Once upon")
    screen.shows("[renamed:1]")
    with standing_still(client.call("daemon/hello")["pid"]):
        type_text(hands, screen, "typed while it stands 止")
        screen.shows("typed while it stands 止")
        screen.type("", *hands.send)
        type_text(hands, screen, "and typed on")
        screen.shows("and typed on")
        screen.type(" still")
        screen.shows("and typed on still")
    wait_until(lambda: said(client) == ["Once upon", "typed while it stands 止"])
    wait_until(lambda: draft(client, hands) == "and typed on still")
    assert waits(at) == []


@parametrized([VIM, *neovim_hands()])
def test_waiting_commands_end(at: House, hands: Hands) -> None:
    """The commands that do wait (completion, closing) end while the daemon still stands, and say so; the text is still there."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    type_text(hands, screen, "typed")
    wait_until(lambda: draft(client, hands) == "typed")
    with standing_still(client.call("daemon/hello")["pid"]):
        screen.type(" on", "Escape")
        screen.shows("typed on")
        screen.type(":SessiondSwitch x", "Tab")
        screen.type("y", "Escape")
        screen.type(":SessiondClose", "Enter")
        screen.shows("not closed")
        screen.shows("typed on")
    wait_until(lambda: draft(client, hands) == "typed on")
    assert waits(at), "what waits must be seen to wait, or test_keys_work shows nothing"


def test_emacs_commands_end(at: House) -> None:
    """A command that waits for the daemon ends with a word in the echo area while the daemon still stands."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, EMACS, "a", "[shown:0]")
    screen.type("typed")
    with standing_still(client.call("daemon/hello")["pid"]):
        screen.type("", "C-c", "C-n")
        screen.shows("did not answer session/new in time")
        screen.type(" on")
        screen.shows("typed on")
        # And one that nobody wants to wait for.
        screen.type("", "C-c", "C-n", "C-g")
        screen.shows("Quit")
    assert waits(at), "what waits must be seen to wait, or test_keys_work shows nothing"


@parametrized([TERMINAL])
def test_the_terminal(at: House, hands: Hands) -> None:
    """Typing continues while the daemon is stopped. A sent message waits, says so, and can be taken back; sent again it is
    there once.
    """
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    with standing_still(client.call("daemon/hello")["pid"]):
        screen.type("half a th")
        screen.shows("half a th")
        screen.type("ought", "Enter")
        screen.shows("Ctrl-C takes the message back")
        screen.type("", "C-c")
        screen.shows("> half a thought", 2)
        screen.type(" more")
        screen.shows("> half a thought more")
        screen.type("", *["BSpace"] * 5)
        screen.type("", "Enter")
        screen.shows("Ctrl-C takes the message back", 2)
    wait_until(lambda: said(client) == ["half a thought"])
    say(hands, screen, "next")
    wait_until(lambda: said(client) == ["half a thought", "next"])


@parametrized([LISP])
def test_lisp(at: House, hands: Hands) -> None:
    """A message at the Lisp prompt times out, is not lost, and is stored once when sent again."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    short = Hands(
        "lisp", lambda house, _: [
            *LISP.command(house, "a")[:-3], "--eval", "(setf sessiond:*request-timeout* 2)", *LISP.command(house, "a")[-3:],
        ],
    )  # fmt: skip
    screen = opened(at, short, "a", "[shown:0]")
    with standing_still(client.call("daemon/hello")["pid"]):
        say(hands, screen, "said 言")
        screen.shows("Not sent: said 言")
        screen.shows("took longer than")
    screen.say("/send")
    screen.shows("[shown:1]")
    wait_until(lambda: said(client) == ["said 言"])
