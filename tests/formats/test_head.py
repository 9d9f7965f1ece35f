"""What lists show of a native file, without its messages: the same as for the whole file, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.formats import jsonl
from sessiond.formats.header import head_of
from sessiond.model.session import SessionInfo
from tests.fuzz.mutation import injured

GOLDEN = sorted((Path(__file__).parent / "golden" / "jsonl").rglob("*.jsonl"))
T = "2026-01-11T14:30:22.000Z"


def line(number: int, **fields: Any) -> dict[str, Any]:
    time = f"2026-01-{number % 31 + 1:02d}T00:00:00.000Z"
    return {"id": f"m{number}", "seq": number, "role": "user", "content": f"text {number}", "timestamp": time, **fields}


HEADER = {"sessiond": 1, "id": "s", "createdAt": T, "name": "n"}
OURS = [
    HEADER, line(1), line(2, status="streaming"), {"change": "updated", "seq": 3, "at": T, "fields": {"name": "other", "tags": ["t"]}},
    line(2, content=[{"type": "text", "text": "é"}]), {"change": "state", "seq": 5, "at": T, "values": {"k": 1}}, line(6),
    {"change": "base", "seq": 9, "updatedAt": "2026-01-03T00:00:00.000Z"}, line(10, metadata={"role": "x"}),
]  # fmt: skip


def content_of(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in lines)


def whole(content: bytes) -> SessionInfo:
    return jsonl.decode("s", {"s.jsonl": content}).session.info()


@pytest.mark.parametrize("count", range(len(OURS) + 1))
def test_it_tells_what_the_whole_file_tells(count: int) -> None:
    """After each line of ours: messages, later states of them, changes, and a line that says what all before it amounts to."""
    content = content_of(*OURS[:count])
    assert head_of("s", content, None) == whole(content)


def test_the_sidecar_knows_seqs_that_were_used() -> None:
    """Of messages that were cut, which no line shows any more."""
    side = b'{"id": "s", "seq": 77}'
    told = head_of("s", content_of(*OURS), side)
    assert told == jsonl.decode("s", {"s.jsonl": content_of(*OURS), ".sessiond/s.json": side}).session.info()
    assert told is not None and told.seq == 77


@pytest.mark.parametrize(
    "strange",
    [
        {"role": "user", "content": "no id", "timestamp": T}, line(4, id=""), line(0, id="z"), line(2**53), line(4, role=""),
        line(4, timestamp="2026-02-30T00:00:00.000Z"), line(4, timestamp="yesterday"), line(4, id="m1"), line(1, id="other"),
        {"change": "unknown", "seq": 4}, {"neither": 1},
    ],
)  # fmt: skip
def test_in_doubt_it_tells_nothing(strange: dict[str, Any]) -> None:
    """For a file with another program's line, or a strange one."""
    assert head_of("s", content_of(HEADER, line(1), strange, line(5)), None) is None


@pytest.mark.parametrize("content", [b"no line of it\n", b'{"sessiond":1,"id":"s","createdAt":"2026"}\n\xff'])
def test_what_is_no_session_of_ours_tells_nothing(content: bytes) -> None:
    """The whole of it says what it is."""
    assert head_of("s", content, None) is None


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(injured([content_of(*OURS), *(path.read_bytes() for path in GOLDEN)]), st.booleans())
def test_an_injured_file_is_told_right_or_not_at_all(content: bytes, sidecar: bool) -> None:
    """Whatever happened to its bytes."""
    side = b'{"id": "s", "seq": 3}' if sidecar else None
    told = head_of("s", content, side)
    files = {"s.jsonl": content} | ({".sessiond/s.json": side} if side else {})
    assert told is None or told == jsonl.decode("s", files).session.info()
