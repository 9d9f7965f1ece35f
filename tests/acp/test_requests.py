"""Which requests go on in a session, by the messages of both sides."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from sessiond.acp.doing import Doing
from sessiond.acp.spool import AGENT, EDITOR
from sessiond.acp.steps import Begun, Over
from sessiond.acp.talk import Talk


class Said:
    """A connection's messages, for `Talk`; and what goes on in it by them."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.talk = Talk("t", "agent")
        self.open: set[tuple[str, str, bool]] = set()
        """Sessions, requests, and whether they are questions."""
        self.told: set[tuple[str, str, bool]] = set()

    def say(self, kind: bytes, **message: Any) -> None:
        for step in self.talk.feed(kind, 0, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"):
            if isinstance(step, Begun):
                self.told.add((step.key, step.request, step.asked is not None))
            elif isinstance(step, Over):
                self.told.discard((step.key, step.request, step.question))

    def step(self) -> None:
        key, number = self.pick.choice("ab"), self.pick.choice((1, 2, "1", True))
        params: dict[str, Any] = {"sessionId": key}
        made = json.dumps(number)
        what = self.pick.random()
        if what < 0.3 and not self._open(made, question=False):
            self.say(EDITOR, id=number, method="session/prompt", params={**params, "prompt": []})
            self.open.add((key, made, False))
        elif what < 0.5 and not self._open(made, question=True):
            call = {"toolCallId": "c", "title": "ls"}
            self.say(AGENT, id=number, method="session/request_permission", params={**params, "toolCall": call})
            self.open.add((key, made, True))
        elif what < 0.6:
            self.say(AGENT, method="$/cancel_request", params={"requestId": number})
            self._over(made, question=True)
        else:
            question = self.pick.random() < 0.5
            self.say(EDITOR if question else AGENT, id=number, result={})
            self._over(made, question=question)

    def _open(self, made: str, *, question: bool) -> set[tuple[str, str, bool]]:
        return {one for one in self.open if one[1:] == (made, question)}

    def _over(self, made: str, *, question: bool) -> None:
        self.open -= self._open(made, question=question)


@pytest.mark.parametrize("seed", range(20))
def test_what_has_no_response_goes_on(seed: int) -> None:
    """Whatever ids are used: a number and a text that look alike are two."""
    said = Said(seed)
    for _ in range(200):
        said.step()
        assert said.told == said.open


class Recorded:
    """A session: what is said of it."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str | None, str | None]] = []

    async def activity(self, state: str, *, waiting_for: str | None, text: str | None) -> None:
        self.said.append((state, waiting_for, text))

    async def ask(self, text: str, **more: Any) -> Any:
        """Nobody answers."""
        self.said.append(("asks", None, text))
        try:
            await asyncio.Event().wait()
        finally:
            self.said.append(("withdrawn", None, text))


async def test_a_question_with_too_many_options_waits_for_the_editor() -> None:
    """Nobody else is asked, but all see that it waits."""
    recorded: Any = Recorded()
    doing = Doing(0, lambda key: recorded, lambda: 1)
    options = [{"optionId": f"o{number}", "name": "An option"} for number in range(21)]
    doing.heed(Begun(key="a", request="1"))
    doing.heed(Begun(key="a", request="1", asked={"toolCall": {"title": "ls"}, "options": options}))
    await doing.tell()
    doing.heed(Over(key="a", request="1", question=True))
    await doing.tell()
    doing.heed(Over(key="a", request="1", question=False))
    await doing.tell()
    assert recorded.said == [("waiting", "permission", "ls"), ("working", None, None), ("idle", None, None)]


async def test_another_question_with_the_same_id_is_asked() -> None:
    """Also if the agent asks it before the first one is over."""
    recorded: Any = Recorded()
    doing = Doing(0, lambda key: recorded, lambda: 1)
    options = [{"optionId": "yes", "name": "Allow"}]
    for title in ("ls", "rm"):
        doing.heed(Begun(key="a", request="1", asked={"toolCall": {"title": title}, "options": options}))
        await doing.tell()
        await asyncio.sleep(0)
    assert recorded.said == [("asks", None, "ls"), ("withdrawn", None, "ls"), ("asks", None, "rm")]
    doing.close()
