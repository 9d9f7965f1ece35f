"""A second editor on one agent."""

from __future__ import annotations

import os
import random
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Editor, Joiner, Peer, recorded
from tests.shell import Shell, wait_until
from tests.suite.explore import seeds

_LIVES = seeds(few=1, usual=3)


def _begun(shell: Shell, *options: str) -> Editor:
    editor = Editor(shell, options=options)
    editor.begin()
    return editor


def _is(kind: str) -> Any:
    """An update of that kind."""
    return lambda message: message.get("params", {}).get("update", {}).get("sessionUpdate") == kind


@pytest.mark.parametrize("way", ["session/new", "session/load", "session/attach", "session/resume"])
def test_a_joiner_sees_what_was_said_and_what_is_said(shell: Shell, way: str) -> None:
    """Whatever way an editor begins, it gets the conversation as far as it is, but for `session/resume`, then every word of the
    turn that runs, and may send the next prompt, which the first editor sees with its reply; the recorded session has it all, once.
    """
    first = _begun(shell)
    first.until(first.prompt("one"))
    second = Joiner(shell)
    assert "attach" in second.able["sessionCapabilities"]
    assert "result" in second.open(way)
    running = first.prompt("wait two")
    seen = "" if way == "session/resume" else "one "
    assert second.texts("agent_message_chunk", "wait two ") == seen + "wait two "
    assert second.texts("user_message_chunk", "wait two") == seen.strip() + "wait two"
    second.cancel()
    assert first.until(running)["result"]["stopReason"] == "cancelled"
    assert second.until(second.prompt("three"))["result"]["stopReason"] == "end_turn"
    assert first.texts("user_message_chunk", "three") == "three"
    assert first.texts("agent_message_chunk", "three ") == "one wait two three "
    assert second.end() == 0
    assert first.end() == 7
    assert [one.text for one in recorded(shell)] == ["one", "one ", "wait two", "wait two ", "three", "three "]


def test_what_was_said_before_this_connection_is_seen_once(shell: Shell, tmp_path: Path) -> None:
    """A joiner of a conversation that an earlier process began sees all of it once, whether the agent repeated it or we did."""
    for can in ("load", ""):
        options = [f"--can={can}", f"--memory={tmp_path / f'memory{can}'}"]
        session = f"s{can}"
        first = Editor(shell, session, options=options)
        first.begin()
        first.until(first.prompt("one"))
        first.end()
        first = Editor(shell, f"again{can}", options=options)
        first.initialize()
        first.load(session)
        first.until(first.prompt("two"))
        second = Joiner(shell, f"acp-{session}", session)
        second.open()
        assert second.texts("agent_message_chunk", "two ") == "one two "
        assert second.texts("user_message_chunk", "two") == "onetwo"
        second.end()
        first.end()


@pytest.mark.parametrize("who", ["first", "second"])
def test_the_first_answer_to_a_question_counts(shell: Shell, who: str) -> None:
    """A question for permission goes to all, also to one who joins while it is open. The first answer reaches the agent; the
    others are told, in a way that fits how they came, and an answer of theirs is left out.
    """
    first = _begun(shell)
    running = first.prompt("tool ask")
    number = first.asked()
    second, third = Joiner(shell), Joiner(shell)
    second.open("session/attach")
    third.open("session/load")
    assert second.asked() == third.asked() == number
    faster, slower = (first, second) if who == "first" else (second, first)
    faster.choose(number, "no")
    for told in (slower, third):
        gone = told.first(lambda message: message.get("method") == "$/cancel_request")
        assert gone["params"] == {"requestId": number}
    slower.choose(number, "yes")
    first.until(running)
    if who == "first":
        update = second.first(_is("permission_resolved"))["params"]["update"]
        assert update["outcome"] == {"outcome": "selected", "optionId": "no"}
        assert update["resolvedBy"]["name"] == "Editor"
    assert not [one for one in (*first.heard, *third.heard) if _is("permission_resolved")(one)]
    first.until(first.prompt("on"))
    for one in (third, second, first):
        one.end()
    question = next(one for one in recorded(shell) if one.role == "system")
    assert question.text.endswith(": Reject")


def test_prompts_wait_for_the_turn_of_another(shell: Shell) -> None:
    """Prompts of several editors during a turn wait, in the order in which they came, and each gets its own response. A cancel ends
    the turn that runs, and what waits of the same editor.
    """
    first = _begun(shell)
    second, third = Joiner(shell), Joiner(shell)
    second.open()
    third.open()
    running = first.prompt("wait")
    second.texts("agent_message_chunk", "wait ")
    waits, gone = second.prompt("two"), third.prompt("never")
    third.prompt("nor this")
    third.cancel()
    for number in (gone, gone + 1):
        assert third.until(number)["result"] == {"stopReason": "cancelled"}
    assert first.until(running)["result"]["stopReason"] == "cancelled"
    assert second.until(waits)["result"]["stopReason"] == "end_turn"
    assert first.texts("agent_message_chunk", "two ") == "wait two "
    assert "never" not in str(first.heard)
    for one in (third, second, first):
        one.end()
    assert [one.text for one in recorded(shell) if one.role == "user"] == ["wait", "two"]


def test_an_observer_only_watches(shell: Shell) -> None:
    """One who attaches as an observer sees all, and what it sends is refused or left out."""
    first = _begun(shell)
    second = Joiner(shell)
    answer = second.open("session/attach", role="observer", historyPolicy="none")["result"]
    assert (answer["role"], answer["historyPolicy"]) == ("observer", "none")
    assert answer["connectedClients"] == [{"name": "Editor", "version": "1", "role": "controller"}]
    assert second.until(second.prompt("no"))["error"]["code"] == -32002
    running = first.prompt("tool ask")
    second.choose(second.asked(), "no")
    first.choose(first.asked(), "yes")
    first.until(running)
    second.texts("agent_message_chunk", "ask ")
    second.end()
    first.end()
    assert next(one for one in recorded(shell) if one.role == "system").text.endswith(": Allow")


def test_a_joiner_lets_go_and_comes_back(shell: Shell) -> None:
    """After `session/detach` nothing comes any more; after another `session/attach` all of it does. Other sessions are refused."""
    first = _begun(shell)
    second = Joiner(shell)
    assert second.call("session/prompt", sessionId="s1", prompt=[])["error"]["code"] == -32601
    assert second.open("session/load", sessionId="other")["error"]["code"] == -32001
    assert second.open("session/attach", role="king")["error"]["code"] == -32602
    second.open("session/attach")
    assert second.call("session/detach", sessionId="s1")["result"]["status"] == "detached"
    first.until(first.prompt("alone"))
    assert second.said == ""
    second.open("session/attach")
    assert second.texts("agent_message_chunk", "alone ") == "alone "
    assert second.call("session/prompt", sessionId="other", prompt=[])["error"]["code"] == -32001
    second.end()
    first.end()


def test_nobody_to_join(shell: Shell) -> None:
    """A name that nobody has is refused with the names of those that run; sockets are for their owner only; what a killed process
    left is cleaned up.
    """
    done = shell("acp", "--join", "nothing")
    assert (done.code, done.err) == (1, "sessiond: no conversation called nothing runs\n")
    first = _begun(shell)
    folder = shell.path / "run" / "acp"
    wait_until(lambda: "acp-s1" in shell("acp", "--join", "nothing").err)
    (path,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert path.exists()
    assert shell("acp", "--join", "acp-s1").code == 1
    assert not path.exists()
    last = _begun(shell)
    assert last.end() == 7
    assert list(folder.iterdir()) == []


def test_the_agent_ends(shell: Shell) -> None:
    """A joiner ends with the agent: with status 0 if it ended, with 1 if its process was killed."""
    for kill, code in ((False, 0), (True, 1)):
        first = _begun(shell)
        second = Joiner(shell, f"acp-{first.session}", first.session)
        second.open()
        if kill:
            os.kill(first.process.pid, signal.SIGKILL)
        else:
            os.kill(first.process.pid, signal.SIGTERM)
        assert second.process.wait(30) == code
        first.process.wait(30)
        wait_until(lambda: not (shell.data / "acp").exists() or not list((shell.data / "acp").glob("*.spool")))


def test_a_first_editor_that_is_killed_leaves_the_agent_to_the_others(shell: Shell) -> None:
    """If the first editor is gone in the middle of a turn, the turn goes on for who has joined, who answers the questions and sends
    the next prompts; the agent ends with the last of them.
    """
    first = _begun(shell)
    second = Joiner(shell)
    second.open("session/attach")
    first.prompt("tool ask")
    number = second.asked()
    first.close()
    gone = second.first(_is("client_disconnected"))["params"]["update"]["client"]
    assert gone == {"name": "Editor", "version": "1", "role": "controller"}
    second.choose(number, "yes")
    assert second.first(_is("turn_complete"))["params"]["update"]["stopReason"] == "end_turn"
    assert second.until(second.prompt("alone"))["result"]["stopReason"] == "end_turn"
    assert first.process.poll() is None
    second.end()
    assert first.process.wait(30) == 7
    texts = [one.text for one in recorded(shell)]
    assert texts[-4:] == ["apple.txt", "tool ask ", "alone", "alone "]


def test_a_joiner_that_is_killed_disturbs_nobody(shell: Shell) -> None:
    """If a joiner is killed while its turn runs, the turn goes on and is recorded; what it had waiting is forgotten."""
    first = _begun(shell)
    second, third = Joiner(shell), Joiner(shell)
    second.open()
    third.open("session/attach")
    second.prompt("wait mine")
    first.texts("agent_message_chunk", "mine ")
    second.prompt("never")
    waits = first.prompt("later")
    os.kill(second.process.pid, signal.SIGKILL)
    third.first(_is("client_disconnected"))
    third.end()
    first.cancel()
    assert first.until(waits)["result"]["stopReason"] == "cancelled"
    assert first.until(first.prompt("after"))["result"]["stopReason"] == "end_turn"
    first.end()
    assert [one.text for one in recorded(shell) if one.role == "user"] == ["wait mine", "after"]


def test_a_joiner_that_does_not_read_delays_nobody(shell: Shell) -> None:
    """One who has joined and reads nothing costs the first editor nothing, however much is said."""
    first = _begun(shell)
    second = Joiner(shell)
    second.open()
    for n in range(20):
        first.until(first.prompt(f"long {n}"))
    assert second.texts("agent_message_chunk", "long 19 " + "".join(f"{n} " for n in range(1000)))
    second.end()
    first.end()


@pytest.mark.parametrize("seed", _LIVES)
def test_random_lives_of_several_editors(shell: Shell, seed: int) -> None:
    """Editors join, prompt, are killed and leave at random: all who are there see the same conversation, word for word and in one
    order, each gets a response to each of its prompts, and the session that is recorded says the same.
    """
    dice = random.Random(seed)
    first = _begun(shell)
    first.follow()
    there: list[Peer] = [first]
    open_: list[tuple[Peer, int]] = []
    sent: list[str] = []
    for _ in range(25):
        act = dice.randrange(6)
        if act == 0 and len(there) < 5:
            joiner = Joiner(shell)
            joiner.follow()
            joiner.open(dice.choice(["session/new", "session/load", "session/attach"]))
            there.append(joiner)
        elif act == 1 and len(there) > 1:
            gone = there.pop(dice.randrange(1, len(there)))
            for number in [number for whose, number in open_ if whose is gone]:
                gone.until(number)
            open_ = [one for one in open_ if one[0] is not gone]
            if dice.random() < 0.5:
                os.kill(gone.process.pid, signal.SIGKILL)
                gone.process.wait()
            else:
                gone.end()
        else:
            who = dice.choice(there)
            sent.append(f"{'long ' if dice.random() < 0.3 else ''}w{len(sent)}")
            open_.append((who, who.prompt(sent[-1])))
    for who, number in open_:
        assert who.until(number)["result"]["stopReason"] == "end_turn"
    last = first.until(first.prompt("the end"))
    assert last["result"]["stopReason"] == "end_turn"
    seen = [one.texts("agent_message_chunk", "the end ") for one in there]
    for one in there[1:]:
        one.end()
    first.end()
    whole = "".join(one.text for one in recorded(shell) if one.role == "assistant")
    assert seen == [whole] * len(there)
    assert sorted(one.text for one in recorded(shell) if one.role == "user") == sorted([*sent, "the end"])
