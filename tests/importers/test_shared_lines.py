"""Records that share a line with the stub of another one, or with whole ones, in the JSON Lines of the tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collected import lines, read

S = "21111111-2222-4333-8444-555555555555"
T = "2026-03-01T10:00:0{}.000Z"


def claude(nth: int, text: str) -> dict[str, Any]:
    role = "user" if nth % 2 else "assistant"
    return {
        "parentUuid": f"u{nth - 1}" if nth > 1 else None,
        "sessionId": S,
        "type": role,
        "message": {"role": role, "content": text},
        "uuid": f"u{nth}",
        "timestamp": T.format(nth),
    }


def codex(nth: int, text: str) -> dict[str, Any]:
    if nth == 0:
        return {"timestamp": T.format(0), "type": "session_meta", "payload": {"id": S, "timestamp": T.format(0)}}
    kind = "input_text" if nth % 2 else "output_text"
    item = {
        "type": "message",
        "role": "user" if nth % 2 else "assistant",
        "content": [{"type": kind, "text": text}],
    }
    return {"timestamp": T.format(nth), "type": "response_item", "payload": item}


def copilot(nth: int, text: str) -> dict[str, Any]:
    data = {"content": text} if nth % 2 else {"messageId": f"m{nth}", "content": text}
    if nth == 0:
        data = {"sessionId": "s1", "version": 1, "startTime": T.format(0)}
    kind = "session.start" if nth == 0 else "user.message" if nth % 2 else "assistant.message"
    return {"type": kind, "data": data, "id": f"e{nth}", "timestamp": T.format(nth), "parentId": None}


def pi(nth: int, text: str) -> dict[str, Any]:
    if nth == 0:
        return {"type": "session", "version": 3, "id": S, "timestamp": T.format(0), "cwd": "/w"}
    message = {"role": "user" if nth % 2 else "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": f"p{nth}", "parentId": None, "timestamp": T.format(nth), "message": message}


TOOLS: dict[str, tuple[str, Callable[[int, str], dict[str, Any]], int]] = {
    "claude-code": (f"{S}.jsonl", claude, 1),
    "codex": (f"rollout-2026-03-01T10-00-00-{S}.jsonl", codex, 0),
    "copilot-cli": ("events.jsonl", copilot, 0),
    "pi": (f"2026-03-01T10-00-00-000Z_{S}.jsonl", pi, 0),
}


def glued(*records: Any) -> bytes:
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() for one in records)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_whole_record_behind_a_stub_comes_in(tool: str, tmp_path: Path) -> None:
    """The stub is reported with its line. Records that are glued together all come in, also the first of the file."""
    name, record, first = TOOLS[tool]
    told = [record(nth, f"words {nth}") for nth in range(first, 6)]
    stub = json.dumps(told[-2]).encode().partition(b"rds 4")[0]
    path = lines(tmp_path / name, glued(*told[:2]), told[2], glued(stub, *told[3:5]), *told[5:])
    whole = read(lines(tmp_path / f"whole-{name}", *told), tool)
    stream = read(path, tool)
    assert stream.told() == whole.told()
    assert len(stream.told()) >= 5
    assert [(one.line, one.reason.split(":")[0]) for one in stream.skipped] == [(3, "not valid JSON")]
    assert [(one.line, one.reason) for one in stream.repaired] == [(1, "2 records on one line")]
    assert not any(one.get("metadata", {}).get("branch") for one in stream.only)


def test_a_rewritten_prompt_on_a_shared_line_is_still_a_branch(tmp_path: Path) -> None:
    """The tree of Claude Code's records is made of all that come in, so records that share a line leave no hole in it."""
    answer, other = claude(4, "answer"), {**claude(3, "asked otherwise"), "uuid": "u3b"}
    last = {**claude(4, "the other answer"), "uuid": "u4b", "parentUuid": "u3b", "timestamp": T.format(6)}
    records = [claude(1, "one"), claude(2, "two"), claude(3, "three"), answer, other, last]
    stream = read(lines(tmp_path / f"{S}.jsonl", *records[:2], glued(*records[2:5]), last))
    marked = {one["id"]: one.get("metadata", {}).get("branch", False) for one in stream.only}
    assert marked == {"u1": False, "u2": False, "u3": True, "u4": True, "u3b": False, "u4b": False}
