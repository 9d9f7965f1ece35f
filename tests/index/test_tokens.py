"""How text becomes tokens."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.index import tokens

MIXED = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("aZ09 _.éÉがカﾃﾞｶ゙ｽヾ한\u1112\u1161\u11ab\u0301\u3099ﬁ½①㌢…！Ａ日本→🎉ßİ"),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World", ["hello", "world"]),
        ("snake_case path/to.file-name", ["snake", "case", "path", "to", "file", "name"]),
        ("getUserName", ["getusername"]),
        ("naïve ＲÉSUMÉ", ["naive", "resume"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("Pythonで日本語", ["python", "で", "日", "本", "語"]),
        ("ﾃﾞｰﾀ データ", ["デ", "ー", "タ", "デ", "ー", "タ"]),
        ("か\u3099 が", ["が", "が"]),
        ("\u1112\u1161\u11ab국", ["한", "국"]),
        ("a→b 5€ 🎉", ["a", "→", "b", "5", "€", "🎉"]),
        ("हिन्दी ไทย", ["हिन्दी", "ไทย"]),
        ("3月の㈱ ﬁne", ["3", "月", "の", "株", "fine"]),
        ("a\0b\n\u2028c", ["a", "b", "c"]),
        ("...--__", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    """Words are folded, identifiers fall apart at their separators, every CJK character and symbol stands alone."""
    assert tokens.words(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("getUserName", ("get", "user", "name")),
        ("HTTPServer", ("http", "server")),
        ("HTTPServer2Go", ("http", "server2", "go")),
        ("utf8", ()),
        ("Word", ()),
        ("LOUD", ()),
        ("sha256Sum", ("sha256", "sum")),
        ("ÄrgerÜber", ("ärger", "über")),
        ("x" * 127 + "Yz", ()),
    ],
)
def test_parts(word: str, expected: tuple[str, ...]) -> None:
    """A camelCase word has parts, cut where the case rises or an acronym ends; a very long one has none."""
    assert tokens.parts(word) == expected


def test_identifiers_are_only_words_with_parts() -> None:
    """Of a text, only the words that have parts are identifiers, each once, also beside Japanese."""
    assert sorted(tokens.identifiers("fooBar foo fooBar HTTPServer x2")) == ["foo bar", "http server"]
    assert tokens.identifiers("これはgetUserです") == {"get user"}
    assert tokens.identifiers("これは何") == set()


@settings(max_examples=500)
@given(st.text("abAB12_ .\x01Zz", max_size=12))
def test_identifiers_are_what_parts_says(text: str) -> None:
    """Of any ASCII text, whatever letters, digits and marks stand next to each other."""
    words = re.findall("[A-Za-z0-9]+", text)
    assert tokens.identifiers(text) == {" ".join(tokens.parts(word)) for word in words if tokens.parts(word)}


def test_simple_characters_need_no_normalization() -> None:
    """The characters that skip normalization give the same tokens as with it, all 1.1 million of them looked at."""
    whole = tokens._token()

    def slow(text: str) -> list[str]:
        decomposed = tokens._ACCENTS.sub("", unicodedata.normalize("NFKD", text))
        return whole.findall(unicodedata.normalize("NFC", decomposed))

    codes = (code for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000)
    wrong = [hex(code) for code in codes if whole.findall(tokens.plain(chr(code))) != slow(chr(code))]
    assert wrong == []


@given(MIXED, MIXED)
def test_alignment_leads_back(left: str, right: str) -> None:
    """The aligned text is the plain one, and every token's span in the original gives that token again."""
    text = left + right
    aligned = tokens.Alignment(text)
    assert aligned.text == tokens.plain(text)
    for match in tokens.spans(aligned.text):
        start, end = aligned.original(match.start(), match.end())
        assert 0 <= start < end <= len(text)
        folded = match.group().casefold()
        assert folded in tokens.plain(text[start:end]).casefold()


@given(MIXED)
def test_stream_says_what_words_say(text: str) -> None:
    """What FTS5 gets holds exactly the words, for a tokenizer that only knows ASCII letters, digits and everything beyond."""
    stream = tokens.stream(tokens.plain(text))
    run, found = "", []
    for char in stream + " ":
        if not char.isascii() or char.isalnum():
            run += char.lower() if char.isascii() else char
        elif run:
            found.append(run)
            run = ""
    assert found == tokens.words(text)
