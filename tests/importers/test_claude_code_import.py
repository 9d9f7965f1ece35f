"""Claude Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected import corpus, lines, read, recognised

from sessiond.importers import claude_code, claude_code_names

FILES = (
    "1af7fc5e-8455-4414-9ccd-011d40f70b2a",
    "5c0375b4-57a5-4f26-b12d-d022ee4e51b7",
    "fe5e1c67-53e7-4862-81ae-d0e013e3270b",
    "agent-test-hash-123",
)
S = "11111111-2222-4333-8444-555555555555"


def raw(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def said(content: Any) -> str:
    """Every text in a record's content, results included; written apart from the importer."""
    if isinstance(content, str):
        return content
    out = []
    for block in content:
        if block["type"] == "text":
            out.append(block["text"])
        elif block["type"] == "tool_result":
            out.append(said(block["content"]))
    return "\n".join(out)


def shown(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(b["text"] for b in content if b["type"] == "text")


def test_the_real_files_give_every_record_once_in_order() -> None:
    """Each user and assistant record of the corpus is one message with its id, role, time, text and calls."""
    for name in FILES:
        path = corpus(f"claude-code/{name}.jsonl")
        records = [r for r in raw(path) if r["type"] in ("user", "assistant")]
        stream = read(path)
        assert not stream.skipped
        assert not stream.repaired
        assert list(stream.starts) == [name]
        assert [m["id"] for m in stream.only] == [r["uuid"] for r in records]
        for message, record in zip(stream.only, records, strict=True):
            blocks = record["message"]["content"] if isinstance(record["message"]["content"], list) else []
            results = [b for b in blocks if b["type"] == "tool_result"]
            calls = [b for b in blocks if b["type"] == "tool_use"]
            assert message["role"] == ("tool" if results else record["message"]["role"])
            assert message["timestamp"] == record["timestamp"]
            assert shown(message) == said(record["message"]["content"])
            assert [(c["id"], c["name"], c["arguments"]) for c in message.get("toolCalls", [])] == [
                (c["id"], c["name"], c["input"]) for c in calls
            ]
            assert message.get("toolCallId") == (results[0]["tool_use_id"] if results else None)
            meta = message["metadata"]
            assert meta["parentUuid"] == record["parentUuid"]
            assert meta["gitBranch"] == record["gitBranch"]
            assert meta.get("usage") == record["message"].get("usage")
            assert meta.get("toolUseResult") == record.get("toolUseResult")
            assert meta.get("sidechain", False) == record["isSidechain"]
            assert meta.get("injected", False) == record.get("isMeta", False)


def test_the_real_sessions_know_where_they_are_from() -> None:
    """Folder, model and branch come from the records; the summary names the session."""
    info = read(corpus(f"claude-code/{FILES[2]}.jsonl")).only_info
    assert info["cwd"] == "/path/to/Demo"
    assert info["model"] == "claude-sonnet-4-20250514"
    assert info["name"] == "Empty Repo Setup: CLAUDE.md Foundation Created"
    assert info["createdAt"] == "2025-09-03T00:52:31.217Z"
    assert "parent" not in info
    assert read(corpus(f"claude-code/{FILES[1]}.jsonl")).only_info["metadata"]["gitBranch"] == "main"


def test_a_summary_names_the_session_that_holds_its_leaf(tmp_path: Path) -> None:
    """A summary that Claude Code wrote into a later file names the earlier one whose last record it tells of."""
    stream = read(corpus(f"claude-code/{FILES[2]}.jsonl"))
    assert stream.info[FILES[0]]["name"] == "Empty Repo Setup: CLAUDE.md Foundation Created"
    path = lines(
        tmp_path / f"{S}.jsonl",
        {"type": "summary", "summary": "elsewhere", "leafUuid": "x"},
        turn("a"),
        {"type": "summary", "summary": "ours", "leafUuid": "a"},
    )
    assert read(path).only_info["name"] == "ours"


def test_a_subagents_file_is_a_session_with_a_parent() -> None:
    """A file whose records name another file's session is named by the file and leads to that session."""
    stream = read(corpus(f"claude-code/{FILES[3]}.jsonl"))
    start = stream.starts[FILES[3]]
    assert start.suggested_id == f"claude-code-{FILES[3]}"
    assert start.info["parent"] == {"sessionId": f"claude-code-{FILES[1]}", "seq": None}


def turn(uuid: str, content: Any = "hello", role: str = "user", **more: Any) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": uuid,
        "parentUuid": None,
        "sessionId": S,
        "cwd": "/work",
        "isSidechain": False,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "message": {"role": role, "content": content},
        **more,
    }


def test_thinking_images_and_order_are_kept(tmp_path: Path) -> None:
    """Thinking has its own field with its signature kept, images remain blocks, and an unusual order of blocks is reported."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    blocks = [
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}, "caller": "x"},
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "done"},
        image,
    ]
    (message,) = read(lines(tmp_path / f"{S}.jsonl", turn("a", blocks, "assistant"))).only
    assert message["thinking"] == "hm"
    assert message["metadata"]["thinkingBlocks"] == [{"signature": "sig"}]
    assert message["content"] == [{"type": "text", "text": "done"}, image]
    assert message["toolCalls"] == [{"id": "t1", "name": "Read", "arguments": {"a": 1}, "caller": "x"}]
    assert message["metadata"]["blockOrder"] == ["call", "thinking", "content", "content"]


def test_several_results_in_one_record_are_one_message(tmp_path: Path) -> None:
    """One record stays one message: the first call in toolCallId, every block says whose result it is."""
    blocks = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "two"}], "is_error": True},
        {"type": "text", "text": "and a word of mine"},
    ]
    (message,) = read(lines(tmp_path / f"{S}.jsonl", turn("a", blocks))).only
    assert (message["role"], message["toolCallId"]) == ("tool", "t1")
    assert message["metadata"]["toolCallIds"] == ["t1", "t2"]
    assert [b["text"] for b in message["content"]] == ["one", "two", "and a word of mine"]
    assert [b.get("tool_use_id") for b in message["content"]] == ["t1", "t2", None]
    assert message["content"][1]["is_error"] is True


def test_what_the_tool_put_under_the_users_role_is_marked(tmp_path: Path) -> None:
    """Reminders, command output and compaction summaries are injected; a person's prompt and command are not."""
    path = lines(
        tmp_path / f"{S}.jsonl",
        turn("a", "<local-command-stdout>ok</local-command-stdout>"),
        turn("b", "<system-reminder>mind this</system-reminder>"),
        turn("c", "<system-reminder>mind this</system-reminder>\nplease go on"),
        turn("d", "This session is being continued", isCompactSummary=True),
        turn("e", "[Request interrupted by user for tool use]"),
        turn(
            "f",
            "<command-message>review is running…</command-message>\n<command-name>/review</command-name>\n<command-args>PR 7</command-args>",
        ),
        turn("g", "why does <system-reminder> appear?"),
    )
    marked = {m["id"]: m.get("metadata", {}) for m in read(path).only}
    assert [i for i, meta in marked.items() if meta.get("injected")] == ["a", "b", "d", "e"]
    assert marked["f"]["command"] == {"message": "review is running…", "name": "/review", "args": "PR 7"}


def test_damage_costs_its_own_line_only(tmp_path: Path) -> None:
    """Broken lines are reported with their number, what can be repaired is taken, the rest continues."""
    deep = b'{"type":"user","x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    surrogate = json.dumps(turn("s", "half \ud83d done")).encode()
    latin = json.dumps(turn("l", "CAFE")).encode().replace(b"CAFE", b"caf\xe9")
    big = json.dumps(turn("n", toolUseResult={"n": 2**70})).encode()
    path = lines(
        tmp_path / f"{S}.jsonl",
        turn("a"),
        b'{"type":"user","mess',
        b"\0" * 64,
        surrogate,
        b"",
        b"[1]",
        deep,
        latin,
        big,
        turn("a"),
        turn("a", "other"),
    )
    with path.open("ab") as file:
        file.write(json.dumps(turn("z")).encode()[:-9])
    stream = read(path)
    assert [(s.line, s.reason.split(":")[0]) for s in stream.skipped] == [
        (2, "not valid JSON"),
        (3, "only NUL bytes"),
        (6, "not a JSON object"),
        (7, "nested too deeply"),
        (10, "a repeat of an earlier record"),
        (12, "not valid JSON"),
    ]
    assert [s.line for s in stream.repaired] == [4, 8, 9]
    assert [m["content"] for m in stream.only] == ["hello", "half \ufffd done", "caf\ufffd", "hello", "other"]
    assert stream.only[3]["metadata"]["toolUseResult"] == {"n": str(2**70)}
    assert stream.only[4]["id"] not in ("a", "", None)


def test_nesting_that_is_too_deep_for_a_message_is_kept_as_text(tmp_path: Path) -> None:
    """A value nested deeper than the wire allows is not lost: its inner part becomes its JSON."""
    value: Any = "core"
    for _ in range(150):
        value = [value]
    stream = read(lines(tmp_path / f"{S}.jsonl", turn("a", toolUseResult=value)))
    assert "core" in json.dumps(stream.only[0]["metadata"]["toolUseResult"])
    assert len(stream.repaired) == 1


def test_other_records_are_kept_or_counted(tmp_path: Path) -> None:
    """A queued prompt is a person's, unknown records stay verbatim, bookkeeping is counted, titles name."""
    path = lines(
        tmp_path / f"{S}.jsonl",
        {"type": "queue-operation", "operation": "enqueue", "content": "later", "sessionId": S},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        turn("a"),
        {
            "type": "attachment",
            "uuid": "b",
            "attachment": {"type": "queued_command", "prompt": "also this"},
            "sessionId": S,
        },
        {"type": "attachment", "uuid": "c", "attachment": {"type": "todo", "items": [1]}, "sessionId": S},
        {"type": "system", "uuid": "d", "content": "Conversation compacted", "subtype": "compact_boundary"},
        {"type": "system", "uuid": "e", "subtype": "turn_duration", "durationMs": 5},
        {"type": "brand-new", "uuid": "f", "body": [1, 2]},
        {"type": "ai-title", "aiTitle": "A title", "sessionId": S},
    )
    stream = read(path)
    assert stream.told() == [
        ("user", "hello"),
        ("user", "also this"),
        ("system", ""),
        ("system", "Conversation compacted"),
        ("system", ""),
    ]
    assert stream.only[2]["metadata"]["injected"] is True
    assert stream.only[4]["metadata"]["record"]["body"] == [1, 2]
    assert stream.only_info["metadata"]["records"][0]["content"] == "later"
    assert stream.only_info["name"] == "A title"
    assert stream.unknown == {"brand-new": 1}
    assert stream.ignored == {"file-history-snapshot": 1, "system/turn_duration": 1}


def test_the_queue_of_prompts_is_known(tmp_path: Path) -> None:
    """Each prompt waits there, also without a screen (2.1.332). What waited is kept, before the session and in it."""
    queued = {"type": "queue-operation", "sessionId": S}
    path = lines(
        tmp_path / f"{S}.jsonl",
        {**queued, "operation": "enqueue", "content": "hello"},
        {**queued, "operation": "dequeue"},
        turn("a"),
        {**queued, "operation": "enqueue", "content": "never sent"},
        {**queued, "operation": "remove"},
    )
    stream = read(path)
    assert stream.told() == [("user", "hello")]
    assert [one["content"] for one in stream.only_info["metadata"]["records"]] == ["hello", "never sent"]
    assert stream.ignored == {"queue-operation": 2}
    assert not stream.unknown


def test_circles_holes_and_wrong_clocks_do_no_harm(tmp_path: Path) -> None:
    """Parents that are missing or form a circle, and invalid times, do not change what is imported."""
    path = lines(
        tmp_path / f"{S}.jsonl",
        turn("a", parentUuid="b"),
        turn("b", parentUuid="a", timestamp="yesterday"),
        turn("c", parentUuid="gone", timestamp=None),
        turn("d", timestamp="1969-01-01T00:00:00Z"),
    )
    times = [m["timestamp"] for m in read(path).only]
    assert times == ["2026-01-02T03:04:05.678Z"] * 3 + ["1969-01-01T00:00:00.000Z"]
    assert read(path).only[1]["metadata"]["sourceTimestamp"] == "yesterday"


def test_records_without_ids_get_the_same_ids_at_every_import(tmp_path: Path) -> None:
    """Ids that are made up depend on the record alone, so a grown file gives the old messages their old ids."""
    bare = turn("x")
    del bare["uuid"]
    path = lines(tmp_path / f"{S}.jsonl", bare, bare, {**bare, "message": {"role": "user", "content": "more"}})
    first = [m["id"] for m in read(path).only]
    assert len(set(first)) == 3
    grown = lines(path, bare, bare, {**bare, "message": {"role": "user", "content": "more"}}, bare)
    assert [m["id"] for m in read(grown).only][:3] == first


def test_it_is_recognised_by_content(tmp_path: Path) -> None:
    """The records tell, even where the first line is longer than what is looked at."""
    assert recognised(lines(tmp_path / "a.jsonl", turn("a"))) == "claude-code"
    assert (
        recognised(lines(tmp_path / "b.jsonl", {"type": "summary", "summary": "s", "leafUuid": "x"})) == "claude-code"
    )
    assert recognised(lines(tmp_path / "c.jsonl", turn("a", "x" * 200_000))) == "claude-code"


def test_utf_16_and_marks_are_read(tmp_path: Path) -> None:
    """A file that was saved as UTF-16 or with a byte order mark gives the same messages."""
    text = json.dumps(turn("a", "日本語"), ensure_ascii=False) + "\n"
    for number, encoding in enumerate(("utf-16", "utf-8-sig")):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(text.encode(encoding))
        assert read(path, "claude-code").told() == [("user", "日本語")]


def test_a_summary_names_a_session_beside_it(tmp_path: Path) -> None:
    """A summary that tells of a record in another file names that file's session; where no file has it, nothing is named."""
    other = "99999999-2222-4333-8444-555555555555"
    lines(tmp_path / f"{other}.jsonl", turn("leaf", sessionId=other))
    path = lines(
        tmp_path / f"{S}.jsonl",
        {"type": "summary", "summary": "The other one", "leafUuid": "leaf"},
        {"type": "summary", "summary": "Nobody's", "leafUuid": "nowhere"},
    )
    stream = read(path)
    assert (stream.starts, stream.info) == ({}, {other: {"name": "The other one", "metadata": {}}})
    assert stream.ignored == {"summary": 2}


def test_a_title_by_hand_comes_before_the_models(tmp_path: Path) -> None:
    """The user's own title names the session, whichever was written last; a title that is not text is ignored."""
    path = lines(
        tmp_path / f"{S}.jsonl",
        turn("a"),
        {"type": "custom-title", "customTitle": "Mine", "sessionId": S},
        {"type": "ai-title", "aiTitle": "The model's", "sessionId": S},
        {"type": "ai-title", "aiTitle": None, "sessionId": S},
    )
    assert read(path).only_info["name"] == "Mine"


def test_more_summaries_than_anyone_writes_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are held; the first of them still names the session."""
    monkeypatch.setattr(claude_code_names, "_SUMMARIES", 2)
    monkeypatch.setattr(claude_code, "_BEFORE_START", 2)
    many = [{"type": "summary", "summary": f"number {n}", "leafUuid": None} for n in range(5)]
    stream = read(lines(tmp_path / f"{S}.jsonl", *many, turn("a")))
    assert stream.only_info["name"] == "number 0"


def test_what_else_a_turn_says_is_kept(tmp_path: Path) -> None:
    """The model is the session's, but for the tool's own messages; ids of the vendor, other roles and late records stay."""
    answer = turn("b", "ho", "assistant")
    answer["message"] |= {"model": "claude-x", "id": "msg_1", "usage": {"output_tokens": 5}}
    made_up = turn("c", "no answer", "assistant", isApiErrorMessage=True)
    made_up["message"]["model"] = "<synthetic>"
    path = lines(
        tmp_path / f"{S}.jsonl",
        turn("a"),
        answer,
        made_up,
        {"type": "relay", "uuid": "d", "isSidechain": True, "message": {"role": "critic", "content": "hm"}},
        {"type": "relay", "uuid": "e", "message": {"content": "whose?"}},
        {"type": "marker", "at": 5},
    )
    stream = read(path)
    assert stream.told() == [
        ("user", "hello"),
        ("assistant", "ho"),
        ("assistant", "no answer"),
        ("critic", "hm"),
        ("system", ""),
    ]
    assert stream.only[1]["metadata"]["messageId"] == "msg_1"
    assert stream.only[2]["status"] == "error"
    assert stream.only[3]["metadata"]["sidechain"] is True
    assert stream.only[4]["metadata"]["record"]["message"] == {"content": "whose?"}
    assert stream.only_info["model"] == "claude-x"
    assert stream.only_info["metadata"]["records"] == [{"type": "marker", "at": 5}]


def test_a_file_that_begins_with_a_snapshot_is_recognised(tmp_path: Path) -> None:
    """Claude Code writes a snapshot of files before the first turn."""
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    assert recognised(lines(tmp_path / "a.jsonl", snapshot)) == "claude-code"


def test_a_side_chain_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Whatever the file is called, a subagent's records lead to the session that they name; a renamed copy leads nowhere."""
    path = lines(tmp_path / "agent-7.jsonl", turn("a", isSidechain=True, agentId="7"))
    info = read(path).only_info
    assert info["parent"] == {"sessionId": f"claude-code-{S}", "seq": None}
    assert info["metadata"]["sidechain"] is True
    assert read(path).only[0]["metadata"]["sidechain"] is True
    assert "parent" not in read(lines(tmp_path / "copy.jsonl", turn("a"))).only_info
    lines(tmp_path / f"{S}.jsonl", turn("z"))
    assert read(tmp_path / "copy.jsonl").only_info["parent"]["sessionId"] == f"claude-code-{S}"


def branched(tmp_path: Path, *records: tuple[Any, ...]) -> list[str]:
    """The ids of those that are marked, of a file of (kind, id, parent[, fields]). Every record comes in, in its place."""
    contents = {
        "user": "please",
        "result": [{"type": "tool_result", "tool_use_id": "c", "content": "out"}],
        "meta": "<system-reminder>x</system-reminder>",
        "stopped": [{"type": "text", "text": "[Request interrupted by user]"}],
        "command": "<command-name>/exit</command-name>",
        "assistant": [{"type": "text", "text": "done"}],
    }
    made = []
    for number, (kind, uuid, parent, *more) in enumerate(records):
        record = {
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": S,
            "timestamp": f"2026-01-02T03:04:{number:02d}.000Z",
        }
        if kind == "system":
            record |= {"type": "system", "content": "told", "subtype": "informational"}
        else:
            role = "assistant" if kind == "assistant" else "user"
            record |= {"type": role, "message": {"role": role, "content": contents[kind]}}
        made.append(record | (more[0] if more else {}))
    stream = read(lines(tmp_path / f"{S}.jsonl", *made))
    assert [m["id"] for m in stream.only] == [one[1] for one in records]
    assert all(m["metadata"].get("branch", True) is True for m in stream.only)
    return [m["id"] for m in stream.only if "branch" in m["metadata"]]


def test_what_followed_a_prompt_that_was_written_anew_is_a_branch(tmp_path: Path) -> None:
    """The path to the last record is the conversation; all that hangs on the older prompt is marked and kept in its place."""
    first = [("user", "1", None), ("assistant", "2", "1")]
    old = [
        ("user", "3", "2"),
        ("assistant", "4", "3"),
        ("result", "5", "4"),
        ("assistant", "6", "5"),
        ("user", "7", "6"),
    ]
    new = [("user", "8", "2"), ("assistant", "9", "8")]
    assert branched(tmp_path, *first, *old, *new) == ["3", "4", "5", "6", "7"]
    # The user went back to the older one: now the newer one is off the path.
    assert branched(tmp_path, *first, *old, *new, ("assistant", "10", "7")) == ["8", "9"]
    # Taken back before there was an answer; what the tool says itself stands between.
    early = [("system", "3", "2"), ("user", "4", "3"), ("stopped", "5", "4"), ("system", "6", "2"), ("user", "7", "6")]
    assert branched(tmp_path, *first, *early) == ["4", "5"]
    # Three tries, one of them within a branch.
    tries = [("user", "3", "2"), ("assistant", "4", "3"), ("user", "5", "4"), ("user", "6", "4"), ("user", "7", "2")]
    assert branched(tmp_path, *first, *tries) == ["3", "4", "5", "6"]


HARMLESS = {
    "results of parallel calls": [
        ("user", "1", None), ("assistant", "2", "1"), ("assistant", "3", "2"), ("result", "4", "2"), ("result", "5", "3"),
        ("assistant", "6", "5"), ("system", "7", "4"),
    ],
    "a prompt sent while the answer was written": [
        ("user", "1", None), ("assistant", "2", "1"), ("user", "3", "2"), ("assistant", "4", "2"), ("assistant", "5", "4"),
    ],
    "an exit beside the next prompt": [
        ("user", "1", None), ("assistant", "2", "1"), ("command", "3", "2"), ("meta", "4", "3"), ("user", "5", "2"),
    ],
    "a hole": [
        ("user", "1", None), ("assistant", "2", "1"), ("user", "3", "gone"), ("assistant", "4", "3"), ("user", "5", None),
    ],
    "circles": [
        ("user", "1", "4"), ("assistant", "2", "1"), ("user", "3", "3"), ("assistant", "4", "2"), ("user", "5", "6"), ("user", "6", "5"),
    ],
    "a sidechain": [
        ("user", "1", None), ("assistant", "2", "1"), ("user", "3", "2", {"isSidechain": True}),
        ("assistant", "4", "3", {"isSidechain": True}), ("user", "5", "2"),
    ],
    "an answer that was asked for again": [
        ("user", "1", None), ("assistant", "2", "1"), ("assistant", "3", "1"), ("user", "4", "3"),
    ],
    "a parent that is not text": [("user", "1", ["x"]), ("user", "2", 5), ("assistant", "3", "2")],
}  # fmt: skip


@pytest.mark.parametrize("kind", HARMLESS)
def test_children_beside_each_other_that_are_no_branches(tmp_path: Path, kind: str) -> None:
    """Nothing is marked where no prompt was written again."""
    assert branched(tmp_path, *HARMLESS[kind]) == []


def test_branches_before_a_hole_are_found(tmp_path: Path) -> None:
    """Where a conversation was compacted its beginning is not a branch, but one within it is."""
    records = [
        ("user", "1", None), ("assistant", "2", "1"), ("user", "3", "2"), ("assistant", "4", "3"), ("user", "5", "2"),
        ("assistant", "6", "5"), ("system", "7", None), ("user", "8", "7"), ("assistant", "9", "8"),
    ]  # fmt: skip
    assert branched(tmp_path, *records) == ["3", "4"]


def test_the_real_files_have_no_branches() -> None:
    """Each of their records has one child at most."""
    for name in FILES:
        assert not any("branch" in m["metadata"] for m in read(corpus(f"claude-code/{name}.jsonl")).only)


def test_damage_in_a_tree_costs_its_line_only(tmp_path: Path) -> None:
    """Neither a record that is too deep nor an invalid one hides the branch next to it."""
    made = [
        {
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": S,
            "message": {"role": "user", "content": text},
        }
        for uuid, parent, text in (("1", None, "a"), ("2", "1", "b"), ("3", "1", "c"))
    ]
    deep = b'{"type":"user","uuid":"x","message":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    odd = {"type": "user", "uuid": "y", "parentUuid": "1", "message": 5}
    stream = read(lines(tmp_path / f"{S}.jsonl", made[0], deep, b'["uuid"]', made[1], odd, made[2]))
    assert [m["id"] for m in stream.only if m["metadata"].get("branch")] == ["2"]
    assert {one.line for one in stream.skipped} == {2, 3}
