"""The scanner of large JSON documents, and JSON that needs repair."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.importers import document
from sessiond.importers.document import DocumentItem, items, members
from sessiond.importers.jsontext import NotJson, decode, encoded, fit, is_fit
from sessiond.importers.record import SkippedLine, open_source
from sessiond.model.values import check_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Slow(io.BytesIO):
    """A file that gives a few bytes at a time, whatever was asked for."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size if size and size > 0 else 7, 7))


def scan(raw: bytes, *arrays: str, file: type[io.BytesIO] = io.BytesIO) -> list[DocumentItem | SkippedLine]:
    return list(items("x", lambda _: file(raw), frozenset(arrays)))


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_an_arrays_elements_are_those_that_json_reads(value: list[Any], indent: int | None, ascii_only: bool) -> None:
    """Whatever is in strings, and however the bytes are cut, the elements are the same."""
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    for file in (io.BytesIO, Slow):
        found = [item.value for item in scan(raw, file=file) if isinstance(item, DocumentItem)]
        assert json.dumps(found) == json.dumps(value)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.lists(VALUES, max_size=4))
def test_an_objects_members_and_the_elements_of_one(value: dict[str, Any], many: list[Any]) -> None:
    """Named arrays come element by element, everything else whole."""
    value["many"] = many
    raw = json.dumps(value).encode()
    found = [item for item in scan(raw, "many", file=Slow) if isinstance(item, DocumentItem)]
    assert json.dumps([item.value for item in found if item.element]) == json.dumps(many)
    rest = {item.key: item.value for item in found if not item.element}
    assert json.dumps(rest) == json.dumps({k: v for k, v in value.items() if k != "many"})


@given(st.lists(VALUES, min_size=1, max_size=4), st.data())
def test_a_document_that_is_cut_off_gives_whole_elements_and_says_so(value: list[Any], data: st.DataObject) -> None:
    """A prefix of a document is never an error, and never gives an element that was not there."""
    raw = json.dumps(value).encode()
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    found = scan(cut)
    whole = [item.value for item in found if isinstance(item, DocumentItem)]
    # A number that is cut is a number still; everything before it is exact.
    assert [json.dumps(v) for v in whole[:-1]] == [json.dumps(v) for v in value[: len(whole)][:-1]]
    assert isinstance(found[-1], SkippedLine)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_without_an_exception(raw: bytes) -> None:
    """Garbage ends as a SkippedLine."""
    scan(b"[" + raw)
    scan(b'{"a":' + raw, "a")
    scan(raw)


def test_an_element_over_the_limit_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for a message is reported with its line, and the next element is read."""
    monkeypatch.setattr(document, "MAX_ELEMENT_BYTES", 400_000)
    found = scan(b'[1,\n{"a": "' + b"x" * 2_000_000 + b'", "b": [' + b"1," * 300_000 + b"1]},\n2]")
    assert [item.value for item in found if isinstance(item, DocumentItem)] == [1, 2]
    assert [(s.line, "larger" in s.reason) for s in found if isinstance(s, SkippedLine)] == [(2, True)]


def test_members_are_found_behind_the_array(tmp_path: Path) -> None:
    """The small members count wherever they stand."""
    path = tmp_path / "d.json"
    path.write_text('{"a": 1, "many": [1, 2], "b": {"c": 2}}')
    assert members(str(path), open_source, frozenset({"many"})) == {"a": 1, "b": {"c": 2}}


ODD = st.recursive(
    st.text(alphabet=st.characters(codec=None, categories=None)) | st.integers(-(2**80), 2**80) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet=st.characters(codec=None)), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(ODD)
def test_whatever_is_read_becomes_fit_to_be_kept(value: Any) -> None:
    """Surrogates, huge integers and invalid numbers do not pass; valid values are unchanged."""
    fitted = fit(value)
    check_json(fitted, "value")
    assert encoded(fitted) is not None
    assert fit(fitted) is fitted
    assert is_fit(fitted, encoded(fitted))


@given(VALUES | st.integers(-(2**80), 2**80).map(lambda n: [{"n": n}]))
def test_the_cheap_check_agrees_with_the_thorough_one(value: Any) -> None:
    """What the encoded form shows is what a walk through the value shows."""
    assert is_fit(value, encoded(value)) == (fit(value) is value)


def test_repairs_are_told() -> None:
    """Each repair has its words, and what cannot be repaired is refused with a reason."""
    assert decode(b'{"a": 1}') == ({"a": 1}, None)
    assert decode(b'{"a": 1}\0\0') == ({"a": 1}, "removed NUL bytes")
    assert decode(b'{"a": "\xff"}') == ({"a": "\ufffd"}, "replaced bytes that are not valid UTF-8")
    assert decode(b'{"a": "\\ud800", "b": NaN, "c": 1e999}')[0] == {"a": "\ufffd", "b": "NaN", "c": "1e999"}
    assert decode('{"a": "\ufffd"}'.encode()) == ({"a": "\ufffd"}, None)
    for raw in (b"\0\0", b"{", b"[" * 100_000, b"1" * 10_000, b""):
        with pytest.raises(NotJson):
            decode(raw)


def test_an_object_of_nothing_and_a_value_that_is_none() -> None:
    """An empty object has no members; where a value should be and none is, the document is broken, not cut off."""
    assert scan(b"{}") == []
    [broken] = scan(b'{"a": , "b": 1}')
    assert isinstance(broken, SkippedLine) and "expected a value" in broken.reason
    [open_string] = scan(b'{"a": "no end')
    assert isinstance(open_string, SkippedLine) and open_string.reason == "cut off in the middle"
    [half_number] = scan(b'{"a": 17')
    assert isinstance(half_number, SkippedLine) and half_number.reason == "cut off in the middle"


def test_a_repaired_value_is_told_and_taken() -> None:
    """An element that had to be repaired comes with what was done to it."""
    told, item = scan(b'["caf\xe9"]')
    assert isinstance(told, SkippedLine) and told.taken
    assert isinstance(item, DocumentItem) and item.value == "caf\ufffd"
