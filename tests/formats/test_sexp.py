"""The strict reader and the printer of S-expressions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.formats.sexp import Dialect, Kind, Node, SexpError, read
from sessiond.formats.sexp_print import json_form, string, symbol
from sessiond.formats.sexp_values import SexpText
from sessiond.limits import MAX_SEXP_DEPTH
from tests.formats.lisp_sessions import NASTY, json, text, words

EMACS, COMMON = Dialect.EMACS, Dialect.COMMON
BOTH = pytest.mark.parametrize("dialect", [EMACS, COMMON], ids=["emacs", "common"])


def shape(source: str, dialect: Dialect) -> Any:
    """The tree as nested lists of source text; a tail follows a "."."""

    def of(node: Node) -> Any:
        if node.kind in (Kind.LIST, Kind.VECTOR, Kind.QUOTE):
            tail = [".", of(node.tail)] if node.tail else []
            return [node.kind.value, *map(of, node.items), *tail]
        return source[node.start : node.end]

    return of(read(source, dialect))


def as_json(source: str, dialect: Dialect) -> Any:
    return SexpText(source, dialect).json(read(source, dialect))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(a . b)", ["list", "a", ".", "b"]),
        ("(a .b a.b)", ["list", "a", ".b", "a.b"]),
        ('(a."b")', ["list", 'a."b"'[:2], '"b"']),
        ("(1 . (2 3))", ["list", "1", ".", ["list", "2", "3"]]),
        ("[1 [2]]", ["vector", "1", ["vector", "2"]]),
        (
            "('a `(b ,c ,@d) #'e)",
            ["list", ["quote", "a"], ["quote", ["list", "b", ["quote", "c"], ["quote", "d"]]], ["quote", "e"]],
        ),
        ("(?a ?\\C-a ?\\( ?\\u3042 ?b?c)", ["list", "?a", "?\\C-a", "?\\(", "?\\u3042", "?b", "?c"]),
        ('("a\\"b" ; comment )\n c)', ["list", '"a\\"b"', "c"]),
        ('#("with" 0 2 (face bold))', '#("with" 0 2 (face bold))'),
        ("(a\\ b \\123 ## :k\\;)", ["list", "a\\ b", "\\123", "##", ":k\\;"]),
        ("''x", ["quote", ["quote", "x"]]),
        ("  ;; c\n x ignored )))", "x"),
    ],
)
def test_emacs_forms(source: str, expected: Any) -> None:
    """What Emacs prints has the tree that its reader sees."""
    assert shape(source, EMACS) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("(a . b)", ["list", "a", ".", "b"]),
        ("#| a #| nested |# |# (:A |b c|\\d pkg::e)", ["list", ":A", "|b c|\\d", "pkg::e"]),
        ("(#\\a #\\Space #\\( #\\) #\\;)", ["list", "#\\a", "#\\Space", "#\\(", "#\\)", "#\\;"]),
        ("#(1 2)", ["vector", "1", "2"]),
        ("(#'car 'a 1/2 1.0d0 a#b)", ["list", ["quote", "car"], ["quote", "a"], "1/2", "1.0d0", "a#b"]),
    ],
)
def test_common_forms(source: str, expected: Any) -> None:
    """What Common Lisp prints has the tree that its reader sees."""
    assert shape(source, COMMON) == expected


REFUSED = [
    ("#.(run-program \"x\")", "#."), ("#1=(a . #1#)", "#1"), ("(a #s(hash-table data (a 1)))", "#s"), ("#<buffer x>", "#<"), ("#x1F", "#x"),
    ("#:gensym", "#:"), ("#S(point :x 1)", "#S"), ("#+sbcl x", "#+"), ("#P\"x\"", "#P"), ("#*101", "#*"), ("#@10 x", "#@"), ("#5(a)", "#5"),
    ("(a . b c)", "more than one data item follows"), ("( . b)", "dot"), ("(a . )", "dot"), ("(. b", "dot"), (". a", "dot"), (")", "closes nothing"),
    ("(a ]", "closes nothing|inside"), ("", "contains no form"), ("; only\n", "contains no form"), ("(a", "inside the list"),
    ('"a', "unterminated string"),
    ("(a \\", "unterminated symbol"), ("'", "inside the quote"), ("(')", "closes nothing"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("source", "why"), REFUSED)
def test_refused(dialect: Dialect, source: str, why: str) -> None:
    """What is not plain data, or not whole, is an error that names it."""
    with pytest.raises(SexpError) as caught:
        read(source, dialect)
    assert any(one in caught.value.reason for one in why.split("|"))


def test_errors_say_where() -> None:
    """An error has the position and the 1-based line of what is wrong."""
    with pytest.raises(SexpError) as caught:
        read('(a\n "b\n c" #.(x))', COMMON)
    assert (caught.value.line, caught.value.position) == (3, 11)
    with pytest.raises(SexpError) as caught:
        read("(a\n (b\n c", EMACS)
    assert caught.value.line == 2


@BOTH
@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 100_000,
        "'" * 100_000,
        "#'" * 100_000,
        "(a . " * 100_000,
        "#(" * 100_000,
        '("' + '\\"' * 100_000,
        "(" + "|" * 100_001,
        "#|" * 100_000,
        "\0" * 100_000,
    ],
)
def test_hostile_input_ends_soon(dialect: Dialect, hostile: str) -> None:
    """Depth, length and garbage cost an error, no stack and little time."""
    began = time.process_time()
    with pytest.raises(SexpError):
        read(hostile, dialect)
    assert time.process_time() - began < 5


@BOTH
def test_depth_up_to_the_limit(dialect: Dialect) -> None:
    """A form as deep as the limit is read."""
    node = read("(" * MAX_SEXP_DEPTH + ")" * MAX_SEXP_DEPTH, dialect)
    for _ in range(MAX_SEXP_DEPTH - 1):
        node = node.items[0]
    assert node.items == []


@BOTH
@given(source=st.text("()[]\"\\;'`,@#|.?:ab1 \n\t\0あ", max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_tree_or_an_error(dialect: Dialect, source: str) -> None:
    """A tree lies within the text, and its JSON can always be told."""
    try:
        node = read(source, dialect)
    except SexpError as error:
        position = error.position
    else:
        position = node.start
        SexpText(source, dialect).json(node)
        assert node.end <= len(source)
    assert 0 <= position <= len(source)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r'"\n\t\e\a\b\v\f\r\d\s"', "\n\t\x1b\a\b\v\f\r\x7f "),
        ('"a\\\nb\\ c"', "abc"),
        (r'"\x3042\ z\u3042\U0001F600"', "あzあ😀"),
        (r'"\343\201\202"', "あ"),
        (r'"\C-a\^I\C-?"', "\x01\t\x7f"),
        (r'"\303x\M-a"', "\ufffdx\ufffd"),
        (r'"\N{U+3042}\N{LATIN SMALL LETTER A WITH GRAVE}"', "あà"),
        (r'"\777\1234"', "\u01ffS4"),
        (r'"\q\"\\"', 'q"\\'),
        (r'"\ud800x"', "\ufffdx"),
    ],
)
def test_emacs_string_escapes(literal: str, value: str) -> None:
    """Every escape of Emacs strings means what it means to Emacs; raw bytes are taken as UTF-8."""
    assert as_json(literal, EMACS) == value


@BOTH
@given(value=st.one_of(text, st.sampled_from(NASTY)))
@settings(max_examples=150, deadline=None)
def test_any_string_comes_back(dialect: Dialect, value: str) -> None:
    """A printed string reads as the same text."""
    assert as_json(string(value, dialect), dialect) == value


@BOTH
@given(name=st.text(min_size=1, max_size=12) | words)
@settings(max_examples=150, deadline=None)
def test_any_keyword_comes_back(dialect: Dialect, name: str) -> None:
    """A printed keyword is one atom; where the dialect can tell the case it reads as the same name."""
    printed = symbol(f":{name}", dialect)
    node = read(printed, dialect)
    assert (node.start, node.end, node.kind) == (0, len(printed), Kind.ATOM)
    found = SexpText(printed, dialect).symbol(node)
    clean = name.encode("utf-8", "replace").decode() == name
    if dialect is EMACS or name == name.lower():
        assert not clean or found == f":{name}"


def tolerant(value: Any, dialect: Dialect) -> Any:
    """What the JSON of a printed value is: empty things are nil."""
    if isinstance(value, dict):
        return {key: tolerant(one, dialect) for key, one in value.items()} or (None if dialect is EMACS else False)
    if isinstance(value, list):
        found = [tolerant(one, dialect) for one in value]
        return found if found or dialect is EMACS else False
    return value


@given(value=json)
@settings(max_examples=150, deadline=None)
def test_json_comes_back_from_emacs(value: Any) -> None:
    """JSON printed for Emacs reads as the same, but for empty objects."""
    assert as_json(json_form(value, EMACS), EMACS) == tolerant(value, EMACS)


@given(
    value=st.dictionaries(
        text,
        st.recursive(
            text | st.integers(-5, 5) | st.booleans(), lambda one: st.dictionaries(text, one, max_size=3), max_leaves=8
        ),
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None)
def test_objects_come_back_from_common_lisp(value: Any) -> None:
    """JSON objects printed for Common Lisp read as the same, but for empty ones."""
    assert as_json(json_form(value, COMMON), COMMON) == tolerant(value, COMMON)


@pytest.mark.parametrize(
    ("source", "dialect", "value"),
    [
        ("(:a 1 :b (:c t :d nil))", EMACS, {"a": 1, "b": {"c": True, "d": None}}),
        ("((file . \"x\") (point . 12))", EMACS, {"file": "x", "point": 12}),
        ("(:a 1 :a 2)", EMACS, [":a", 1, ":a", 2]),
        ("(1 2.5 1.0e+INF ?a foo :bar)", EMACS, [1, 2.5, "1.0e+INF", 97, "foo", ":bar"]),
        ("(a . b)", EMACS, "(a . b)"),
        ("'x", EMACS, "'x"),
        ("123456789012345678901234567890", EMACS, "123456789012345678901234567890"),
        ("(:FALSE :Null T nil)", COMMON, [False, None, True, False]),
        ("((\"a\" . 1) (\"b\" 1 2) (\"c\" . ((\"d\" . \"e\"))) (\"f\"))", COMMON, {"a": 1, "b": [1, 2], "c": {"d": "e"}, "f": False}),
        ("(1/2 1.5d0 #\\a #\\Newline :|Mixed Case| PKG::SYM)", COMMON, ["1/2", 1.5, "a", "\n", ":Mixed Case", "sym"]),
        ("(:A 1)", COMMON, {"a": 1}),
    ],
)  # fmt: skip
def test_what_lisp_data_are_as_json(source: str, dialect: Dialect, value: Any) -> None:
    """Lisp data have the JSON that people would expect; what JSON has no word for is its own text."""
    assert as_json(source, dialect) == value


@given(number=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
@BOTH
def test_floats_come_back_exactly(dialect: Dialect, number: float) -> None:
    """A printed float reads as the same double."""
    found = as_json(json_form(number, dialect), dialect)
    assert isinstance(found, float)
    assert found.hex() == number.hex()
