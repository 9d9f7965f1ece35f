"""Open WebUI: its database and its JSON export."""

from __future__ import annotations

import html
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

TABLE = """
CREATE TABLE chat (id VARCHAR(255) NOT NULL PRIMARY KEY, user_id VARCHAR(255) NOT NULL, title TEXT NOT NULL, chat JSON NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, share_id TEXT, archived INTEGER NOT NULL, meta JSON)
"""
T = 1700000000


def attribute(value: Any) -> str:
    return html.escape(json.dumps(value))


HTML = (
    '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n&gt; h &amp; m\n&gt; so\n</details>\n'
    'I look.\n<details type="tool_calls" done="true" id="c1" name="search" '
    f'arguments="{attribute(json.dumps({"q": "a"}))}" result="{attribute("apples")}" files="">\n'
    "<summary>Tool Executed</summary>\n</details>\nApples."
)
OUTPUT = [
    {"type": "reasoning", "id": "r1", "content": [{"type": "output_text", "text": "hm"}]},
    {"type": "function_call", "id": "f1", "call_id": "c1", "name": "search", "arguments": '{"q": "a"}'},
    {"type": "function_call_output", "id": "f2", "call_id": "c1", "output": [{"type": "input_text", "text": "pears"}]},
    {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Pears."}]},
    {"type": "open_webui:of_next_week", "words": "kept"},
]


def message(key: str, parent: str | None, role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "parentId": parent, "childrenIds": [], "role": role, "content": content, "timestamp": T, **more}


MESSAGES = [
    message("u1", None, "user", "What is it?", models=["m1"]),
    message("a1", "u1", "assistant", HTML, model="m1", done=True),
    message("a2", "u1", "assistant", "x", output=OUTPUT, model="m2", usage={"total_tokens": 5}, done=False),
    message("u2", "a1", "user", "Thanks"),
]
CHAT = {
    "id": "",
    "title": "Fruit",
    "models": ["m1"],
    "history": {"messages": {one["id"]: one for one in MESSAGES}, "currentId": "u2"},
}
OLDER = {"title": "Older", "messages": [{"role": "user", "content": "hi"}]}
EXPECTED = [
    ("user", "What is it?"),
    ("assistant", ""),
    ("tool", "pears"),
    ("assistant", [{"type": "text", "text": "Pears."}, OUTPUT[4]]),
    ("assistant", "I look."),
    ("tool", "apples"),
    ("assistant", "Apples."),
    ("user", "Thanks"),
]


def database(path: Path, *more: tuple[str, str]) -> Path:
    rows = [("c1", json.dumps(CHAT)), ("c2", json.dumps(OLDER)), *more]
    with closing(sqlite3.connect(path)) as db:
        db.execute(TABLE)
        for key, chat in rows:
            db.execute(
                "INSERT INTO chat VALUES (?, 'me', 'Fruit', ?, ?, ?, NULL, 0, '{\"tags\": [\"a\"]}')",
                (key, chat, T, T + 9),
            )
        db.commit()
    return path


def test_chats(tmp_path: Path) -> None:
    """Items and HTML both give thinking, calls and results; the abandoned branch comes first, and is marked."""
    path = database(tmp_path / "webui.db")
    assert recognised(path) == "open-webui"
    stream = read(path)
    messages = stream.messages["c1"]
    assert told(messages) == EXPECTED
    assert [bool(one.get("metadata", {}).get("branch")) for one in messages[:5]] == [False, True, False, False, False]
    assert (messages[1]["thinking"], calls(messages[1])) == ("hm", [("c1", "search", '{"q": "a"}')])
    assert (messages[4]["thinking"], calls(messages[4])) == ("h & m\nso", [("c1", "search", '{"q": "a"}')])
    assert messages[5]["toolCallId"] == "c1"
    assert messages[1]["status"] == "interrupted"
    assert messages[1]["metadata"]["usage"] == {"total_tokens": 5}
    info = stream.info["c1"]
    assert (info["name"], info["createdAt"]) == ("Fruit", "2023-11-14T22:13:20.000Z")
    assert info["metadata"]["meta"] == {"tags": ["a"]}
    assert told(stream.messages["c2"]) == [("user", "hi")]


def test_an_export(tmp_path: Path) -> None:
    """The rows are a JSON array; elements that are not chats or messages are reported."""
    chat = {**CHAT, "history": {"messages": {**CHAT["history"]["messages"], "x": 5}, "currentId": "u2"}}  # type: ignore[dict-item]
    path = tmp_path / "chat-export-1.json"
    path.write_text(json.dumps([{"id": "c1", "title": "Fruit", "chat": chat, "created_at": T}, {"id": "c9"}]))
    assert recognised(path) == "open-webui"
    stream = read(path)
    assert told(stream.only) == EXPECTED
    assert [one.reason for one in stream.skipped] == [
        "message x is not an object",
        "not a conversation: it has no chat",
    ]


def test_a_damaged_chat_costs_itself(tmp_path: Path) -> None:
    """The damaged chat is reported, and so is a cut export."""
    stream = read(database(tmp_path / "webui.db", ("c3", '{"title": "x')))
    assert set(stream.messages) == {"c1", "c2"}
    assert [one.reason for one in stream.skipped] == ["chat c3 is not an object"]
    path = tmp_path / "export.json"
    path.write_text(json.dumps([{"id": "c1", "chat": CHAT}, {"id": "c2", "chat": CHAT}])[:-30])
    stream = read(path)
    assert list(stream.messages) == ["c1"]
    assert "cut off" in stream.skipped[0].reason


def test_another_database_is_not_recognised(tmp_path: Path) -> None:
    """Another program may have chats."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE chat (id TEXT, chat TEXT)")
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", database(tmp_path / "webui.db"), 9)
