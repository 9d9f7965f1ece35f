"""The real VS Code, without an extension, with our daemon as its agent host."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent_host.window import by_command
from tests.clients import vscodes
from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(vscodes.RUN_S + 60)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder that the window has open."""
    vscodes.installed()
    made = tmp_path / "my work"
    made.mkdir()
    return made


@pytest.fixture
def at(shell: Shell) -> Shell:
    return shell


def append(client: Any, *messages: dict[str, Any]) -> None:
    client.call("session/append", {"sessionId": "locks", "messages": list(messages)})


def shows(page: Any, text: str) -> None:
    """Blanks may be no-break spaces."""
    page.wait_for_function(
        "text => document.querySelector('.monaco-workbench').innerText.replaceAll('\\u00a0', ' ').includes(text)",
        arg=text,
        timeout=40_000,
    )


def hides(page: Any, text: str) -> None:
    page.wait_for_function(
        "text => !document.querySelector('.monaco-workbench').innerText.includes(text)", arg=text, timeout=40_000
    )


def test_every_window_shows_every_session(at: Shell, work: Path) -> None:
    """Listed, opened, live, killed in the middle of a turn, and whole again after a turn that came and went meanwhile."""
    with at.client() as client:
        client.call("session/new", {"sessionId": "locks", "name": "Order of locks", "cwd": str(work)})
        client.call("session/new", {"sessionId": "elsewhere", "name": "Somewhere else", "cwd": "/elsewhere"})
        append(
            client,
            {"role": "user", "content": "Which lock is first?"},
            {"role": "assistant", "content": "The **journal's**."},
        )
    host, listening = by_command(at)
    with vscodes.agents(at, work, host.port, host.token) as page:
        shows(page, "Order of locks")
        assert "Somewhere else" not in page.inner_text(".monaco-workbench")
        page.locator(".agent-sessions-viewer .monaco-list-row", has_text="Order of locks").first.click()
        page.mouse.move(400, 400)  # while it is over a row, the list stays as it is
        shows(page, "The journal's.")
        shows(page, "read-only")
        with at.client(start=False) as client:
            append(client, {"role": "user", "content": "And then?"})
            shows(page, "And then?")
            append(client, {"id": "r", "role": "assistant", "content": "Then the ", "status": "streaming"})
            shows(page, "Then the")
            client.call("session/extend", {"sessionId": "locks", "messageId": "r", "text": "session's."})
            shows(page, "Then the session's.")
            client.call("session/finish", {"sessionId": "locks", "messageId": "r"})
            append(
                client,
                {"role": "user", "content": "Is it long?"},
                {"id": "h", "role": "assistant", "content": "Half of", "status": "streaming"},
            )
            shows(page, "Half of")
        os.kill(at.pid(), signal.SIGKILL)
        listening.wait(20)
        with at.client() as client:
            append(
                client,
                {"role": "user", "content": "Said while it was away"},
                {"role": "assistant", "content": "Answered while it was away."},
            )
        by_command(at, host.port)
        shows(page, "Answered while it was away.")
        with at.client(start=False) as client:
            append(client, {"role": "user", "content": "Live again?"}, {"role": "assistant", "content": "Yes, live."})
            client.call("session/new", {"sessionId": "new", "name": "Made just now", "cwd": str(work)})
            shows(page, "Yes, live.")
            shows(page, "Made just now")
            client.call("session/update", {"sessionId": "new", "name": "Named by another"})
            shows(page, "Named by another")
        hides(page, "Working")
