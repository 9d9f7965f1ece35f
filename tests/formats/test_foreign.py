"""Fields of a file that anyone may have edited: kept if they have the right type, left out if not."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.formats import json_text
from sessiond.formats.checksum import Unlike, flipped_bit
from sessiond.formats.foreign_message import usable_fields, usable_rest
from sessiond.formats.lisp_times import emacs_time
from sessiond.formats.sexp import Dialect, SexpError, read
from sessiond.formats.sexp_print import symbol
from sessiond.formats.sexp_strings import emacs_char
from sessiond.formats.sexp_values import SexpText

CALL = {"id": "c", "name": "f", "arguments": {}}


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("toolCallId", ["c", None], [5, ["c"]]),
        ("thinking", ["hm", None], [{}]),
        ("thread", ["t", None], [1]),
        ("tick", [3, None], [True, "3", 3.0]),
        ("metadata", [{}, None], [[], "x"]),
        ("toolCalls", [[CALL], [], None], [[{}], "x", [5]]),
        ("anything", [5, "x", None, [1]], []),
    ],
)
def test_fields_of_a_message(key: str, right: list[Any], wrong: list[Any]) -> None:
    """A field of a wrong type does not count; fields outside the protocol may be anything."""
    assert all(usable_rest({key: value, "role": "user"}) == {key: value} for value in right)
    assert all(usable_rest({key: value}) == {} for value in wrong)


@pytest.mark.parametrize("wrong", [5, None, ["name"], {"name": 5}, {"tags": "x"}, {"archived": 1}])
def test_fields_of_a_session(wrong: Any) -> None:
    """Fields of a wrong type do not count; unknown keys are ignored."""
    assert usable_fields({"name": "N", "tags": ["a"], "other": 5}) == {"name": "N", "tags": ["a"]}
    with pytest.raises((TypeError, ValueError)):
        usable_fields(wrong)


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("(26979 46078 500000 0)", "2026-01-11T14:30:22.500Z"),
        ("(26979 46078)", "2026-01-11T14:30:22.000Z"),
        ("(17681418225 . 10)", "2026-01-11T14:30:22.500Z"),
        ('"2026-01-11T15:30:22+01:00"', "2026-01-11T14:30:22.000Z"),
        ("1768141822.5", "2026-01-11T14:30:22.500Z"),
        ("(1)", None),
        ("(1 2 3 4 5)", None),
        ("(1 . 0)", None),
        ("(1 2 . 3)", None),
        ("(1 now)", None),
        ("now", None),
        ("()", None),
        ('"yesterday"', None),
        ("99999999999999999999", None),
    ],
)
def test_times_as_emacs_writes_them(written: str, at: str | None) -> None:
    """Every form that `format-time-string` takes; anything else is not a time."""
    source = SexpText(written, Dialect.EMACS)
    assert emacs_time(source, read(written, Dialect.EMACS)) == at


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("##", ""),
        ("(a ##)", ["a", ""]),
        ('(("k" 1 . 2))', {"k": "1 . 2"}),
        ('(("k" 1 2))', {"k": [1, 2]}),
        ('(("k" . 1))', {"k": 1}),
    ],
)
def test_values_of_odd_forms(written: str, value: Any) -> None:
    """What JSON has no form for is kept as it is written."""
    assert SexpText(written, Dialect.EMACS).json(read(written, Dialect.EMACS)) == value


def test_what_is_nested_too_deep_is_kept_as_it_is_written() -> None:
    """JSON has an end where lists have none."""
    written = "(" * 200 + "x" + ")" * 200
    value = SexpText(written, Dialect.EMACS).json(read(written, Dialect.EMACS))
    depth = 0
    while isinstance(value, list):
        [value] = value
        depth += 1
    assert value == "(" * (200 - depth) + "x" + ")" * (200 - depth)
    assert depth < 100


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("#(1 2)", "only for a string"),
        ("#()", "only for a string"),
        ("#x", "which is not accepted"),
        ("(a . )", "a dot that nothing follows"),
    ],
)
def test_forms_that_are_no_plain_data(written: str, words: str) -> None:
    """They are refused by what is wrong with them."""
    with pytest.raises(SexpError, match=words):
        read(written, Dialect.EMACS)


def test_a_character_that_is_none_in_common_lisp() -> None:
    with pytest.raises(SexpError):
        read("#\\", Dialect.COMMON)


def test_a_symbol_without_a_name() -> None:
    assert symbol("", Dialect.EMACS) == "##"


@pytest.mark.parametrize(
    ("literal", "code"),
    [
        ("?a", 97),
        ("?\\n", 10),
        ("?\\C-a", 1),
        ("?\\^?", 0x7F),
        ("?\\S-a", 97),
        ("?\\S-\\C-a", 1),
        ("?\\C-", 0xFFFD),
    ],
)
def test_characters_as_emacs_writes_them(literal: str, code: int) -> None:
    """Control changes the code, shift and its like do not."""
    assert emacs_char(literal) == code


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a": 1, "b": [2], "a": 3}', {"a": b"3", "b": b"[2]"}),
        (b"[1, 2]", {}),
        (b"{}", {}),
        (b'{"a": 1, "b"', {"a": b"1"}),
    ],
)
def test_where_the_members_of_an_object_stand(text: bytes, found: dict[str, bytes]) -> None:
    """Of equal keys the last counts; of a list, and of what is cut off, there are those that there are."""
    assert {key: text[start:end] for key, (start, end) in json_text.members(text).items()} == found


def test_a_file_that_is_shorter_than_it_was_has_no_flipped_bit() -> None:
    """Missing bytes are not a bit that could be flipped back."""
    assert flipped_bit(b"short", Unlike(100, 5)) is None
