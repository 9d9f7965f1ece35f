"""The tokens of real agents' files, as ccusage counts them in the same home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import AGENTS, Agent, cache
from tests.agents.played import Played
from tests.agents.test_agents import installed
from tests.importers.collected import corpus
from tests.shell import Shell

__all__ = ["installed"]  # a fixture
pytestmark = pytest.mark.timeout(600)
COUNTS = ("inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens")
COUNTED = [agent for agent in AGENTS if agent.name != "llm"]
"""Those that ccusage knows."""


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    path = tmp_path / "a home"
    path.mkdir()
    return path


@pytest.fixture
def shell(user_home: Path) -> Iterator[Shell]:
    made = Shell(HOME=str(user_home), CI="", TZ="UTC")
    yield made
    made.close()


def by_ccusage(agent: str, home: Path) -> dict[str, Any]:
    program = cache() / "ccusage" / "node_modules" / ".bin" / "ccusage"
    path = os.pathsep.join([str(cache() / "node" / "node_modules" / ".bin"), os.environ["PATH"]])
    done = subprocess.run(
        [program, agent, "daily", "--offline", "--json"],
        env={"HOME": str(home), "PATH": path, "TZ": "UTC"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_us(shell: Shell, tool: str) -> dict[str, Any]:
    found: dict[str, Any] = shell("stats", "--tool", tool, "--json", "--time-zone", "UTC").json
    return found


def counts(total: dict[str, Any]) -> tuple[int, ...]:
    names = COUNTS if "inputTokens" in total else ("input", "cacheRead", "cacheWrite", "output")
    return tuple(total[name] for name in names)


@pytest.mark.parametrize("agent", COUNTED, ids=str)
def test_an_agent_s_tokens(
    agent: Agent, tmp_path_factory: pytest.TempPathFactory, user_home: Path, shell: Shell
) -> None:
    shutil.copytree(Played(tmp_path_factory, agent).talk, user_home, dirs_exist_ok=True)
    assert shell("import", str(user_home / agent.place)).code == 0
    theirs, ours = by_ccusage(agent.name, user_home), by_us(shell, agent.tool)
    assert counts(ours["total"]) == counts(theirs["totals"])
    assert ours["total"]["requests"] >= 4
    assert ours["total"]["output"] > 0


@pytest.mark.parametrize(
    ("agent", "folder"),
    [("claude", ".claude/projects/-w"), ("codex", ".codex/sessions/2026/02/23"), ("pi", ".pi/agent/sessions/--w--")],
)
def test_the_tokens_of_real_files(agent: str, folder: str, user_home: Path, shell: Shell) -> None:
    """Each day's."""
    tool = next(one.tool for one in AGENTS if one.name == agent)
    shutil.copytree(corpus(tool), user_home / folder)
    assert shell("import", str(user_home / folder)).code == 0
    theirs, ours = by_ccusage(agent, user_home), by_us(shell, tool)
    assert counts(ours["total"]) == counts(theirs["totals"])
    days = {day["date"]: counts(day) for day in theirs["daily"]}
    assert {row["key"]: counts(row["total"]) for row in ours["rows"]} == days
    if agent == "codex":
        assert ours["total"]["reasoning"] == theirs["totals"]["reasoningOutputTokens"]
    if agent == "pi":
        assert ours["total"]["cost"] == pytest.approx(theirs["totals"]["totalCost"])
