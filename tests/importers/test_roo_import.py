"""Roo Code and Kilo Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected import read, recognised

from tests.importers.tools import calls, imported_twice, told

DETAILS = "<environment_details>\n# Current Mode\n<slug>code</slug>\n</environment_details>"
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.txt"}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "apples"}
MESSAGES: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "<task>\nRead a.txt\n</task>"}, {"type": "text", "text": DETAILS}],
        "ts": 1700000000000,
    },
    {
        "type": "reasoning",
        "role": "assistant",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "ts": 1700000001000,
    },
    {"role": "assistant", "content": [{"type": "text", "text": "I look."}, TOOL_USE], "ts": 1700000002000},
    {"role": "user", "content": [TOOL_RESULT, {"type": "text", "text": DETAILS}], "ts": 1700000003000},
    {"role": "assistant", "content": "Apples.", "ts": 1700000004000, "reasoning_content": "so"},
    {"role": "user", "content": [{"type": "text", "text": "We read apples"}], "isSummary": True, "ts": 1700000005000},
]
ITEM = {"id": "task-1", "task": "Read a.txt", "workspace": "/w", "ts": 1, "totalCost": 0.5, "parentTaskId": "task-0"}


def task(folder: Path, extension: str = "rooveterinaryinc.roo-cline", messages: Any = MESSAGES) -> Path:
    path = folder / extension / "tasks" / "task-1" / "api_conversation_history.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(messages))
    (path.parent / "history_item.json").write_text(json.dumps(ITEM))
    return path


def test_a_task_of_roo(tmp_path: Path) -> None:
    """A prompt loses its tags; the details that Roo adds go to the metadata; a result follows its call."""
    path = task(tmp_path)
    assert recognised(path) == "roo"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "Read a.txt"),
        ("assistant", ""),
        ("assistant", "I look."),
        ("tool", "apples"),
        ("assistant", "Apples."),
        ("user", "We read apples"),
    ]
    asked, thought, called, result, answer, summary = stream.only
    assert asked["metadata"]["environmentDetails"] == DETAILS
    assert (thought["thinking"], answer["thinking"]) == ("hm", "so")
    assert calls(called) == [("t1", "read_file", {"path": "a.txt"})]
    assert (result["toolCallId"], result["timestamp"]) == ("t1", "2023-11-14T22:13:23.000Z")
    assert summary["metadata"] == {"isSummary": True, "injected": True}
    info = stream.only_info
    assert (info["name"], info["cwd"], info["createdAt"]) == ("Read a.txt", "/w", "2023-11-14T22:13:20.000Z")
    assert info["parent"] == {"sessionId": "roo-task-0", "seq": None}
    assert info["metadata"]["totalCost"] == 0.5


def test_the_newer_layout(tmp_path: Path) -> None:
    """Version 2 has the AI SDK's messages under `messages`."""
    call = {"type": "tool-call", "toolCallId": "t1", "toolName": "ls", "input": {"d": "."}}
    output = {"type": "error-text", "value": "denied"}
    result = {"type": "tool-result", "toolCallId": "t1", "toolName": "ls", "output": output}
    messages = [
        {"role": "user", "content": "list", "ts": 1700000000000},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, call], "ts": 1700000001000},
        {"role": "tool", "content": [result], "ts": 1700000002000},
    ]
    stream = read(task(tmp_path, messages={"version": 2, "messages": messages}))
    assert told(stream.only) == [("user", "list"), ("assistant", ""), ("tool", "denied")]
    assert calls(stream.only[1]) == [("t1", "ls", {"d": "."})]
    assert stream.only[2]["metadata"] == {"name": "ls", "isError": True}


@pytest.mark.parametrize(
    ("extension", "tool"),
    [("kilocode.kilo-code", "kilo"), ("elsewhere", "roo"), ("saoudrizwan.claude-dev", "cline")],
)
def test_which_tool_a_file_belongs_to(tmp_path: Path, extension: str, tool: str) -> None:
    """The extension's folder decides; elsewhere, the details that only Roo writes do."""
    assert recognised(task(tmp_path, extension)) == tool


def test_without_roos_details_a_task_is_clines(tmp_path: Path) -> None:
    """The file name alone is Cline's."""
    assert recognised(task(tmp_path, "elsewhere", MESSAGES[1:3])) == "cline"


def test_a_cut_file_gives_what_came_before(tmp_path: Path) -> None:
    """Whole messages are imported; the cut, and elements that are not messages, are reported."""
    path = task(tmp_path, messages=["x", {"no": 1}, *MESSAGES])
    text = path.read_text()
    path.write_text(text[: text.index("apples")])
    stream = read(path)
    assert told(stream.only) == [("user", "Read a.txt"), ("assistant", ""), ("assistant", "I look.")]
    assert [one.reason for one in stream.skipped] == [
        "an element that is not an object",
        "not a message: it needs a role",
        "cut off in the middle",
    ]


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", task(tmp_path), 6)
