"""HTML: self-contained, and nothing from the transcript is active."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from exported import NASTY, TEXTS, full, message, session, text
from hypothesis import given, settings
from hypothesis import strategies as st

ALLOWED = {
    "html": {"lang"},
    "head": set(),
    "meta": {"charset", "name", "content", "http-equiv"},
    "title": set(),
    "style": set(),
    "body": set(),
    "main": set(),
    "header": set(),
    "h1": set(),
    "h2": set(),
    "h3": set(),
    "h4": set(),
    "h5": set(),
    "h6": set(),
    "dl": set(),
    "dt": set(),
    "dd": set(),
    "section": {"class"},
    "time": {"datetime"},
    "span": {"class"},
    "div": {"class", "dir"},
    "p": set(),
    "pre": {"class"},
    "code": {"class"},
    "details": set(),
    "summary": set(),
    "a": {"href", "rel", "title"},
    "img": {"src", "alt"},
    "ul": set(),
    "ol": {"start"},
    "li": set(),
    "blockquote": set(),
    "em": set(),
    "strong": set(),
    "s": set(),
    "br": set(),
    "hr": set(),
    "table": set(),
    "thead": set(),
    "tbody": set(),
    "tr": set(),
    "th": {"class"},
    "td": {"class"},
}
VOID = {"meta", "br", "hr", "img"}


class Checker(HTMLParser):
    """Fails on a tag or attribute that is not ours, on a link that leads elsewhere, and on tags that do not match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ALLOWED[tag], (tag, attrs)
        self.counts[tag] = self.counts.get(tag, 0) + 1
        for name, value in attrs:
            if name == "href":
                assert re.match(r"(?i)(https?://|mailto:)", value or ""), value
            if name == "src":
                assert re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*", value or ""), value
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    return checker


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=4), TEXTS, TEXTS)
def test_nothing_of_a_transcript_is_live(contents: list[str], name: str, odd: str) -> None:
    """Only our own tags and attributes are in the page, closed in order, whatever messages, names, calls and notes
    hold."""
    messages = [
        message(n + 1, ("user", "tool", odd or "x")[n % 3], content, thinking=odd, metadata={"isError": True})
        for n, content in enumerate(contents)
    ]
    call = {"id": odd, "name": odd, "arguments": {odd: odd}}
    last = message(
        99,
        "assistant",
        [{"type": "text", "text": odd}, {"type": odd, "x": odd}, {"type": "image", "url": odd}],
        toolCalls=[call],
        toolCallId=odd,
    )
    made = session(*messages, last, name=name, model=odd, cwd=odd, tags=[odd])
    check(text(made, "html"))


def test_each_nasty_text_alone_is_only_text() -> None:
    """None of them adds a tag that stands for something that acts."""
    for content in NASTY:
        checker = check(
            text(session(message(1, content=content), message(2, "assistant", f"```{content}\n{content}\n```")), "html")
        )
        assert checker.counts["section"] == 2
        assert "script" not in checker.counts


def test_a_page_is_complete_in_itself() -> None:
    """Markdown is rendered, code coloured, calls folded, an own image embedded, and the policy allows just that."""
    page = text(full(), "html")
    checker = check(page)
    assert checker.counts["details"] >= 4
    assert checker.counts["table"] == 1
    assert checker.counts["img"] == 1
    assert '<span class="nb">print</span>' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    sheet = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert "url(" not in sheet
    assert page.startswith("<!DOCTYPE html>")


def test_pages_validate() -> None:
    """The parser that browsers follow finds no error in a page, whatever it holds."""
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed")
    nasty = session(*[message(n + 1, "user", content, thinking=content) for n, content in enumerate(NASTY)])
    for made in (full(), nasty, session()):
        parser = html5lib.HTMLParser(strict=False)
        parser.parse(text(made, "html"))
        assert parser.errors == []


def test_images_from_elsewhere_are_links() -> None:
    """Remote images are not loaded; links that are not web or mail address are not links."""
    content = "![cat](https://example.org/c.png) [bad](javascript:x) [file](file:///etc/passwd) <https://example.org/a>"
    page = text(
        session(
            message(1, content=content), message(2, "user", [{"type": "image", "url": "https://example.org/d.png"}])
        ),
        "html",
    )
    checker = check(page)
    assert "img" not in checker.counts
    assert checker.counts["a"] == 3
    assert "".join(checker.texts).count("https://example.org/d.png") == 1


def test_what_looks_like_an_image_but_is_none_is_not_embedded() -> None:
    """Only the four image types, and only clean base64."""
    for media_type, data in (("image/svg+xml", "AAAA"), ("text/html", "AAAA"), ("image/png", 'A" onerror="x')):
        block = {"type": "image", "source": {"media_type": media_type, "data": data}}
        assert "img" not in check(text(session(message(1, "user", [block])), "html")).counts


def test_line_ends_that_a_person_typed_are_kept() -> None:
    typed, answered = (message(n, role, "one\ntwo") for n, role in ((2, "user"), (1, "assistant")))
    assert "one<br>\ntwo" in text(session(typed), "html")
    assert "one\ntwo" in text(session(answered, typed), "html").partition("<br>")[0]


def test_a_very_long_message_is_shown_as_it_is() -> None:
    """Beyond what Markdown is parsed for, the text is still there, escaped."""
    page = text(session(message(1, content="<x>" * 150_000)), "html")
    assert "&lt;x&gt;" in page
    check(page)
