"""`sessiond list --waiting`, `answer` and `tail` with a real daemon: what goes on in a session, and who answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from sessiond.client import Activity, ActivityChanged, Answered, Choice, Sessiond, connect
from tests.shell import Shell, wait_until

CHOICES = [Choice(id="y", label="Allow", kind="allow"), Choice(id="n", label="Deny", kind="deny")]


@pytest.fixture
def agent(user: Shell) -> Iterator[Sessiond]:
    with connect(home=str(user.path)) as client:
        client.new(id="build", name="Build")
        yield client


def waiting(user: Shell, count: int = 1) -> list[dict[str, Any]]:
    """The sessions that wait, as soon as there are so many."""
    ends = time.monotonic() + 30
    while len(found := user("list", "--waiting", "--json").json["sessions"]) != count:
        assert time.monotonic() < ends, found
        time.sleep(0.05)
    return list(found)


def asked(agent: Sessiond, text: str, choices: list[Choice] | None = None) -> Future[Answered]:
    return ThreadPoolExecutor(1).submit(agent.session("build").ask, text, choices=choices, waiting_for="permission")


def test_a_question_is_answered_in_a_shell(user: Shell, agent: Sessiond) -> None:
    """By the label of a choice. The list knows which session waits, and afterwards none does."""
    answer = asked(agent, "Run rm -r build?", CHOICES)
    (session,) = waiting(user)
    assert (session["sessionId"], session["activity"]["waitingFor"], session["activity"]["client"]) == (
        "build",
        "permission",
        "python",
    )
    shown = user("answer", "build")
    assert (shown.code, shown.out) == (0, "python: Run rm -r build?\ny: Allow\nn: Deny\n")
    assert user("answer", "build", "--json").json["activity"] == session["activity"]
    refused = user("answer", "build", "perhaps")
    assert (refused.code, "'perhaps' cannot be chosen" in refused.err, "y, n" in refused.err) == (1, True, True)
    assert user("answer", "build", "deny", "--json").json == {"accepted": True}
    assert answer.result(30) == Answered(client="cli", choice="n")
    assert waiting(user, 0) == []
    late = user("answer", "build", "y")
    assert (late.code, late.err) == (1, "sessiond: build asks nothing; sessiond list --waiting shows those that do\n")
    assert user("list", "--waiting").out == ""


def test_a_question_in_words_and_one_that_is_answered_elsewhere(user: Shell, agent: Sessiond) -> None:
    """Whoever waits only for its own terminal says so."""
    answer = asked(agent, "Which port?")
    waiting(user)
    assert user("answer", "build", "8080").out == "build: answered\n"
    assert answer.result(30) == Answered(client="cli", text="8080")
    agent.session("build").activity("waiting", waiting_for="permission", text="Bash")
    waiting(user)
    there = user("answer", "build", "y")
    assert (there.code, there.err) == (
        1,
        "sessiond: build: python waits for permission, and takes the answer only there\n",
    )
    agent.close()  # and what it said ends with its connection
    assert waiting(user, 0) == []


def test_a_question_that_nobody_waits_for_any_more(user: Shell, agent: Sessiond) -> None:
    """The client gives up, the daemon withdraws the question."""
    with pytest.raises(Exception, match="session/ask"):
        agent.session("build").ask("Still there?", timeout_s=0.5)
    assert waiting(user, 0) == []


def test_a_daemon_that_stops_does_not_wait_for_a_person(user: Shell, agent: Sessiond) -> None:
    """Its successor is asked again, without the program noticing anything."""
    answer = asked(agent, "Which port?")
    waiting(user)
    first = user.pid()
    assert user("stop").code == 0
    waiting(user)
    assert user.pid() != first
    assert user("answer", "build", "80").code == 0
    assert answer.result(30).text == "80"


def test_changes_say_what_goes_on(user: Shell, agent: Sessiond) -> None:
    """For programs that follow a session, and in `tail`."""
    tail = user.start("tail", "build", text=True)
    try:
        with connect(home=str(user.path)) as other, other.session("build").changes() as changes:
            wait_until(lambda: other.session("build").info().attached == 3)  # the agent, `tail` and the changes
            agent.session("build").activity("working", text="Runs the tests")
            change = changes.wait(30)
            assert isinstance(change, ActivityChanged)
            assert isinstance(change.activity, Activity)
            assert (change.activity.state, change.activity.text) == ("working", "Runs the tests")
            agent.session("build").activity("idle")
            assert changes.wait(30) == ActivityChanged(session_id="build", seq=change.seq)
        assert tail.stdout is not None
        assert [tail.stdout.readline() for _ in range(2)] == ["── python works: Runs the tests\n", "── idle\n"]
    finally:
        tail.kill()
        tail.communicate()
