"""avante's histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised

from sessiond.importers.draft import moment
from tests.importers.tools import calls, imported_twice, told


def message(number: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "message": {"role": role, "content": content},
        "uuid": f"u{number}",
        "state": "generated",
        "timestamp": f"2025-06-01 10:00:0{number}",
        "is_user_submission": role == "user",
        "visible": True,
        **more,
    }


CALL = {"type": "tool_use", "id": "c1", "name": "view", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "apples", "is_error": False}
MESSAGES = [
    message(1, "user", "What is in a?", provider="copilot", model="gpt-x"),
    message(2, "assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}]),
    message(3, "assistant", [CALL]),
    message(4, "user", [RESULT], is_user_submission=False),
    message(5, "user", "Go on.", is_dummy=True),
    message(6, "assistant", "App", state="generating"),
]
ENTRIES = [
    {
        "timestamp": "2025-01-01 09:00:00",
        "provider": "claude",
        "model": "m",
        "request": "hi",
        "response": "x",
        "original_response": "ho",
    },
    {"timestamp": "2025-01-01 09:01:00", "request": "again", "response": ""},
]


def history(folder: Path, **more: Any) -> Path:
    path = folder / "avante" / "projects" / "__home__me__work" / "history" / "0.json"
    path.parent.mkdir(parents=True)
    about = {"title": "Fruit", "timestamp": "2025-06-01 10:00:00", "filename": "0.json", "todos": [], "entries": []}
    path.write_text(json.dumps({**about, "messages": MESSAGES, **more}))
    (path.parent / "metadata.json").write_text('{"project_root": "/home/me/work", "latest_filename": "0.json"}')
    return path


def test_a_history(tmp_path: Path) -> None:
    """Calls and results are Anthropic's blocks; prompts that avante made up are marked."""
    path = history(tmp_path)
    assert recognised(path) == "avante"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is in a?"),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", "apples"),
        ("user", "Go on."),
        ("assistant", "App"),
    ]
    asked, thought, called, result, dummy, last = stream.only
    assert (thought["thinking"], calls(called)) == ("hm", [("c1", "view", {"path": "a"})])
    assert (result["toolCallId"], result["id"]) == ("c1", "u4")
    assert (dummy["metadata"]["injected"], last["status"]) == (True, "interrupted")
    assert asked["timestamp"] == moment("2025-06-01T10:00:01")
    info = stream.only_info
    assert (info["name"], info["cwd"], info["model"]) == ("Fruit", "/home/me/work", "gpt-x")
    assert list(stream.starts) == ["__home__me__work-0"]


def test_older_entries(tmp_path: Path) -> None:
    """A prompt and its answer were one entry; the answer is what the model wrote, before avante changed it."""
    stream = read(history(tmp_path, messages=[], entries=ENTRIES))
    assert told(stream.only) == [("user", "hi"), ("assistant", "ho"), ("user", "again")]


def test_a_cut_history_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported; the cut, and elements that are not messages, are reported."""
    path = history(tmp_path, messages=[{"odd": 1}, *MESSAGES])
    path.write_text(path.read_text()[: path.read_text().index("apples")])
    stream = read(path)
    assert len(stream.only) == 3
    assert [one.reason for one in stream.skipped] == ["neither a message nor an entry", "cut off in the middle"]


def test_its_metadata_is_not_a_history(tmp_path: Path) -> None:
    """Neither is another document with a title and a time."""
    path = history(tmp_path)
    assert recognised(path.parent / "metadata.json") is None
    path.write_text(json.dumps({"title": "x", "timestamp": "y", "messages": []}))
    assert recognised(path) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", history(tmp_path), 6)
