"""Codex."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import corpus, lines, read, recognised

FILES = (
    "rollout-2026-02-23T12-41-04-019c8a4d-8f45-7010-8b5d-7fad920aa6f9",
    "rollout-2026-02-23T13-19-38-019c8a70-dda7-7f33-98ea-f30553347322",
    "rollout-2026-02-23T20-34-25-019c8bfe-ec25-79e0-97d7-bda6a9c575ff",
)
T = "2026-02-01T10:00:00.000Z"


def raw(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def expected(item: dict[str, Any]) -> tuple[str, str, list[str], str | None, str | None]:
    """Role, text, names of calls, answered call and thinking of a response item; written apart from the importer."""
    match item["type"]:
        case "message":
            return item["role"], "".join(b["text"] for b in item["content"]), [], None, None
        case "reasoning":
            return "assistant", "", [], None, "\n\n".join(b["text"] for b in item["summary"])
        case "function_call":
            return "assistant", "", [item["name"]], None, None
        case "function_call_output":
            return "tool", item["output"], [], item["call_id"], None
    raise AssertionError(item["type"])


def test_the_real_files_give_every_response_item_once_in_order() -> None:
    """Events only repeat the items there: each item is one message with its role, time, text, calls and thinking."""
    for name in FILES:
        path = corpus(f"codex/{name}.jsonl")
        items = [(r["timestamp"], r["payload"]) for r in raw(path) if r["type"] == "response_item"]
        stream = read(path)
        assert not stream.skipped
        assert len(stream.only) == len(items)
        for message, (time, item) in zip(stream.only, items, strict=True):
            assert message["timestamp"] == time
            calls = [c["name"] for c in message.get("toolCalls", [])]
            assert (
                message["role"],
                message["content"],
                calls,
                message.get("toolCallId"),
                message.get("thinking"),
            ) == expected(item)


def test_a_persons_prompts_are_told_from_what_codex_injected() -> None:
    """A user's item with a user_message event right after it is a person's; all others, and the developer's, are
    injected."""
    for name in FILES:
        path = corpus(f"codex/{name}.jsonl")
        records = raw(path)
        persons = {
            records[n - 1]["timestamp"] for n, r in enumerate(records) if r["payload"].get("type") == "user_message"
        }
        said = [m for m in read(path).only if m["role"] in ("user", "developer")]
        genuine = [m for m in said if not m.get("metadata", {}).get("injected")]
        assert len(genuine) == sum(r["payload"].get("type") == "user_message" for r in records)
        assert all(m["role"] == "user" and m["timestamp"] in persons for m in genuine)
        assert len(said) > len(genuine)


def test_the_real_sessions_know_where_they_are_from() -> None:
    """Id, folder, time, model, branch and instructions come from the header and the turns' context."""
    info = read(corpus(f"codex/{FILES[0]}.jsonl")).only_info
    assert info["cwd"] == "/redacted/path/da0ba47443"
    assert info["createdAt"] == "2026-02-23T11:41:04.709Z"
    assert info["model"] == "gpt-5.3-codex"
    assert info["metadata"]["gitBranch"] == "main"
    assert info["metadata"]["source"]["id"] == "019c8a4d-8f45-7010-8b5d-7fad920aa6f9"
    assert info["metadata"]["toolSource"] == "vscode"


def meta(**more: Any) -> dict[str, Any]:
    return {"timestamp": T, "type": "session_meta", "payload": {"id": "abc", "timestamp": T, "cwd": "/w", **more}}


def item(**payload: Any) -> dict[str, Any]:
    return {"timestamp": T, "type": "response_item", "payload": payload}


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": T, "type": "event_msg", "payload": {"type": kind, **payload}}


def words(role: str, text: str) -> dict[str, Any]:
    return item(
        type="message", role=role, content=[{"type": "input_text" if role == "user" else "output_text", "text": text}]
    )


def test_an_event_is_kept_where_nothing_else_holds_its_text(tmp_path: Path) -> None:
    """What a person or the model said only in an event becomes a message; what an item repeats later does not."""
    path = lines(
        tmp_path / "rollout-a.jsonl",
        meta(),
        event("user_message", message="only here"),
        event("agent_message", message="also only here"),
        event("agent_reasoning", text="a thought"),
        event("token_count"),
        words("user", "next"),
        event("user_message", message="next"),
        event("agent_message", message="late twin"),
        item(type="function_call", name="f", arguments="{}", call_id="c"),
        words("assistant", "late twin"),
    )
    stream = read(path)
    said = [(m["role"], m["content"], m.get("thinking")) for m in stream.only]
    assert ("user", "only here", None) in said
    assert ("assistant", "also only here", None) in said
    assert ("assistant", "", "a thought") in said
    assert [t for t in said if t[1] == "late twin"] == [("assistant", "late twin", None)]
    assert [t for t in said if t[1] == "next"] == [("user", "next", None)]
    assert not any(m.get("metadata", {}).get("injected") for m in stream.only)


def test_rollouts_without_user_events_mark_by_content(tmp_path: Path) -> None:
    """Where a file tells no user_message at all, only what looks injected is marked."""
    path = lines(
        tmp_path / "rollout-b.jsonl",
        meta(),
        words("user", "<environment_context>x</environment_context>"),
        words("user", "# AGENTS.md instructions for /w"),
        words("user", "fix the bug"),
        words("developer", "be brief"),
    )
    assert [m["metadata"].get("injected", False) if "metadata" in m else False for m in read(path).only] == [
        True,
        True,
        False,
        True,
    ]


def test_an_event_that_comes_before_its_item_is_a_person_too(tmp_path: Path) -> None:
    """The order of item and event does not matter."""
    path = lines(
        tmp_path / "rollout-c.jsonl",
        meta(),
        words("user", "injected context"),
        event("user_message", message="mine"),
        words("user", "mine"),
        words("assistant", "yes"),
    )
    stream = read(path)
    assert [(m["content"], bool(m.get("metadata", {}).get("injected"))) for m in stream.only] == [
        ("injected context", True),
        ("mine", False),
        ("yes", False),
    ]


def test_all_kinds_of_calls(tmp_path: Path) -> None:
    """Custom tools, shell calls, searches, outputs with images and unknown items are all there."""
    path = lines(
        tmp_path / "rollout-d.jsonl",
        meta(),
        item(type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c1", status="completed"),
        item(type="custom_tool_call_output", call_id="c1", output='{"output":"ok"}'),
        item(type="local_shell_call", call_id="c2", action={"command": ["ls"]}),
        item(type="web_search_call", id="ws1", action={"query": "q"}),
        item(
            type="function_call_output",
            call_id="c3",
            output=[{"type": "input_text", "text": "seen"}, {"type": "input_image", "image_url": "data:x"}],
        ),
        item(type="brand_new", body=1),
        item(type="ghost_snapshot"),
        {"timestamp": T, "type": "compacted", "payload": {"message": "so far", "replacement_history": []}},
    )
    stream = read(path)
    assert [(m["role"], [c["name"] for c in m.get("toolCalls", [])]) for m in stream.only] == [
        ("assistant", ["apply_patch"]),
        ("tool", []),
        ("assistant", ["local_shell"]),
        ("assistant", ["web_search"]),
        ("tool", []),
        ("system", []),
        ("system", []),
    ]
    assert stream.only[0]["toolCalls"][0] == {"id": "c1", "name": "apply_patch", "arguments": "*** Begin"}
    assert stream.only[4]["content"][0] == {"type": "text", "text": "seen"}
    assert stream.only[5]["metadata"]["record"]["payload"]["body"] == 1
    assert (stream.only[6]["content"], stream.only[6]["metadata"]["compaction"]) == ("so far", True)
    assert stream.ignored == {"ghost_snapshot": 1}


def test_forks_and_subagents_have_parents(tmp_path: Path) -> None:
    """The header says which thread was left; a copied header of that thread is kept, not taken for our own."""
    path = lines(tmp_path / "rollout-e.jsonl", meta(forked_from_id="old"), meta(id="old"), words("user", "x"))
    assert read(path).only_info["parent"] == {"sessionId": "codex-old", "seq": None}
    spawned = meta(source={"subagent": {"thread_spawn": {"parent_thread_id": "p"}}})
    assert read(lines(tmp_path / "rollout-f.jsonl", spawned)).only_info["parent"]["sessionId"] == "codex-p"


def test_the_oldest_shape_is_read(tmp_path: Path) -> None:
    """Rollouts from before records had payloads: a header and bare items."""
    path = lines(
        tmp_path / "rollout-2025-05-01-11111111-2222-4333-8444-555555555555.jsonl",
        {"id": "old1", "timestamp": T, "instructions": "x"},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ho"}]},
    )
    assert recognised(path) == "codex"
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", "ho")]
    assert stream.only_info["metadata"]["source"]["id"] == "old1"


def test_a_truncated_rollout_gives_what_is_there(tmp_path: Path) -> None:
    """A prompt that waits for its event is not lost with the end of the file."""
    path = lines(tmp_path / "rollout-g.jsonl", meta(), words("user", "hello"))
    with path.open("ab") as file:
        file.write(b'{"timestamp":"2026')
    stream = read(path)
    assert stream.told() == [("user", "hello")]
    assert [s.line for s in stream.skipped] == [3]


def test_what_a_model_thought_is_said_once(tmp_path: Path) -> None:
    """A reasoning item holds its summaries and its content, and the events right before it that told them are dropped; a
    thought of no text is there nevertheless.
    """
    path = lines(
        tmp_path / "rollout-h.jsonl",
        meta(git={"branch": "topic"}),
        event("agent_reasoning", text="first"),
        event("agent_reasoning", text="second"),
        item(
            type="reasoning",
            summary=[{"type": "summary_text", "text": "first"}, {"type": "summary_text", "text": "second"}, 7],
            content=[{"type": "reasoning_text", "text": "the whole"}],
            encrypted_content="x",
        ),
        item(type="reasoning", summary=None, encrypted_content="y"),
        {"timestamp": T, "type": "turn_context", "payload": {"model": "gpt-q", "cwd": "/w", "user_instructions": "no"}},
    )
    stream = read(path)
    assert [m.get("thinking") for m in stream.only] == ["first\n\nsecond\n\nthe whole", ""]
    assert [m["metadata"]["encrypted_content"] for m in stream.only] == ["x", "y"]
    assert stream.ignored == {"event_msg/agent_reasoning": 2, "turn_context": 1}
    info = stream.only_info
    assert (info["model"], info["metadata"]["gitBranch"]) == ("gpt-q", "topic")
    assert info["metadata"]["turnContext"] == {"model": "gpt-q", "cwd": "/w"}


def test_an_event_waits_for_so_many_items_only(tmp_path: Path) -> None:
    """An event that no item repeats is a message in its place, although its words come again much later."""
    calls = [item(type="function_call", name="f", arguments="{}", call_id=f"c{n}") for n in range(6)]
    path = lines(
        tmp_path / "rollout-i.jsonl",
        meta(),
        event("agent_message", message="working on it"),
        *calls,
        words("assistant", "working on it"),
    )
    told = [m["content"] for m in read(path).only]
    assert told.count("working on it") == 2
    assert told.index("working on it") == 0


def test_an_outputs_object_and_what_codex_does_not_know(tmp_path: Path) -> None:
    """An output that is an object gives its content, and the rest of it beside; a record of no known shape is kept in the
    session's metadata.
    """
    path = lines(
        tmp_path / "rollout-j.jsonl",
        meta(git="none"),
        item(type="function_call_output", call_id="c", output={"content": "done", "success": True}),
        {"timestamp": T, "strange": 1},
    )
    stream = read(path)
    assert stream.told() == [("tool", "done")]
    assert stream.only[0]["metadata"]["success"] is True
    assert stream.only_info["metadata"]["records"] == [{"timestamp": T, "strange": 1}]


def test_two_prompts_without_events_ask_the_file_once(tmp_path: Path) -> None:
    """Where the file tells users apart, each prompt that no event tells of is injected, also the ones after the first."""
    path = lines(
        tmp_path / "rollout-k.jsonl",
        meta(),
        words("user", "context one"),
        words("user", "context two"),
        words("user", "mine"),
        event("user_message", message="mine"),
    )
    marked = [(m["content"], bool(m.get("metadata", {}).get("injected"))) for m in read(path).only]
    assert marked == [("context one", True), ("context two", True), ("mine", False)]


def test_a_file_of_nothing_but_noise_is_no_session(tmp_path: Path) -> None:
    """Skipped lines are counted, and do not make an empty session."""
    path = lines(tmp_path / "rollout-l.jsonl", event("token_count"), {"type": "turn_context", "payload": {}})
    stream = read(path)
    assert (stream.starts, stream.ignored) == ({}, {"event_msg/token_count": 1, "turn_context": 1})
