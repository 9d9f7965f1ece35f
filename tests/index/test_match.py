"""Where a query matches: snippets and their ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.index.match import Matcher
from sessiond.index.query import parse
from sessiond.index.snippets import SNIPPET_CHARS


def matched(query: str, text: str) -> list[str]:
    return [text[start:end] for start, end in Matcher(parse(query).texts()).matches(text)]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("world", "Hello wörld, WORLD", ["wörld", "WORLD"]),
        ("user", "getUserName of user_name", ["User", "user"]),
        ("getUser", "getUserName getuser get_user", ["getUser", "getuser"]),
        ("getus*", "getUserName", ["getUserName"]),
        ("getUs*", "getUserName x", ["getUser", "getUserName"]),
        ("nam*", "getUserName names", ["Name", "names"]),
        ("foo.bar()", "foo.bar() foo, bar", ["foo.bar", "foo, bar"]),
        ("本語", "日本語のﾃｽﾄ", ["本語"]),
        ("テスト", "日本語のﾃｽﾄ", ["ﾃｽﾄ"]),
        ("が", "か\u3099が", ["か\u3099", "が"]),
        ("fine", "ﬁne Fine", ["ﬁne", "Fine"]),
        ("strasse", "Straße", ["Straße"]),
        ("résumé", "re\u0301sume\u0301!", ["re\u0301sume\u0301"]),
        ("end", "…½ the end", ["end"]),
        ('"a b"', "x a b a\nb", ["a b", "a\nb"]),
        ("a -b", "a b", ["a"]),
        ("🎉", "ok 🎉!", ["🎉"]),
    ],
)
def test_matches(query: str, text: str, expected: list[str]) -> None:
    """The range of a match is exactly its code points in the original text."""
    assert matched(query, text) == expected


@given(
    st.text("ab é日本…\n", max_size=30),
    st.integers(0, 12_000),
    st.sampled_from(["needle", "針", "fooBar", '"two words"']),
)
def test_snippet_of_a_long_text(noise: str, before: int, needle: str) -> None:
    """Wherever in a long text a match is, the snippet holds it, is short, and its ranges lead to it."""
    found = needle.strip('"')
    text = (noise + "lorem ipsum, ") * (before // (len(noise) + 13)) + " " + found + " " + noise * 20
    snippet, ranges = Matcher(parse(needle).texts()).snippet([noise, text])
    assert found in [snippet[start:end] for start, end in ranges]
    assert len(snippet) <= SNIPPET_CHARS
    assert snippet in text


def test_snippet_shows_the_most_of_the_query() -> None:
    """Of several texts and places, the one with the most of the query's words is shown."""
    matcher = Matcher(parse("alpha beta").texts())
    far = "alpha " + "x " * 300 + "here alpha and beta stand"
    snippet, ranges = matcher.snippet(["alpha only", far])
    assert [snippet[a:b] for a, b in ranges] == ["alpha", "beta"]


def test_snippet_without_a_match_is_the_beginning() -> None:
    """A query that only excludes or filters shows how the message begins, with no ranges."""
    snippet, ranges = Matcher(parse("-x role:user").texts()).snippet(["", "word " * 100])
    assert snippet.startswith("word word")
    assert len(snippet) <= SNIPPET_CHARS
    assert ranges == []
    assert Matcher([]).snippet([]) == ("", [])


def test_overlapping_ranges_are_joined() -> None:
    """Ranges come in order and never overlap."""
    assert Matcher(parse('fooBar foo "foobar x"').texts()).snippet(["fooBar x"])[1] == [(0, 8)]
