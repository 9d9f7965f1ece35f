"""The pictures of VS Code without an extension, with our daemon as its agent host, light and dark."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path
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
                whole = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
                path = folder / f"vscode-agent-host-{look}.png"
                whole.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
