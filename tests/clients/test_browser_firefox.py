"""The page in Debian's Firefox: the way in, reading, searching, writing, and choosing several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.browsers import Web, browser, say, web
from tests.clients.firefox import firefox

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)


def test_the_page_in_firefox(web: Web, tmp_path: Path) -> None:
    """Everything that the page is for works in another engine than the one that all other tests use."""
    client = web.client()
    for number in range(3):
        client.call("session/new", sessionId=f"s{number}", name=f"Session {number}")
        say(client, f"s{number}", f"needle {number}", "**bold** words")
    with firefox(tmp_path) as page:
        page.goto(web.link())
        page.until("document.documentElement.dataset.connection === 'open'")
        assert page.evaluate("location.hash") in ("", "#/")
        page.until("document.querySelectorAll('a.row').length === 3")

        page.click("a.row[data-id=s1]")
        page.until("document.querySelector('.message .text strong')?.textContent === 'bold'")
        say(client, "s1", "said elsewhere, seen here")
        page.until("document.querySelector('.messages').innerText.includes('seen here')")

        page.keys("/")
        page.keys(*"needle 2")
        page.until("document.querySelectorAll('a.hit').length === 1")
        page.click("a.hit")
        page.until("document.querySelector('.hits').innerText.includes('1 of 1')")

        page.evaluate("document.activeElement.blur()")
        page.keys("r")
        page.keys(*"written in Firefox")
        page.evaluate("document.querySelector('.composer').requestSubmit()")
        page.until("document.querySelector('.messages').innerText.includes('written in Firefox')")
        assert client.call("session/read", sessionId="s2", last=1)["messages"][0]["content"] == "written in Firefox"

        page.evaluate("document.activeElement.blur()")
        page.evaluate(
            "document.querySelector('#query').value = ''; document.querySelector('#query').dispatchEvent(new Event('input'))"
        )
        page.until("document.querySelectorAll('a.row').length === 3")
        page.keys("s")
        page.until("document.querySelectorAll('[data-pick]').length === 3")
        page.click("[data-pick=s0]")
        page.evaluate(
            "[...document.querySelectorAll('.selection button')].find((one) => one.textContent === 'Archive').click()"
        )
        page.until("document.querySelectorAll('a.row').length === 2")
        assert page.errors == []


def test_a_copied_link_in_firefox(web: Web, tmp_path: Path) -> None:
    """A new tab is let in by the one that is open, and shows the session that its address names."""
    client = web.client()
    client.call("session/new", sessionId="s", name="A session")
    say(client, "s", "what was said")
    with firefox(tmp_path) as page:
        page.goto(web.link())
        page.until("document.documentElement.dataset.connection === 'open'")
        page.new_tab()
        page.goto(f"{web.url}#/s/s")
        page.until("document.querySelector('.messages')?.innerText.includes('what was said') ?? false")
        assert page.errors == []


def test_what_was_said_in_firefox(web: Web, tmp_path: Path) -> None:
    """Blocks are words, days are shown, marks and a subagent's prompt are said, calls that follow each other are one group."""
    client = web.client()
    client.call("session/new", sessionId="s", name="S")
    blocks = [{"type": "text", "text": "of a block"}, {"type": "odd", "value": "kept"}]
    calls = [{"id": f"c{number}", "name": "look", "arguments": {"path": "p"}} for number in range(2)]
    messages = [
        {"role": "user", "content": "first day", "timestamp": "2026-01-11T22:40:00.000Z"},
        {"role": "assistant", "content": blocks, "timestamp": "2026-01-13T10:00:00.000Z"},
        {"role": "user", "content": "asked", "metadata": {"sidechain": True}},
        {"role": "assistant", "content": "", "toolCalls": calls},
        {"role": "tool", "content": "out", "toolCallId": "c0"},
        {"role": "tool", "content": "no", "toolCallId": "c1", "metadata": {"isError": True}},
    ]
    client.call("session/append", sessionId="s", messages=messages)
    with firefox(tmp_path) as page:
        page.goto(web.link())
        page.until("document.documentElement.dataset.connection === 'open'")
        page.until("document.querySelector('a.row[data-id=s]') !== null")
        page.click("a.row[data-id=s]")
        page.until("document.querySelectorAll('.message').length === 6")
        page.evaluate("[...document.querySelectorAll('.message details')].map((one) => (one.open = true)).length")
        shown = page.evaluate("document.querySelector('.messages').innerText")
        assert "[object" not in shown
        for words in ("of a block", "kept", "Prompt to a subagent", "sidechain", "failed"):
            assert words in shown
        days = page.evaluate("[...document.querySelectorAll('.messages .day')].map((one) => one.innerText).join()")
        assert days.count("January") == 2
        assert page.evaluate("document.querySelectorAll('details.call .message').length") == 2
        page.goto(f"{web.url}#/usage")
        page.until("document.querySelector('.usage') !== null")
        assert page.errors == []
