"""Different editors on one session, in a circle: what one sends, the next one shows and answers."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.everyone import everyone, need_lisp, opened, say
from tests.clients.vims import house
from tests.shell import wait_until

LIMIT_S = 60


@pytest.mark.timeout(240)
def test_round_the_circle():
    """Emacs, Vim, every Neovim, the terminal and Lisp sit on one session: each says something when it shows what the one
    before it said, and in the end all show all of it, also what was said after the daemon was killed under them.
    """
    need_lisp()
    with house() as at:
        client = at.client()
        client.call("session/new", sessionId="a", name="circle")
        circle = [(hands, opened(at, hands, "a", "[circle:0]")) for hands in everyone()]
        said: list[str] = []
        for hands, screen in circle:
            if said:
                screen.shows(said[-1])
            said.append(f"{hands.name} から 🐌")
            say(hands, screen, said[-1])
        for _, screen in circle:
            for text in said:
                screen.shows(text)
        at.kill_daemon(client)
        first, last = circle[0], circle[-1]
        say(*last, "after the crash 一")
        first[1].shows("after the crash 一")
        say(*first, "after the crash 二")
        for _, screen in circle:
            screen.shows("after the crash 二")
        fresh = at.client()
        expected = [*said, "after the crash 一", "after the crash 二"]
        wait_until(
            lambda: [one["content"] for one in fresh.call("session/read", sessionId="a")["messages"]] == expected
        )
        shown = subprocess.run(
            ["sessiond", "show", "a"], env=at.env, capture_output=True, text=True, check=True, timeout=LIMIT_S
        ).stdout
        places = [shown.index(text) for text in expected]
        assert places == sorted(places)
