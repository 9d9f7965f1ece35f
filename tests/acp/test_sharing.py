"""Several editors on one agent, without any process: whatever they do, in any order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sessiond.acp.acts import Act, Down, Keep, To, Up, dumped
from sessiond.acp.replaying import Replaying
from sessiond.acp.switch import Switch

KEY = "s"


class World:
    """Editors and an agent around a switch, each with what it has received and not yet read. The editor is 0."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.switch = Switch(Replaying())
        self.agent: list[dict[str, Any]] = []
        self.shown: dict[int, list[dict[str, Any]]] = {0: []}
        self.kept: list[tuple[bool, dict[str, Any]]] = []
        self.number = 0
        self.turn: dict[str, Any] | None = None
        self.asked: dict[Any, list[int]] = {}
        """Question -> who has answered, in order."""
        self.answered: dict[Any, set[int]] = {}
        """Question -> who has sent an answer."""
        self.prompted: dict[tuple[int, int], str] = {}
        self.joined = 0
        self.said = 0
        self.closing = False
        """The agent says and asks nothing more."""

    def do(self, acts: Any) -> None:
        act: Act
        for act in acts:
            if isinstance(act, Down):
                self.agent.append(json.loads(act.data))
            elif isinstance(act, Up):
                self.shown[0].append(json.loads(act.data))
            elif isinstance(act, Keep):
                self.kept.append((act.editor, json.loads(act.data)))
            elif isinstance(act, To) and act.client in self.shown:
                self.shown[act.client].append(json.loads(act.data))

    def send(self, who: int, message: dict[str, Any]) -> None:
        data = dumped(message)
        self.do(self.switch.from_editor(data, True) if who == 0 else self.switch.from_client(who, data))

    def say(self, message: dict[str, Any]) -> None:
        self.do(self.switch.from_agent(dumped(message), True))

    def begin(self) -> None:
        self.send(0, {"id": "new", "method": "session/new", "params": {}})
        self.agent.clear()
        self.say({"id": "new", "result": {"sessionId": KEY, "modes": {"currentModeId": "m"}}})

    # One step of each

    def join(self) -> None:
        self.joined += 1
        who = self.joined
        told = self.switch.attach(who, KEY, {"name": f"c{who}"}, "controller", aware=self.dice.random() < 0.5)
        assert told["opened"] == {"modes": {"currentModeId": "m"}}
        open_ = [number for number in self.asked if not self.answered.get(number)]
        assert [one["id"] for one in told["questions"]] == open_
        self.shown[who] = []

    def leave(self) -> None:
        who = self.dice.choice(sorted(self.shown))
        if who != 0:
            self.do(self.switch.left(who))
            del self.shown[who]

    def prompt(self) -> None:
        who = self.dice.choice(sorted(self.shown))
        self.number += 1
        text = f"p{self.number}"
        self.prompted[who, self.number] = text
        params = {"sessionId": KEY, "prompt": [{"type": "text", "text": text}]}
        self.send(who, {"id": self.number, "method": "session/prompt", "params": params})

    def work(self) -> None:
        """The agent takes what it got, says something, asks something, or ends its turn."""
        while self.agent:
            message = self.agent.pop(0)
            if message.get("method") == "session/prompt":
                text = message["params"]["prompt"][0]["text"]
                editors = isinstance(message["id"], int)
                assert self.turn is None or editors, "a prompt of another did not wait"
                if self.turn is not None:  # the editor's own, which the agent takes in
                    self.say({"id": message["id"], "result": {"stopReason": "end_turn"}})
                else:
                    self.turn = {"id": message["id"], "text": text}
            elif "method" not in message:
                self.asked[message["id"]].append(message["result"]["outcome"]["optionId"])
                assert len(self.asked[message["id"]]) == 1, "two answers to one question"
        if self.turn is None:
            return
        act = 2 if self.closing else self.dice.randrange(3)
        if act == 0:
            self.said += 1
            update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"a{self.said}"}}
            self.say({"method": "session/update", "params": {"sessionId": KEY, "update": update}})
        elif act == 1:
            number = f"q{len(self.asked)}"
            self.asked[number] = []
            params = {"sessionId": KEY, "toolCall": {"toolCallId": "t"}, "options": []}
            self.say({"id": number, "method": "session/request_permission", "params": params})
        elif all(self.asked.values()):
            turn, self.turn = self.turn, None
            self.say({"id": turn["id"], "result": {"stopReason": "end_turn"}})

    def answer(self) -> None:
        """Somebody answers a question that it sees, whether it is too late or not."""
        who = self.dice.choice(sorted(self.shown))
        asked = [one["id"] for one in self.shown[who] if one.get("method") == "session/request_permission"]
        asked = [number for number in asked if who not in self.answered.get(number, ())]
        if asked:
            number = self.dice.choice(asked)
            self.answered.setdefault(number, set()).add(who)
            outcome = {"outcome": "selected", "optionId": f"by{who}"}
            self.send(who, {"id": number, "result": {"outcome": outcome}})


@pytest.mark.parametrize("seed", range(60))
def test_any_editors_share_an_agent(seed: int) -> None:
    """The agent gets one answer to each question and never a prompt of one editor in a turn of another; each editor that stays gets
    one response to each of its prompts, and all see the same words and prompts in one order.
    """
    dice = random.Random(seed)
    world = World(dice)
    world.begin()
    for _ in range(150):
        dice.choice(
            [world.join, world.leave, world.prompt, world.work, world.work, world.work, world.answer, world.answer]
        )()
    world.closing = True
    while world.turn is not None or world.agent:
        for number in [one for one in world.asked if not world.answered.get(one)]:
            world.answered[number] = {0}
            world.send(0, {"id": number, "result": {"outcome": {"optionId": "by0"}}})
        world.work()
    assert all(world.asked.values())
    for who, shown in world.shown.items():
        mine = [number for whose, number in world.prompted if whose == who]
        assert sorted(one["id"] for one in shown if one.get("result", {}).get("stopReason")) == mine
    seen = {who: _texts(shown) for who, shown in world.shown.items()}
    recorded = [
        one["params"]["update"]["content"]["text"]
        for editor, one in world.kept
        if not editor and "params" in one and "update" in one["params"]
    ]
    assert [one for one in seen[0] if one.startswith("a")] == recorded
    for who, words in seen.items():
        theirs = [one for one in words if one.startswith("a")]
        assert recorded[len(recorded) - len(theirs) :] == theirs, who


def _texts(shown: list[dict[str, Any]]) -> list[str]:
    updates = [one["params"]["update"] for one in shown if one.get("method") == "session/update"]
    return [one["content"]["text"] for one in updates if "content" in one]


def _two() -> World:
    world = World(random.Random(0))
    world.begin()
    world.join()
    return world


def test_requests_of_two_editors_are_told_apart() -> None:
    """Two editors that give their requests the same id each get their own response."""
    world = _two()
    for who in (0, 1):
        world.send(who, {"id": 5, "method": "session/set_mode", "params": {"sessionId": KEY, "modeId": f"m{who}"}})
    first, second = world.agent
    assert first["id"] != second["id"]
    world.say({"id": second["id"], "result": {"of": 1}})
    world.say({"id": first["id"], "result": {"of": 0}})
    assert world.shown[1] == [{"jsonrpc": "2.0", "id": 5, "result": {"of": 1}}]
    assert world.shown[0][-1] == {"jsonrpc": "2.0", "id": 5, "result": {"of": 0}}


def test_what_only_the_first_editor_can_do() -> None:
    """Files are asked of the first editor only; when it has left, the agent is told so at once instead of waiting for ever."""
    world = _two()
    read = {"id": 9, "method": "fs/read_text_file", "params": {"sessionId": KEY, "path": "/x"}}
    world.say(read)
    assert world.shown[0][-1]["method"] == "fs/read_text_file"
    assert world.shown[1] == []
    world.do(world.switch.left(0))
    world.say({**read, "id": 10})
    assert world.agent[-1]["error"]["code"] == -32601
    assert world.agent[-1]["id"] == 10


def test_a_question_that_the_agent_withdraws() -> None:
    """When the agent withdraws a question, all who have it are told, and an answer that comes later is left out."""
    world = _two()
    params = {"sessionId": KEY, "toolCall": {"toolCallId": "t"}, "options": []}
    world.say({"id": "q", "method": "session/request_permission", "params": params})
    gone = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q"}}
    world.say({key: value for key, value in gone.items() if key != "jsonrpc"})
    assert world.shown[1][-1] == world.shown[0][-1] == gone
    world.send(1, {"id": "q", "result": {"outcome": {"outcome": "cancelled"}}})
    assert world.agent == []


def test_an_editor_alone_is_as_without_us() -> None:
    """As long as nobody has joined, the bytes of an editor's prompts, answers and cancels, and of the agent's, are what they were."""
    switch = Switch(Replaying())
    lines = [
        b'{"id":1, "method":"session/prompt", "params":{"sessionId":"s", "prompt":[]}}\n',
        b'{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[ ]}}\n',
        b'{"method":"session/cancel","params":{"sessionId":"s"}}\n', b'{"id":7,"result":{"x":1.0}}\n', b'{"id":7, "method":[]}\n',
    ]  # fmt: skip
    for line in lines:
        assert [one for one in switch.from_editor(line, True) if isinstance(one, Down)] == [Down(line)]
        assert [one for one in switch.from_agent(line, True) if isinstance(one, Up)] == [Up(line)]
