"""Which part of a session is told: what each tool's importer marks, and what it means for the next model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from places import in_home
from test_copies import session_of

from sessiond.errors import Conflict, InvalidParams
from sessiond.exporters.conversation import conversation
from sessiond.model.message import Message
from sessiond.resume.make import make
from sessiond.resume.selection import selected


def said(*messages: tuple[str, Any, dict[str, Any]], **wanted: Any) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Role and text of each turn, and what was lost."""
    made = [
        Message(
            id=f"m{n}",
            seq=n + 1,
            role=role,
            content=content,
            timestamp="2026-01-01T00:00:00.000Z",
            rest={"metadata": metadata},
        )
        for n, (role, content, metadata) in enumerate(messages)
    ]
    told = selected(session_of(made), **wanted)
    return [(turn.role, "\n".join(one["text"] for one in turn.blocks)) for turn in told.turns], dict(told.lost)


BEFORE: list[tuple[str, Any, dict[str, Any]]] = [
    ("user", "one", {}),
    ("assistant", "two", {}),
    ("user", "three", {}),
    ("assistant", "four", {}),
]
AFTER: list[tuple[str, Any, dict[str, Any]]] = [("user", "five", {}), ("assistant", "six", {})]
STOOD_FOR = "messages before a compaction, which its summary stands for"


@pytest.mark.parametrize(
    ("summary", "kept"),
    [
        ([("system", "S", {"compaction": True})], []),
        ([("system", "S", {"compaction": True, "firstKeptEntryId": "m2"})], ["three", "four"]),
        ([("user", "S", {"isCompactSummary": True, "injected": True})], []),
        ([("user", "S <state_snapshot>", {"checkpoint": True, "injected": True})], []),
        ([("user", [{"type": "compaction", "auto": False}], {}), ("assistant", "S", {"summary": True})], []),
        (
            [("user", [{"type": "compaction", "tail_start_id": "m3"}], {}), ("assistant", "S", {"summary": True})],
            ["four"],
        ),
    ],
    ids=["codex and qwen", "pi", "claude code", "gemini cli", "opencode", "opencode with a tail"],
)
def test_after_a_compaction(summary: list[Any], kept: list[str]) -> None:
    """The summary is something that the user says; what was kept beside it and what came after follow."""
    turns, lost = said(*BEFORE, *summary, *AFTER)
    assert turns[0][0] == "user"
    assert turns[0][1].startswith("S")
    assert [text for _, text in turns[1:]] == [*kept, "five", "six"]
    assert lost[STOOD_FOR] >= 4 - len(kept)


def test_a_compaction_that_counts_for_nothing() -> None:
    """One on a branch that was left, one in a subagent, and one whose summary only the tool's vendor can read."""
    for metadata, content in [({"branch": True}, "S"), ({"sidechain": True}, "S"), ({}, "")]:
        turns, _ = said(*BEFORE, ("system", content, {"compaction": True, **metadata}), *AFTER)
        assert [text for _, text in turns] == ["one", "two", "three", "four", "five", "six"]


def test_the_last_of_several_compactions_counts() -> None:
    mark = {"compaction": True}
    turns, lost = said(*BEFORE, ("system", "S", mark), *AFTER, ("system", "T", mark), ("user", "seven", {}))
    assert turns == [("user", "T"), ("user", "seven")]
    assert lost[STOOD_FOR] == 6


def test_what_an_agent_says_of_a_branch_that_it_left() -> None:
    """pi tells its model a summary of it, where it went on."""
    turns, _ = said(("user", "one", {}), ("system", "what was tried", {"branchSummary": True}), ("user", "two", {}))
    assert turns == [("user", "one"), ("user", "what was tried"), ("user", "two")]


def test_a_prompt_that_was_typed_while_the_tool_worked() -> None:
    """Claude Code files it as a record of another kind; it is told, in copies and in exports."""
    record = {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "and this"}}
    messages = [
        ("user", "one", {}),
        ("user", "and this", {"record": record}),
        ("system", "", {"record": {"type": "x"}}),
    ]
    turns, lost = said(*messages)
    assert turns == [("user", "one"), ("user", "and this")]
    assert lost == {"the tool's records": 1}


def test_a_subagents_own_session() -> None:
    """All its messages have the mark; they are left out of its parent, not of itself."""
    message = Message(
        id="m",
        seq=1,
        role="user",
        content="one",
        timestamp="2026-01-01T00:00:00.000Z",
        rest={"metadata": {"sidechain": True}},
    )
    session = session_of([message])
    with pytest.raises(InvalidParams):
        selected(session)
    session.metadata = {"sidechain": True}
    assert len(selected(session).turns) == 1


def test_aider_shows_more_than_it_tells() -> None:
    messages = [
        Message(id=f"m{n}", seq=n, role=role, content="x", timestamp="2026-01-01T00:00:00.000Z")
        for n, role in enumerate(("tool", "user", "tool"))
    ]
    session = session_of(messages)
    session.metadata = {"source": {"tool": "aider"}}
    told = selected(session)
    assert [turn.role for turn in told.turns] == ["user"]
    assert told.lost["the tool's records"] == 2


def test_nothing_but_a_result_is_no_conversation_without_calls(tmp_path: Path) -> None:
    """Its call is unknown, and it is not the person's."""
    session = session_of([message(1, "tool", "out", toolCallId="c1")])
    told = selected(session)
    assert [turn.role for turn in told.turns] == ["assistant"]
    with pytest.raises(InvalidParams, match="besides calls"):
        make(in_home("llm", tmp_path), session, "s", told, str(tmp_path), calls=False)


def message(n: int, role: str, content: str, **rest: Any) -> Message:
    return Message(id=f"m{n}", seq=n, role=role, content=content, timestamp="2026-01-01T00:00:00.000Z", rest=rest)


def call(own: str, name: str) -> dict[str, Any]:
    return {"id": own, "name": name, "arguments": {}}


def test_results_in_another_order_go_to_their_calls() -> None:
    """Also where each parallel call is a message of its own, as Codex writes them: they are one turn."""
    results = [message(3, "tool", "of cat", toolCallId="c2"), message(4, "tool", "of ls", toolCallId="c1")]
    together = [message(1, "assistant", "", toolCalls=[call("c1", "ls"), call("c2", "cat")])]
    apart = [
        message(1, "assistant", "", toolCalls=[call("c1", "ls")]),
        message(2, "assistant", "", toolCalls=[call("c2", "cat")]),
    ]
    for calls in (together, apart):
        (turn,) = conversation([*calls, *results]).turns
        assert [(one.name, one.result) for one in turn.calls] == [
            ("ls", [{"type": "text", "text": "of ls"}]), ("cat", [{"type": "text", "text": "of cat"}]),
        ]  # fmt: skip


def test_results_without_ids_go_to_the_calls_in_their_order() -> None:
    """Some tools number neither; and calls that repeat an id get a result each."""
    for own in ("", "same"):
        calls = [call(own, "ls"), call(own, "cat")]
        results = [
            message(n, "tool", text, **({"toolCallId": own} if own else {}))
            for n, text in ((2, "first"), (3, "second"))
        ]
        told = conversation([message(1, "assistant", "", toolCalls=calls), *results])
        assert [(one.name, one.result) for one in told.turns[0].calls] == [
            ("ls", [{"type": "text", "text": "first"}]), ("cat", [{"type": "text", "text": "second"}]),
        ]  # fmt: skip
        assert len({one.id for one in told.turns[0].calls}) == 2


def test_a_reply_that_is_still_written() -> None:
    message = Message(
        id="m", seq=3, role="assistant", content="a pie", timestamp="2026-01-01T00:00:00.000Z", status="streaming"
    )
    with pytest.raises(Conflict):
        selected(session_of([message]))
