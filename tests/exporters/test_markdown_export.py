"""Markdown: a message's content remains within its turn."""

from __future__ import annotations

from exported import NASTY, TEXTS, full, message, session, text
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sessiond.exporters.markdown import contained, fenced


def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def headings(shown: str) -> list[str]:
    tokens = parser().parse(shown)
    return [
        tokens[n + 1].content
        for n, t in enumerate(tokens)
        if t.type == "heading_open" and t.tag == "h2" and t.level == 0
    ]


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(["user", "assistant", "tool"]), TEXTS)
def test_every_turns_heading_is_a_heading(contents: list[str], role: str, thought: str) -> None:
    """However messages end, open fences and comments included, the turns after them are turns."""
    made = session(
        *[message(n + 1, role, content, thinking=thought) for n, content in enumerate(contents)],
        message(99, "assistant", "the end"),
    )
    ours = [one for one in headings(text(made, "markdown")) if one.endswith("· 2026-01-11 14:30:22 UTC")]
    assert len(ours) >= len(contents) + 1


@settings(max_examples=80, deadline=None)
@given(TEXTS)
def test_no_raw_html_is_left(content: str) -> None:
    """HTML in a message is shown, not interpreted."""
    tokens = parser().parse(contained(parser(), content))
    flat = [child.type for token in tokens for child in (token, *(token.children or []))]
    assert "html_block" not in flat
    assert "html_inline" not in flat


@given(st.text(alphabet="`~a\n ", max_size=40))
def test_a_fence_is_longer_than_any_inside(code: str) -> None:
    """Code comes back out of its fence as it was, but for line ends at its end."""
    tokens = parser().parse(fenced(code, "text"))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content.rstrip("\n") == code.rstrip("\n")


def test_ordinary_markdown_stays_as_it_was_written() -> None:
    """Fences, tables, lists and links are the message's own, to the letter."""
    content = "### Head\n\n- a\n- b `<b>`\n\n```c\nint x < y;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nSee <https://example.org> and [x](y)."
    assert content in text(session(message(1, content=content)), "markdown")


def test_calls_results_and_marks_are_readable() -> None:
    """Arguments in a fence, long ones with their own line ends, a result under the id of its call."""
    shown = text(full(), "markdown")
    for words in (
        "**Calls** `run` (`c1`)",
        '"cmd": "ls"',
        "`script`:\n\n```text\na\nb\n```",
        "Result of call `c1`",
        "````text\nout\n```\nput\n````",
        "(interrupted)",
        "## Notes",
        "> hm",
    ):
        assert words in shown, words


def test_names_do_not_change_the_document() -> None:
    """A session's or tool's name is one line of plain text, and no Emacs mode line."""
    for name in NASTY:
        shown = text(session(message(1), name=name, model=name), "markdown")
        assert "-*-" not in shown.split("\n")[0]
        assert headings(shown) == ["User · 2026-01-11 14:30:22 UTC"]


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXTS | st.text(alphabet="#=-> \n\ta1.`", max_size=40), min_size=1, max_size=3), TEXTS)
def test_an_outline_has_the_turns_and_nothing_beside_them(contents: list[str], thought: str) -> None:
    """Whatever messages, thoughts and notes say, no heading of theirs is beside the heading of a turn or over it."""
    made = session(*[message(n + 1, "assistant", content, thinking=thought) for n, content in enumerate(contents)])
    tokens = parser().parse(text(made, "markdown"))
    high = [tokens[n + 1].content for n, t in enumerate(tokens) if t.type == "heading_open" and t.tag in ("h1", "h2")]
    assert len(high) == 1 + len(contents), high


def test_headings_keep_their_order_below_the_turn() -> None:
    """In quotes and lists, underlined and with marks at the end; code and everything else stays to the letter."""
    code = "```sh\n# not a heading\n```\n\n    # nor this\n\n\\# nor this, #4"
    for said, expected in (
        (f"# One\n\n## Two #\n\n###### Six\n\n{code}", f"### One\n\n#### Two #\n\n###### Six\n\n{code}"),
        ("Over\ntwo lines\n===\nText\n\nUnder #\n---\nText", "### Over two lines\nText\n\n#### Under # ####\nText"),
        ("> # Quoted\n\n- ## In a list\n\n> Lined\n> ---", "> ### Quoted\n\n- #### In a list\n\n> #### Lined"),
        ("## Alone", "### Alone"),
        ("#### Deep\n\n##### Deeper", "#### Deep\n\n##### Deeper"),
        ("#\n\n#\tTab", "###\n\n###\tTab"),
        ("0\r1\r\n# Returns", "0\n1\n### Returns"),
    ):
        assert contained(parser(), said) == expected
    assert contained(parser(), "# Of a note", 3) == "#### Of a note"
