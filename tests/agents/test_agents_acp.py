"""acpx -> `sessiond acp` -> real agents with a fake model: the session is what acpx itself wrote down."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sessiond.client import Message
from tests.acp.editor import Peer, spools
from tests.agents.acpx import (
    AGENT,
    DEADLINE_S,
    EDITOR,
    INSTALLED,
    RECORDER,
    Acpx,
    begins,
    by_journal,
    by_record,
    chosen,
    turns,
)
from tests.agents.agents import cache
from tests.agents.fake_model import FakeModel
from tests.shell import Shell, wait_until
from tests.suite.explore import tries

_KILLS = tries(few=1, usual=1)
_ROUNDS = min(2, _KILLS)
"""How often each of the three is killed in one life."""
_WORDS = " ".join(map(str, range(60)))
NAMES = ["opencode", "claude", "pi"]
NOTE = "[Request interrupted by user"
"""What Claude Code repeats as if the user had said it."""
DENIED = (0, 5)
"""Exit statuses of acpx when it has refused what an agent asked."""


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not ((cache() / "complete").exists() and (INSTALLED / "complete").exists()):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("sh tests/agents/install")


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as made:
        yield made


class Record:
    """What is recorded once no spool is left: one session."""

    def __init__(self, shell: Shell) -> None:
        wait_until(lambda: not spools(shell))
        with shell.client() as client:
            (self.info,) = client.sessions()
            session = client.session(self.info.session_id)
            self.messages: list[Message] = session.messages()
            self.turn: dict[str, Any] = session.state("acp.turn")["acp.turn"]

    @property
    def key(self) -> str:
        """What the agent calls it."""
        return str(self.info.metadata["acp"]["sessionId"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_session_is_what_acpx_wrote_down(name: str, tmp_path: Path, model: FakeModel, shell: Shell) -> None:
    """A turn with a tool call that is allowed, one with a call that is refused, and one that is cancelled in the middle: every
    prompt, text, call and result of acpx's own journal is in the session, in order, once; so is each question with the answer that
    acpx gave. The cancelled reply is interrupted.
    """
    acpx = Acpx(name, tmp_path / "a home", model, shell, asks=True)
    acpx("sessions", "new")
    acpx("prompt", "First prompt RUN touch pear.txt", may=("--policy", '{"defaultAction": "approve"}'))
    acpx("prompt", "Second prompt RUN touch plum.txt", may=(), codes=DENIED)
    assert (acpx.work / "pear.txt").exists() and not (acpx.work / "plum.txt").exists()
    model.hold(20)
    running = acpx.start("prompt", f"Third prompt {_WORDS}")
    wait_until(lambda: model.held or running.poll() is not None, DEADLINE_S)
    assert running.poll() is None, running.communicate()
    acpx("cancel")
    running.communicate(timeout=DEADLINE_S)
    model.go_on()
    acpx("sessions", "close")
    record = Record(shell)
    journal = acpx.journal()
    said = by_journal(journal)
    assert by_record(record.messages) == said
    assert [who for who, _ in said].count("call") == 2
    answers = [(one.metadata or {})["acp"]["permission"]["outcome"] for one in record.messages if one.role == "system"]
    assert answers == chosen(journal)
    assert len(answers) == 2
    assert record.turn["stopReason"] == "cancelled"
    *before, last = record.messages
    assert last.role == "user" or (last.role, last.status) == ("assistant", "interrupted")
    assert all(one.status in (None, "done") for one in before)


def _killed_in(acpx: Acpx, model: FakeModel, who: str, prompt: str, dice: random.Random) -> None:
    """Send a prompt, and kill somebody in the middle of the turn."""
    model.hold(dice.randrange(60))
    running = acpx.start("prompt", prompt)
    try:
        wait_until(lambda: model.held or running.poll() is not None, DEADLINE_S)
        assert running.poll() is None, running.communicate()
        acpx.kill(who)
    finally:
        model.go_on()
        out, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode != 0, (who, out)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(_KILLS // _ROUNDS))
@pytest.mark.parametrize("name", NAMES)
def test_a_kill_of_each_at_any_moment(name: str, seed: int, tmp_path: Path, model: FakeModel, shell: Shell) -> None:
    """kill -9 of acpx, of the recorder and of the agent, each at random moments of turns with and without a tool call, with a whole
    turn in a fresh process after each, which loads the session: every prompt is recorded, in order, once; every whole turn is what
    acpx wrote down; of a killed one at least what acpx had written, and what is open is interrupted. A fresh editor that loads the
    session is shown all of it, and nothing is left running.
    """
    dice = random.Random(f"{name} {seed}")
    acpx = Acpx(name, tmp_path / "a home", model, shell)
    acpx("sessions", "new")
    whole, killed = [], []
    for _ in range(_ROUNDS):
        for who in dice.sample([EDITOR, RECORDER, AGENT], 3):
            killed.append(f"First prompt, {who} {len(killed)}, {_WORDS}" + dice.choice(["", " RUN ls"]))
            _killed_in(acpx, model, who, killed[-1], dice)
            whole.append(f"Second prompt {len(whole)}" + dice.choice(["", " RUN ls"]))
            acpx("prompt", whole[-1])
    acpx("sessions", "close")
    record = Record(shell)
    recorded, journal = turns(by_record(record.messages)), turns(by_journal(acpx.journal()))
    sent = [prompt for both in zip(killed, whole, strict=True) for prompt in both]
    assert list(recorded) == sent
    assert [one for one in sent if one in journal] == list(journal)
    for prompt in whole:
        assert recorded[prompt] == journal[prompt]
    for prompt in killed:
        assert begins(recorded[prompt], journal.get(prompt, [])), (recorded[prompt], journal[prompt])
    assert all(one.status != "streaming" for one in record.messages)
    for before, after in pairwise(record.messages):
        if before.role == "assistant" and after.role == "user":  # the last word of a turn
            assert before.status == "interrupted" or (before.metadata or {}).get("acp")
    _shown(acpx, shell, record)
    wait_until(lambda: not acpx.running())


def _shown(acpx: Acpx, shell: Shell, record: Record) -> None:
    """A fresh editor that loads the session is shown what is recorded, and after it what only the agent knows of a turn."""
    process = shell.start(*acpx.arguments, env=shell.env | acpx.env, cwd=acpx.work, stderr=subprocess.DEVNULL)
    editor = Peer(process, record.key)
    editor.initialize()
    answer = editor.call("session/load", sessionId=record.key, cwd=str(acpx.work), mcpServers=[])
    assert "result" in answer, answer
    shown: dict[str, str] = {}
    for update in [one["params"]["update"] for one in editor.heard if one.get("method") == "session/update"]:
        if update["sessionUpdate"] == "user_message_chunk" and not update["content"]["text"].startswith(NOTE):
            assert update["content"]["text"] not in shown
            shown[update["content"]["text"]] = ""
        elif update["sessionUpdate"] == "agent_message_chunk":
            shown[next(reversed(shown))] += "".join(update["content"]["text"].split())
    editor.end()
    recorded = turns(by_record(record.messages))
    assert list(shown) == list(recorded)
    for prompt, said in recorded.items():
        assert shown[prompt].startswith("".join("".join(text.split()) for who, text in said if who == "assistant"))
