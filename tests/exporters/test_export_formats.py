"""What all export formats share, and the two that lose nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from exported import NASTY, TEXTS, full, message, session, text
from hypothesis import given
from hypothesis import strategies as st

from sessiond.errors import InvalidParams
from sessiond.exporters import FORMATS, SUFFIXES, export, markdown
from sessiond.exporters.document import session_of
from sessiond.formats import jsonl
from sessiond.model.session import content_equal


def test_an_unknown_format_is_refused_at_once() -> None:
    """Before the first chunk, with the words that are known."""
    made = session()
    with pytest.raises(InvalidParams, match="markdown"):
        export(made, made.messages(), "pdf")
    assert set(SUFFIXES) == set(FORMATS)


def test_json_is_one_document_that_gives_the_session_back() -> None:
    """Info, messages, notes and state, and from them an equal session."""
    made = full()
    document = json.loads(text(made, "json"))
    assert document["session"] == msgspec.to_builtins(made.info())
    assert document["messages"] == [m.wire() for m in made.messages()]
    assert document["notes"][0]["heading"] == "Idea"
    assert document["state"] == {"plan": [1]}
    assert content_equal(session_of(document), made)


def test_jsonl_gives_the_session_back() -> None:
    """The native format's own reader reads the export, with every field."""
    made = full()
    decoded = jsonl.decode("s-1", {"s-1.jsonl": text(made, "jsonl").encode()})
    assert not decoded.problems
    assert content_equal(decoded.session, made)


def test_plain_text_shows_every_turn() -> None:
    """Speakers, times, texts, calls, results and notes are there to be read."""
    shown = text(full(), "text")
    for words in (
        "A name",
        "Assistant (2026-01-11 14:30:22 UTC)",
        "[calls run as c1]",
        "[failed] for call c1",
        "[interrupted]",
        "injected by the tool",
        "Note: Idea",
        "(thinking)",
    ):
        assert words in shown, words


@pytest.mark.parametrize("fmt", ["text", "markdown", "org", "html"])
def test_it_is_shown_who_of_several_people_spoke(fmt: str) -> None:
    """A name beside the role, on one line; anything else under that key is not a name."""
    shown = text(
        session(message(1, author="Ada\nEve"), message(2, "assistant", author={"unmistakable": 1}), message(3)), fmt
    )
    assert "User (Ada Eve)" in shown
    assert "Assistant (" not in shown.replace("Assistant (2026", "")
    assert "unmistakable" not in shown


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_no_export_holds_what_a_terminal_would_act_upon(contents: list[str], name: str) -> None:
    """Control characters, terminal sequences and overrides of the direction are gone from the readable formats."""
    made = session(*[message(n + 1, content=content) for n, content in enumerate(contents)], name=name)
    for fmt in ("text", "markdown", "org", "html"):
        shown = text(made, fmt).removesuffix("\n\f\n").replace("\n\f\n# End", "\n# End")
        assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c in "\u202e\u2066"]


def test_a_session_of_nothing_is_exported() -> None:
    """No messages, no name: still a document in every format."""
    made = session(name=None)
    for fmt in FORMATS:
        assert text(made, fmt)


def test_an_empty_text_and_all_nasty_ones_pass_every_format() -> None:
    """No format fails on any of them, under any role."""
    made = session(
        *[
            message(n + 1, role, content)
            for n, (role, content) in enumerate(
                (r, c) for r in ("user", "assistant", "tool", "odd\nrole") for c in NASTY
            )
        ]
    )
    for fmt in FORMATS:
        assert len(text(made, fmt)) > 1000


PIXEL = "iVBORw0KGgo="


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("a bare text", "a bare text"),
        (7, "7"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": PIXEL}}, "image/gif"),
        ({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}, "https://example.org/a.png"),
        ({"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PIXEL}"}}, "image/webp"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/b.png"}}, "https://example.org/b.png"),
        ({"type": "image", "source": "file-7", "image_url": "https://example.org/c.png"}, "https://example.org/c.png"),
        ({"type": "image", "source": "file-7"}, "file-7"),
        ({"type": "document", "title": "a paper"}, "a paper"),
    ],
)
@pytest.mark.parametrize("format", ["text", "markdown", "html", "org"])
def test_a_block_of_any_shape_is_shown(block: object, words: str, format: str) -> None:
    """Images by what they are and where they lie, everything else as it is written; nothing is left out silently."""
    assert words in text(session(message(1, "user", [block, {"type": "text", "text": "and so on"}])), format)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"cmd": "ls"}', '"cmd": "ls"'),
        ("ls -l", "ls -l"),
        ("[1, 2]", "1,"),
        ({"script": "one\ntwo", "n": 5}, "one\n"),
    ],
)
@pytest.mark.parametrize("format", ["text", "markdown"])
def test_arguments_of_any_shape_are_shown(arguments: object, words: str, format: str) -> None:
    """JSON in a string as what it says, texts of several lines with their line ends."""
    call = {"id": "c1", "name": "run", "arguments": arguments}
    assert words in text(session(message(1, "assistant", "", toolCalls=[call])), format)


def test_a_text_too_long_to_be_parsed_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markdown of megabytes is in a fence, whole."""
    monkeypatch.setattr(markdown, "_MAX_PARSED_CHARS", 100)
    shown = text(session(message(1, "user", "# no heading\n" + "word " * 50)), "markdown")
    assert "```text\n# no heading\nword word" in shown
