"""The real Claude Code with our hooks: it asks for permission, somebody answers in another client, and it obeys."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.client import connect
from sessiond.client.types import SessionInfo
from tests.agents.agents import AGENTS
from tests.agents.fake_model import FakeModel
from tests.agents.test_agents import installed
from tests.shell import Shell, wait_until

__all__ = ["installed"]
pytestmark = pytest.mark.timeout(300)
CLAUDE = next(agent for agent in AGENTS if agent.name == "claude")


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Shell]:
    """A home whose Claude Code is followed, and has our hooks."""
    home = tmp_path / "a home"
    (home / "work").mkdir(parents=True)
    shell = Shell(HOME=str(home), CI="")
    shell.write_config('[follow]\ntools = ["claude-code"]\n')
    assert shell("follow", "status").code == 0
    assert shell("setup", "claude", "--hooks", "--write").code == 0
    yield shell
    shell.close()


@pytest.mark.parametrize("choice", ["allow", "deny"])
def test_permission_that_is_given_elsewhere(followed: Shell, choice: str) -> None:
    home = Path(followed.env["HOME"])
    with FakeModel() as model, connect(home=str(followed.path), start=False) as client:

        def waiting() -> list[SessionInfo]:
            return list(client.sessions(activity="waiting"))

        env = {**followed.env, **CLAUDE.prepare(home, model.url)}
        command = [*CLAUDE.program, "--model", "fake-model", "-p", "First prompt RUN touch made"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        claude = subprocess.Popen(command, cwd=home / "work", env=env, text=True, **pipes)  # type: ignore[call-overload]
        try:
            wait_until(lambda: waiting() or claude.poll() is not None)
            assert claude.poll() is None, claude.communicate()
            (session,) = waiting()
            assert session.metadata["source"]["tool"] == "claude-code"
            assert session.activity is not None
            assert session.activity.waiting_for == "permission"
            assert "touch made" in str(session.activity.text)
            assert followed("answer", session.session_id, choice).code == 0
            out, err = claude.communicate(timeout=120)
        finally:
            claude.kill()
            claude.communicate()
        assert claude.returncode == 0, (out, err)
        assert (home / "work" / "made").exists() == (choice == "allow")
        wait_until(lambda: client.session(session.session_id).info().activity is None)


def interactive(home: Path, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """Claude Code in a terminal, past what it asks of a new user; and the terminal's other end."""
    about = home / ".claude.json"
    known = json.loads(about.read_text()) if about.exists() else {}
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": []}
    key = {"approved": [env.get("ANTHROPIC_API_KEY", "")[-20:]], "rejected": []}
    known |= {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": key}
    about.write_text(json.dumps(known | {"projects": {str(home / "work"): trusted}}))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    command = [*CLAUDE.program, "--permission-mode", "default", "--model", "fake-model", "First prompt hello"]
    claude = subprocess.Popen(
        command, cwd=home / "work", env={**env, "TERM": "xterm-256color"}, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    return claude, ours


def drained(terminal: int) -> None:
    """Take what it draws, so that it can go on."""
    with contextlib.suppress(OSError):  # it has ended
        while os.read(terminal, 65536):
            pass


def test_a_dialog_that_is_open_for_long_is_answered_elsewhere(followed: Shell) -> None:
    """After some seconds Claude Code says once more that it waits, while its dialog is still open."""
    home = Path(followed.env["HOME"])
    with FakeModel() as model, connect(home=str(followed.path), start=False) as client:
        claude, terminal = interactive(home, {**followed.env, **CLAUDE.prepare(home, model.url)})
        drawing = threading.Thread(target=drained, args=(terminal,), daemon=True)
        drawing.start()

        def asked() -> str | None:
            found = [
                one.session_id for one in client.sessions(activity="waiting") if one.activity and one.activity.question
            ]
            return found[0] if found else None

        try:
            wait_until(lambda: list(client.sessions()), 60)
            time.sleep(1)  # it draws its prompt
            os.write(terminal, b"Second prompt RUN touch made")
            time.sleep(0.5)
            os.write(terminal, b"\r")
            wait_until(asked, 60)
            time.sleep(9)  # its notice comes after six seconds
            session_id = asked()
            assert session_id is not None
            assert followed("answer", session_id, "allow").code == 0
            wait_until((home / "work" / "made").exists)
            wait_until(lambda: asked() is None)
        finally:
            claude.kill()
            claude.wait()
            drawing.join(10)
            os.close(terminal)
