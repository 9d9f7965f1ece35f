"""A compaction by the agent itself takes nothing away: what was said before stays, in order and once, the summary is a message where
the agent puts it, what comes after it is there, and an import gives what following gave.
"""

from __future__ import annotations

import time
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.agents.agents import AGENTS, GEMINI, Agent, clock
from tests.agents.compactions import COMPACTIONS, FOURTH, is_summary
from tests.agents.fake_model import LOOKING, SUMMARY, FakeModel, Item
from tests.agents.played import FIFTH, FIRST, SECOND, SIXTH, THIRD, Played, sessions
from tests.agents.test_agents import conversations, installed, sent_before, with_results_stripped
from tests.shell import Shell, wait_until

__all__ = ["installed"]  # a fixture
pytestmark = pytest.mark.timeout(600)
ABOUT = "There was a talk about apples."


def expected(played: Played, summary: str) -> list[Item]:
    """The whole conversation, in which the summary has this text."""
    before = sent_before(played)[FIRST]
    compaction: list[Item] = [("summary", summary)]
    if played.agent.name == "codex":  # the model's answer is one of its records, too
        compaction = [("assistant", SUMMARY), *compaction, *played.turns[FOURTH]]
    if played.agent.name == "gemini":  # in the middle of a turn
        *turn, answer = played.turns[f"{FOURTH} RUN ls"]
        compaction = [*turn, *compaction, answer]
    return with_results_stripped([*before, *compaction, *played.turns[FIFTH]])


@pytest.mark.parametrize("agent", [one for one in [*AGENTS, GEMINI] if one.name in COMPACTIONS], ids=str)
def test_a_compaction_takes_nothing_away(agent: Agent, tmp_path_factory: pytest.TempPathFactory) -> None:
    played = Played(tmp_path_factory, agent)
    here = played.imported["after"]
    [session] = [one for one in here if FIRST in str(one["messages"])]
    messages: list[dict[str, Any]] = session["messages"]
    summaries = [one for one in messages if is_summary(one)]
    assert len(summaries) == 1
    [(_, summary)] = [item for item in conversations([session])[FIRST] if item[0] == "summary"]
    assert ABOUT in summary
    wanted = expected(played, summary)
    assert [item[0] for item in wanted[-5:]] == ["user", "assistant", "call", "result", "assistant"]
    assert wanted[-4] == ("assistant", LOOKING)
    others = {
        THIRD: [("user", THIRD), ("assistant", f"Answer 1: {THIRD}")],
        SIXTH: [("user", SIXTH), ("assistant", f"Answer 1: {SIXTH}")],
    }
    assert conversations(here) == {FIRST: wanted, **others}
    assert not any(mark in one.get("metadata", {}) for one in messages for mark in ("compacted", "branch", "rewound"))
    for stage in ("compaction", "after"):
        assert played.followed[stage] == played.imported[stage], stage
    nothing_vanished(played)


def nothing_vanished(played: Played) -> None:
    """What the follower had at a stage, it has at the next one, in the same order."""
    stages = list(played.followed.values())
    assert len(stages) == 4
    for earlier, later in pairwise(stages):
        now = {one["sessionId"]: one["messages"] for one in later}
        for session in earlier:
            had = [(one["id"], one["role"], one["content"]) for one in session["messages"]]
            ids = {one[0] for one in had}
            assert had == [(m["id"], m["role"], m["content"]) for m in now[session["sessionId"]] if m["id"] in ids]


def test_what_gemini_deletes_stays(tmp_path: Path) -> None:
    """Resumed in a later minute, it leaves an empty twin of the file, and deletes both when it starts the next time: the conversation
    is gone from it. Here it is whole, and said to be gone from there.
    """
    home = tmp_path / "a home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "apple.txt").write_text("an apple\n")
    following = Shell(HOME=str(home), CI="")
    following.write_config('[follow]\ntools = ["gemini-cli"]\n')
    try:
        with FakeModel() as model, following.client() as client:
            env = GEMINI.prepare(home, model.url)
            now = time.time() // 60 * 60
            GEMINI.run(env | clock(now - 120), home / "work", FIRST)
            GEMINI.run(env | clock(now - 60), home / "work", SECOND, again=True)
            said = [item for item, _ in groupby(with_results_stripped(model.conversation(FIRST)))]
            wait_until(lambda: conversations(sessions(client)) == {FIRST: said})
            [written] = [path for path in home.glob(f"{GEMINI.place}/*/chats/*") if FIRST in path.read_text()]
            GEMINI.run(env | clock(now), home / "work", THIRD)
            assert not written.exists(), "it keeps what was resumed: this test shows nothing any more"
            whole = {FIRST: said, THIRD: [("user", THIRD), ("assistant", f"Answer 1: {THIRD}")]}
            wait_until(lambda: conversations(sessions(client)) == whole)
            wait_until(lambda: any("gone" in one["metadata"]["source"] for one in sessions(client)))
            here = {next(iter(conversations([one]))): one for one in sessions(client)}
    finally:
        following.close()
    assert conversations(here.values()) == whole
    assert [here[first]["metadata"]["source"].get("gone") for first in (FIRST, THIRD)] == [True, None]
    assert not any("compacted" in one.get("metadata", {}) for one in here[FIRST]["messages"])
