"""The real files of other tools, all the way through the daemon: every session, message, role, time and text is there.

The expected values are read from the files here, without the importers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.home import Client, Home
from tests.importers.collected import corpus


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Home(tmp_path_factory.mktemp("home")) as home:
        yield home.client()


def bring(daemon: Client, path: Path) -> dict[str, dict[str, Any]]:
    """What an import of the path makes: session id -> SessionInfo. A second one brings nothing."""
    result = daemon.call("session/import", path=str(path))
    assert result["warnings"] == []
    again = daemon.call("session/import", path=str(path))
    assert (again["sessions"], again["skipped"]) == ([], len(result["sessions"]) + result["skipped"])
    return {info["sessionId"]: info for info in result["sessions"]}


def messages(daemon: Client, session_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        since = found[-1]["seq"] if found else 0
        page = daemon.call("session/read", sessionId=session_id, since=since, limit=1000)
        found += page["messages"]
        if not page["hasMore"]:
            return found


def raw(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]


def strings(value: Any) -> Iterator[str]:
    """What a person or a model wrote in a block: its text, its thoughts, its arguments, what came back."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        told = [value[key] for key in ("text", "thinking", "content") if key in value]
        yield from strings(told + list(value.get("input", {}).values()))


def kept(message: dict[str, Any], source: Any) -> bool:
    """Whether every text of the source's record is somewhere in the message."""
    whole = json.dumps(message, ensure_ascii=False)
    return all(json.dumps(text, ensure_ascii=False)[1:-1] in whole for text in strings(source))


def test_claude_code(daemon: Client) -> None:
    """A file is a session; a record of a person, a model or a tool is a message."""
    folder = corpus("claude-code")
    made = bring(daemon, folder)
    assert set(made) == {f"claude-code-{path.stem}" for path in folder.glob("*.jsonl")}
    for path in folder.glob("*.jsonl"):
        records = [one for one in raw(path) if one["type"] in ("user", "assistant")]
        found = messages(daemon, f"claude-code-{path.stem}")
        assert [(m["id"], m["timestamp"]) for m in found] == [(r["uuid"], r["timestamp"]) for r in records]
        for message, record in zip(found, records, strict=True):
            content = record["message"]["content"]
            results = isinstance(content, list) and any(block["type"] == "tool_result" for block in content)
            assert message["role"] == ("tool" if results else record["message"]["role"])
            assert kept(message, content)
        info = made[f"claude-code-{path.stem}"]
        assert info["messageCount"] == len(records)
        assert (info["createdAt"], info["updatedAt"]) == (records[0]["timestamp"], max(r["timestamp"] for r in records))
        assert info["cwd"] == records[0]["cwd"]


def test_codex(daemon: Client) -> None:
    """A response item is a message; events only repeat them."""
    folder = corpus("codex")
    made = bring(daemon, folder)
    assert len(made) == len(list(folder.glob("*.jsonl")))
    for path in folder.glob("*.jsonl"):
        records = raw(path)
        meta = next(one["payload"] for one in records if one["type"] == "session_meta")
        items = [one for one in records if one["type"] == "response_item"]
        found = messages(daemon, f"codex-{meta['id']}")
        assert [m["timestamp"] for m in found] == [one["timestamp"] for one in items]
        for message, one in zip(found, items, strict=True):
            if one["payload"]["type"] == "message":
                assert message["role"] == one["payload"]["role"]
                assert kept(message, [block["text"] for block in one["payload"]["content"]])
            elif one["payload"]["type"].endswith("_output"):
                assert (message["role"], message["toolCallId"]) == ("tool", one["payload"]["call_id"])
            else:
                assert message["role"] == "assistant"
        assert made[f"codex-{meta['id']}"]["cwd"] == meta["cwd"]


def test_pi(daemon: Client) -> None:
    """A spoken entry is a message, a compaction too."""
    path = corpus("pi/before-compaction.jsonl")
    records = [one for one in raw(path) if one["type"] in ("message", "compaction")]
    [(session_id, info)] = bring(daemon, path).items()
    found = messages(daemon, session_id)
    assert info["messageCount"] == len(found) == len(records)
    roles = {"toolResult": "tool"}
    for message, one in zip(found, records, strict=True):
        role = one["message"]["role"] if one["type"] == "message" else "system"
        assert (message["timestamp"], message["role"]) == (one["timestamp"], roles.get(role, role))
        blocks = one.get("message", {}).get("content", [])
        assert kept(message, [block["text"] for block in blocks if block["type"] == "text"])


def test_cline(daemon: Client) -> None:
    """A message is a message, with its own id and time."""
    path = corpus("cline/session.messages.json")
    document = json.loads(path.read_bytes())
    [(session_id, info)] = bring(daemon, path).items()
    found = messages(daemon, session_id)
    assert session_id == f"cline-{document['sessionId']}"
    assert info["messageCount"] == len(found)
    assert [m["id"] for m in found] == [one["id"] for one in document["messages"]]
    for message, one in zip(found, document["messages"], strict=True):
        assert datetime.fromisoformat(message["timestamp"]).timestamp() == one["ts"] / 1000
        assert kept(message, [block["text"] for block in one["content"] if block["type"] == "text"])


def test_aider(daemon: Client, tmp_path: Path) -> None:
    """A heading is a session if anybody says anything below it; each run of lines of one speaker is a message.

    The first chats, for 1,134 take a while.
    """
    whole = corpus("aider/chat-history.md").read_text()
    cut = [found.start() for found in re.finditer(r"(?m)^# aider chat started at ", whole)][120]
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(whole[:cut])
    preface, *rest = re.split(r"(?m)^# aider chat started at (.*)\n", whole[:cut])
    made = bring(daemon, path)
    chats = [(heading, spoken(body)) for heading, body in zip(rest[::2], rest[1::2], strict=True)]
    expected = [
        (datetime.strptime(heading, "%Y-%m-%d %H:%M:%S").astimezone(UTC), said)
        for heading, said in chats
        if any(role != "tool" for role, _ in said)
    ]
    assert 50 < len(expected) < len(chats)
    assert len(made) == len(expected) + any(role != "tool" for role, _ in spoken(preface))
    found = []
    for info in made.values():
        read = [(m["role"], "".join(m["content"].split())) for m in messages(daemon, info["sessionId"])]
        assert info["messageCount"] == len(read)
        assert not info["name"].startswith("aider chat started at")
        found.append((datetime.fromisoformat(info["createdAt"]), read))
    for chat in expected:
        assert chat in found


def spoken(body: str) -> list[tuple[str, str]]:
    """(role, text without blanks) of a chat, by its lines' marks alone."""
    runs: list[tuple[str, list[str]]] = []
    for line in body.split("\n"):
        role = (
            "user"
            if line.startswith("#### ") and line.endswith("  ")
            else "tool"
            if line.startswith("> ")
            else "assistant"
        )
        if not runs or runs[-1][0] != role:
            runs.append((role, []))
        runs[-1][1].append(line[{"user": 5, "tool": 2, "assistant": 0}[role] :])
    squeezed = [(role, "".join("".join(lines).split())) for role, lines in runs]
    return [(role, text) for role, text in squeezed if text]
