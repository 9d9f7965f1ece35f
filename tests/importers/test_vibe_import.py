"""Mistral Vibe: files in the shape that versions 2.25 and 3.0 wrote, driven by a fake model, and version 1's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from collected import lines, read, recognised

from sessiond.importers import registry
from sessiond.importers.record import SkippedLine
from tests.importers.tools import calls, imported_twice, told

S = "d0d01a1e-4eee-d5a7-2e10-5eff537ccc71"
META: dict[str, Any] = {
    "session_id": S,
    "parent_session_id": "p0",
    "start_time": "2026-11-23T13:24:29.046933+00:00",
    "end_time": "2026-11-23T13:24:32.317557+00:00",
    "git_branch": "main",
    "environment": {"working_directory": "/work"},
    "title": "Fruit",
    "config": {"active_model": "fake", "providers": [{"name": "x"}]},
    "tools_available": [{"type": "function"}],
}
FUNCTION = {"name": "bash", "arguments": '{"command": "ls"}'}
MESSAGES = [
    {"role": "user", "content": "What is here?", "injected": False, "message_id": "m1"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "index": 0, "function": FUNCTION, "type": "function"}],
        "message_id": "m2",
    },
    {"role": "tool", "content": "apple.txt", "injected": False, "name": "bash", "tool_call_id": "c1"},
    {"role": "user", "content": "reminder", "injected": True, "message_id": "m3"},
    {"role": "assistant", "content": "An apple.", "message_id": "m4"},
]
EXPECTED = [("user", "What is here?"), ("assistant", "Let me look."), ("tool", "apple.txt")]


def session(folder: Path) -> Path:
    path = lines(folder / "session_20261123_132429_d0d01a1e" / "messages.jsonl", *MESSAGES)
    (path.parent / "meta.json").write_text(json.dumps(META))
    return path


def entry(number: int, kind: str, **more: Any) -> dict[str, Any]:
    created = 1795440207000 + number * 1000
    return {
        "id": f"e{number}",
        "type": kind,
        "sessionId": S,
        "createdAt": created,
        "generationStatus": "completed",
        **more,
    }


def says(number: int, role: str, text: str) -> dict[str, Any]:
    return entry(number, "message", role=role, content=[{"type": "text", "text": text}])


EFFECT = entry(
    3,
    "effect",
    detail={"kind": "tool", "toolName": "bash", "input": {"command": "ls"}, "display": {"verb": "Running"}},
    state={"status": "completed", "output": {"type": "success", "content": [{"type": "text", "text": "apple.txt"}]}},
)


def store(folder: Path) -> Path:
    home = folder / "unified" / S
    (home / "generations" / "0021").mkdir(parents=True)
    (home / "chunks").mkdir()
    (home / "CURRENT").write_text(json.dumps({"generation": "0021", "session_id": S, "snapshot_sequence": 21}))
    manifest = {"projection_state": {"chunks": ["aa", "bb"], "path": "projection-state.json"}}
    (home / "generations" / "0021" / "manifest.json").write_text(json.dumps(manifest))
    (home / "chunks" / "aa.json").write_text(
        json.dumps([says(1, "user", "What is here?"), entry(2, "reasoning", text="hm")])
    )
    (home / "chunks" / "bb.json").write_text(json.dumps([EFFECT, says(4, "assistant", "An ap")]))
    deltas: list[dict[str, Any]] = [
        {"op": "replace_entry", "id": "e4", "entry": says(4, "assistant", "An apple.")},
        {"op": "append_entry", "entry": entry(5, "of_next_week", words="kept")},
        {"op": "remove_entry", "id": "e2"},
        {"op": "set_history_entries", "entries": [says(1, "user", "What is here?")]},
    ]
    journal = [{"type": "projection_delta", "payload": {"delta": [one]}} for one in deltas]
    lines(home / "journal" / "0022.jsonl", {"type": "command_reserved", "payload": {}}, *journal)
    path = home / "meta.json"
    path.write_text(json.dumps(META))
    return path


def test_a_session(tmp_path: Path) -> None:
    """Version 2: messages in OpenAI's form; what Vibe said in the user's name is marked. The messages have no times."""
    path = session(tmp_path)
    assert recognised(path) == "vibe"
    stream = read(path)
    assert told(stream.only) == [*EXPECTED, ("user", "reminder"), ("assistant", "An apple.")]
    assert (stream.only[1]["thinking"], calls(stream.only[1])) == ("hm", [("c1", "bash", '{"command": "ls"}')])
    assert stream.only[2]["toolCallId"] == "c1"
    assert stream.only[3]["metadata"] == {"injected": True}
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/work", "fake")
    assert info["parent"] == {"sessionId": "vibe-p0", "seq": None}
    assert stream.only[0]["timestamp"] == "2026-11-23T13:24:29.046Z"
    assert info["metadata"].keys() == {"git_branch", "source"}


def test_a_store(tmp_path: Path) -> None:
    """Version 3: the chunks of the newest generation, then what the journal changed; what it removes is kept."""
    path = store(tmp_path)
    assert recognised(path) == "vibe"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is here?"),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", "apple.txt"),
        ("assistant", "An apple."),
        ("system", ""),
    ]
    assert stream.only[1]["thinking"] == "hm"
    assert calls(stream.only[2]) == [("e3", "bash", {"command": "ls"})]
    assert stream.only[3]["toolCallId"] == "e3"
    assert stream.only[5]["metadata"]["record"]["words"] == "kept"
    assert stream.only[0]["timestamp"] == "2026-11-23T13:23:28.000Z"


def test_a_tool_that_still_runs(tmp_path: Path) -> None:
    """Its call is there, without a result."""
    path = store(tmp_path)
    running = {**EFFECT, "state": {"status": "running"}}
    (path.parent / "chunks" / "aa.json").write_text(json.dumps([running]))
    (path.parent / "chunks" / "bb.json").write_text("[]")
    first = read(path).only[0]
    assert calls(first) == [("e3", "bash", {"command": "ls"})]
    assert first["metadata"]["state"] == {"status": "running"}


def test_the_parts_of_a_store_are_not_sessions(tmp_path: Path) -> None:
    """A chunk looks like a list of messages; only `meta.json` is imported, and a chunk that is named is refused."""
    path = store(tmp_path)
    chunk = path.parent / "chunks" / "aa.json"
    assert recognised(chunk) == "messages"
    found = [one.path for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)]
    assert found == [str(path)]
    refused = registry.identify(str(chunk), None, named=True)
    assert isinstance(refused, SkippedLine) and refused.reason == "only a part of what vibe wrote"


def test_the_first_layout(tmp_path: Path) -> None:
    """Version 1: one document with `metadata` and `messages`."""
    path = tmp_path / "session_20250101_000000_abc.json"
    path.write_text(json.dumps({"metadata": META, "messages": MESSAGES[:3]}))
    assert recognised(path) == "vibe"
    assert told(read(path).only) == EXPECTED


def test_a_damaged_store_gives_what_is_left(tmp_path: Path) -> None:
    """A chunk that is missing, a name that leads out of the store and a cut journal are reported."""
    path = store(tmp_path)
    manifest = {"projection_state": {"chunks": ["aa", "../../x", "gone"]}}
    (path.parent / "generations" / "0021" / "manifest.json").write_text(json.dumps(manifest))
    journal = path.parent / "journal" / "0022.jsonl"
    journal.write_text(journal.read_text()[:-10])
    stream = read(path)
    assert [message["id"] for message in stream.only] == ["e1", "e2", "e4", "e5"]
    reasons = [one.reason for one in stream.skipped]
    assert reasons[:2] == ["there is no chunk ../../x", "there is no chunk gone"]
    assert len(reasons) == 3
    (path.parent / "CURRENT").write_text('{"generation": "../x"}')
    assert "`CURRENT` does not name a generation" in [one.reason for one in read(path).skipped]


def test_a_cut_line_costs_itself(tmp_path: Path) -> None:
    """Damage in the messages is reported with its line."""
    path = session(tmp_path)
    path.write_text(path.read_text()[:-5] + "\n{}\n")
    stream = read(path)
    assert len(stream.only) == 4
    assert [one.line for one in stream.skipped] == [5, 6]


def test_messages_of_another_tool_are_not_recognised(tmp_path: Path) -> None:
    """Nor is any other `meta.json`."""
    assert recognised(lines(tmp_path / "messages.jsonl", {"role": "user", "content": "x"})) == "messages"
    path = tmp_path / "meta.json"
    path.write_text(json.dumps(META))
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", session(tmp_path), 5)
    await imported_twice(tmp_path / "other", store(tmp_path), 6)


def test_a_store_is_read_again_when_its_journal_grows(tmp_path: Path) -> None:
    """The journal's file grows where it is, which neither `meta.json` nor the folder's own time shows."""
    path = store(tmp_path)
    [segment] = (path.parent / "journal").iterdir()
    folder = segment.parent.stat()
    before = registry.fingerprint(str(path))
    with segment.open("ab") as file:
        file.write(b"{}\n")
    os.utime(segment.parent, ns=(folder.st_atime_ns, folder.st_mtime_ns))
    assert registry.fingerprint(str(path)) != before
    assert registry.source_of(str(segment)) == str(path)
