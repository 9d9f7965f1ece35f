"""Every typed text has a meaning."""

from __future__ import annotations

import gc
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.index.query import PhraseTerm, Query, Where, parse


def text(words: str, **more: bool) -> PhraseTerm:
    return PhraseTerm(tuple(words.split()), **more)  # type: ignore[arg-type]


DAY = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("typed", "groups"),
    [
        ("a b OR c", ((text("a"),), (text("b"), text("c")))),
        ("a OR b OR c d", ((text("a"), text("b"), text("c")), (text("d"),))),
        ('"a b" c', ((text("a b"),), (text("c"),))),
        ('"a b', ((text("a"),), (text("b"),))),
        ("wor*", ((text("wor", prefix=True),),)),
        ("foo.ba*", ((text("foo ba", prefix=True),),)),
        ("foo(*", ((text("foo"),),)),
        ("x**", ((text("x"),),)),
        ("-x", ((text("x", negated=True),),)),
        ('-"a b"', ((text("a b", negated=True),),)),
        ("--verbose", ((text("verbose"),),)),
        ("a OR -b", ((text("a"), text("b", negated=True)),)),
        ("OR a", ((text("or"),), (text("a"),))),
        ("a OR", ((text("a"),), (text("or"),))),
        ("a OR OR b", ((text("a"), text("or")), (text("b"),))),
        ("a or b", ((text("a"),), (text("or"),), (text("b"),))),
        ("foo.bar()", ((text("foo bar"),),)),
        ("foo:bar", ((text("foo bar"),),)),
        ("http://x.org/y", ((text("http x org y"),),)),
        ("日本 Pythonで", ((text("日 本"),), (text("python で"),))),
        ("getUser()", ((PhraseTerm(("getuser",), ("get", "user")),),)),
        ("getUs*", ((PhraseTerm(("getus",), ("get", "us"), prefix=True),),)),
        ("role:user -tag:x", ((Where("role", "user"),), (Where("tag", "x", negated=True),))),
        (
            'tag:"my tag" model:m-1 cwd:/a store:s',
            tuple((Where(*p),) for p in [("tag", "my tag"), ("model", "m-1"), ("cwd", "/a"), ("store", "s")]),
        ),
        ("in:name in:foo", ((Where("in", "name"),), (text("in foo"),))),
        ("before:1970-01-02 after:1970", ((Where("before", DAY),), (Where("after", 0),))),
        ("before:1970-01-01T01:00:00+01:00", ((Where("before", 0),),)),
        ("before:1970-01-01T00:00:00", ((Where("before", 0),),)),
        ("before:tomorrow after:2026-13", ((text("before tomorrow"),), (text("after 2026 13"),))),
        ("tag: role:", ((text("tag"),), (text("role"),))),
        ("a a", ((text("a"),),)),
        ('"" -- * ( " \0', ()),
        ("   ", ()),
        ("", ()),
    ],
)
def test_meaning(typed: str, groups: object) -> None:
    """Each thing that can be typed has the meaning that the table says."""
    assert parse(typed).groups == groups


def test_tools_can_be_left_out() -> None:
    """`-in:tools` asks nothing of a message, it narrows where is searched; without the minus it is literal."""
    assert parse("a -in:tools") == Query(((text("a"),),), tools=False)
    assert parse("in:tools") == Query(((text("in tools"),),))


def test_thinking_is_a_switch() -> None:
    """`in:thinking` asks nothing of a message, it widens where is searched."""
    assert parse("a in:thinking") == Query(((text("a"),),), thinking=True)


@given(st.text(max_size=200))
def test_never_an_error(typed: str) -> None:
    """Every text is a query."""
    parse(typed)


@pytest.mark.parametrize("unit", ["a ", '"', 'a"', "x", "OR ", "日", 'role:"', "-", " ", "a*", "fooBar", "é"])
def test_long_queries_are_linear(unit: str) -> None:
    """100 KB of anything is parsed in a moment: four times the length does not take sixteen times as long."""
    best: dict[int, float] = {}
    for _ in range(12):  # another program may slow down any of them; what is quadratic never gets below
        for size in (25_000, 100_000):
            best[size] = min(best.get(size, math.inf), _seconds(unit * (size // len(unit))))
        if best[100_000] < max(0.5, 8 * best[25_000]):
            return
    raise AssertionError(f"four times the length takes {best[100_000] / best[25_000]:.1f} times as long")


def _seconds(typed: str) -> float:
    gc.disable()  # what it looks at grows with all that the other tests have left
    try:
        begun = time.process_time()
        parse(typed)
        return time.process_time() - begun
    finally:
        gc.enable()
