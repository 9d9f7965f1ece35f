"""The pictures of VS Code without an extension, with our daemon as its agent host, light and dark."""

from __future__ import annotations

import contextlib
import io
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

from PIL import Image

from tests.agent_host.window import by_command
from tests.clients import vscodes
from tests.shell import Shell, wait_until

THEMES = {"light": vscodes.LIGHT, "dark": vscodes.DARK}


def _shows(page: Any, text: str) -> None:
    page.locator(".interactive-session", has_text=text).first.wait_for()


def _seed(client: Any, work: Path) -> None:
    calls = [{"id": "c1", "name": "Bash", "arguments": {"command": "pytest -q tests/journal"}}]
    sessions = [
        ("milk", "Shopping list", [{"role": "user", "content": "remember the milk"}]),
        ("dates", "A regular expression for dates", [{"role": "user", "content": "One that knows leap years?"}]),
        (
            "locks",
            "Order of locks",
            [
                {"role": "user", "content": "Which lock comes first?"},
                {"role": "assistant", "content": "Let me look.", "toolCalls": calls},
                {"role": "tool", "toolCallId": "c1", "content": "41 passed"},
                {"role": "assistant", "content": "The **journal's**, then the session's: `journal/queue.py` says why."},
            ],
        ),
    ]
    for session_id, name, messages in sessions:
        about = {"sessionId": session_id, "name": name, "cwd": str(work), "messages": messages}
        client.call("session/new", about)


def _save(page: Any, path: Path) -> None:
    whole = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    whole.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def _ask(at: Shell, client: Any, page: Any) -> None:
    """An agent works in the session, and asks for permission."""
    client.call("session/activity", {"sessionId": "locks", "state": "working"})
    said = [
        {"role": "user", "content": "Then delete the old one."},
        {"role": "assistant", "content": "It is in `journal/old_queue.py`, and nothing imports it."},
    ]
    client.call("session/append", {"sessionId": "locks", "messages": said})
    _shows(page, "nothing imports it")
    choices = [{"id": "y", "label": "Allow", "kind": "allow"}, {"id": "n", "label": "Deny", "kind": "deny"}]
    params = {"sessionId": "locks", "text": "Run `git rm journal/old_queue.py`?", "choices": choices}
    Thread(target=_asked, args=(at, params), daemon=True).start()
    page.get_by_text("Deny", exact=True).first.wait_for()
    page.mouse.move(300, 60)
    page.wait_for_timeout(2000)  # the list shows it too


def _asked(at: Shell, params: dict[str, Any]) -> None:
    with at.client() as agent, contextlib.suppress(Exception):  # it ends with the daemon
        agent.call("session/ask", params)


def take(folder: Path, work: Path) -> None:
    """A session of another tool, which goes on with a message that was typed in the window, answered by a terminal."""
    vscodes.installed()
    for look, theme in THEMES.items():
        with closing(Shell()) as at, at.client() as client:
            _seed(client, work)
            host, _ = by_command(at, "--write")
            with vscodes.agents(at, work, host.port, host.token, theme) as page:
                page.locator(".agent-sessions-viewer .monaco-list-row", has_text="Order of locks").first.click()
                page.mouse.move(300, 400)
                _shows(page, "then the session's")
                answer = "echo 'Nothing: whoever holds the second never waits for the first.'"
                at.start("repl", "--agent", answer, "--session-id", "locks")
                wait_until(lambda: client.call("session/open", {"sessionId": "locks"})["session"]["attached"] > 2)
                page.click(".interactive-input-part .monaco-editor")
                page.keyboard.type("And what if two sessions wait for each other?")
                page.keyboard.press("Enter")
                _shows(page, "never waits for the first")
                page.wait_for_timeout(3000)  # the turn ends, and the view scrolls to its end; the list may say so later
                page.wait_for_function("!document.querySelector('.monaco-workbench').innerText.includes('Working')")
                _save(page, folder / f"vscode-agent-host-{look}.png")
                _ask(at, client, page)
                _save(page, folder / f"vscode-agent-host-question-{look}.png")
