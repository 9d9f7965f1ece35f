"""A session that an agent of an SDK wrote goes on in another tool: the copy has the words, the calls and their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Runner

from sessiond.adapters.claude_agent_sdk import SessiondStore
from sessiond.adapters.langchain import SessiondChatMessageHistory
from sessiond.adapters.openai_agents import SessiondSession
from tests.adapters.conftest import KilledHome
from tests.adapters.test_claude_agent_sdk import MAIN, entry
from tests.adapters.test_langchain import turn
from tests.adapters.test_openai_agents import NO_TRACES, Scripted, calls, says, thinks, weather

TOOLS = ("claude", "codex", "pi")
SAID = {
    "openai-agents": [("user", "Rain in Ulm?"), ("tool", "It rains in Ulm."), ("assistant", "Take an umbrella.")],
    "langchain": [("user", "Rain in Ulm?"), ("assistant", "Looking."), ("tool", "It rains."), ("assistant", "Rain.")],
    "claude-agent-sdk": [
        ("user", "What?"),
        ("assistant", "I look."),
        ("tool", "print(1)"),
        ("assistant", "It prints."),
    ],
}
"""What was said in each, calls aside."""
CALLED = {"openai-agents": "weather", "langchain": "weather", "claude-agent-sdk": "Read"}


async def _openai(cwd: str) -> str:
    model = Scripted([thinks("A tool knows."), calls("weather", city="Ulm")], [says("Take an umbrella.")])
    agent = Agent(name="a", model=model, tools=[weather])
    await Runner.run(agent, "Rain in Ulm?", session=SessiondSession("trip", cwd=cwd), run_config=NO_TRACES)
    return "trip"


async def _langchain(cwd: str) -> str:
    await SessiondChatMessageHistory("chain", cwd=cwd).aadd_messages(turn())
    return "chain"


async def _claude(cwd: str) -> str:
    store = SessiondStore()
    blocks = [
        {"type": "thinking", "thinking": "A file."},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.py"}},
    ]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "print(1)"}]
    entries = [entry("u1", content="What?"), entry("u2", "assistant", blocks), entry("u3", content=result)]
    entries.append(entry("u4", "assistant", [{"type": "text", "text": "It prints."}]))
    await store.append(MAIN, [{**one, "cwd": cwd} for one in entries])
    return store.session_id(MAIN)


WRITERS = {"openai-agents": _openai, "langchain": _langchain, "claude-agent-sdk": _claude}


@pytest.mark.parametrize("sdk", list(WRITERS))
async def test_it_goes_on_elsewhere(at_home: KilledHome, tmp_path: Path, sdk: str) -> None:
    """In Claude Code, Codex and pi: what is imported from the copy says the same."""
    (tmp_path / "work").mkdir()
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        program = tmp_path / "bin" / tool
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    at_home.env |= {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:{at_home.env['PATH']}"}
    session_id = await WRITERS[sdk](str(tmp_path / "work"))
    for tool in TOOLS:
        done = at_home("resume", session_id, "--in", tool, "--json")
        assert done.code == 0, done
        copied = done.json
        assert {one["what"] for one in copied["lost"]} <= {"thinking", "system prompts"}, (tool, copied)
        assert at_home("import", copied["path"]).code == 0
        messages = _of_source(at_home, copied["id"])
        told = [
            (one["role"], _text(one["content"])) for one in messages if one["role"] in ("user", "assistant", "tool")
        ]
        assert [one for one in told if one[1]] == SAID[sdk], (tool, told)
        called = [call["name"] for one in messages for call in one.get("toolCalls", ())]
        assert called == [CALLED[sdk]], (tool, messages)


def _of_source(home: KilledHome, source_id: str) -> list[dict[str, Any]]:
    """The messages of the session that was imported from a tool's session."""
    infos = home("list", "--json", "--limit", "1000").json["sessions"]
    (found,) = [one for one in infos if one["metadata"].get("source", {}).get("id") == source_id]
    messages: list[dict[str, Any]] = home("show", found["sessionId"], "--json", "--last", "100").json["messages"]
    return messages


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(one.get("text", "") for one in content)
