"""What `opencode export` writes is the session that its database has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import AGENTS
from tests.agents.fake_model import FakeModel
from tests.agents.played import FIRST
from tests.agents.test_agents import installed, items, with_results_stripped
from tests.shell import Shell

__all__ = ["installed"]  # a fixture
_DEADLINE_S = 120


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as made:
        yield made


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    path = tmp_path / "a home"
    (path / "work").mkdir(parents=True)
    (path / "work" / "apple.txt").write_text("an apple\n")
    return path


@pytest.fixture
def shells(user_home: Path) -> Iterator[list[Shell]]:
    """Two homes of sessiond's, for one home of the agent's."""
    made = [Shell(HOME=str(user_home), CI="") for _ in range(2)]
    yield made
    for shell in made:
        shell.close()


def session_of(shell: Shell, source: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The one session that an import of a source brings, and its messages."""
    assert shell("import", str(source)).code == 0
    [info] = shell("list", "--json").json["sessions"]
    return info, shell("show", info["sessionId"], "--json").json["messages"]


def test_an_export_of_opencode_is_what_its_database_has(model: FakeModel, user_home: Path, shells: list[Shell]) -> None:
    """Texts, calls and results with their ids, times and tokens; name, folder and times of the session."""
    opencode = next(agent for agent in AGENTS if agent.name == "opencode")
    env, folder = opencode.prepare(user_home, model.url), user_home / "work"
    opencode.run(env, folder, FIRST)
    of_database, of_export = shells
    info, messages = session_of(of_database, user_home / opencode.place)
    assert with_results_stripped(items(messages)) == with_results_stripped(model.conversation(FIRST))

    source_id = info["metadata"]["source"]["id"]
    export = user_home / "export.json"
    with export.open("wb") as out:
        command = [*opencode.program, "export", source_id]
        subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, timeout=_DEADLINE_S, check=True
        )
    exported, their_messages = session_of(of_export, export)
    same = ("sessionId", "name", "cwd", "createdAt", "updatedAt", "model", "messageCount")
    assert {key: exported.get(key) for key in same} == {key: info.get(key) for key in same}
    kept = ("id", "role", "content", "timestamp", "thinking", "toolCalls", "toolCallId", "status")
    assert [{key: one.get(key) for key in kept} for one in their_messages] == [
        {key: one.get(key) for key in kept} for one in messages
    ]
    tokens = [one.get("metadata", {}).get("tokens") for one in messages]
    assert any(tokens)
    assert [one.get("metadata", {}).get("tokens") for one in their_messages] == tokens
