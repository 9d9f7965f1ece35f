"""What every export format shares, and the two that lose nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from exported import NASTY, TEXTS, full, message, session, text
from hypothesis import given
from hypothesis import strategies as st

from sessiond.errors import InvalidParams
from sessiond.exporters import FORMATS, SUFFIXES, export
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
