"""Narrowing a regular expression by the index: never too few texts are searched."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.index import narrowing
from sessiond.index.index import Index
from sessiond.index.narrowing import MAX_CONDITIONS, NEVER, Need, in_words, match_expression, needed
from sessiond.index.tokens import plain, words
from sessiond.index.vocabulary import Vocabulary, packed
from tests import inside
from tests.index.feeding import all_hits, info, key, message, opened, search

TEXTS = [
    "def get_user(name): return quixotic",
    "unquixotically getUserName HTTPServer2Go",
    "foo bar baz",
    "foobar bazqux",
    "日本語の検索する API検索",
    "検索て\u3099す かき",
    "ıIiİ KELVIN \u212a ſharp quıxotic",
    "cafe\u0301 café éfoo e\u0301foo bar\u0301 baz",
    "deadbeef" * 9000 + "needle",
    "é" * 40_000 + "needle",
    "a_b a-b a.b x\u0301y",
    "",
    "ﬁne ｶﾞ",
]
PATTERNS = [
    r"def get_user\(", "quixotic", "(?i)QUIXOTIC", "(?i)quixotic", r"\bfoo\b", "foo bar", r"foo\sbar|baz ?qux", "検索", "索する", "検索で",
    "検索て", "API検索", "(?i)api検", "needle", "beefdead", "(?:foo|bar) baz", "fe\u0301 caf", "foo bar\u0301", "(?i)kelvin k", "(?i)i",
    "(?is)s.*harp", "x(?=foo)|éfoo", "(?<=get)User", "(?i:FOO) bar", "(?P<q>foo)(?P=q)?", "zzzz", "z{3}", "fo{2}bar", "[f]oobar", "a_b", "fine", "ガ", "か",
    "(?!foo)b", "(?x) foo \\  bar # words", "quixotic|nothing|unquix", "", "^$", "name\\): return",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_finds_what_a_scan_finds(tmp_path: Path, pattern: str) -> None:
    """A narrowed search finds exactly the texts in which `re.search` finds the pattern, however the words are written."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(seq + 1, text) for seq, text in enumerate(TEXTS)])
        await index.settled()
        expected = {("s", seq + 1) for seq, text in enumerate(TEXTS) if text and re.search(pattern, text)}
        assert {key(hit) for hit in await all_hits(index, pattern, mode="regex")} == expected


PIECES = st.sampled_from(
    ["foo", "Bar", "quix", "i", "ı", "İ", "s", "ſ", "K", "\u212a", "\u0301", "é", "e", "_", " ", "(", ".", "日", "本", "か", "\u3099", "ガ", "ｶ", "ﾞ",
     "ﬁ", "1", "２", "\n", "\x01", "ß", "가", "ᆨ", "क", "ि"]
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=st.lists(PIECES, max_size=4), run=st.lists(PIECES, min_size=1, max_size=6), after=st.lists(PIECES, max_size=4), others=st.lists(st.sampled_from(["foo", "xfoo", "bari", "barı", "quixotic"])), flags=st.sampled_from([0, re.IGNORECASE]))  # fmt: skip
def test_a_text_has_what_its_pattern_needs(
    before: list[str], run: list[str], after: list[str], others: list[str], flags: int
) -> None:
    """Whatever stands around a run of characters, the words of the whole text fulfil what the run was said to need: by the
    words alone, and with a vocabulary that has them and others.
    """
    text = "".join([*before, *run, *after])
    for said in {"".join(run), "".join(run).swapcase()}:
        pattern = re.compile(re.escape(said), flags)
        need = needed(pattern)
        if need is None or not pattern.search(text):
            continue
        had = words(text)
        vocabulary = Vocabulary(1, packed(sorted({word.encode() for word in [*had, *others]})))
        for known in (in_words(need, vocabulary.holding), without_vocabulary(need)):
            assert known != NEVER, (text, said, need)
            assert known is None or holds(match_expression(known), had), (text, said, known, plain(text))


def without_vocabulary(need: Need | None) -> Need | None:
    return None if need is None else in_words(need, lambda _: None)


def holds(expression: str, had: list[str]) -> bool:
    """A small reading of the FTS5 expressions of one run: phrases, joined by AND, OR in brackets."""
    python = re.sub(r'"[^"]*"(?: \+ "[^"]*")*(?: \*)?', lambda phrase: str(_phrase(phrase[0], had)), expression)
    return bool(eval(python.replace("AND", "and").replace("OR", "or")))  # made of True, False and these


def _phrase(one: str, had: list[str]) -> bool:
    prefix = one.endswith("*")
    asked = [word.strip(' "') for word in one.rstrip("*").split("+")]
    for at in range(len(had) - len(asked) + 1):
        here = had[at : at + len(asked)]
        if here[:-1] == asked[:-1] and (here[-1].startswith(asked[-1]) if prefix else here[-1] == asked[-1]):
            return True
    return False


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"def get_user\(", '("get" + "user")'),
        (r"foo bar", '("bar" *)'),
        ("quixotic", None),
        ("検索", '("検" + "索")'),
        (r"\w+", None),
        ("a|b.c", None),
        ("x?", None),
        ("none here", '("here" *)'),
    ],
)
def test_what_is_needed(pattern: str, expected: str | None) -> None:
    """Words inside a run are asked for as they are, its last one as a prefix; its first one may be the end of another."""
    need = without_vocabulary(needed(re.compile(pattern)))
    assert (need and match_expression(need)) == expected


async def test_looks_only_where_the_words_are(tmp_path: Path) -> None:
    """Texts without the words of a pattern are not even opened: their chunks may be broken."""
    async with opened(tmp_path) as index:
        for number in range(3):
            index.put_info(info(f"s{number}"))
            index.add_messages(f"s{number}", [message(1, f"a rare{number} word " + "filler " * 2000)])
            await index.settled()
        broken(index)
        assert (await search(index, " rare1 wor", mode="regex")).total == 1
        assert (await search(index, "[r]are1", mode="regex")).incomplete


def broken(index: Index) -> None:
    """All chunks but that of the second session."""
    inside.database(index).execute("UPDATE chunk SET data = x'00' WHERE id != (SELECT chunk FROM doc WHERE id = 2)")


@pytest.mark.parametrize(
    ("pattern", "flags", "expected"),
    [
        ("the(?: cat| .og) sat", 0, '("sat" *)'),
        ("the(?: cat|, dog) sat", 0, '((("cat" *)) OR (("dog" *))) AND ("sat" *)'),
        ("(?:the cat )+x", 0, '(("cat"))'),
        ("(?:the cat )*x", 0, None),
        ("(?>the cat) x", 0, '(("cat" *))'),
        ("(?=the cat)the", 0, '(("cat" *))'),
        ("(?-i:IT is) so", re.IGNORECASE, '(("is" *)) AND ("so" *)'),
    ],
)
def test_what_groups_need(pattern: str, flags: int, expected: str | None) -> None:
    """Of branches one must hold, if all are known; what is there at least once, looked at ahead or never gone back into
    holds as if it was there by itself.
    """
    if pattern.startswith("(?>") and sys.version_info < (3, 11):
        pytest.skip("atomic groups came with Python 3.11")
    need = without_vocabulary(needed(re.compile(pattern, flags)))
    assert (need and match_expression(need)) == expected


def test_a_pattern_of_many_words_is_narrowed_by_some() -> None:
    """So many conditions are asked for as help; each of them is one of the pattern's."""
    pattern = "".join(f" word{n}.[a]" for n in range(100))
    need = without_vocabulary(needed(re.compile(pattern)))
    assert need is not None
    expression = match_expression(need)
    assert 1 < expression.count(" AND ") + 1 <= MAX_CONDITIONS
    assert all(re.search(rf"\b{word}\b", pattern) for word in re.findall(r'"(\w+)"', expression))


def test_without_the_parser_nothing_is_narrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Python's insides are not guessed at: everything is looked through."""
    monkeypatch.setattr(narrowing, "sre", None)
    assert needed(re.compile("quixotic")) is None
