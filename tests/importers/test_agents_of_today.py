"""Files as the agents of 2026 write them: each record here has the shape that the real tool was seen to write."""

from __future__ import annotations

import json
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sessiond.importers import registry
from tests.importers.collected import lines, read, recognised

S = "52f10111-4041-479b-86cb-b030cb98fcce"


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(one["role"], one["content"]) for one in messages]


# Qwen Code 0.15 and 0.24


def qwen(uuid: str, parent: str | None, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "uuid": uuid, "parentUuid": parent, "sessionId": S, "timestamp": f"2026-11-23T10:11:1{uuid[-1]}.000Z",
        "type": kind, "cwd": "/work", "version": "0.15.10", **more,
    }  # fmt: skip


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"message": {"role": role, "parts": list(parts)}}


CALL = {"functionCall": {"id": "call_1", "name": "run_shell_command", "args": {"command": "ls"}}}
RESULT = {"functionResponse": {"id": "call_1", "name": "run_shell_command", "response": {"output": "apple.txt"}}}
QWEN = [
    qwen("u1", None, "user", **said("user", {"text": "What is here?"})),
    qwen("u2", "u1", "system", subtype="ui_telemetry", systemPayload={"uiEvent": {"event.name": "x"}}),
    qwen("u3", "u2", "assistant", model="m", **said("model", {"text": "hm", "thought": True}, {"text": "Let me look."}, CALL)),
    qwen("u4", "u3", "tool_result", toolCallResult={"callId": "call_1", "status": "success"}, **said("user", RESULT)),
    qwen("u5", "u4", "assistant", model="m", **said("model", {"text": "An apple."})),
]  # fmt: skip


def test_qwen_is_a_tool_of_its_own(tmp_path: Path) -> None:
    """Its records have Claude Code's tree and were taken for Claude Code's, every message empty."""
    path = lines(tmp_path / f"{S}.jsonl", *QWEN)
    assert recognised(path) == "qwen"
    stream = read(path)
    assert texts(stream.only) == [
        ("user", "What is here?"), ("assistant", "Let me look."), ("tool", "apple.txt"), ("assistant", "An apple."),
    ]  # fmt: skip
    asked = stream.only[1]
    assert asked["thinking"] == "hm"
    assert asked["toolCalls"] == [{"id": "call_1", "name": "run_shell_command", "arguments": {"command": "ls"}}]
    assert stream.only[2]["toolCallId"] == "call_1"
    assert stream.only[2]["metadata"]["toolCallResult"]["status"] == "success"
    assert (stream.only_info["name"], stream.only_info["cwd"], stream.only_info["model"]) == (
        "What is here?",
        "/work",
        "m",
    )
    assert stream.ignored == {"system/ui_telemetry": 1}


def test_a_branch_of_qwen_is_marked(tmp_path: Path) -> None:
    """What followed a prompt that was written again is kept, and marked."""
    again = [
        qwen("u6", "u5", "user", **said("user", {"text": "first try"})),
        qwen("u7", "u6", "assistant", **said("model", {"text": "to the first"})),
        qwen("u8", "u5", "user", **said("user", {"text": "second try"})),
        qwen("u9", "u8", "assistant", **said("model", {"text": "to the second"})),
    ]
    stream = read(lines(tmp_path / f"{S}.jsonl", *QWEN, *again))
    marked = [one["content"] for one in stream.only if one.get("metadata", {}).get("branch")]
    assert marked == ["first try", "to the first"]


def test_several_results_in_one_record_of_qwen(tmp_path: Path) -> None:
    """Each is a message of its own, with the id of its call."""
    other = {"functionResponse": {"id": "call_2", "name": "read", "response": {"error": "no such file"}}}
    path = lines(tmp_path / f"{S}.jsonl", QWEN[0], qwen("u2", "u1", "tool_result", **said("user", RESULT, other)))
    assert [(one.get("toolCallId"), one["content"]) for one in read(path).only[1:]] == [
        ("call_1", "apple.txt"),
        ("call_2", "no such file"),
    ]
    assert [one["id"] for one in read(path).only[1:]] == ["u2", "u2-1"]


# Claude Code 2.1.330


def claude(uuid: str | None, kind: str, **more: Any) -> dict[str, Any]:
    ids = {} if uuid is None else {"uuid": uuid, "parentUuid": None, "isSidechain": False}
    return {"type": kind, "sessionId": S, "timestamp": "2026-11-23T10:11:10.000Z", "cwd": "/work", **ids, **more}


def test_what_claude_code_was_sent_is_not_said_again(tmp_path: Path) -> None:
    """A blob of a request holds the prompt once more, and the tool's reminders. Records without a uuid are no messages."""
    again = {"role": "user", "content": "<system-reminder>...</system-reminder>What is here?"}
    path = lines(
        tmp_path / f"{S}.jsonl",
        claude("u1", "user", message={"role": "user", "content": "What is here?"}),
        claude(None, "api-request", requestId="r"),
        claude(None, "api-request-blob", message=again),
        claude(None, "api-request-shape", shape="x" * 39_000),
        claude(None, "cost-state", total=1),
        claude(None, "something-new", message=again),
        claude("u2", "assistant", message={"role": "assistant", "content": [{"type": "text", "text": "An apple."}]}),
    )
    stream = read(path)
    assert texts(stream.only) == [("user", "What is here?"), ("assistant", "An apple.")]
    kinds = ("api-request", "api-request-blob", "api-request-shape", "cost-state")
    assert stream.ignored == dict.fromkeys(kinds, 1)
    assert len(json.dumps(stream.only_info)) < 1_500
    assert [one["type"] for one in stream.only_info["metadata"]["records"]] == ["something-new"]


# Codex 0.169


def test_codex_bookkeeping_is_not_in_every_list(tmp_path: Path) -> None:
    """Its instructions, usage and state are counted; a single text with empty annotations is a text."""

    def record(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-11-23T10:11:52.000Z", "type": kind, "payload": payload}

    answer = [{"type": "output_text", "text": "An apple.", "annotations": []}]
    path = lines(
        tmp_path / f"rollout-2026-11-23T10-11-52-{S}.jsonl",
        record("session_meta", id=S, cwd="/work", base_instructions={"text": "x" * 20_000}, originator="codex_exec"),
        record("world_state", files=["a"] * 1_000),
        record("token_usage_record", total=5),
        record("response_item", type="message", id="m1", role="assistant", content=answer),
    )
    stream = read(path)
    assert texts(stream.only) == [("assistant", "An apple.")]
    assert stream.only_info["metadata"]["originator"] == "codex_exec"
    assert len(json.dumps(stream.only_info)) < 1_000
    assert {"session_meta/base_instructions", "world_state", "token_usage_record"} <= set(stream.ignored)


# Gemini CLI 0.61


def gemini(id_: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": kind, "content": content, "timestamp": "2026-11-23T10:11:33.000Z", **more}


def test_gemini_says_each_result_once(tmp_path: Path) -> None:
    """A call holds its result; the message of the user's that repeats it adds nothing. Without the call it is a result."""
    head = {"sessionId": S, "projectHash": "h", "startTime": "2026-11-23T10:11:30.000Z"}
    call = {"id": "call_1", "name": "ls", "args": {}, "result": [RESULT]}
    chats = tmp_path / "slug" / "chats"
    path = lines(
        chats / "session-2026-11-23T10-11-4c14d029.jsonl",
        head,
        gemini("a", "user", [{"text": "What is here?"}]),
        gemini("b", "gemini", "Let me look."),
        gemini("b", "gemini", "Let me look.", toolCalls=[call]),
        gemini("c", "user", [RESULT]),
        gemini("d", "gemini", "An apple."),
        {**head, "startTime": "2026-11-23T12:00:00.000Z"},
    )
    (chats.parent / ".project_root").write_text("/work\n")
    stream = read(path)
    assert texts(stream.only) == [
        ("user", "What is here?"), ("assistant", "Let me look."), ("tool", "apple.txt"), ("assistant", "An apple."),
    ]  # fmt: skip
    assert (stream.only_info["cwd"], stream.only_info["createdAt"]) == ("/work", "2026-11-23T10:11:30.000Z")


def test_the_summary_of_a_compression_of_gemini(tmp_path: Path) -> None:
    """It is only in a checkpoint. What else the checkpoint has is there already, or repeats results."""
    call = {"id": "call_1", "name": "ls", "args": {}, "result": [RESULT]}
    checkpoint = [
        gemini("s", "user", [{"text": "<state_snapshot>what was said before</state_snapshot>"}]),
        gemini("a", "user", [{"text": "What is here?"}]),
        gemini("b_response", "user", [RESULT]),
    ]
    path = lines(
        tmp_path / "session-2026-11-23T10-11-4c14d029.jsonl",
        {"sessionId": S, "projectHash": "h"},
        gemini("a", "user", [{"text": "What is here?"}]),
        gemini("b", "gemini", "", toolCalls=[call]),
        {"$set": {"messages": checkpoint}},
        {"$set": {"messages": checkpoint}},
        gemini("e", "user", [{"text": "And now?"}]),
    )
    found = read(path).only
    assert [one["content"] for one in found] == [
        "What is here?", "", "apple.txt", "<state_snapshot>what was said before</state_snapshot>", "And now?",
    ]  # fmt: skip
    assert found[3]["metadata"] == {"checkpoint": True, "injected": True}


# llm 0.36

SCHEMA = """
CREATE TABLE conversations (id TEXT, name TEXT, model TEXT);
CREATE TABLE responses (id TEXT, model TEXT, prompt TEXT, system TEXT, response TEXT, conversation_id TEXT, datetime_utc TEXT);
CREATE TABLE fragments (id INTEGER PRIMARY KEY, content TEXT);
CREATE TABLE prompt_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE system_fragments (response_id TEXT, fragment_id INTEGER, "order" INTEGER);
CREATE TABLE threads (id TEXT, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT, input_tokens INTEGER, datetime_utc TEXT);
CREATE TABLE messages (hash TEXT, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
"""


def llm_db(path: Path) -> Path:
    call = json.dumps({"name": "bash", "arguments": {"command": "ls"}, "tool_call_id": "call_1"})
    result = json.dumps({"name": "bash", "output": "apple.txt", "tool_call_id": "call_1"})
    parts = [
        ("h1", "text", "What is here?", None), ("h2", "text", "Let me look.", None), ("h2", "tool_call", None, call),
        ("h3", "tool_result", None, result), ("h4", "text", "An apple.", None),
    ]  # fmt: skip
    with sqlite3.connect(path) as db:
        db.executescript(SCHEMA)
        db.execute("INSERT INTO threads VALUES ('t1', 'Fruit', 'h4', NULL, '2026-11-23 10:11:25')")
        for hash_, parent, role in (
            ("h1", None, "user"),
            ("h2", "h1", "assistant"),
            ("h3", "h2", "tool"),
            ("h4", "h3", "assistant"),
        ):
            db.execute("INSERT INTO messages VALUES (?, ?, ?, NULL)", (hash_, parent, role))
        for nth, (hash_, kind, text, payload) in enumerate(parts):
            db.execute("INSERT INTO parts VALUES (?, ?, ?, ?, 'x', ?, ?)", (nth, hash_, nth, kind, text, payload))
        db.execute("INSERT INTO turns VALUES ('r1', 't1', 'h1', 'h2', 'm', 100, '2026-11-23T10:11:25+00:00')")
        db.execute("INSERT INTO turns VALUES ('r2', 't1', 'h3', 'h4', 'm', 110, '2026-11-23T10:11:26+00:00')")
        db.execute("INSERT INTO conversations VALUES ('c', 'Old', 'm'), ('t1', 'Fruit', 'm')")
        db.execute(
            "INSERT INTO responses VALUES ('r1', 'm', 'What is here?', '', 'Let me look.', 't1', '2026-11-23T10:11:25')"
        )
        db.execute("INSERT INTO responses VALUES ('r0', 'm', 'from before', '', 'yes', 'c', '2025-01-01T00:00:00')")
        db.execute("INSERT INTO fragments VALUES (1, 'a long file'), (2, 'a rule')")
        db.execute("INSERT INTO prompt_fragments VALUES ('r0', 1, 0)")
        db.execute("INSERT INTO system_fragments VALUES ('r0', 2, 0)")
    return path


def test_threads_of_llm(tmp_path: Path) -> None:
    """From the tip back to the first message, calls and results included, each with the time of its turn. What a thread has taken
    over is not read twice.
    """
    stream = read(llm_db(tmp_path / "logs.db"))
    thread = stream.messages["t1"]
    assert texts(thread) == [
        ("user", "What is here?"), ("assistant", "Let me look."), ("tool", "apple.txt"), ("assistant", "An apple."),
    ]  # fmt: skip
    assert thread[1]["toolCalls"] == [{"id": "call_1", "name": "bash", "arguments": {"command": "ls"}}]
    assert thread[2]["toolCallId"] == "call_1"
    assert [one["timestamp"][17:19] for one in thread] == ["25", "25", "26", "26"]
    assert thread[3]["metadata"] == {"model": "m", "input_tokens": 110, "tokens": {"input": 110, "model": "m"}}
    assert (stream.info["t1"]["name"], stream.info["t1"]["model"]) == ("Fruit", "m")
    assert set(stream.messages) == {"t1", "c"}


def test_fragments_of_llm(tmp_path: Path) -> None:
    """Files that were given with `-f` and `--sf` are part of what was said."""
    old = read(llm_db(tmp_path / "logs.db")).messages["c"]
    assert texts(old) == [("system", "a rule"), ("user", "a long file\nfrom before"), ("assistant", "yes")]


def test_a_text_of_a_thread_of_llm_that_borrows_from_fragments(tmp_path: Path) -> None:
    """llm keeps what was given with `-f` once, and a text that has it as pieces. What is gone leaves the pieces as they are."""
    path = llm_db(tmp_path / "logs.db")
    pieces = [{"fragment": 1}, {"literal": "\nWhat is here?"}]
    with sqlite3.connect(path) as db:
        db.execute(
            "UPDATE parts SET text = NULL, payload = ? WHERE message_hash = 'h1'", (json.dumps({"text_ref": pieces}),)
        )
    assert texts(read(path).messages["t1"])[0] == ("user", "a long file\nWhat is here?")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM fragments")
    found = read(path).messages["t1"][0]["content"]
    assert found == [{"type": "text", "text": "\nWhat is here?", "text_ref": pieces}]


def test_a_chain_of_llm_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    """A damaged file costs no more than the thread."""
    path = llm_db(tmp_path / "logs.db")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE messages SET parent_hash = 'h4' WHERE hash = 'h1'")
    assert len(read(path).messages["t1"]) == 4


def test_codex_says_when_an_item_is_complete(tmp_path: Path) -> None:
    """A rollout with a person's words as events of their own, resumed by a version that tells of complete items: the later
    words are the person's too, and an event that no item repeats stays in its place.
    """

    def record(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-11-22T10:00:00Z", "type": kind, "payload": payload}

    def item(role: str, text: str) -> dict[str, Any]:
        return record("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])

    def completed(kind: str, text: str) -> dict[str, Any]:
        done = {"type": kind, "id": text, "content": [{"type": "text", "text": text}]}
        return record("event_msg", type="item_completed", item=done)

    path = lines(
        tmp_path / "rollout-x.jsonl",
        record("session_meta", id="x", cwd="/w"),
        item("user", "<environment_context>of the tool</environment_context>"),
        item("user", "before"),
        record("event_msg", type="user_message", message="before"),
        item("assistant", "an answer"),
        item("user", "later"),
        completed("UserMessage", "later"),
        completed("AgentMessage", "only told"),
        record("response_item", type="function_call", name="ls", arguments="{}", call_id="c"),
        item("assistant", "another answer"),
        completed("AgentMessage", "a last answer"),
        item("assistant", "a last answer"),
    )
    found = read(path)
    told = [(m["content"], m.get("metadata", {}).get("injected", False)) for m in found.only]
    assert told == [
        ("<environment_context>of the tool</environment_context>", True), ("before", False), ("an answer", False),
        ("later", False), ("only told", False), ("", False), ("another answer", False), ("a last answer", False),
    ]  # fmt: skip
    assert found.unknown == {}


def test_records_of_kinds_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    """Next week's format is noticed: the kinds are told, and the records kept."""
    path = lines(
        tmp_path / "s.jsonl",
        claude("u1", "user", parentUuid=None, message={"role": "user", "content": "hi"}),
        {"type": "brand-new", "sessionId": "s", "value": 1},
        {"type": "brand-new", "sessionId": "s", "value": 2},
        claude("u2", "thought-bubble", parentUuid="u1", bubble="what next"),
    )
    found = read(path)
    assert found.unknown == {"brand-new": 2, "thought-bubble": 1}
    assert [record["value"] for record in found.only_info["metadata"]["records"]] == [1, 2]
    assert found.only[1]["metadata"]["record"]["bubble"] == "what next"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Fix the lock. Then the rest.", "Fix the lock."),
        ("  one line\nand another", "one line"),
        ("Was ist 3.14? Sag es.", "Was ist 3.14?"),
        ("鍵を直して。それから", "鍵を直して。"),
        ("word " * 40, ("word " * 40)[:79].rstrip() + "…"),
    ],
)
def test_a_session_without_a_title_is_named_after_what_was_said_first(tmp_path: Path, text: str, name: str) -> None:
    """By the person; not by the tool under the person's role. The tool's title wins, and one can tell the two apart."""
    records = [
        claude(
            "u0", "user", parentUuid=None, message={"role": "user", "content": "<system-reminder>x</system-reminder>"}
        ),
        claude("u1", "user", parentUuid="u0", message={"role": "user", "content": text}),
        claude("u2", "user", parentUuid="u1", message={"role": "user", "content": "another"}),
    ]
    info = read(lines(tmp_path / "s.jsonl", *records)).only_info
    assert (info["name"], info["metadata"]["untitled"]) == (name, name)
    titled = [*records, {"type": "custom-title", "customTitle": "Mine", "sessionId": "s"}]
    info = read(lines(tmp_path / "s.jsonl", *titled)).only_info
    assert (info["name"], "untitled" in info["metadata"]) == ("Mine", False)


@pytest.mark.parametrize(
    ("records", "name"),
    [
        (["<command-name>/review</command-name>\n<command-args>the lock</command-args>"], "/review the lock"),
        (["<command-name>/review</command-name>", "then this"], "then this"),
        (["<system-reminder>x</system-reminder>"], "An answer."),
    ],
)
def test_a_session_without_a_person_s_words_is_named_too(tmp_path: Path, records: list[str], name: str) -> None:
    """After the command, or else the answer."""
    said = [
        claude(f"u{n}", "user", parentUuid=None, message={"role": "user", "content": text})
        for n, text in enumerate(records)
    ]
    answer = {"role": "assistant", "content": "An answer. And more."}
    path = lines(tmp_path / "s.jsonl", *said, claude("a", "assistant", parentUuid=None, message=answer))
    assert read(path).only_info["name"] == name


def test_a_subagent_s_session_is_named_after_its_prompt(tmp_path: Path) -> None:
    said = claude("u1", "user", parentUuid=None, isSidechain=True, message={"role": "user", "content": "Find it."})
    assert read(lines(tmp_path / "agent-x.jsonl", said)).only_info["name"] == "Find it."


def test_pi_has_an_empty_system_message(tmp_path: Path) -> None:
    """Since 0.87; it is counted, and one with words is a message."""
    path = lines(
        tmp_path / "s.jsonl",
        {"type": "session", "id": "s", "timestamp": "2026-11-22T10:00:00Z", "cwd": "/w", "version": 3},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "system", "content": ""}},
        {"type": "message", "id": "b", "parentId": "a", "message": {"role": "system", "content": "be kind"}},
        {"type": "message", "id": "c", "parentId": "b", "message": {"role": "user", "content": "hi"}},
    )
    found = read(path, "pi")
    assert found.told() == [("system", "be kind"), ("user", "hi")]
    assert found.ignored == {"message/system without content": 1}


def test_cline_keeps_title_and_folder_beside_and_wraps_prompts(tmp_path: Path) -> None:
    """`<id>.json` has them; a prompt is in an element with the mode in which it was typed."""
    (tmp_path / "id1.json").write_text(json.dumps({"cwd": "/w", "prompt": "hi", "metadata": {"title": "A title"}}))
    path = tmp_path / "id1.messages.json"
    messages = [
        {"id": "1", "role": "user", "ts": 1795341600000, "content": [{"type": "text", "text": '<user_input mode="act">say <b>hi</b>\nnow</user_input>'}]},
        {"id": "2", "role": "assistant", "ts": 1795341600001, "content": [{"type": "text", "text": "hi"}]},
        {"id": "3", "role": "user", "ts": 1795341600002, "content": "<user_input>\nonce more\n</user_input>"},
    ]  # fmt: skip
    path.write_text(json.dumps({"version": 1, "sessionId": "id1", "messages": messages}))
    found = read(path)
    assert [content for _, content in found.told()] == ["say <b>hi</b>\nnow", "hi", "once more"]
    assert found.only[0]["metadata"]["mode"] == "act"
    assert (found.only_info["name"], found.only_info["cwd"]) == ("A title", "/w")
    (tmp_path / "id1.json").write_text("{cut")
    assert read(path).only_info["name"] == "say <b>hi</b>"


def test_codex_packs_old_rollouts(tmp_path: Path) -> None:
    """As `.jsonl.zst`: the same session as before it was packed, also in a folder; a cut one brings what is whole."""
    records = [
        {"timestamp": "2026-11-22T10:00:00Z", "type": "session_meta", "payload": {"id": "x", "cwd": "/w"}},
        *(
            {"timestamp": "2026-11-22T10:00:01Z", "type": "response_item", "payload": {
                "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"{n} " + secrets.token_hex(500)}],
            }}
            for n in range(300)
        ),
    ]  # fmt: skip
    plain = lines(tmp_path / "rollout-x.jsonl", *records)
    packed = tmp_path / "packed" / "rollout-x.jsonl.zst"
    packed.parent.mkdir()
    whole = zstandard.ZstdCompressor().compress(plain.read_bytes())
    packed.write_bytes(whole)
    assert read(packed).told() == read(plain).told()
    assert [found.importer for found in registry.walk(str(packed.parent))] == ["codex"]
    headless = lines(tmp_path / "rollout-y.jsonl", *records[1:])
    packed_headless = tmp_path / "rollout-y.jsonl.zst"
    packed_headless.write_bytes(zstandard.ZstdCompressor().compress(headless.read_bytes()))
    assert read(packed_headless).starts.keys() == read(headless).starts.keys() == {"rollout-y"}
    packed.write_bytes(whole[: len(whole) // 2])
    assert 100 < len(read(packed).only) < 300
    damaged = bytearray(whole)
    damaged[-20_000:-10_000] = b"\xff" * 10_000
    packed.write_bytes(damaged)
    with pytest.raises(OSError, match="zstd"):
        read(packed)


def test_an_older_session_of_goose(tmp_path: Path) -> None:
    """A JSON Lines file named after its beginning; times are seconds, and calls and results are parts."""
    path = lines(
        tmp_path / "20250311_142530.jsonl",
        {"working_dir": "/w", "description": "List files", "message_count": 3, "total_tokens": 12},
        {"role": "user", "created": 1741703130, "content": [{"type": "text", "text": "list"}]},
        {"role": "assistant", "created": 1741703131, "content": [
            {"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}}},
        ]},
        {"role": "user", "created": 1741703132, "content": [
            {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": [{"type": "text", "text": "a file"}]}},
        ]},
    )  # fmt: skip
    found = read(path)
    assert recognised(path) == "goose"
    assert [(m["role"], m["content"], m["timestamp"]) for m in found.only] == [
        ("user", "list", "2025-03-11T14:25:30.000Z"), ("assistant", "", "2025-03-11T14:25:31.000Z"), ("tool", "a file", "2025-03-11T14:25:32.000Z"),
    ]  # fmt: skip
    info = found.only_info
    assert (info["name"], info["cwd"], info["metadata"]["total_tokens"]) == ("List files", "/w", 12)


def test_results_of_continue_are_messages(tmp_path: Path) -> None:
    """Whether they are in the state of their calls or in messages of their own; each once."""
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    history = [
        {"message": {"role": "user", "content": "list"}, "contextItems": []},
        {
            "message": {"role": "assistant", "content": "", "toolCalls": [call, {**call, "id": "c2"}]},
            "toolCallStates": [
                {"toolCallId": "c1", "status": "done", "output": [{"name": "ls", "content": "a file"}]},
                {"toolCallId": "c2", "status": "done", "output": [{"name": "ls", "content": "said below"}]},
            ],
        },
        {"message": {"role": "tool", "content": "said below", "toolCallId": "c2"}},
    ]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"sessionId": "s", "title": "T", "workspaceDirectory": "/w", "history": history}))
    found = read(path, "continue")
    assert [(m["content"], m["toolCallId"]) for m in found.only if m["role"] == "tool"] == [
        ("a file", "c1"), ("said below", "c2"),
    ]  # fmt: skip


def test_crush_says_where_its_projects_are(tmp_path: Path) -> None:
    """Its databases lie in the projects; a list that is damaged or odd brings none."""
    listing = tmp_path / ".local" / "share" / "crush" / "projects.json"
    listing.parent.mkdir(parents=True)
    for name in ("one", "two", "three"):
        (tmp_path / name / ".crush").mkdir(parents=True)
        (tmp_path / name / ".crush" / "crush.db").write_bytes(b"")
    projects = [
        {"path": str(tmp_path / "one")},
        {"path": str(tmp_path / "two"), "data_dir": ".crush"},
        {"path": 3},
        "odd",
    ]
    listing.write_text(json.dumps({"projects": projects}))
    found = [place.path for place in registry.known_places(str(tmp_path), {}) if place.tool == "crush"]
    assert found == [str(tmp_path / name / ".crush" / "crush.db") for name in ("one", "two")]
    listing.write_text("{cut")
    assert [place for place in registry.known_places(str(tmp_path), {}) if place.tool == "crush"] == []


OPENCODE = {"id": "ses_1", "projectID": "p", "title": "Files", "directory": "/w", "version": "1.1", "time": {"created": 1_790_000_000_000, "updated": 1_790_000_009_000}}  # fmt: skip
OPENCODE_MESSAGES: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1_790_000_001_000}},
        [{"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text", "text": "list"}],
    ),
    (
        {"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "fake", "time": {"created": 1_790_000_002_000}},
        [
            {"id": "prt_2", "messageID": "msg_2", "sessionID": "ses_1", "type": "text", "text": "I shall look."},
            {"id": "prt_3", "messageID": "msg_2", "sessionID": "ses_1", "type": "tool", "callID": "c", "tool": "bash",
             "state": {"status": "completed", "input": {"command": "ls"}, "output": "a file", "time": {"start": 1_790_000_002_100, "end": 1_790_000_002_200}}},
        ],
    ),
]  # fmt: skip


def opencode_told(path: Path) -> dict[str, Any]:
    found = read(path)
    assert recognised(path) == "opencode"
    info = found.only_info
    assert (info["name"], info["cwd"], info["model"], info["createdAt"]) == (
        "Files",
        "/w",
        "fake",
        "2026-09-21T14:13:20.000Z",
    )
    return {message["id"]: message for message in found.only}


def test_what_opencode_exports_and_what_it_wrote_before_its_database(tmp_path: Path) -> None:
    """`opencode export`, and a file for each session, message and part: the same messages, under the ids of the database."""
    exported = tmp_path / "export.json"
    entries = [{"info": info, "parts": parts} for info, parts in OPENCODE_MESSAGES]
    exported.write_text(json.dumps({"info": OPENCODE, "messages": entries}))
    storage = tmp_path / ".local" / "share" / "opencode" / "storage"
    stored = storage / "session" / "p" / "ses_1.json"
    files = {stored: OPENCODE}
    for info, parts in OPENCODE_MESSAGES:
        files[storage / "message" / "ses_1" / f"{info['id']}.json"] = info
        files |= {storage / "part" / info["id"] / f"{part['id']}.json": part for part in parts}
    for file, value in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    told = opencode_told(exported)
    assert told == opencode_told(stored)
    assert [(m["role"], m["content"]) for m in told.values()] == [
        ("user", "list"),
        ("assistant", "I shall look."),
        ("tool", "a file"),
    ]
    assert told["msg_2"]["toolCalls"][0]["arguments"] == {"command": "ls"}
    [place] = [one for one in registry.known_places(str(tmp_path), {}) if one.tool == "opencode"]
    assert [found.importer for found in registry.walk(place.path)] == ["opencode"]
    (storage / "message" / "ses_1" / "msg_2.json").write_text("{cut")
    assert "msg_1" in {message["id"] for message in read(stored).only}
