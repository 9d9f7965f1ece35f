"""Real agents of several tools that write at once in one home, while everything is followed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.agents.agents import AGENTS, Agent
from tests.agents.fake_model import FakeModel
from tests.agents.played import sessions
from tests.agents.test_agents import conversations, installed, with_results_stripped  # noqa: F401, a fixture
from tests.shell import Shell, wait_until

pytestmark = pytest.mark.timeout(600)
AT_ONCE = 3


class Home:
    """In which every agent has a folder to work in."""

    def __init__(self, path: Path, model: FakeModel) -> None:
        self.path = path
        self._envs = {agent: agent.prepare(path, model.url) for agent in AGENTS}
        for agent in AGENTS:
            (path / agent.name).mkdir()
            (path / agent.name / "apple.txt").write_text("an apple\n")

    def say(self, agent: Agent, prompt: str, *, again: bool = False) -> str:
        agent.run(self._envs[agent], self.path / agent.name, prompt, again=again)
        return prompt

    def talk(self, agent: Agent) -> list[str]:
        """A conversation of two processes, then two at once, each with its own. Their first prompts."""
        first = self.say(agent, f"First prompt of {agent.name} RUN ls")
        self.say(agent, f"Second prompt of {agent.name}", again=True)
        with ThreadPoolExecutor(2) as pool:
            others = pool.map(
                lambda which: self.say(agent, f"{which} prompt of {agent.name} RUN ls"), ("Third", "Fourth")
            )
            return [first, *others]


def test_tools_that_write_at_once_are_followed(tmp_path: Path) -> None:
    """Each conversation is there as its model knows it, and as an import of everything brings it in."""
    home = tmp_path / "a home"
    home.mkdir()
    shells = [Shell(HOME=str(home), CI="") for _ in range(2)]
    following, importing = shells
    try:
        following.write_config('[follow]\ntools = ["all"]\n')
        assert following("follow", "status").code == 0
        with FakeModel() as model, following.client() as client, ThreadPoolExecutor(AT_ONCE) as pool:
            there = Home(home, model)
            firsts = [first for some in pool.map(there.talk, AGENTS) for first in some]
            for agent in AGENTS:
                assert importing("import", str(home / agent.place)).code == 0
            with importing.client() as other:
                imported = sessions(other)
            wait_until(lambda: sessions(client) == imported)
            wanted = {first: with_results_stripped(model.conversation(first)) for first in firsts}
        assert conversations(imported) == wanted
    finally:
        for shell in shells:
            shell.close()
