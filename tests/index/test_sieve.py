"""What is excluded before Python's `re` searches: never a text in which it would find something."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sessiond.index import chunks, regex_worker
from sessiond.index import sieve as module
from sessiond.index.sieve import required, sieve, translated
from tests.index.feeding import info, message, opened

LETTERS = "aAbkKsSiIzZ019_ -.\n\x01éÉßſıİ\u212a\u0301日本か検ガ２Ⅷ\U0001f600"
CHARACTER = st.sampled_from(LETTERS)
TEXT = st.text(CHARACTER, max_size=12)
CLASS_PARTS = st.sampled_from(
    ["a", "k", "A-Z", "a-z", "0-9", "é", "日-本", r"\w", r"\d", r"\s", r"\W", r"\D", r"\S", "_", "ſ", "\\-", "!-~"]
)
SINGLE = st.one_of(
    CHARACTER.map(re.escape),
    TEXT.map(re.escape),
    st.sampled_from([".", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\b", r"\B", "^", "$", r"\A", r"\Z", "(?!)"]),
    st.builds(lambda no, parts: f"[{'^' if no else ''}{''.join(parts)}]", st.booleans(), st.lists(CLASS_PARTS, min_size=1, max_size=3)),
)  # fmt: skip
GROUPS = [
    "({})",
    "(?:{})",
    "(?={})",
    "(?!{})",
    "(?>{})",
    "(?i:{})",
    "(?a:{})",
    "(?s:{})",
    "(?m:{})",
    "({})\\1",
    "({})?(?(1)b|ab)",
    "(?-i:{})",
]
REPEATS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "++", "{2,}"]
PATTERN = st.recursive(
    SINGLE,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds(lambda group, one: group.format(one), st.sampled_from(GROUPS), inner),
        st.builds(lambda one, repeat: f"(?:{one}){repeat}", inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=8,
)
FLAGS = st.sampled_from(
    [0, re.IGNORECASE, re.DOTALL, re.MULTILINE, re.ASCII, re.ASCII | re.IGNORECASE, re.IGNORECASE | re.DOTALL]
)
MANY = settings(
    max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(pattern, flags)
        except re.error:
            assume(False)
            raise


@MANY
@given(pattern=PATTERN, flags=FLAGS, texts=st.lists(TEXT, min_size=1, max_size=3), before=TEXT)
def test_what_matches_is_let_through(pattern: str, flags: int, texts: list[str], before: str) -> None:
    """Whatever lies before and behind it, by the literals alone, by RE2 alone, and by both."""
    asked = compiled(pattern, flags)
    assume(any(asked.search(text) for text in texts))
    packed = chunks.pack(before, [("text", text) for text in texts])
    around = chunks.pack("é", [("text", before)]) + packed + chunks.pack("k", [])
    lets = sieve(asked)
    alone = module._re2_of(translated(asked))
    literals = required(asked)
    for data in (packed, around):
        assert lets is None or lets(data)
        assert alone is None or alone(data, 0) >= 0
        assert not literals or any(one in data for one in literals)


@MANY
@given(
    inside=TEXT,
    around=st.lists(st.sampled_from(["", "a", "日", "K"]), min_size=2, max_size=2),
    flags=FLAGS,
    pattern=PATTERN,
)
def test_what_is_written_as_it_stands_is_let_through(inside: str, around: list[str], flags: int, pattern: str) -> None:
    """A text made to match: the run of a pattern within it, in any case."""
    asked = compiled(f"(?:{re.escape(inside)})(?:{pattern})?", flags)
    for said in (inside, inside.swapcase(), inside.upper()):
        text = said.join(around)
        lets = sieve(asked)
        if asked.search(text) and lets is not None:
            assert lets(chunks.pack("", [("text", text)]))


def test_letters_match_what_python_says() -> None:
    """All of Unicode that matches a letter where case is ignored is in the class that RE2 gets."""
    everything = "".join(map(chr, (one for one in range(0x110000) if not 0xD800 <= one <= 0xDFFF)))
    for letter in "abiksz1_éſ日":
        found = set(re.findall(re.escape(letter), everything, re.IGNORECASE))
        ranges = module._any_case([(ord(letter), ord(letter))])
        assert found and all(any(low <= ord(one) <= high for low, high in ranges) for one in found)


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("quixotic", {"quixotic"}),
        (r"self\.\w+\('src/quixo", {"('src/quixo"}),
        ("foo(?:bars|cats)+x?", {"bars", "cats"}),
        ("検索.", {"検索"}),
        ("(?i)検索a", {"検索"}),
        ("(?i)needle", set()),
        ("(?i:x)needle", {"needle"}),
        ("a|needle", set()),
        ("(?:needle)*ab", set()),
        ("(?!needle)ab", set()),
        ("(?=needle)n", {"needle"}),
        ("ab", set()),
        ("\ud800needle", {"needle"}),
    ],
)
def test_the_literal_that_a_pattern_needs(pattern: str, literals: set[str]) -> None:
    """The longest one, or one of several; nothing that only may be there."""
    assert required(re.compile(pattern)) == {one.encode() for one in literals}


@pytest.mark.parametrize("pattern", ["", "x*", "(?!)", "^$", r"\b", "(?:a{500}){500}", "(?:)"])
def test_nothing_is_held_back_where_nothing_is_known(pattern: str) -> None:
    """What matches an empty text, and what is too large for RE2."""
    assert sieve(re.compile(pattern)) is None


def test_re2_holds_back_what_has_no_literal() -> None:
    """The extra is installed for the tests."""
    for pattern, text, other in ((r"\w{5,}", "one two three", "a b c"), ("(?i)NEEDLE", "needle", "need"), (r"\d\d-", "12-", "1-2")):  # fmt: skip
        lets = sieve(re.compile(pattern))
        assert lets is not None and lets(text.encode()) and not lets(other.encode())


def test_without_re2_literals_are_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    module._re2_of.cache_clear()
    lets = sieve(re.compile("needle[st]"))
    assert lets is not None and lets(b"a needle") and not lets(b"thread")
    assert sieve(re.compile(r"\w{5,}")) is None
    module._re2_of.cache_clear()


WORDS = [
    "quixotic",
    "unquixotically",
    "the",
    "Needle",
    "needle",
    "日本語",
    "検索",
    "a1",
    "12-34",
    "x" * 40,
    "ſ",
    "é",
    "foo_bar(1)",
]
ASKED = [
    "quixotic",
    r"\w{30,}",
    "(?i)NEEDLE",
    "の|検索",
    r"^the\b",
    "needle$",
    r"\d+-\d",
    "(a)\\1",
    "x{40}",
    "s",
    "(?i)S",
    "zzzz",
    r"the \w+ [a-z]",
    ".",
]


async def test_whatever_is_held_back_the_same_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of the index, sifted chunks, shares: together they find what `re.search` finds in every text, in the same order."""
    monkeypatch.setattr(regex_worker, "_BLOCK", 1)
    texts = [
        " ".join(WORDS[(n * k) % len(WORDS)] for k in range(1, 4)) + " filler" * (900 if n % 3 == 0 else 1)
        for n in range(120)
    ]
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        for number, text in enumerate(texts, 1):
            index.add_messages("s", [message(number, text)])
        await index.settled()

        def asked(pattern: str, share: list[int], few: int) -> Any:
            monkeypatch.setattr(regex_worker, "_FEW", few)
            query = ["SELECT id, chunk, start, size FROM doc WHERE kind != 1", "ORDER BY id DESC", {}]
            request = {
                "path": str(tmp_path / "index.db"),
                "pattern": pattern,
                "limit": 5,
                "share": share,
                "last": 20,
                "queries": [query],
            }
            return regex_worker._answered(request)

        for pattern in ASKED:
            expected = [number for number, text in enumerate(texts, 1) if re.search(pattern, text)][::-1]
            plain, sifted = asked(pattern, [0, 1], 10_000), asked(pattern, [0, 1], 1)
            assert plain["ids"] == [expected] and plain == sifted, pattern
            shares = [asked(pattern, [number, 3], 1) for number in range(3)]
            assert {doc for share in shares for doc in share["ids"][0]} == set(expected)
            assert {doc: seen for share in shares for doc, seen in share["shown"].items()}.items() >= plain[
                "shown"
            ].items()
