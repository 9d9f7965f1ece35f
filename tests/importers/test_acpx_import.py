"""acpx: what version 0.19.1 wrote about opencode, shortened; its document, and its journal where that is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessiond.importers import registry
from tests.importers.collected import Stream, lines, read, recognised
from tests.importers.tools import calls, told

ID = "ses_df6938a62ffeK9l4ka8hrdYVcd"
INPUT = {"command": "ls", "cwd": "/w"}
OUTPUT = {"output": "apple.txt\n", "metadata": {"exit": 0}}
TOLD = [
    ("user", "Second prompt RUN ls"),
    ("assistant", "I shall look."),
    ("tool", "apple.txt\n"),
    ("assistant", "Answer 1"),
    ("user", "Third prompt"),
    ("assistant", "Answer 2"),
]


def document(folder: Path, **more: Any) -> Path:
    call = {"id": "call_2", "name": "ls", "raw_input": json.dumps(INPUT), "input": INPUT, "is_input_complete": True}
    result = {
        "tool_use_id": "call_2",
        "tool_name": "ls",
        "is_error": False,
        "content": {"Text": json.dumps(OUTPUT)},
        "output": OUTPUT,
    }
    used = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ID}.json"
    path.write_text(json.dumps({
        "schema": "acpx.session.v1", "acpx_record_id": ID, "acp_session_id": ID, "agent_command": "opencode acp", "cwd": "/w",
        "created_at": "2026-11-23T17:20:32.771Z", "last_used_at": "2026-11-23T17:20:41.354Z", "title": None,
        "messages": [
            {"User": {"id": "c8a5", "content": [{"Text": "Second prompt RUN ls"}]}},
            {"Agent": {
                "content": [{"Text": "I shall look."}, {"ToolUse": call}, {"Text": "Answer 1"}],
                "tool_results": {"call_2": result},
            }},
            {"User": {"id": "7344", "content": [{"Text": "Third prompt"}]}},
            {"Agent": {"content": [{"Text": "Answer 2"}], "tool_results": {}}},
        ],
        "updated_at": "2026-11-23T17:20:41.354Z", "request_token_usage": {"c8a5": used, "7344": used},
        "acpx": {"current_model_id": "fake/fake-model"}, **more,
    }))  # fmt: skip
    return path


def update(kind: str, /, **fields: Any) -> dict[str, Any]:
    params = {"sessionId": ID, "update": {"sessionUpdate": kind, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(message_id: str, text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    return update(kind, messageId=message_id, content={"type": "text", "text": text})


def prompt(number: int, text: str) -> dict[str, Any]:
    params = {"sessionId": ID, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}


def ended(number: int) -> dict[str, Any]:
    usage = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}
    return {"jsonrpc": "2.0", "id": number, "result": {"stopReason": "end_turn", "usage": usage, "_meta": {}}}


def told_call(status: str, **fields: Any) -> dict[str, Any]:
    return update("tool_call_update", toolCallId="call_2", status=status, title="ls", **fields)


JOURNAL = [
    {"schema": "acpx.session.journal.v1", "type": "segment", "record_id": ID, "sequence": 0},
    {"schema": "acpx.session.journal.v1", "type": "turn_started", "request_id": "7335"},
    {"jsonrpc": "2.0", "id": 1, "method": "session/resume", "params": {"sessionId": ID, "cwd": "/w", "mcpServers": []}},
    prompt(2, "Second prompt RUN ls"),
    chunk("m1", "Hm.", "agent_thought_chunk"),
    chunk("m1", "I "),
    chunk("m1", "shall look."),
    update("tool_call", toolCallId="call_2", title="bash", kind="execute", status="pending", rawInput={"cwd": "/w"}),
    told_call("in_progress", rawInput=INPUT),
    told_call("completed", content=[{"type": "content", "content": {"type": "text", "text": "apple.txt\n"}}]),
    chunk("m2", "Answer "),
    chunk("m2", "1"),
    update("usage_update", used=100, size=100_000),
    ended(2),
    prompt(3, "Third prompt"),
    chunk("m3", "Answer 2"),
    ended(3),
]


def journal(folder: Path, *records: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return lines(folder / f"{ID}.stream.ndjson", *(records or JOURNAL))


def only(stream: Stream) -> list[dict[str, Any]]:
    [messages] = stream.messages.values()
    return messages


def test_a_document(tmp_path: Path) -> None:
    """A result follows its call, in the middle of the answer; the prompt has the request's tokens."""
    path = document(tmp_path)
    assert recognised(path) == "acpx"
    stream = read(path)
    messages = only(stream)
    assert told(messages) == TOLD
    assert calls(messages[1]) == [("call_2", "ls", INPUT)]
    assert messages[2]["toolCallId"] == "call_2"
    assert messages[0]["metadata"]["tokens"] == {"input": 100, "output": 10, "model": "fake/fake-model"}
    info = stream.info[ID]
    assert (info["cwd"], info["model"], info["name"]) == ("/w", "fake/fake-model", "Second prompt RUN ls")
    assert info["metadata"]["agent_command"] == "opencode acp"


def test_a_journal(tmp_path: Path) -> None:
    """Without the document: chunks are one text, and the last report of a call counts."""
    path = journal(tmp_path)
    assert recognised(path) == "acpx"
    stream = read(path)
    messages = only(stream)
    assert told(messages) == TOLD
    assert calls(messages[1]) == [("call_2", "ls", INPUT)]
    assert messages[1]["thinking"] == "Hm."
    assert messages[1]["metadata"] == {"stopReason": "end_turn", "tokens": {"input": 100, "output": 10}}
    assert stream.starts[ID].suggested_id == f"acpx-{ID}"
    assert stream.ignored["usage_update"] == 1
    assert stream.unknown == {}


def test_an_answer_that_was_cut_off(tmp_path: Path) -> None:
    messages = only(read(journal(tmp_path, *JOURNAL[:9])))
    assert told(messages) == TOLD[:2]
    assert calls(messages[1]) == [("call_2", "ls", INPUT)]


def test_a_journal_next_to_its_document_is_a_part_of_it(tmp_path: Path) -> None:
    document(tmp_path)
    journal(tmp_path)
    found = list(registry.walk(str(tmp_path)))
    assert [(one.importer, Path(one.path).suffix) for one in found if isinstance(one, registry.Found)] == [
        ("acpx", ".json")
    ]
    assert len(found) == 1


def test_what_is_new_is_said(tmp_path: Path) -> None:
    records = [*JOURNAL[:7], update("hologram", content="?"), *JOURNAL[7:]]
    stream = read(journal(tmp_path, *records))
    assert stream.unknown == {"hologram": 1}
    assert told(only(stream)) == TOLD
    messages = [{"User": {"id": "1", "content": [{"Text": "a"}]}}, {"Hologram": {"content": 5}}]
    stream = read(document(tmp_path / "document", messages=messages))
    assert stream.unknown == {"Hologram": 1}
    assert told(only(stream))[0] == ("user", "a")
