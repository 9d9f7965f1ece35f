"""What goes on behind an editor, told by the recorder; and the agent's questions, answered elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from sessiond.acp import visitor
from sessiond.acp.acts import QUESTION, fingerprint
from sessiond.client import Activity, SessionNotFound
from tests.acp.editor import Editor, Joiner, recorded
from tests.agent_host.window import Window, by_command
from tests.shell import Shell, wait_until


def begun(shell: Shell) -> Editor:
    editor = Editor(shell)
    editor.begin()
    return editor


def started(text: str, turn: str) -> dict[str, Any]:
    """A window says something."""
    return {"type": "chat/turnStarted", "turnId": turn, "message": {"text": text, "origin": {"kind": "user"}}}


def opened(shell: Shell) -> tuple[Window, str]:
    """A window that has the session, and its chat; the agent answers in it by then."""
    host, _ = by_command(shell, "--write")
    window = Window(host)
    window.initialize()
    chat = window.open("acp-s1")
    with shell.client() as client:
        wait_until(lambda: client.session("acp-s1").info().attached > 1)
    return window, chat


def both(shell: Shell) -> tuple[Editor, Window, str]:
    """An editor that was answered once, and a window that has its session, with the chat."""
    editor = begun(shell)
    editor.until(editor.prompt("one"))
    return editor, *opened(shell)


def activity(client: Any) -> Activity | None:
    with contextlib.suppress(SessionNotFound):  # not yet
        found = client.session("acp-s1").info().activity
        assert found is None or isinstance(found, Activity)
        return found
    return None


def doing(client: Any) -> str:
    """`working`, `waiting` or `idle`."""
    found = activity(client)
    return "idle" if found is None else str(found.state)


def test_a_turn_is_work_and_a_question_waits(shell: Shell) -> None:
    """Somebody answers elsewhere: the agent goes on, the editor is told, and the answer is recorded."""
    editor = begun(shell)
    editor.until(editor.prompt("one"))
    with shell.client() as client:
        wait_until(lambda: doing(client) == "idle")
        running = editor.prompt("tool ask wait")
        number = editor.asked()
        wait_until(lambda: doing(client) == "waiting")
        waits = activity(client)
        assert waits is not None
        assert (waits.waiting_for, waits.text) == ("permission", "ls")
        question = waits.question
        assert question is not None
        assert [(one.id, one.label, one.kind) for one in question.choices or []] == [
            ("yes", "Allow", "allow"),
            ("no", "Reject", "deny"),
        ]
        assert question.tool_call_id == "c1"
        assert client.session("acp-s1").answer(question.id, "no")
        gone = editor.first(lambda message: message.get("method") == "$/cancel_request")
        assert gone["params"] == {"requestId": number}
        wait_until(lambda: doing(client) == "working")
        editor.choose(number, "yes")  # too late, and left out
        editor.cancel()
        editor.until(running)
        wait_until(lambda: doing(client) == "idle")
    assert editor.end() == 7
    asked = next(one for one in recorded(shell) if one.role == "system")
    assert asked.text.endswith(": Reject")


def test_a_question_that_the_editor_answers_is_withdrawn(shell: Shell) -> None:
    """Also one that a second editor answers."""
    first = begun(shell)
    with shell.client() as client:
        running = first.prompt("tool ask")
        number = first.asked()
        wait_until(lambda: doing(client) == "waiting")
        first.choose(number, "yes")
        first.until(running)
        wait_until(lambda: doing(client) == "idle")
        second = Joiner(shell)
        second.open("session/attach")
        running = first.prompt("tool ask")
        wait_until(lambda: doing(client) == "waiting")
        second.choose(second.asked(), "yes")
        first.until(running)
        wait_until(lambda: doing(client) == "idle")
    second.end()
    first.end()


def test_what_goes_on_ends_with_the_connection(shell: Shell) -> None:
    editor = begun(shell)
    with shell.client() as client:
        editor.prompt("tool ask")
        editor.asked()
        wait_until(lambda: doing(client) == "waiting")
        editor.close()
        wait_until(lambda: doing(client) == "idle")


def test_it_is_told_again_after_a_kill(shell: Shell) -> None:
    """The daemon's, in the middle of a question."""
    editor = begun(shell)
    running = editor.prompt("tool ask")
    with shell.client() as client:
        wait_until(lambda: doing(client) == "waiting")
    os.kill(shell.pid(), signal.SIGKILL)
    with shell.client() as client:
        wait_until(lambda: doing(client) == "waiting")
        waits = activity(client)
        assert waits is not None
        assert waits.question is not None
        assert client.session("acp-s1").answer(waits.question.id, "yes")
        editor.until(running)
        wait_until(lambda: doing(client) == "idle")
    editor.end()


def test_the_agent_answers_what_is_said_in_a_window(shell: Shell) -> None:
    """The message is there once, the editor sees it and the answer, and Stop cancels the turn."""
    editor, window, chat = both(shell)
    window.dispatch(chat, 1, started("tool wait two", "t1"))
    assert editor.texts("user_message_chunk", "tool wait two") == "tool wait two"
    assert editor.texts("agent_message_chunk", "tool wait two ").endswith("I shall look.tool wait two ")
    window.until(lambda: "tool wait two \n..." in window.words(chat))
    window.dispatch(chat, 2, {"type": "chat/turnCancelled", "turnId": "t1", "duration": 5})
    window.until(lambda: "activeTurn" not in window.states[chat])
    window.dispatch(chat, 3, started("three", "t2"))
    window.until(lambda: "three \n" in window.words(chat) + "\n")
    assert editor.end() == 7
    said = [(one.role, one.text) for one in recorded(shell) if one.role in ("user", "assistant")]
    assert [one for one in said if one[1]] == [
        *(("user", "one"), ("assistant", "one ")),
        *(("user", "tool wait two"), ("assistant", "I shall look."), ("assistant", "tool wait two ")),
        *(("user", "three"), ("assistant", "three ")),
    ]
    window.close()


def test_what_is_said_while_the_agent_works_waits_for_its_turn(shell: Shell) -> None:
    """And nobody answers once the editor has left, which the window says."""
    editor, window, chat = both(shell)
    with shell.client() as client:
        running = editor.prompt("wait")
        editor.texts("agent_message_chunk", "wait ")
        window.dispatch(chat, 1, started("then two", "t1"))
        wait_until(lambda: "then two" in [one.text for one in client.session("acp-s1").messages()])
        editor.cancel()
        editor.until(running)
        assert editor.texts("agent_message_chunk", "then two ").endswith("then two ")
        editor.end()
        wait_until(lambda: client.session("acp-s1").info().attached == 1)
        window.dispatch(chat, 2, started("Anybody?", "t2"))
        window.until(lambda: "Nobody is here" in json.dumps(window.states[chat]))
    window.close()


def question(client: Any, text: str) -> Any:
    """What the agent asks, once it is this."""
    wait_until(lambda: (found := activity(client)) is not None and found.text == text and found.question is not None)
    found = activity(client)
    assert found is not None
    return found.question


def test_an_answer_is_for_the_question_that_was_shown(shell: Shell) -> None:
    """An agent may give the next question the id of the last one."""
    editor = begun(shell)
    with shell.client() as client:
        running = editor.prompt("tool ask again")
        number = editor.asked()
        first = question(client, "ls")
        editor.choose(number, "yes")
        second = question(client, "rm")
        assert second.id != first.id
        assert not client.session("acp-s1").answer(first.id, "yes")
        assert client.session("acp-s1").answer(second.id, "no")
        editor.until(running)
        assert "rm: no. " in editor.said
    editor.end()


def test_an_answer_that_is_late_permits_nothing_else(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the agent's process when another question has the id already."""
    monkeypatch.setenv("SESSIOND_HOME", str(shell.path))
    editor = begun(shell)
    with shell.client() as client:
        running = editor.prompt("tool ask again")
        number = editor.asked()
        question(client, "ls")
        editor.choose(number, "yes")
        question(client, "rm")
        shown = fingerprint({"sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "ls"}, "options": []})
        yes = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        late = {"id": number, "result": yes, "_meta": {QUESTION: shown}}
        asyncio.run(visitor.say(host_of(shell), "s1", "test", late))
        assert doing(client) == "waiting"
        editor.choose(number, "no")
        editor.until(running)
        assert "rm: no. " in editor.said
    editor.end()


def host_of(shell: Shell) -> int:
    """The process that has the agent."""
    (door,) = (shell.path / "run" / "acp").glob("*.sock")
    return int(door.stem)


def test_many_messages_are_answered_in_their_order(shell: Shell) -> None:
    """More than may visit an agent at a time, while it works for its editor."""
    editor = begun(shell)
    editor.follow()
    editor.until(editor.prompt("one"))
    window, chat = opened(shell)
    running = editor.prompt("wait")
    editor.texts("agent_message_chunk", "wait ")
    asked = [f"q{number} x" for number in range(40)]
    for number, text in enumerate(asked):
        window.dispatch(chat, number + 1, started(text, f"t{number}"))
    with shell.client() as client:
        wait_until(lambda: len([one for one in client.session("acp-s1").messages() if one.role == "user"]) == 42)
        editor.cancel()
        editor.until(running)
        wait_until(lambda: client.session("acp-s1").messages()[-1].text == "q39 x ", deadline_s=60)
        said = [one.text.strip() for one in client.session("acp-s1").messages() if one.role == "assistant"]
        assert said[2:] == asked
    window.close()
    editor.end()


def test_what_was_removed_meanwhile_is_not_obeyed(shell: Shell) -> None:
    editor, window, chat = both(shell)
    with shell.client() as client:
        running = editor.prompt("wait")
        wait_until(lambda: client.session("acp-s1").messages()[-1].text == "wait ")
        window.dispatch(chat, 1, started("delete everything", "t1"))
        wait_until(lambda: client.session("acp-s1").messages()[-1].text == "delete everything")
        seq = client.session("acp-s1").messages()[-1].seq
        time.sleep(1)  # it would be at the agent's process by now
        client.session("acp-s1").truncate(seq - 1)
        editor.cancel()
        editor.until(running)
        window.dispatch(chat, 2, started("two", "t2"))
        wait_until(lambda: client.session("acp-s1").messages()[-1].text == "two ")
    window.close()
    editor.end()
    assert [one.text.strip() for one in recorded(shell)] == ["one", "one", "wait", "wait", "two", "two"]


def test_stop_stops_what_it_means(shell: Shell) -> None:
    """At once after a message, in the middle of a turn, and while the agent asks."""
    editor = begun(shell)
    editor.follow()
    editor.until(editor.prompt("one"))
    window, chat = opened(shell)
    with shell.client() as client:
        for number in range(6):
            window.dispatch(chat, 3 * number + 1, started(f"wait {number}", f"t{number}"))
            if number % 2:
                editor.texts("agent_message_chunk", f"{number} ")
            cancelled = {"type": "chat/turnCancelled", "turnId": f"t{number}", "duration": 5}
            window.dispatch(chat, 3 * number + 2, cancelled)
            window.dispatch(chat, 3 * number + 3, started(f"then {number}", f"u{number}"))
            wait_until(lambda number=number: client.session("acp-s1").messages()[-1].text == f"then {number} ")
        window.dispatch(chat, 50, started("tool ask", "t9"))
        question(client, "ls")
        window.dispatch(chat, 51, {"type": "chat/turnCancelled", "turnId": "t9", "duration": 5})
        wait_until(lambda: doing(client) == "idle")
        assert editor.first(lambda message: message.get("method") == "$/cancel_request")["params"] == {"requestId": 900}
    window.close()
    editor.end()


@pytest.mark.parametrize("given", [False, True])
def test_a_recorder_that_is_killed(shell: Shell, given: bool) -> None:
    """The next one brings the agent what waits, and does not bring it twice what it has already."""
    editor = begun(shell)
    editor.follow()
    editor.until(editor.prompt("one"))
    window, chat = opened(shell)
    with shell.client() as client:
        if given:
            window.dispatch(chat, 1, started("silent wait", "t1"))
            wait_until(lambda: doing(client) == "working")
            editor.texts("user_message_chunk", "silent wait")
        else:
            running = editor.prompt("wait")
            wait_until(lambda: client.session("acp-s1").messages()[-1].text == "wait ")
            window.dispatch(chat, 1, started("two", "t1"))
            wait_until(lambda: "two" in [one.text for one in client.session("acp-s1").messages()])
            time.sleep(0.5)  # it has heard of it
        wait_until(lambda: doing(client) == "working")
        found = subprocess.run(
            ["pgrep", "-f", f"sessiond.acp.recorder {shell.data}/acp"], capture_output=True, check=True
        )
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda: doing(client) == "idle")
        editor.cancel()  # there is something to record again, so the next one begins
        if not given:
            editor.until(running)
            wait_until(lambda: client.session("acp-s1").messages()[-1].text == "two ")
        wait_until(lambda: client.session("acp-s1").info().attached > 1)
        window.dispatch(chat, 2, started("three", "t2"))
        wait_until(lambda: client.session("acp-s1").messages()[-1].text == "three ")
    window.close()
    editor.end()
    said = [one.text for one in recorded(shell) if one.role == "user"]
    answered = [one.text.strip() for one in recorded(shell) if one.role == "assistant"]
    assert said == (["one", "silent wait", "three"] if given else ["one", "wait", "two", "three"])
    assert answered == (["one", "three"] if given else ["one", "wait", "two", "three"])


def test_an_error_of_the_agent_is_said(shell: Shell) -> None:
    """Also where it says nothing at all, the turn ends for windows."""
    editor, window, chat = both(shell)
    window.dispatch(chat, 1, started("fail", "t1"))
    window.until(lambda: "The model is down." in json.dumps(window.states[chat]))
    window.until(lambda: "activeTurn" not in window.states[chat])
    window.dispatch(chat, 2, started("silent", "t2"))
    window.until(lambda: "silent" in window.words(chat) and "activeTurn" not in window.states[chat])
    window.close()
    editor.end()
    assert [one.status for one in recorded(shell) if one.text == "The model is down."] == ["error"]


def test_a_daemon_that_cannot_start_for_a_while(shell: Shell) -> None:
    """When it can again, what the agent does and asks is known again, and it answers."""
    editor = begun(shell)
    editor.until(editor.prompt("one"))
    with shell.client() as client:
        running = editor.prompt("tool ask wait")
        asked = question(client, "ls")
        settings = shell.path / "config" / "config.toml"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text("[nonsense\n")
        os.kill(shell.pid(), signal.SIGKILL)
        time.sleep(3)
        settings.write_text("")
    with shell.client() as client:
        again = question(client, "ls")
        assert again.id != asked.id
        assert client.session("acp-s1").answer(again.id, "yes")
        wait_until(lambda: doing(client) == "working")
        os.kill(shell.pid(), signal.SIGKILL)
    with shell.client() as client:
        wait_until(lambda: doing(client) == "working")
        editor.cancel()
        editor.until(running)
        wait_until(lambda: doing(client) == "idle")
        wait_until(lambda: client.session("acp-s1").info().attached > 0)
        window, chat = opened(shell)
        window.dispatch(chat, 1, started("two", "t1"))
        window.until(lambda: "two \n" in window.words(chat) + "\n")
        window.close()
    editor.end()
