"""Windsurf's transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collected import lines, read, recognised

from tests.importers.tools import calls, imported_twice, told


def step(kind: str, **data: Any) -> dict[str, Any]:
    return {"status": "done", "type": kind, kind: data}


STEPS = [
    step("user_input", user_response="What is here?", rules_applied={"always_on": ["a.md"]}),
    step("planner_response", response="Let me look.", thinking="hm"),
    step("run_command", command="ls", output="apple.txt"),
    step("code_action", path="/work/a.txt", new_content="apples"),
    step("planner_response", response="An apple."),
    step("planner_response", response="An apple."),
    {"status": "done", "type": "of_next_week", "words": "kept"},
]


def transcript(folder: Path, *records: Any) -> Path:
    return lines(folder / ".windsurf" / "transcripts" / "t1.jsonl", *(records or STEPS))


def test_a_transcript(tmp_path: Path) -> None:
    """A step of a tool is a call, and its output is the result; the same words twice are two messages."""
    path = transcript(tmp_path)
    assert recognised(path) == "windsurf"
    stream = read(path)
    assert told(stream.only) == [
        ("user", "What is here?"),
        ("assistant", "Let me look."),
        ("assistant", ""),
        ("tool", "apple.txt"),
        ("assistant", ""),
        ("assistant", "An apple."),
        ("assistant", "An apple."),
        ("system", ""),
    ]
    asked, planned, ran, printed, edited = stream.only[:5]
    assert asked["metadata"] == {"rules_applied": {"always_on": ["a.md"]}}
    assert (planned["thinking"], printed["toolCallId"]) == ("hm", "step-3")
    assert calls(ran) == [("step-3", "run_command", {"command": "ls"})]
    assert calls(edited) == [("step-4", "code_action", {"path": "/work/a.txt", "new_content": "apples"})]
    assert stream.only[7]["metadata"]["record"] == STEPS[6]


def test_damage_costs_a_line(tmp_path: Path) -> None:
    """A line that is cut off is reported."""
    stream = read(transcript(tmp_path, *STEPS[:2], b'{"status": "do'))
    assert len(stream.only) == 2
    assert [one.line for one in stream.skipped] == [3]


def test_other_types_are_not_recognised(tmp_path: Path) -> None:
    """A record must hold what its type names."""
    assert recognised(lines(tmp_path / "x.jsonl", {"type": "user_input", "status": "done", "content": "x"})) is None


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import."""
    await imported_twice(tmp_path / "home", transcript(tmp_path), 8)
