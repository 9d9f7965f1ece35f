"""OpenHands: events in the shape that SDK 1.2 wrote, driven by a fake model, and those before version 1."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from collected import read, recognised

from sessiond.importers import registry
from tests.importers.tools import calls, imported_twice, told

STATE = {
    "id": "4232bfec-9196-4bfd-b260-aa759cdcbc59",
    "agent": {"kind": "Agent", "llm": {"model": "openai/fake", "api_key": "**********"}},
    "workspace": {"kind": "LocalWorkspace", "working_dir": "/work"},
    "execution_status": "finished",
}


def text(words: str) -> list[dict[str, Any]]:
    return [{"cache_prompt": False, "type": "text", "text": words}]


def event(number: int, kind: str, source: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "id": f"id{number}",
        "timestamp": f"2026-11-23T13:28:{50 + number}.621961Z",
        "source": source,
        **more,
    }


def message(number: int, source: str, role: str, words: str) -> dict[str, Any]:
    said = {"role": role, "content": text(words), "cache_enabled": False, "thinking_blocks": []}
    return event(number, "MessageEvent", source, llm_message=said, activated_skills=[], extended_content=[])


CALL = {"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}', "origin": "completion"}
EVENTS = [
    event(0, "SystemPromptEvent", "agent", system_prompt=text("You are an agent.")[0], tools=[]),
    message(1, "user", "user", "What is here?"),
    event(
        2,
        "ActionEvent",
        "agent",
        thought=text("Let me look."),
        reasoning_content="hm",
        thinking_blocks=[],
        action={"kind": "ExecuteBashAction", "command": "ls"},
        tool_name="terminal",
        tool_call_id="c1",
        tool_call=CALL,
        llm_response_id="r1",
    ),
    event(
        3,
        "ObservationEvent",
        "environment",
        tool_name="terminal",
        tool_call_id="c1",
        observation={
            "kind": "ExecuteBashObservation",
            "content": text("apple.txt"),
            "is_error": False,
            "command": "ls",
        },
        action_id="id2",
    ),
    event(4, "AgentErrorEvent", "agent", tool_name="x", tool_call_id="c2", error="no such tool"),
    event(5, "ConversationStateUpdateEvent", "environment", key="stats", value={}),
    event(6, "EventOfNextWeek", "agent", words="kept"),
    message(7, "agent", "assistant", "An apple."),
]
EXPECTED = [
    ("system", "You are an agent."),
    ("user", "What is here?"),
    ("assistant", "Let me look."),
    ("tool", "apple.txt"),
    ("tool", "no such tool"),
    ("system", ""),
    ("assistant", "An apple."),
]


def conversation(folder: Path) -> Path:
    path = folder / "conversations" / "4232" / "base_state.json"
    (path.parent / "events").mkdir(parents=True)
    path.write_text(json.dumps(STATE))
    for number, one in enumerate(EVENTS):
        (path.parent / "events" / f"event-{number:05}-aeccf339-322b.json").write_text(json.dumps(one))
    return path


def test_a_conversation(tmp_path: Path) -> None:
    """The events come in the order of their numbers; only the state file is recognised."""
    path = conversation(tmp_path)
    assert [
        (one.importer, Path(one.path).name) for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)
    ] == [("openhands", "base_state.json")]
    stream = read(path)
    assert told(stream.only) == EXPECTED
    called, result, error, unknown = stream.only[2:6]
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "terminal", '{"command": "ls"}')])
    assert (result["toolCallId"], result["metadata"].get("isError")) == ("c1", None)
    assert error["metadata"]["isError"] is True
    assert unknown["metadata"]["record"] == EVENTS[6]
    assert stream.ignored == {"ConversationStateUpdateEvent": 1}
    info = stream.only_info
    assert (info["cwd"], info["model"], list(stream.starts)) == ("/work", "openai/fake", [STATE["id"]])


def test_a_condensation_is_a_message(tmp_path: Path) -> None:
    """Its summary is what the model sees of the events before it."""
    path = conversation(tmp_path)
    condensed = event(8, "Condensation", "environment", summary="We saw an apple.", forgotten_event_ids=["id1"])
    (path.parent / "events" / "event-00008-aeccf339-322b.json").write_text(json.dumps(condensed))
    last = read(path).only[-1]
    assert (last["role"], last["content"]) == ("system", "We saw an apple.")
    assert last["metadata"] == {"forgotten_event_ids": ["id1"]}


def test_an_event_is_not_a_session(tmp_path: Path) -> None:
    """Even if it looks like a list of messages."""
    path = conversation(tmp_path).parent / "events" / "event-00009-aeccf339-322b.json"
    path.write_text(json.dumps([{"role": "user", "content": "x"}]))
    assert recognised(path) == "messages"
    found = [one.path for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)]
    assert [Path(one).name for one in found] == ["base_state.json"]


def test_events_before_version_1(tmp_path: Path) -> None:
    """A file for each event, without a state; actions and observations."""
    call = {"tool_call_id": "c1", "function_name": "execute_bash"}
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be kind."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "What is here?"}},
        {
            "id": 2,
            "source": "agent",
            "action": "run",
            "args": {"command": "ls", "thought": "I look."},
            "tool_call_metadata": call,
        },
        {
            "id": 3,
            "source": "agent",
            "observation": "run",
            "content": "apple.txt",
            "cause": 2,
            "tool_call_metadata": call,
        },
        {"id": 4, "source": "environment", "observation": "agent_state_changed", "content": ""},
        {"id": 5, "source": "agent", "words": "kept"},
    ]
    folder = tmp_path / "sid" / "events"
    folder.mkdir(parents=True)
    for one in events:
        one["timestamp"] = "2025-01-01T10:00:00.123456Z"
        (folder / f"{one['id']}.json").write_text(json.dumps(one))
    path = folder / "0.json"
    assert recognised(path) == "openhands"
    expected = [
        ("system", "Be kind."),
        ("user", "What is here?"),
        ("assistant", "I look."),
        ("tool", "apple.txt"),
        ("system", ""),
    ]
    stream = read(path)
    assert (told(stream.only), list(stream.starts)) == (expected, ["sid"])
    assert calls(stream.only[2]) == [("c1", "execute_bash", {"command": "ls"})]
    trajectory = tmp_path / "trajectory.json"
    trajectory.write_text(json.dumps(events))
    assert recognised(trajectory) == "openhands"
    assert told(read(trajectory).only) == expected


def test_a_fingerprint_changes_with_the_events(tmp_path: Path) -> None:
    """A new event is in a new file, so the folder counts too."""
    path = conversation(tmp_path)
    first = registry.fingerprint(str(path))
    os.utime(path.parent / "events", (1, 1))
    assert registry.fingerprint(str(path)) != first


def test_a_damaged_event_costs_itself(tmp_path: Path) -> None:
    """An event that is cut off is reported with its path; in a trajectory, an element that is not an event is."""
    path = conversation(tmp_path)
    broken = path.parent / "events" / "event-00001-aeccf339-322b.json"
    broken.write_text('{"kind": "Mess')
    stream = read(path)
    assert told(stream.only) == [EXPECTED[0], *EXPECTED[2:]]
    assert [one.path for one in stream.skipped] == [str(broken)]
    trajectory = tmp_path / "t.json"
    trajectory.write_text(json.dumps([*EVENTS[:2], 5]))
    assert [one.reason for one in read(trajectory).skipped] == ["an event that is not an object"]


def test_another_state_is_not_recognised(tmp_path: Path) -> None:
    """The file's name alone says nothing."""
    path = tmp_path / "base_state.json"
    path.write_text("{}")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", conversation(tmp_path), 7)
