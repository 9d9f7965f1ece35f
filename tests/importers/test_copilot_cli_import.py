"""Copilot CLI: events in the shape that versions 1.0.40 and 1.0.102 wrote, driven by a fake model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collected import lines, read, recognised

from tests.importers.tools import calls, imported_twice, told

S = "b9613fa6-3c3c-41e1-81c8-aac7eea35f30"
ASK = {"command": "ls", "description": "list the files"}


def event(number: int, kind: str, **data: Any) -> dict[str, Any]:
    parent = f"e{number - 1}" if number else None
    return {
        "type": kind,
        "data": data,
        "id": f"e{number}",
        "timestamp": f"2026-11-23T13:21:{number:02}.407Z",
        "parentId": parent,
    }


EVENTS = [
    event(
        0,
        "session.start",
        sessionId=S,
        version=1,
        producer="copilot-agent",
        copilotVersion="1.0.40",
        startTime="2026-11-23T13:21:00.375Z",
        context={"cwd": "/work", "branch": "main"},
        alreadyInUse=False,
    ),
    event(1, "session.model_change", newModel="fake"),
    event(2, "system.message", role="system", content="You are a terminal assistant."),
    event(3, "user.message", content="What is here?", transformedContent="<now/> What is here?", attachments=[]),
    event(4, "assistant.turn_start", turnId="0"),
    event(
        5,
        "assistant.message",
        messageId="m1",
        content="Let me look.",
        reasoningText="hm",
        toolRequests=[
            {"toolCallId": "c1", "name": "bash", "arguments": ASK, "type": "function", "intentionSummary": "list"}
        ],
        turnId="0",
        outputTokens=10,
    ),
    event(6, "tool.execution_start", toolCallId="c1", toolName="bash", arguments=ASK, turnId="0"),
    event(7, "hook.start", hookInvocationId="h", hookType="postToolUse", input={}),
    event(
        8,
        "tool.execution_complete",
        toolCallId="c1",
        model="fake",
        success=True,
        result={"content": "apple.txt", "detailedContent": "apple.txt"},
    ),
    event(9, "tool.execution_complete", toolCallId="c2", success=False, error={"message": "denied", "code": "no"}),
    event(10, "assistant.message", messageId="m2", content="An apple.", toolRequests=[], agentId="a"),
    event(11, "session.compaction_complete", success=True, summaryContent="We saw an apple."),
    event(12, "session.of_next_week", words="kept"),
    event(13, "session.shutdown", shutdownType="routine", totalPremiumRequests=0),
]


def session(folder: Path, *events: Any) -> Path:
    path = lines(folder / "session-state" / S / "events.jsonl", *(events or EVENTS))
    (path.parent / "workspace.yaml").write_text(f'id: {S}\ncwd: /work\nname: "What: is here?"\nuser_named: false\n')
    return path


def test_a_session(tmp_path: Path) -> None:
    """Prompts, answers, calls and results in order; the prompt as the model saw it is in the metadata."""
    path = session(tmp_path)
    assert recognised(path) == "copilot-cli"
    stream = read(path)
    assert told(stream.only) == [
        ("system", "You are a terminal assistant."),
        ("user", "What is here?"),
        ("assistant", "Let me look."),
        ("tool", "apple.txt"),
        ("tool", "denied"),
        ("assistant", "An apple."),
        ("system", "We saw an apple."),
    ]
    system, asked, called, result, denied, _, summary = stream.only
    assert system["metadata"]["injected"] is True
    assert asked["metadata"] == {"transformedContent": "<now/> What is here?"}
    assert (called["thinking"], calls(called)) == ("hm", [("c1", "bash", ASK)])
    assert (result["toolCallId"], result["id"], "toolResult" in result["metadata"]) == ("c1", "e8", False)
    assert denied["metadata"]["isError"] is True
    assert summary["metadata"]["event"] == "session.compaction_complete"
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("What: is here?", "/work", "fake")
    assert info["createdAt"] == "2026-11-23T13:21:00.375Z"


def test_words_that_are_not_the_persons(tmp_path: Path) -> None:
    """A prompt from a skill is injected; what a subagent says is marked."""
    prompt = event(1, "user.message", content="Use the skill.", source="skill-x")
    aside = event(2, "assistant.message", content="aside", toolRequests=["odd"], parentToolCallId="c1")
    stream = read(session(tmp_path, EVENTS[0], prompt, aside))
    assert stream.only[0]["metadata"] == {"source": "skill-x", "injected": True}
    assert stream.only[1]["metadata"] == {"parentToolCallId": "c1", "sidechain": True}


def test_nothing_is_dropped_silently(tmp_path: Path) -> None:
    """Known bookkeeping is counted; an event of an unknown kind is kept."""
    stream = read(session(tmp_path))
    assert stream.ignored == {
        "session.model_change": 1,
        "assistant.turn_start": 1,
        "tool.execution_start": 1,
        "hook.start": 1,
        "session.shutdown": 1,
    }
    assert stream.only_info["metadata"]["records"] == [EVENTS[12]]


def test_what_a_request_cost(tmp_path: Path) -> None:
    """Since version 1.0.102 a record before the answer says it: it is with the answer of the same call."""
    usage = {"model": "m2", "inputTokens": 100, "outputTokens": 10, "apiCallId": "a1"}
    records = [
        EVENTS[0],
        event(1, "session.usage_record", usage=usage),
        event(2, "assistant.message", content="Hi.", model="m2", apiCallId="a1"),
        event(3, "assistant.message", content="Ho.", model="m2", apiCallId="a2"),
    ]
    stream = read(session(tmp_path, *records))
    assert stream.only[0]["metadata"]["usage"] == usage
    assert "usage" not in stream.only[1]["metadata"]
    assert stream.only_info["model"] == "m2"
    assert stream.ignored == {"session.usage_record": 1}


def test_a_title_and_an_older_name(tmp_path: Path) -> None:
    """Older versions wrote one file per session, without a list of workspaces; a title comes as an event."""
    titled = event(20, "session.title_changed", title="Fruit")
    stream = read(lines(tmp_path / f"{S}.jsonl", *EVENTS[:4], titled))
    assert list(stream.starts) == [S]
    assert stream.only_info["name"] == "Fruit"


def test_a_plain_name(tmp_path: Path) -> None:
    """YAML leaves out the quotes if it can."""
    path = session(tmp_path)
    (path.parent / "workspace.yaml").write_text("name: Fruit salad\n")
    assert read(path).only_info["name"] == "Fruit salad"
    (path.parent / "workspace.yaml").write_text("cwd: /work\n")
    assert read(path).only_info["name"] == read(path).only_info["metadata"]["untitled"]


def test_damage_costs_a_line(tmp_path: Path) -> None:
    """A damaged line is reported and the others are imported; a session whose start is lost is imported too."""
    stream = read(session(tmp_path, b"\0\0", *EVENTS[:4], b'{"type": "user.mess', *EVENTS[8:9]))
    assert [role for role, _ in told(stream.only)] == ["system", "user", "tool"]
    assert [one.line for one in stream.skipped] == [1, 6]
    assert told(read(lines(tmp_path / "x.jsonl", *EVENTS[3:5]), "copilot-cli").only) == [("user", "What is here?")]


def test_events_of_another_tool_are_not_recognised(tmp_path: Path) -> None:
    """The words alone do not decide."""
    assert recognised(lines(tmp_path / "x.jsonl", {"role": "user", "content": '"session.start"'})) == "messages"


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", session(tmp_path), 7)
