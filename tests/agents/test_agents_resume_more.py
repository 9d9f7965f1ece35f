"""More of `sessiond resume` with real agents: compactions that agents made, folders with long and odd names, and llm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.agents import AGENTS
from tests.agents.compactions import COMPACTIONS, is_summary
from tests.agents.fake_model import Request
from tests.agents.lab import BY_NAME, Lab, expected, only, stripped, talk
from tests.agents.played import FIRST, SECOND
from tests.agents.test_agents import installed
from tests.agents.whole import told
from tests.suite.explore import EVERYTHING

__all__ = ["installed"]  # a fixture
PROMPT = "Fourth prompt of the copy"
pytestmark = pytest.mark.timeout(300)
LLM = next(agent for agent in AGENTS if agent.name == "llm")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


@pytest.mark.parametrize("name", COMPACTIONS if EVERYTHING else ["codex", "gemini", "pi"])
def test_a_compaction_that_an_agent_made(lab: Lab, name: str) -> None:
    """Another agent's model is told the summary, as the user's, and what came after it; not what came before."""
    agent, lab.model.sent = BY_NAME[name], 5000
    env = lab.envs[name]
    agent.run(env, lab.folder, FIRST)
    agent.run(env, lab.folder, SECOND, again=True)
    known = {info["sessionId"] for info in lab.shell("list", "--json").json["sessions"]}
    assert lab.shell("import", str(lab.home / agent.place)).code == 0
    (fresh,) = [one for one in lab.shell("list", "--json").json["sessions"] if one["sessionId"] not in known]
    COMPACTIONS[name](agent, env, lab.folder, fresh["metadata"]["source"]["id"], lab.model)
    if name != "codex":
        agent.run(env, lab.folder, "Third prompt after a compaction", again=True)
    assert lab.shell("import", str(lab.home / agent.place)).code == 0
    messages = lab.messages(fresh["sessionId"])
    place = next(n for n, one in enumerate(messages) if is_summary(one))
    first = messages[place]["metadata"].get("firstKeptEntryId")
    if name == "opencode":
        (asked,) = messages[place - 1]["content"]
        first = asked.get("tail_start_id")
    kept = next((n for n, one in enumerate(messages) if one["id"] == first), place)
    after = [one for n, one in enumerate(messages) if n >= kept and n != place and one["role"] != "system"]
    after = [
        one for one in after if "checkpoint" not in one.get("metadata", {})
    ]  # Gemini CLI's own thanks for the summary
    wanted = [("user", messages[place]["content"]), *expected(after)]
    sent = lab.go_on(BY_NAME["claude"], lab.copy(fresh["sessionId"], BY_NAME["claude"]), PROMPT)
    assert only(wanted, sent) == stripped(wanted)
    if kept == place:
        assert not {FIRST, SECOND} & {item[-1] for item in sent}


@pytest.mark.parametrize("name", ["claude", "pi", "qwen", "gemini"])
def test_a_folder_with_a_long_and_odd_name(lab: Lab, name: str) -> None:
    """Those that name folders after the working directory: characters beyond U+FFFF, and more than 200 characters in all."""
    folder = lab.home / "𝄞 clefs" / ("a (long) name_" * 12) / "日本"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = expected(talk(1))
    copied = lab.copy(lab.new(talk(1), "Long"), BY_NAME[name], "--cwd", str(folder))
    assert copied["cwd"] == str(folder)
    assert only(wanted, lab.go_on(BY_NAME[name], copied, PROMPT)) == stripped(wanted)


def test_llm_goes_on(lab: Lab) -> None:
    """llm needs its database, which its first prompt makes. It sends what its own code reads from there."""
    env = LLM.prepare(lab.home, lab.model.url)
    LLM.run(env, lab.folder, FIRST)
    path = f"{Path(LLM.program[0]).parent}:{lab.shell.env['PATH']}"
    lab.shell.env["PATH"] = path
    wanted = expected(talk(2))
    copied = lab.copy(lab.new(talk(2), "For llm"), LLM)
    (lab.home / ".config" / "io.datasette.llm" / "default_model.txt").write_text("fake-model")
    before = len(lab.model.requests)
    command = [*LLM.program, "prompt", "-m", "fake-model", "--cid", copied["id"], PROMPT]
    subprocess.run(
        command, cwd=lab.folder, env=env, check=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True
    )
    request: Request = lab.model.requests[before]
    assert only(wanted, told(request)) == stripped(wanted)
    assert lab.bring_in(LLM, copied)["parent"]["sessionId"] == copied["sessionId"]
    listed = subprocess.run(
        [*LLM.program, "logs", "list", "-n", "0", "--json"], env=env, check=True, timeout=60, capture_output=True
    )
    assert copied["id"].encode() in listed.stdout
