"""Faults around a client, at a terminal and with the real daemon: each client reports them in its own way, and typed text is
still there.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator

import pytest

from tests.clients.everyone import EMACS, LISP, TERMINAL, Hands, everyone, opened, parametrized, say, type_text
from tests.clients.tmux import Terminal
from tests.clients.vims import House, house, kill
from tests.home import Client
from tests.shell import wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def at() -> Iterator[House]:
    with house() as made:
        yield made


def said(client: Client, session: str = "a") -> list[str]:
    return [message["content"] for message in client.call("session/read", sessionId=session)["messages"]]


def draft(client: Client, hands: Hands) -> str | None:
    return client.call("state/get", sessionId="a")["values"].get(hands.draft)


def begin(hands: Hands, screen: Terminal, text: str) -> None:
    """Type something and do not send it. In Lisp only whole lines are seen, so it is one that continues."""
    type_text(hands, screen, text)
    if hands is LISP:
        screen.type("\\", "Enter")


def begin_new(hands: Hands, screen: Terminal) -> None:
    """A new session, by the command that people use."""
    if hands is EMACS:
        screen.type("", "C-c", "C-n")
    elif hands.begin_typing:
        screen.type(":SessiondNew", "Enter")
    else:
        if hands is TERMINAL:
            screen.type("", "C-a", "C-k")  # what came back is in its input
        screen.say("/new")


def say_again(hands: Hands, screen: Terminal) -> None:
    """Send what came back."""
    if hands is LISP:
        screen.say("/send")
    elif hands.begin_typing:
        screen.type("", *hands.begin_typing, "Escape", "Enter")
    else:
        screen.type("", *hands.send)


@parametrized(everyone())
def test_a_draft_survives_a_killed_client(at: House, hands: Hands) -> None:
    """What was typed and not sent is there again after kill -9 of the client, under its own key in the session's state."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    first = opened(at, hands, "a", "[shown:0]")
    begin(hands, first, "下書き not sent")
    wait_until(lambda: draft(client, hands) == "下書き not sent")
    kill(first, signal.SIGKILL)
    again = at.terminal(*hands.command(at, "a"))
    again.shows("下書き not sent")
    say_again(hands, again)
    wait_until(lambda: said(client) == ["下書き not sent"])
    wait_until(lambda: draft(client, hands) is None)


@parametrized([one for one in everyone() if one is not LISP])
def test_a_draft_is_sent_at_most_once_a_second(at: House, hands: Hands) -> None:
    """However fast the letters come, the session's state changes no more often than seconds pass."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    begun = time.monotonic()
    typed = "abcdefghijklmnopqrstuvwxyz"
    screen.type("", *hands.begin_typing)
    for letter in typed:
        screen.type(letter)
    wait_until(lambda: draft(client, hands) == typed)
    heard = [params for method, params in client.notifications if method == "session/changed"]
    kinds = [change["kind"] for params in heard for change in params["changes"]]
    assert 1 <= kinds.count("state") <= time.monotonic() - begun + 1


@parametrized(everyone())
def test_the_disk_is_read_only(at: House, hands: Hands) -> None:
    """While the daemon can write nothing, what is said comes back with the daemon's words, and is said once there is room."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    say(hands, screen, "before")
    wait_until(lambda: said(client) == ["before"])
    pid = client.call("daemon/hello")["pid"]
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
    say(hands, screen, "too much 多")
    screen.shows("the journal cannot be written")
    screen.shows("too much 多", 2 if hands is LISP else 1)
    assert client.call("daemon/status")["readOnly"]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    say_again(hands, screen)
    wait_until(lambda: said(client) == ["before", "too much 多"])


@parametrized(everyone())
def test_somebody_deletes_the_session(at: House, hands: Hands) -> None:
    """When another tool deletes the session that is shown, that is reported, what is said then stays where it can be seen,
    and the next session is a command away.
    """
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    say(hands, screen, "before")
    wait_until(lambda: said(client) == ["before"])
    client.call("session/delete", sessionId="a")
    screen.shows("deleted")
    say(hands, screen, "nobody keeps this 誰も")
    screen.shows("nobody keeps this 誰も")
    assert client.fails("session/open", sessionId="a")["data"]["kind"] == "sessionNotFound"
    begin_new(hands, screen)
    wait_until(lambda: len(client.call("session/list")["sessions"]) == 1)
    made = client.call("session/list")["sessions"][0]["sessionId"]
    screen.shows(":0]")
    if hands is TERMINAL:
        screen.type("", "Enter")  # it is in the input of the next session already
        wait_until(lambda: said(client, made) == ["nobody keeps this 誰も"])
        client.call("session/clear", sessionId=made)
    say(hands, screen, "in the next one")
    wait_until(lambda: said(client, made) == ["in the next one"])


@parametrized(everyone())
def test_a_reply_is_cut_off(at: House, hands: Hands) -> None:
    """A reply whose writer dies in the middle is shown as far as it came, and as interrupted."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    writer = at.home.client()
    reply = {"id": "r", "role": "assistant", "content": "Once upon 昔々", "status": "streaming"}
    writer.call("session/append", sessionId="a", messages=[reply])
    screen.shows("Once upon 昔々")
    writer.close()
    screen.shows("interrupted")
    assert client.call("session/read", sessionId="a")["messages"][0]["status"] == "interrupted"


@parametrized(everyone())
def test_the_daemon_is_killed(at: House, hands: Hands) -> None:
    """After kill -9 of the daemon under an open session the client comes back by itself and shows what others said."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    screen = opened(at, hands, "a", "[shown:0]")
    say(hands, screen, "before")
    wait_until(lambda: said(client) == ["before"])
    begin(hands, screen, "half a thought")
    wait_until(lambda: draft(client, hands) == "half a thought")
    os.kill(client.call("daemon/hello")["pid"], signal.SIGKILL)
    fresh = at.client()
    wait_until(lambda: fresh.call("session/open", sessionId="a")["session"]["attached"] == 2)
    fresh.call("session/append", sessionId="a", messages=[{"role": "assistant", "content": "after 後"}])
    shown = screen.shows("after 後")
    assert "half a thought" in shown
    assert said(fresh) == ["before", "after 後"]
