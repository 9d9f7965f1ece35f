"""A compaction by the agent itself takes nothing away: what was said before stays, in order and once, the summary is a message where
the agent puts it, and an import gives what following gave.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import AGENTS, Agent
from tests.agents.fake_model import FakeModel
from tests.agents.test_agents import (
    FIRST,
    SECOND,
    conversations,
    home,
    installed,
    items,
    model,
    shells,
    with_results_stripped,
)
from tests.shell import Shell, wait_until

__all__ = ["home", "installed", "model", "shells"]  # fixtures
_DEADLINE_S = 120
THIRD = "Third prompt after a compaction"


def by_prompt(agent: Agent, env: dict[str, str], folder: Path) -> None:
    """Qwen takes it back unless it saves tokens, which it learns from what the model says was sent."""
    agent.run(env, folder, "/compress", again=True)


def by_limit(agent: Agent, env: dict[str, str], folder: Path) -> None:
    """Codex compacts by itself before a prompt if the last request used more tokens than this."""
    command = ["exec", "-c", "model_auto_compact_token_limit=50", "resume", "--last", "--skip-git-repo-check", THIRD]
    subprocess.run(
        [*agent.program, *command], cwd=folder, env=env, stdin=subprocess.DEVNULL, timeout=_DEADLINE_S, check=True
    )


def by_rpc(agent: Agent, env: dict[str, str], folder: Path) -> None:
    """pi's commands are for its screen and for its RPC."""
    command = [*agent.program, "--provider", "fake", "--model", "fake-model", "--continue", "--mode", "rpc"]
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
        process.wait(_DEADLINE_S)


COMPACTIONS: dict[str, Callable[[Agent, dict[str, str], Path], None]] = {
    "codex": by_limit,
    "pi": by_rpc,
    "qwen": by_prompt,
}


@pytest.fixture(params=COMPACTIONS)
def agent(request: Any) -> Agent:
    found: Agent = next(one for one in AGENTS if one.name == request.param)
    return found


def shown(shell: Shell) -> list[dict[str, Any]]:
    """The messages of the only session, without seqs, which count what happened in that home."""
    found = shell("list", "--json").json["sessions"]
    if len(found) != 1:
        return []
    messages = shell("show", found[0]["sessionId"], "--json").json["messages"]
    return [{**message, "seq": 0} for message in messages]


def test_a_compaction_takes_nothing_away(agent: Agent, model: FakeModel, home: Path, shells: list[Shell]) -> None:
    importing, following = shells
    model.sent = 5000
    following.write_config(f'[follow]\ntools = ["{agent.tool}"]\n')
    assert following("follow", "status").code == 0
    env, folder = agent.prepare(home, model.url), home / "work"
    agent.run(env, folder, FIRST)
    agent.run(env, folder, SECOND, again=True)
    before = with_results_stripped(model.conversation(FIRST))
    wait_until(lambda: [with_results_stripped(one) for one in conversations(following).values()] == [before])
    COMPACTIONS[agent.name](agent, env, folder)
    if agent.name != "codex":
        agent.run(env, folder, THIRD, again=True)
    assert importing("import", str(home / agent.place)).code == 0
    messages = shown(importing)
    read = with_results_stripped(items(messages))
    assert read[: len(before)] == before
    assert [item[1] for item in read if item[0] == "user"] == [FIRST, SECOND, THIRD]
    summaries = [one for one in messages if one.get("metadata", {}).get("compaction") is True]
    assert [one["role"] for one in summaries] == ["system"]
    place = messages.index(summaries[0])
    assert [one["content"] for one in messages[place:] if one["role"] == "user"][-1:] == [THIRD]
    assert not any("compacted" in one.get("metadata", {}) for one in messages), "nothing has left the file"
    wait_until(lambda: shown(following) == messages)
