"""What Vim and Neovim must do at a terminal, with real keys; each function is one scenario that both suites run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.tmux import Terminal
from tests.clients.vims import House, kill
from tests.home import Client
from tests.shell import wait_until

Command = Callable[..., list[str]]
"""Arguments of the editor -> the command that runs it with the plugin and a status line."""


def contents(client: Client, session: str) -> list[object]:
    return [message["content"] for message in client.call("session/read", sessionId=session)["messages"]]


def draft(client: Client, session: str, key: str) -> object:
    return client.call("state/get", sessionId=session)["values"].get(key)


def say(terminal: Terminal, text: str) -> None:
    terminal.type(f":SessiondSay {text}", "Enter")


def shown(at: House, command: Command, client: Client, **new: Any) -> Terminal:
    """A session `a` named `shown`, in an editor."""
    client.call("session/new", sessionId="a", name="shown", **new)
    terminal = at.terminal(*command("sessiond://a"))
    terminal.shows("[shown:0]")
    return terminal


def draft_survives(at: House, command: Command, key: str) -> None:
    client = at.client()
    first = shown(at, command, client)
    first.type("i書きかけ", "Enter")
    first.type("the second line")
    wait_until(lambda: draft(client, "a", key) == "書きかけ\nthe second line")
    kill(first, signal.SIGKILL)
    second = at.terminal(*command("sessiond://a"))
    second.shows("the second line")
    second.type("i!", "Escape")
    wait_until(lambda: draft(client, "a", key) == "書きかけ\nthe second line!")
    kill(second, signal.SIGHUP)
    third = at.terminal(*command("sessiond://a"))
    third.shows("the second line!")
    third.type("i", "Escape", "Enter")
    wait_until(lambda: contents(client, "a") == ["書きかけ\nthe second line!"])
    wait_until(lambda: draft(client, "a", key) is None)
    third.type(":qall", "Enter")
    wait_until(lambda: third.ended)


def first_tab(at: House, command: Command) -> None:
    """In an editor in which nothing of ours has run yet."""
    client = at.client()
    client.call("session/new", sessionId="a", name="shown")
    terminal = at.terminal(*command())
    terminal.type(":SessiondSwitch sho", "Tab")
    terminal.shows("SessiondSwitch a  shown")
    terminal.type("", "Enter")
    terminal.shows("[shown:0]")
    assert "Error" not in terminal.screen and "E716" not in terminal.screen


def leaving_keeps_everything(at: House, command: Command, key: str) -> None:
    at.home.configure("[autosave]\ninterval_s = 0\nidle_s = 0\n")  # nobody saves but the editor
    client = at.client()
    terminal = shown(at, command, client)
    say(terminal, "said")
    wait_until(lambda: contents(client, "a") == ["said"])
    terminal.type("inot yet", "Escape")
    terminal.type(":qall", "Enter")
    wait_until(lambda: terminal.ended)
    assert draft(client, "a", key) == "not yet"
    # We have it open ourselves, so it is not saved for being left by the last one.
    wait_until(lambda: client.call("session/list")["sessions"][0]["attached"] == 1)
    path = Path(client.call("session/list")["sessions"][0]["path"])
    wait_until(lambda: path.exists() and "said" in path.read_text())


def menu_chooses(at: House, command: Command, choice: str) -> None:
    """`choice`: what is typed before Enter."""
    client = at.client()
    client.call("session/new", sessionId="a", name="older", messages=[{"role": "user", "content": "x"}])
    client.call("session/new", sessionId="b", name="newer", messages=[{"role": "user", "content": "chosen 選"}])
    wait_until(lambda: len(client.call("session/list")["sessions"]) == 2)
    terminal = at.terminal(*command())
    terminal.shows("[No Name]")
    terminal.type(":SessiondSwitch", "Enter")
    terminal.shows("newer")
    terminal.shows("older")
    terminal.type(choice, "Enter")
    terminal.shows("chosen 選")
    terminal.shows("[newer:1]")


def shared_with_a_script(at: House, command: Command, name: str) -> None:
    client = at.client()
    terminal = shown(at, command, client)
    client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "from a script 日本"}])
    terminal.shows("from a script 日本")
    say(terminal, "from an editor 😀")
    heard = client.notification("session/changed")
    assert heard["origin"]["client"] == name
    assert heard["changes"][0]["messages"][0]["content"] == "from an editor 😀"
    writer = at.home.client()
    reply = {"id": "r", "role": "assistant", "content": "Once", "status": "streaming"}
    writer.call("session/append", sessionId="a", messages=[reply])
    terminal.shows("Once")
    writer.call("session/extend", sessionId="a", messageId="r", text=" upon")
    terminal.shows("Once upon")
    writer.close()
    terminal.shows("interrupted")


def answers_an_agent(at: House, command: Command, second: str) -> None:
    """`second`: what is typed before Enter to choose the second line of a menu."""
    client, agent = at.client(), at.home.client()
    terminal = shown(at, command, client)
    client.call("session/new", sessionId="b", name="other")

    def waiting() -> list[str]:
        rows = client.call("session/list", filter={"activity": "waiting"})["sessions"]
        return [row["sessionId"] for row in rows]

    def asked(session: str, **question: Any) -> int:
        number = agent.send("session/ask", {"sessionId": session, **question})
        wait_until(lambda: waiting() == [session])
        return number

    def answer(number: int, *typed: str) -> Any:
        terminal.type(*typed, "Enter")
        return agent.answer(number)["result"]

    choices = [{"id": "y", "label": "Allow it"}, {"id": "n", "label": "Deny it"}]
    number = asked("a", text="Run make?", choices=choices)
    terminal.type(":SessiondAnswer", "Enter")
    terminal.shows("Run make?")
    terminal.shows("Deny it")
    assert answer(number, second)["choice"] == "n"
    number = asked("a", text="Which port?")
    terminal.type(":SessiondAnswer", "Enter")
    terminal.shows("Which port?")
    assert answer(number, "8080")["text"] == "8080"
    number = asked("b", text="Run it again?", choices=choices)
    terminal.type(":SessiondAnswer maybe", "Enter")
    terminal.shows("maybe cannot be chosen (y, n)")
    assert answer(number, ":SessiondAnswer allow it")["choice"] == "y"
    wait_until(lambda: waiting() == [])
    terminal.type(":SessiondAnswer", "Enter")
    terminal.shows("nothing is asked in any session")
