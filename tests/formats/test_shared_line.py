"""Records that share a line: what is whole is found, whatever it shares the line with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.formats import shared_line
from sessiond.formats.shared_line import pieces_of, whole_records

FIRST = {"id": None, "a": {"b": [1, {"c": 'x, y {z} \\ " q'}]}, "text": "l\u00e9 {curly"}
SECOND = {"type": "x", "payload": {"type": "y", "rows": [{"r": 1}]}}


def found(line: bytes) -> list[bytes]:
    return [line[start:end] for start, end in whole_records(line)]


@pytest.mark.parametrize("spaced", [True, False])
def test_what_follows_a_stub_is_found_wherever_the_stub_ends(spaced: bool) -> None:
    """After each cut of a record the next one is found, and no part of either. Only where a value may begin, the next record
    looks like that value. A cut record alone, as it is while it is being written, has nothing.
    """
    separators = None if spaced else (",", ":")
    first, second = (
        json.dumps(one, ensure_ascii=False, separators=separators).encode("utf-8") for one in (FIRST, SECOND)
    )
    assert found(first) == [first]
    assert found(first + second + b"\0 " + first) == [first, second, first]
    for cut in range(1, len(first)):
        stub = first[:cut]
        assert found(stub) == []
        value_comes = stub.rstrip().endswith((b":", b"[")) or stub.rstrip().endswith(b"[1,")
        assert found(stub + second) == ([] if value_comes else [second]), stub
        assert found(second + stub) == [second]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1 x, "p": {"b": 1}, "q": [{"c": 2}, {"d": 3}]}',
        b'{"a": "\\q", "p": {"b": 1}',
        b'"metadata": {"a": 1},',
        b'  {"role": "user"},',
        b'[{"a": 1}, {"b": 2}',
        b"{" * 100,
        b'{"a":' * 50_000,
    ],
)
def test_a_part_of_a_damaged_record_is_no_record(line: bytes) -> None:
    """The values within a damaged record, and the lines of a document, are not taken for records."""
    assert found(line) == []


def test_the_rest_of_the_line_is_there() -> None:
    """Each byte is in one piece, but for blanks and NULs between the pieces."""
    pieces = list(pieces_of(b'{"a": "x{"b":1}\0\0{"c":2} rest {"d":3}'))
    assert pieces == [
        (b'{"a": "x', False),
        (b'{"b":1}', True),
        (b'{"c":2}', True),
        (b" rest ", False),
        (b'{"d":3}', True),
    ]


@pytest.mark.parametrize(
    "unit", [b'{"a":"x', b'{"a":{"b":"', b'{"a":1}', b'{"', b'{"a" x', b'{"a":tru', b"{", b": {", b'"']
)
def test_a_hostile_line_is_looked_at_twice_at_most(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many stubs a line has: no byte is read more than twice, and after a fixed number of stubs no more are read."""
    scan, read, stubs = shared_line._scan, 0, 0

    def counted(text: str, at: int) -> Any:
        nonlocal read, stubs
        try:
            value, end = scan(text, at)
        except json.JSONDecodeError as error:
            read, stubs = read + error.pos - at, stubs + 1
            raise
        read += end - at
        return value, end

    monkeypatch.setattr(shared_line, "_scan", counted)
    line = unit * 5000
    list(whole_records(line))
    assert read <= 2 * len(line)
    assert stubs <= 200
