"""What each agent does once in a test run, for all tests that look at it. It writes while one daemon follows it.

The stages: `call`, a prompt with a tool call; `talk`, a second process that resumes the conversation, and a third one with a
conversation of its own; `compaction`, by the agent itself; `after`, once more a resume with a tool call, and a process with
another conversation. Agents that have no compaction stop after `talk`. After `talk` a second daemon imports all at once, after
`compaction` it imports again, and after `after` a third one imports all at once.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from sessiond.client import Sessiond
from tests.agents.agents import Agent, clock
from tests.agents.compactions import COMPACTIONS
from tests.agents.fake_model import FakeModel, Item
from tests.once import once
from tests.shell import DEADLINE_S, Shell, wait_until

FIRST = "First prompt RUN ls"
SECOND = "Second prompt in Japanese 日本語"
THIRD = "Third prompt of another process"
FIFTH = "Fifth prompt RUN ls"
SIXTH = "Sixth prompt of one more process"
Json = dict[str, Any]


class Played:
    """`imported` and `followed`: by stage, the sessions that were here, each with its `messages`. `again`: what a second import of
    the same had changed. `sent`: by stage, what the model knows of a conversation, by its first prompt. `turns`: by prompt, that
    prompt and what was sent and answered after it. `talk`: the agent's files as they were then.
    """

    def __init__(self, factory: pytest.TempPathFactory, agent: Agent) -> None:
        folder = once(factory, f"agent-{agent.name}", lambda path: _play(agent, path))
        told = json.loads((folder / "played.json").read_text())
        self.agent = agent
        self.talk = folder / "talk"
        self.imported: dict[str, list[Json]] = told["imported"]
        self.followed: dict[str, list[Json]] = told["followed"]
        self.again: list[Json] = told["again"]
        self.sent = {stage: {first: _tuples(said) for first, said in by.items()} for stage, by in told["sent"].items()}
        self.turns = {prompt: _tuples(said) for prompt, said in told["turns"].items()}


def _tuples(said: list[list[str]]) -> list[Item]:
    return [tuple(item) for item in said]


def _play(agent: Agent, path: Path) -> None:
    home = path / "a home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "apple.txt").write_text("an apple\n")
    with FakeModel() as model:
        play = _Play(agent, home, model)
        try:
            play.talk()
            place = home / agent.place
            (path / "talk" / agent.place).parent.mkdir(parents=True)
            for one in place.parent.glob(place.name + "*"):  # a database has its log beside it
                copy = path / "talk" / one.relative_to(home)
                shutil.copytree(one, copy) if one.is_dir() else shutil.copy(one, copy)
            if agent.name in COMPACTIONS:
                play.compact()
        finally:
            play.close()
        asked = {one.items[-1] for one in model.requests if one.items and one.tools}
        turns = {one[1]: model.turn(one[1]) for one in asked if one[0] == "user"}
    (path / "played.json").write_text(json.dumps({**play.told, "turns": turns}))


class _Play:
    def __init__(self, agent: Agent, home: Path, model: FakeModel) -> None:
        self.agent, self.home, self.model = agent, home, model
        model.sent = 5000  # more than a summary, so that a compaction is worth it
        self.told: dict[str, Any] = {"imported": {}, "followed": {}, "sent": {}}
        self._shells = [self._shell(), self._shell(), self._shell()]
        self._importing, self._following, self._fresh = self._shells
        self._following.write_config(f'[follow]\ntools = ["{agent.tool}"]\n')
        self._clients: dict[Shell, Sessiond] = {}
        assert self._following("follow", "status").code == 0
        self._env = agent.prepare(home, model.url)
        self._began = time.time() // 60 * 60
        self._runs = 0

    def _shell(self) -> Shell:
        return Shell(HOME=str(self.home), CI="")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        for shell in self._shells:
            shell.close()

    def env(self) -> dict[str, str]:
        """For the next process. Whatever it takes, Gemini CLI is shown one minute: what it resumes in another one, it deletes."""
        self._runs += 1
        return self._env | clock(self._began + 5 * (self._runs - 1))

    def talk(self) -> None:
        folder = self.home / "work"
        self.agent.run(self.env(), folder, FIRST)
        self._look_at_the_follower("call")
        self.agent.run(self.env(), folder, SECOND, again=True)
        self.agent.run(self.env(), folder, THIRD)
        self._look("talk", self._importing, FIRST, THIRD)
        done = self._importing("import", str(self.home / self.agent.place), "--json")
        self.told["again"] = done.json["sessions"]

    def compact(self) -> None:
        folder = self.home / "work"
        there = self.told["imported"]["talk"]
        [session_id] = [one["metadata"]["source"]["id"] for one in there if FIRST in str(one["messages"])]
        COMPACTIONS[self.agent.name](self.agent, self.env(), folder, session_id, self.model)
        self._look("compaction", self._importing)
        self.agent.resume(self.env(), folder, session_id, FIFTH)
        self.agent.run(self.env(), folder, SIXTH)
        self._look("after", self._fresh, SIXTH)

    def _look_at_the_follower(self, stage: str) -> None:
        """Wait until it has what the model said last."""
        last = self.model.conversation(FIRST)[-1][1]
        wait_until(
            lambda: (
                last in [message["content"] for one in self._sessions(self._following) for message in one["messages"]]
            )
        )
        self.told["followed"][stage] = self._sessions(self._following)

    def _look(self, stage: str, importing: Shell, *firsts: str) -> None:
        """Import what is there, and wait until following has come to the same. The tests say what is different if it does not."""
        self.told["sent"][stage] = {first: self.model.conversation(first) for first in firsts}
        done = importing("import", str(self.home / self.agent.place))
        assert done.code == 0, done
        imported = self._sessions(importing)
        deadline = time.monotonic() + DEADLINE_S
        while (followed := self._sessions(self._following)) != imported and time.monotonic() < deadline:
            time.sleep(0.05)
        self.told["imported"][stage], self.told["followed"][stage] = imported, followed

    def _sessions(self, shell: Shell) -> list[Json]:
        if shell not in self._clients:
            self._clients[shell] = shell.client()
        return sessions(self._clients[shell])


def sessions(client: Sessiond) -> list[Json]:
    """All that is here, but for what depends on when it was looked at: a home's seqs, and the state of the file that was read."""
    found = []
    for info in client.call("session/list", {"limit": 1000})["sessions"]:
        messages = client.call("session/read", {"sessionId": info["sessionId"], "limit": 1000})["messages"]
        kept = {
            key: info.get(key) for key in ("sessionId", "name", "cwd", "model", "createdAt", "updatedAt", "metadata")
        }
        kept["metadata"]["source"].pop("fingerprint", None)
        found.append({**kept, "messages": [{**message, "seq": 0} for message in messages]})
    return sorted(found, key=lambda one: one["sessionId"])
