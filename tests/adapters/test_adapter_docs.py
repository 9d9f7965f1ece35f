"""The programs in `docs/adapters.md` run unchanged, each with a fake model."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.client import connect
from tests.adapters.conftest import KilledHome
from tests.agents.fake_model import FakeModel
from tests.shell import ROOT

TEXT = (ROOT / "docs" / "adapters.md").read_text()
SECTIONS = {
    section.partition("\n")[0]: blocks[0]
    for section in TEXT.split("\n## ")[1:]
    if (blocks := re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE))
}
OPENAI = """
from agents import Agent, set_tracing_disabled
from tests.adapters.test_openai_agents import Scripted, says
set_tracing_disabled(True)
agent = Agent(name="a", model=Scripted([says("It rains.")]))
"""
CLAUDE = """
import sys
quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "IS_SANDBOX")
env = {"ANTHROPIC_BASE_URL": sys.argv[1], "ANTHROPIC_API_KEY": "none", "CLAUDE_CONFIG_DIR": sys.argv[2], **dict.fromkeys(quiet, "1")}
settings = {"model": "fake-model", "env": env, "cwd": sys.argv[2]}
"""
LANGCHAIN = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
model = GenericFakeChatModel(messages=iter([AIMessage("It rains.")]))
"""
SMOLAGENTS = """
from smolagents import ChatMessage, Model
class Scripted(Model):
    def generate(self, messages, **_):
        return ChatMessage(role="assistant", content="Thought: I add.\\n<code>\\nfinal_answer(19 + 23)\\n</code>")
model = Scripted()
"""
LLAMA_INDEX = """
from llama_index.core.llms import MockLLM
llm = MockLLM()
"""
RUNS = {
    "OpenAI Agents SDK": (OPENAI, "It rains.", ["Will it rain in Ulm?", "It rains."]),
    "Claude Agent SDK": (CLAUDE, "First prompt: what is in this folder?", ["First prompt: what is in this folder?"]),
    "LangChain": (LANGCHAIN, "It rains.", ["Will it rain in Ulm?", "It rains."]),
    "LangGraph": ("", "2", ["Will it rain in Ulm?", "Yes."]),
    "pydantic-ai": ("", "4", ["Will it rain in Ulm?", "It rains.", "And tomorrow?", "It rains."]),
    "LlamaIndex": (LLAMA_INDEX, "4", ["Will it rain in Ulm?", "And tomorrow?"]),
    "smolagents": (SMOLAGENTS, "5", ["What is 19 + 23?", "42"]),
}


def test_every_section_with_a_program_is_run() -> None:
    """No program of the page is left out."""
    assert SECTIONS.keys() == RUNS.keys()


@pytest.mark.parametrize("section", list(RUNS))
def test_a_program(at_home: KilledHome, tmp_path: Path, section: str) -> None:
    """It prints what it should, and the session has the words."""
    before, printed, said = RUNS[section]
    with FakeModel() as model:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", before + SECTIONS[section], model.url, str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=at_home.env,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    with connect() as sessiond:
        (info,) = sessiond.sessions()
        told = [one.text for one in sessiond.session(info.session_id).messages()]
    assert [one for one in told if one in said] == said
