"""The real Claude Code with our hooks: it asks for permission, somebody answers in another client, and it obeys."""

from __future__ import annotations

import subprocess
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
