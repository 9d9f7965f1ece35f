"""What the page does when another tab or program has the same session: real tabs in Chromium against a real daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clients.browsers import PATIENCE_MS, Web, browser, until, web
from tests.home import Home

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE_MS)


def session(web: Web, *names: str) -> None:
    for name in names:
        web.holder.call(
            "session/new", sessionId=name, name=name, messages=[{"role": "user", "content": f"one of {name}"}]
        )


def field(page: Page) -> str:
    return page.input_value("#say")


def test_a_message_that_another_tab_could_not_send_is_in_its_own_field(web: Web) -> None:
    """Its session was deleted while the daemon was away, and a tab that shows the list sends what waits."""
    session(web, "s")
    context = web.context()
    one, other = web.open(context), web.open(context)
    web.show(one, "s")
    web.kill()
    for page in (one, other):
        page.wait_for_selector("html[data-connection=waiting]")
    one.fill("#say", "precious words")
    one.keyboard.press("Control+Enter")
    expect(one.locator(".waiting")).to_contain_text("One message waits")
    one.focus("#say")
    one.keyboard.type("more")
    Home.start(web)
    web.client().call("session/delete", sessionId="s")
    one.evaluate("window.away = WebSocket; window.WebSocket = function () { return new away('ws://127.0.0.1:1') }")
    web.listen()
    other.wait_for_selector("html[data-connection=open]")
    expect(other.locator("#notice")).to_contain_text("was not sent")
    until(one, "() => document.querySelector('#say').value.includes('precious')")
    one.evaluate("window.WebSocket = away; null")
    one.wait_for_selector("html[data-connection=open]")
    until(one, "() => document.querySelector('#say').value.includes('precious')")
    one.focus("#say")
    one.keyboard.type("!")
    assert field(one) == "precious words\n\nmore!"
    other.close()
    one.reload()
    one.wait_for_selector("#say", state="attached")
    assert field(one) == "precious words\n\nmore!"
    web.errors.clear()  # that the daemon was away


def test_two_tabs_have_a_draft_each(web: Web) -> None:
    session(web, "s")
    context = web.context()
    one, other = web.open(context), web.open(context)
    web.show(one, "s")
    web.show(other, "s")
    one.focus("#say")
    one.keyboard.type("a long thought")
    other.fill("#say", "hi")
    one.reload()
    one.wait_for_selector("#say")
    assert field(one) == "a long thought"
    other.focus("#say")
    other.keyboard.press("Control+Enter")
    expect(one.locator("#main")).to_contain_text("hi")
    one.reload()
    one.wait_for_selector("#say")
    assert field(one) == "a long thought"
    one.close()
    later = web.open(context)
    web.show(later, "s")
    assert field(later) == "a long thought"
    assert field(other) == ""


def test_a_session_that_was_moved_leads_to_where_it_is(tmp_path: Path, browser: Browser) -> None:
    (tmp_path / "other").mkdir()
    with Web(tmp_path, browser, f'[stores.other]\npath = "{tmp_path}/other"\nformat = "jsonl"\n') as web:
        session(web, "s")
        page = web.open()
        web.show(page, "s")
        web.holder.call("session/move", sessionId="s", store="other")
        expect(page.locator(".facts")).to_contain_text("This session was moved: other/s")
        page.click(".facts a")
        expect(page.locator("#main")).to_contain_text("one of s")


def test_a_session_that_is_restored_is_shown_again(web: Web) -> None:
    session(web, "s")
    page = web.open()
    web.show(page, "s")
    page.fill("#say", "typed before")
    web.holder.call("session/delete", sessionId="s")
    expect(page.locator(".facts")).to_contain_text("This session was deleted")
    web.holder.call("session/restore", sessionId="s")
    expect(page.locator(".facts")).to_contain_text("1 message")
    page.focus("#say")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#main")).to_contain_text("typed before")
    assert field(page) == ""


def test_a_tag_is_added_to_those_that_it_has_now(web: Web) -> None:
    session(web, "apple", "pear")
    page = web.open()
    page.click("text=Select")
    page.click("[data-pick=apple]")
    page.fill("#query", "pear")
    expect(page.locator("[data-pick=apple]")).to_have_count(0)
    web.holder.call("session/update", sessionId="apple", tags=["important"])
    page.click(".selection button:has-text('Tag')")
    page.fill("dialog input", "todo")
    page.click("dialog button:has-text('Add')")
    expect(page.locator("dialog")).to_have_count(0)
    until(page, "() => document.querySelector('.selection').hidden")
    assert web.holder.call("session/open", sessionId="apple", last=0)["session"]["tags"] == ["important", "todo"]
