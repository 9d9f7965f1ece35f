"""How each agent is made to compact a conversation by itself, and where its summary is."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from tests.agents.agents import Agent
from tests.agents.fake_model import FakeModel

DEADLINE_S = 120
FOURTH = "Fourth prompt that is too much"
Compaction: TypeAlias = Callable[[Agent, dict[str, str], Path, str, FakeModel], None]
"""Called with the agent, its environment, its folder, its id of the session and the model."""


def by_command(agent: Agent, env: dict[str, str], folder: Path, session_id: str, _: FakeModel) -> None:
    agent.resume(env, folder, session_id, "/compact")


def by_prompt(agent: Agent, env: dict[str, str], folder: Path, session_id: str, _: FakeModel) -> None:
    """Qwen takes it back unless it saves tokens, which it learns from what the model says was sent."""
    agent.resume(env, folder, session_id, "/compress")


def by_limit(agent: Agent, env: dict[str, str], folder: Path, session_id: str, _: FakeModel) -> None:
    """Codex compacts by itself before a prompt if the last request used more tokens than this."""
    options = ["exec", "-c", "model_auto_compact_token_limit=50", "resume", "--skip-git-repo-check"]
    subprocess.run(
        [*agent.program, *options, session_id, FOURTH], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=DEADLINE_S, check=True,
    )  # fmt: skip


def by_rpc(agent: Agent, env: dict[str, str], folder: Path, session_id: str, _: FakeModel) -> None:
    """pi's commands are for its screen and for its RPC."""
    command = [*agent.program, "--provider", "fake", "--model", "fake-model", "--session", session_id, "--mode", "rpc"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"type": "compact", "id": "1"}) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            if said.get("type") == "response" and said.get("command") == "compact":
                assert said["success"], said
                break
        process.stdin.close()
        process.wait(DEADLINE_S)


def by_server(agent: Agent, env: dict[str, str], folder: Path, session_id: str, _: FakeModel) -> None:
    """opencode's command `/compact` is this request to its server."""
    command = [*agent.program, "serve", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            [url] = next(found for line in process.stdout if (found := re.findall(r"http://[\d.]+:\d+", line)))
            body = json.dumps({"providerID": "fake", "modelID": "fake-model"}).encode()
            request = urllib.request.Request(
                f"{url}/session/{session_id}/summarize", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                assert json.load(answer) is True
        finally:
            process.terminate()


def by_turn(agent: Agent, env: dict[str, str], folder: Path, session_id: str, model: FakeModel) -> None:
    """Gemini CLI compresses by itself in the middle of a turn, once the model has said how much it was sent."""
    settings = Path(env["HOME"]) / ".gemini" / "settings.json"
    before = settings.read_text()
    told = json.loads(before)
    told["model"]["compressionThreshold"] = 0.1
    settings.write_text(json.dumps(told))
    model.sent, sent = 900_000, model.sent
    agent.resume(env, folder, session_id, f"{FOURTH} RUN ls")
    model.sent = sent
    settings.write_text(before)


COMPACTIONS: dict[str, Compaction] = {
    "claude": by_command,
    "codex": by_limit,
    "gemini": by_turn,
    "opencode": by_server,
    "pi": by_rpc,
    "qwen": by_prompt,
}


def is_summary(message: dict[str, Any]) -> bool:
    marks = message.get("metadata", {})
    named = any(marks.get(mark) is True for mark in ("compaction", "isCompactSummary", "summary"))
    return named or (marks.get("checkpoint") is True and "<state_snapshot>" in str(message["content"]))
