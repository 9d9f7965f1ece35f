"""What a window makes of our actions is what the session is: for random sessions, and random changes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.agent_host import shapes
from sessiond.agent_host.actions import changes
from sessiond.agent_host.turns import Conversation, begins, conversation
from sessiond.model.message import Message
from tests.agent_host.histories import History
from tests.agent_host.reducers import reduced
from tests.clients import vscodes
from tests.suite.explore import seeds


def state(of: Conversation) -> dict[str, Any]:
    """As in a snapshot; flags, and what says when something happened, aside."""
    found: dict[str, Any] = {
        "status": shapes.chat_status(of.turns, of.active, shapes.IDLE) & shapes.ACTIVITY,
        "turns": of.turns,
    }
    if of.active is not None:
        found["activeTurn"] = of.active
    if of.queued:
        found["queuedMessages"] = of.queued
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


@pytest.mark.parametrize("seed", seeds(60, 3000))
def test_a_window_that_takes_our_actions_has_our_state(seed: int) -> None:
    history = History(seed)
    splits: set[str] = set()
    before = Conversation()
    for _ in range(40):
        told = history.step()
        if history.messages and history.pick.random() < 0.1:
            splits.add(history.pick.choice(history.messages[-3:]).id)
        after = conversation(history.messages, splits, goes_on=history.pick.random() < 0.7)
        assert reduced(state(before), changes(before, after)) == state(after), told
        before = after


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_every_word_is_in_a_turn(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        history.step()
    while any(one.status == "streaming" for one in history.messages):  # what came after it waits until then
        history.finish()
    shown = msgspec.json.encode(state(conversation(history.messages))).decode()
    for message in history.messages:
        for text in [message.text(), str(message.rest.get("thinking") or "")]:
            assert not text.strip() or msgspec.json.encode(text).decode()[1:-1] in shown


@pytest.mark.parametrize("seed", seeds(20, 1000))
def test_what_is_usual_cuts_nothing(seed: int) -> None:
    """Text, calls and results that come one after the other lead to no cut, because open windows do not obey one."""
    history = History(seed)
    usual = [history.ask, history.answer, history.stream, history.extend, history.finish, history.call, history.result]
    splits: set[str] = set()
    before = Conversation()
    for _ in range(60):
        streaming = any(message.status == "streaming" for message in history.messages)
        choices = [history.extend, history.finish] if streaming else usual
        held = len(history.messages)
        history.pick.choice(choices)()
        if (
            before.active is None
            and len(history.messages) > held
            and before.turns
            and not begins(history.messages[-1], ())
        ):
            splits.add(history.messages[-1].id)
        last = history.messages[-1:]
        after = conversation(history.messages, splits, goes_on=bool(last) and last[0].status == "streaming")
        found = [one["type"] for one in changes(before, after)]
        assert "chat/truncated" not in found
        before = after


def test_vs_code_itself_has_our_state() -> None:
    """The same with the reducers inside the real VS Code."""
    vscodes.installed()
    cases: list[tuple[dict[str, Any], list[Any], dict[str, Any]]] = []
    for seed in seeds(40, 400):
        history, before = History(seed), Conversation()
        for _ in range(40):
            history.step()
            after = conversation(history.messages, goes_on=history.pick.random() < 0.7)
            cases.append((state(before), changes(before, after), state(after)))
            before = after
    about = {"resource": "ahp-chat:/a", "title": "A", "modifiedAt": "2026-01-01T00:00:00.000Z"}
    asked = [msgspec.json.encode({"state": {**about, **first}, "actions": told}) for first, told, _ in cases]
    command = [str(vscodes.NODE), str(Path(__file__).with_name("vscode_reducers.mjs")), str(vscodes.WORKBENCH)]
    done = subprocess.run(command, input=b"\n".join(asked), capture_output=True, check=True, timeout=100)
    for answer, (_, told, expected) in zip(done.stdout.splitlines(), cases, strict=True):
        found = msgspec.json.decode(answer)
        shown = {key: found[key] for key in ("turns", "activeTurn", "queuedMessages") if key in found}
        assert {**shown, "status": found["status"] & shapes.ACTIVITY} == expected, told


def message(id: str, role: str, content: str = "", **rest: Any) -> Message:
    return Message(id=id, seq=int(id[1:]), role=role, content=content, timestamp="2026-01-01T00:00:00.000Z", rest=rest)


def test_a_call_is_drawn_as_what_it_is() -> None:
    calls = [{"id": "c", "name": "Bash", "arguments": {"command": "ls -l"}}]
    turns = conversation(
        [
            message("m1", "user", "List"),
            message("m2", "assistant", toolCalls=calls),
            message("m3", "tool", "a.txt", toolCallId="c"),
        ]
    )
    (part,) = turns.turns[0].response_parts
    assert isinstance(part, shapes.ToolCallPart)
    call = part.tool_call
    assert (call.status, call.tool_input, call.meta) == ("completed", "ls -l", shapes.CallMeta(tool_kind="terminal"))
    assert call.content == (shapes.Text(text="a.txt"),)


def test_a_turn_that_nobody_asked_for_has_a_hidden_question() -> None:
    (turn,) = conversation([message("m1", "assistant", "Good morning.")]).turns
    plain = msgspec.json.decode(msgspec.json.encode(turn))
    assert plain["message"]["_meta"] == {"vscode.chat.requestHiddenFromTranscript": True}


def test_channels_lead_to_their_sessions() -> None:
    for wire_id in ("a", "team/lock-order", "x" * 128):
        assert shapes.session_of(shapes.session_uri(wire_id)) == wire_id
        assert shapes.session_of(shapes.chat_uri(wire_id)) == wire_id
    for other in ("", "ahp-root://", "claude:/x", "ahp-chat://default/!!", "ahp-chat://default/_w"):
        assert shapes.session_of(other) is None
