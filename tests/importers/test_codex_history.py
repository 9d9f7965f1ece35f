"""Codex: the history that a compaction writes again is in the session once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.importers.collected import Stream, lines, read

T = "2026-11-22T10:00:{:02d}.000Z"


def item(second: int, **payload: Any) -> dict[str, Any]:
    return {"timestamp": T.format(second), "type": "response_item", "payload": payload}


def words(role: str, text: str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}], **more}


def compaction(second: int, text: str, *items: dict[str, Any]) -> dict[str, Any]:
    payload = {"message": text, "replacement_history": list(items)}
    return {"timestamp": T.format(second), "type": "compacted", "payload": payload}


def histories(stream: Stream) -> list[list[Any]]:
    found = [one["metadata"]["record"]["payload"] for one in stream.only if one["role"] == "system"]
    return [one["replacement_history"] for one in found]


def session(path: Path) -> Path:
    """Two compactions; the second repeats what the first had, and what was said since."""
    meta = {"timestamp": T.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}
    summary = words("user", "So far: peas were sown.")
    return lines(
        path,
        meta,
        item(1, **words("user", "sow the peas")),
        item(2, **words("assistant", "they are sown", id="msg_1")),
        compaction(3, "peas", words("user", "sow the peas"), words("user", "sow the pe"), summary),
        item(4, **words("user", "and the beans")),
        item(5, type="function_call", call_id="c", name="sow", arguments="{}", id="fc_1"),
        compaction(
            6,
            "beans",
            words("user", "sow the peas", id=None),
            words("assistant", "they are sown"),
            summary,
            words("user", "and the beans"),
            {"type": "function_call", "call_id": "c", "name": "sow", "arguments": "{}"},
            words("developer", "sow the peas"),
        ),
    )


def test_only_what_is_new_in_a_history_is_kept(tmp_path: Path) -> None:
    """The rest is named by the id of the message that has it. Another role, or a text that was cut, is new."""
    stream = read(session(tmp_path / "rollout-s.jsonl"))
    ids = {json.dumps(one["content"]): one["id"] for one in stream.only}
    first, second = histories(stream)
    peas, beans = {"sameAs": ids['"sow the peas"']}, {"sameAs": ids['"and the beans"']}
    assert first == [peas, words("user", "sow the pe"), words("user", "So far: peas were sown.")]
    assert second == [
        peas,
        {"sameAs": "msg_1"},
        {"sameAs": ids['"peas"']},
        beans,
        {"sameAs": "fc_1"},
        words("developer", "sow the peas"),
    ]


def test_what_is_not_a_history_stays_as_it_is(tmp_path: Path) -> None:
    odd = compaction(1, "x")
    odd["payload"]["replacement_history"] = "later"
    meta = {"timestamp": T.format(0), "type": "session_meta", "payload": {"id": "s", "cwd": "/w"}}
    stream = read(lines(tmp_path / "rollout-t.jsonl", meta, odd, compaction(2, "y", 3, None, words("user", "z"))))  # type: ignore[arg-type]
    assert histories(stream) == ["later", [3, None, words("user", "z")]]
