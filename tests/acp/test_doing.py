"""What goes on behind an editor, told by the recorder; and the agent's questions, answered elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from typing import Any

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
    editor = begun(shell)
    editor.until(editor.prompt("one"))
    window, chat = opened(shell)
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
    editor = begun(shell)
    editor.until(editor.prompt("one"))
    window, chat = opened(shell)
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
