"""What a real llm was given with `-f` comes in with the prompt, as its model was sent it."""

from __future__ import annotations

from pathlib import Path

from tests.agents.agents import AGENTS, Agent
from tests.agents.fake_model import FakeModel
from tests.agents.test_agents import installed
from tests.shell import Shell

__all__ = ["installed"]  # a fixture


def test_a_file_that_llm_was_given_is_part_of_the_prompt(tmp_path: Path) -> None:
    llm = next(agent for agent in AGENTS if agent.name == "llm")
    agent = Agent(
        "llm", "llm", llm.place, llm._prepare, "prompt -m fake-model --functions ../functions.py -f notes.txt", ""
    )
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("Notes on apples: they are red.")
    shell = Shell(HOME=str(tmp_path), CI="")
    try:
        with FakeModel() as model:
            agent.run(agent.prepare(tmp_path, model.url), tmp_path / "work", "What is here?")
            [sent] = [one["content"] for one in model.requests[-1].body["messages"] if one["role"] == "user"]
        assert "they are red." in sent
        assert shell("import", str(tmp_path / llm.place)).code == 0
        [info] = shell("list", "--json").json["sessions"]
        messages = shell("show", info["sessionId"], "--json").json["messages"]
        assert [one["content"] for one in messages if one["role"] == "user"] == [sent]
    finally:
        shell.close()
