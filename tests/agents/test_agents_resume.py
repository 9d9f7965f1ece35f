"""`sessiond resume` with real agents: what the model is sent holds the whole conversation, in order, once.

Each agent gets a copy of a session of 27 messages that Emacs wrote, goes on with it by a turn with a call of its own, and is imported;
that session of 31 messages is then copied into every agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agents.agents import RESUMED, Agent
from tests.agents.lab import BY_NAME, Lab, expected, only, stripped, talk
from tests.agents.test_agents import installed
from tests.suite.explore import EVERYTHING

__all__ = ["installed"]  # a fixture
TURN = "Second prompt RUN ls"
PROMPT = "Third prompt of the copy"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


class Source:
    """A session that an agent wrote: `id` as the agent has it, `session_id` as we do."""

    def __init__(self, lab: Lab, agent: Agent) -> None:
        editor = lab.new_in_emacs(talk(6), "Long talk")
        copied = lab.copy(editor, agent)
        assert copied["messages"] == 27, copied
        assert copied["lost"] == []
        wanted = expected(talk(6))
        sent = lab.go_on(agent, copied, TURN)
        assert only(wanted, sent) == stripped(wanted)
        info = lab.bring_in(agent, copied)
        assert info["parent"]["sessionId"] == editor
        self.id, self.session_id = copied["id"], info["sessionId"]
        self.messages = lab.messages(self.session_id)
        self.wanted = expected(self.messages)
        roles = [item[0] for item in self.wanted[-5:]]
        assert roles == ["user", "assistant", "call", "result", "assistant"], self.wanted[-6:]
        assert stripped(self.wanted)[: len(wanted)] == stripped(wanted)


_SOURCES: dict[str, Source] = {}


def source_of(lab: Lab, name: str) -> Source:
    if name not in _SOURCES:
        _SOURCES[name] = Source(lab, BY_NAME[name])
    return _SOURCES[name]


def pairs() -> list[tuple[str, str]]:
    names = [agent.name for agent in RESUMED]
    every = [(one, other) for one in names for other in names]
    # Each is a source and a target once, and no pair is in the same order twice.
    ring = [(names[n], names[(n + 1) % len(names)]) for n in range(len(names))]
    return every if EVERYTHING else ring


@pytest.mark.parametrize(("source", "target"), pairs())
def test_a_session_goes_on_in_another_agent(lab: Lab, source: str, target: str) -> None:
    """Every text, call and result is sent, in order, as often as it was said; the agent that it came from keeps every byte."""
    found, agent = source_of(lab, source), BY_NAME[target]
    before = lab.source(BY_NAME[source], found.id)
    copied = lab.copy(found.session_id, agent)
    assert lab.source(BY_NAME[source], found.id) == before
    sent = lab.go_on(agent, copied, PROMPT)
    assert only(found.wanted, sent) == stripped(found.wanted)
    if source != "gemini":  # it removes files by itself
        assert lab.source(BY_NAME[source], found.id) == before


def test_a_chain_of_agents_says_the_same_at_its_end(lab: Lab) -> None:
    """claude, codex, pi, claude again: the texts are those of the beginning, and the parents are the whole way back."""
    info: dict[str, Any] = {"sessionId": lab.new(talk(3)[:-1], "A chain")}
    way = [info["sessionId"]]
    said = expected(talk(3)[:-1])
    for n, name in enumerate(("claude", "codex", "pi", "claude")):
        prompt = f"Fourth prompt of step {n}"
        agent = BY_NAME[name]
        copied = lab.copy(info["sessionId"], agent)
        sent = lab.go_on(agent, copied, prompt)
        assert only(said, sent) == stripped(said)
        info = lab.bring_in(agent, copied)
        assert info["parent"]["sessionId"] == way[-1]
        way.append(info["sessionId"])
        said += [("user", prompt), ("assistant", f"Answer {n + 1}: {prompt}")]
    assert stripped(expected(lab.messages(way[-1]))) == stripped(said)
    shown = lab.shell("show", way[-1], "--last", "0").out
    assert [place for place in way[:-1] if place in shown] == way[:-1], shown
