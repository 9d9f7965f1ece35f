"""A small source of each importer that does not extend `Tool`, with all that its tool writes: `scripts/importers_table.py` says in
docs/importers.md what comes in of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import test_agents_of_today as today
import test_database_imports as databases
from test_chatgpt_import import exported, node, talk

from tests.importers.collected import lines

Write = Callable[[Path], Path]
S = "11111111-2222-4333-8444-555555555555"
T = "2026-11-22T10:00:0{}.000Z"
USED = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 11, "cache_creation_input_tokens": 13}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def claude_code(folder: Path) -> Path:
    def one(number: int, kind: str, **more: Any) -> dict[str, Any]:
        ids = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number > 1 else None, "sessionId": S}
        return {**ids, "type": kind, "timestamp": T.format(number), "cwd": "/w", "version": "2.1.197", **more}

    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answer = {"role": "assistant", "id": "msg_1", "model": "claude-x", "content": [thought, call], "usage": USED}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "apple.txt"}
    last = {"role": "assistant", "id": "msg_2", "model": "claude-x", "content": [{"type": "text", "text": "An apple."}]}
    reminder = "<system-reminder>be brief</system-reminder>"
    return lines(
        folder / f"{S}.jsonl",
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        one(1, "user", message={"role": "user", "content": [{"type": "text", "text": "What is here?"}, PIXEL]}),
        one(2, "user", isMeta=True, message={"role": "user", "content": reminder}),
        one(3, "assistant", requestId="req_1", message=answer),
        one(4, "user", message={"role": "user", "content": [result]}),
        one(5, "assistant", requestId="req_2", message=last),
        {"type": "custom-title", "customTitle": "Fruit", "sessionId": S},
    )


def codex(folder: Path) -> Path:
    def one(number: int, kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": T.format(number), "type": kind, "payload": payload}

    def item(number: int, kind: str, **fields: Any) -> dict[str, Any]:
        return one(number, "response_item", type=kind, **fields)

    def said(number: int, role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role != "assistant" else "output_text"
        return item(number, "message", role=role, id=f"m{number}", content=[{"type": kind, "text": text}])

    used = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 7, "total_tokens": 57}
    info = {"total_token_usage": used, "last_token_usage": used}
    return lines(
        folder / f"rollout-2026-11-22T10-00-00-{S}.jsonl",
        one(0, "session_meta", id=S, cwd="/w", cli_version="0.169.0", base_instructions="x" * 5000),
        one(0, "turn_context", model="gpt-x", cwd="/w"),
        said(1, "developer", "Be brief."),
        said(2, "user", "What is here?"),
        one(2, "event_msg", type="user_message", message="What is here?"),
        item(3, "reasoning", id="r1", summary=[{"type": "summary_text", "text": "hm"}]),
        item(3, "function_call", id="f1", name="shell", call_id="c1", arguments='{"command": "ls"}'),
        one(3, "event_msg", type="token_count", info=info),
        item(4, "function_call_output", call_id="c1", output="apple.txt"),
        said(5, "assistant", "An apple."),
        one(6, "compacted", message="Asked for the folder."),
    )


def pi(folder: Path) -> Path:
    def one(number: int, **message: Any) -> dict[str, Any]:
        ids = {"id": f"a{number}", "parentId": f"a{number - 1}" if number > 1 else None}
        return {"type": "message", **ids, "timestamp": T.format(number), "message": message}

    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
    usage = {"input": 5, "output": 7, "cacheRead": 11, "cacheWrite": 13, "totalTokens": 36, "cost": {"total": 0.5}}
    content = [{"type": "thinking", "thinking": "hm"}, call]
    return lines(
        folder / f"2026-11-22T10-00-00-000Z_{S}.jsonl",
        {"type": "session", "version": 3, "id": S, "timestamp": T.format(0), "cwd": "/w"},
        {"type": "model_change", "id": "a0", "parentId": None, "timestamp": T.format(0), "modelId": "m"},
        one(1, role="user", content=[{"type": "text", "text": "What is here?"}, PIXEL]),
        one(2, role="assistant", model="m", content=content, usage=usage, stopReason="toolUse"),
        one(3, role="toolResult", toolCallId="c1", toolName="bash", content=[{"type": "text", "text": "apple.txt"}]),
        one(4, role="assistant", model="m", content=[{"type": "text", "text": "An apple."}], usage=usage),
        {
            "type": "compaction",
            "id": "a5",
            "parentId": "a4",
            "timestamp": T.format(5),
            "summary": "Asked for the folder.",
        },
        {"type": "session_info", "id": "a6", "parentId": "a5", "timestamp": T.format(6), "name": "Fruit"},
    )


def aider(folder: Path) -> Path:
    path = folder / ".aider.chat.history.md"
    path.write_text(
        "\n# aider chat started at 2025-03-04 05:06:07\n\n> Aider v0.70.0  \n> Model: gpt-x with diff edit format  \n\n"
        "#### What is here?  \n\nAn apple.\n\n> Commit abc  \n"
    )
    return path


def cline(folder: Path) -> Path:
    call = {"type": "tool_use", "id": "c1", "name": "list_files", "input": {"path": "."}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "apple.txt"}
    model = {"id": "claude-x", "provider": "cline"}
    used = {"inputTokens": 29, "outputTokens": 7, "cacheReadTokens": 11, "cacheWriteTokens": 13, "cost": 0.5}
    messages = [
        {"id": "m1", "role": "user", "content": "<user_input mode=\"act\">What is here?</user_input>", "ts": 1783376868634},
        {"id": "m2", "role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, call], "ts": 1783376868635,
         "modelInfo": model, "metrics": used},
        {"id": "m3", "role": "user", "content": [result], "ts": 1783376868636},
        {"id": "m4", "role": "assistant", "content": [{"type": "text", "text": "An apple."}], "ts": 1783376868637},
        {"id": "m5", "role": "user", "content": "<environment_details>x</environment_details>", "ts": 1783376868638},
    ]  # fmt: skip
    path = folder / "s.messages.json"
    path.write_text(json.dumps({"version": 1, "sessionId": "s", "messages": messages}))
    (folder / "s.json").write_text(json.dumps({"title": "Fruit", "cwd": "/w"}))
    return path


def gemini_cli(folder: Path) -> Path:
    (folder / "p" / "chats").mkdir(parents=True)
    (folder / "p" / ".project_root").write_text("/w")
    call = {"id": "c1", "name": "ls", "args": {}, "status": "success", "result": [{"functionResponse": {
        "id": "c1", "name": "ls", "response": {"output": "apple.txt"}}}], "timestamp": T.format(3)}  # fmt: skip
    used = {"input": 30, "output": 7, "cached": 11, "thoughts": 2, "tool": 0, "total": 39}
    thoughts = [{"subject": "Look", "description": "hm"}]
    summary = today.gemini("m9", "user", [{"text": "<state_snapshot>so far</state_snapshot>"}])
    return lines(
        folder / "p" / "chats" / "session-2026-11-22T10-00-g1.jsonl",
        {"sessionId": "g1", "projectHash": "h", "startTime": T.format(0)},
        today.gemini(
            "m1", "user", [{"text": "What is here?"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]
        ),
        today.gemini("m2", "gemini", "", model="gemini-x", toolCalls=[call], thoughts=thoughts, tokens=used),
        today.gemini("m3", "gemini", "An apple.", model="gemini-x", tokens=used),
        today.gemini("m4", "user", [{"text": "wrong way"}]),
        {"$rewindTo": "m4"},
        {"$set": {"messages": [summary], "summary": "Fruit"}},
    )


def qwen(folder: Path) -> Path:
    sent = [{"role": "user", "parts": [{"text": "so far"}]}]
    payload = {"info": {}, "compressedHistory": sent}
    used = {"promptTokenCount": 30, "cachedContentTokenCount": 11, "candidatesTokenCount": 7}
    records = [{**one, "usageMetadata": used} if one["type"] == "assistant" else one for one in today.QWEN]
    title = {"customTitle": "Fruit"}
    return lines(
        folder / f"{S}.jsonl",
        *records,
        today.qwen("u6", "u5", "system", subtype="chat_compression", systemPayload=payload),
        today.qwen("u7", "u6", "system", subtype="custom_title", systemPayload=title),
    )


def continue_(folder: Path) -> Path:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    state = {"toolCallId": "c1", "status": "done", "output": [{"name": "ls", "content": "apple.txt"}]}
    history = [
        {"message": {"role": "user", "content": "What is here?"}, "contextItems": []},
        {"message": {"role": "thinking", "content": "hm"}},
        {"message": {"role": "assistant", "content": "", "toolCalls": [call]}, "toolCallStates": [state]},
        {"message": {"role": "assistant", "content": "An apple."}},
    ]
    path = folder / "s.json"
    about = {"sessionId": "s", "title": "Fruit", "workspaceDirectory": "file:///w", "chatModelTitle": "m"}
    path.write_text(json.dumps({**about, "history": history}))
    return path


def gptel(folder: Path) -> Path:
    path = folder / "chat.md"
    body = "### What is here?\n\nAn apple.\n\n### "
    start = body.index("An apple") + 1
    path.write_text(
        f'{body}\n<!-- Local Variables: -->\n<!-- gptel-model: gpt-x -->\n<!-- gptel--system-message: "Be brief." -->\n'
        f"<!-- gptel--bounds: ((response ({start} {start + 9}))) -->\n<!-- End: -->\n"
    )
    return path


def goose(folder: Path) -> Path:
    path = folder / "sessions.db"
    call = {
        "type": "toolRequest",
        "id": "c1",
        "toolCall": {"status": "success", "value": {"name": "ls", "arguments": {}}},
    }
    shown = {"status": "success", "value": [{"type": "text", "text": "apple.txt"}]}
    rows = [
        ("user", [{"type": "text", "text": "What is here?"}]),
        ("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}, call]),
        ("user", [{"type": "toolResponse", "id": "c1", "toolResult": shown}]),
        ("assistant", [{"type": "text", "text": "An apple."}]),
    ]
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE sessions (id TEXT, name TEXT, working_dir TEXT, created_at TEXT, updated_at TEXT, model_config_json TEXT);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT,
          created_timestamp INTEGER, timestamp TEXT, tokens INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('s', 'Fruit', '/w', '2026-11-22 10:00:00', '2026-11-22 10:00:09', '{"model_name": "m"}');
        """)
        for number, (role, content) in enumerate(rows):
            values = (f"m{number}", role, json.dumps(content), 1767261600 + number)
            db.execute("INSERT INTO messages VALUES (NULL, ?, 's', ?, ?, ?, NULL, 7, NULL)", values)
        db.commit()
    return path


def opencode(folder: Path) -> Path:
    path = folder / "opencode.db"
    state = {"status": "completed", "input": {"path": "."}, "output": "apple.txt", "time": {"start": 1, "end": 2}}
    used = {"input": 5, "output": 7, "reasoning": 2, "cache": {"read": 11, "write": 13}}
    parts = [
        ("p1", "msg_1", {"type": "text", "text": "What is here?"}),
        ("p2", "msg_1", {"type": "file", "mime": "image/png", "url": "data:image/png;base64,aGk="}),
        ("p3", "msg_2", {"type": "reasoning", "text": "hm"}),
        ("p4", "msg_2", {"type": "tool", "tool": "list", "callID": "c1", "state": state}),
        ("p5", "msg_2", {"type": "text", "text": "An apple."}),
    ]
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE session (id TEXT, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, time_created INT, time_updated INT);
        CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
        CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
        INSERT INTO session VALUES ('ses_1', 'p', 'ses_0', '/w', 'Fruit', 1700000000000, 1700000009000);
        """)
        answer = {"role": "assistant", "modelID": "m", "tokens": used, "cost": 0.5}
        for number, about in enumerate([{"role": "user"}, answer], 1):
            at = 1700000000000 + number * 1000
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", (f"msg_{number}", at, at, json.dumps(about)))
        db.executemany("INSERT INTO part VALUES (?, ?, 'ses_1', 0, ?)", [(k, m, json.dumps(d)) for k, m, d in parts])
        db.commit()
    return path


def chatgpt(folder: Path) -> Path:
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "hm"}]}
    code = {"content_type": "code", "language": "py", "text": "ls()"}
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    hidden = {"is_visually_hidden_from_conversation": True, "model_slug": "m"}
    nodes = [
        node("root", None, ["s"]),
        node("s", "root", ["u"], "system", "Be brief.", metadata=hidden),
        node("u", "s", ["x", "h"], "user", {"content_type": "multimodal_text", "parts": [image, "What is here?"]}),
        node("x", "u", [], "assistant", "an answer that was replaced"),
        node("h", "u", ["c"], "assistant", thoughts),
        node("c", "h", ["t"], "assistant", code, recipient="python"),
        node(
            "t", "c", ["a"], "tool", {"content_type": "execution_output", "text": "apple.txt"}, create_time=1700000002.0
        ),
        node("a", "t", [], "assistant", "An apple."),
    ]
    return exported(folder / "conversations.json", talk(nodes, current_node="a", default_model_slug="m"))


def messages(folder: Path) -> Path:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    path = folder / "chat.json"
    path.write_text(json.dumps([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is here?"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
         "timestamp": T.format(1)},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call], "timestamp": T.format(2)},
        {"role": "tool", "tool_call_id": "c1", "content": "apple.txt", "timestamp": T.format(3)},
        {"role": "assistant", "content": "An apple.", "timestamp": T.format(4)},
    ]))  # fmt: skip
    return path


OLDER: dict[str, Write] = {
    "claude-code": claude_code,
    "codex": codex,
    "pi": pi,
    "aider": aider,
    "cline": cline,
    "gemini-cli": gemini_cli,
    "qwen": qwen,
    "continue": continue_,
    "gptel": gptel,
    "llm": lambda folder: today.llm_db(folder / "logs.db"),
    "goose": goose,
    "opencode": opencode,
    "crush": lambda folder: databases.crush(folder / "crush.db"),
    "chatgpt": chatgpt,
    "messages": messages,
}
