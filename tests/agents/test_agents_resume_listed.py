"""A copy is in the agent's own list: on its screen where it has only that, else in what it prints or its server says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import RESUMED, Agent
from tests.agents.lab import Lab, talk
from tests.agents.test_agents import installed
from tests.programs import need
from tests.shell import wait_until

__all__ = ["installed"]  # a fixture
NAME = "A listed talk"
ON_SCREEN = ("claude", "pi", "qwen")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


def past_its_questions(lab: Lab) -> None:
    """Claude Code asks for a theme, for trust and about a key before it shows anything."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    answers = {
        "hasCompletedOnboarding": True, "theme": "dark", "projects": {str(lab.folder): project},
        "customApiKeyResponses": {"approved": ["none"], "rejected": []},
    }  # fmt: skip
    (lab.home / ".claude.json").write_text(json.dumps(answers))


def shows(lab: Lab, agent: Agent, wanted: str) -> bool:
    """Whether `AGENT --resume` shows it on a screen of 160 columns."""
    env = {**lab.envs[agent.name], "TERM": "xterm-256color", "TMUX_TMPDIR": str(lab.home)}
    tmux = [need("tmux"), "-S", str(lab.home / "tmux"), "-f", "/dev/null"]
    start = [
        "new-session",
        "-d",
        "-x",
        "160",
        "-y",
        "50",
        "-c",
        str(lab.folder),
        "timeout",
        "60",
        *agent.program,
        "--resume",
    ]
    subprocess.run([*tmux, *start], env=env, check=True)

    def shown() -> bool:
        done = subprocess.run([*tmux, "capture-pane", "-p"], env=env, capture_output=True, text=True, check=False)
        return wanted in done.stdout

    try:
        wait_until(shown)
        return True
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, check=True)


def printed(lab: Lab, agent: Agent, *arguments: str) -> str:
    done = subprocess.run(
        [*agent.program, *arguments], cwd=lab.folder, env=lab.envs[agent.name], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


def threads(lab: Lab, agent: Agent) -> Any:
    """What Codex's server lists, which its picker shows."""
    about = {"clientInfo": {"name": "tests", "version": "0"}, "capabilities": {"experimentalApi": True}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "initialized"},
        {"id": 2, "method": "thread/list", "params": {"limit": 50, "sourceKinds": ["cli"]}},
    ]
    command = ["timeout", "60", *agent.program, "app-server"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=lab.folder, env=lab.envs[agent.name], text=True, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for one in asked:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **one}) + "\n")
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        found = next(one["result"]["data"] for one in answers if one.get("id") == 2)
        server.terminate()
    return found


@pytest.mark.parametrize("agent", RESUMED, ids=str)
def test_a_copy_is_listed(lab: Lab, agent: Agent) -> None:
    copied = lab.copy(lab.new(talk(1), NAME), agent)
    if agent.name == "claude":
        past_its_questions(lab)
    if agent.name in ON_SCREEN:
        assert shows(lab, agent, NAME)
    elif agent.name == "codex":  # it has no names: its list shows the first words
        assert [(one["id"], one["preview"]) for one in threads(lab, agent)] == [(copied["id"], "Question 0: 日本語?")]
    elif agent.name == "opencode":
        assert any(
            copied["id"] in line and NAME in line for line in printed(lab, agent, "session", "list").splitlines()
        )
    else:
        assert f"{NAME} (Just now) [{copied['id']}]" in printed(lab, agent, "--list-sessions")
    assert Path(copied["path"]).exists()
