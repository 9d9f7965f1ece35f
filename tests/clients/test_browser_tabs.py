"""How tabs of one browser let each other in, and who is not let in: real tabs in Chromium against a real daemon."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.clients.browsers import PATIENCE_MS, Elsewhere, Web, browser, say, until, web

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)

expect.set_options(timeout=PATIENCE_MS)

TOKEN = "sessionStorage.getItem('sessiond.token')"
STRANGER = {"/": "<!doctype html><title>a stranger</title>", "/proof": '{"proof": "0"}'}
LISTEN = """() => {
  window.heard = []
  window.channel = new BroadcastChannel('sessiond.tabs')
  window.channel.onmessage = ({ data }) => window.heard.push(data)
}"""
ASK = "window.channel.postMessage({ kind: 'ask', id: 'a stranger' })"
# After whatever the tab does with what it has heard: checking a proof takes it one request, and nothing else takes it longer.
END = """async () => {
  const { prove } = await import('/sessiond.js')
  await prove(location.origin, 'wrong').catch(() => {})
  window.channel.postMessage({ kind: 'end' })
}"""
ANSWER_FALSELY = """() => {
  window.channel = new BroadcastChannel('sessiond.tabs')
  window.channel.onmessage = ({ data }) => data.kind === 'ask' && window.channel.postMessage({ kind: 'answer', id: data.id, token: 'wrong', port: 1 })
}"""


def connected(page: Page) -> None:
    """Wait until it is let in."""
    page.wait_for_selector("html[data-connection=open]")


def in_new_tab(web: Web, context: BrowserContext, address: str = "") -> Page:
    """What a click on a link with the middle button, or a copied address, opens."""
    page = web.tab(context)
    page.goto(web.url + address)
    return page


def refused(page: Page) -> None:
    """Wait until it says that it is not let in, and what to do."""
    expect(page.locator(".locked")).to_contain_text("Run sessiond web in a terminal")
    assert page.evaluate(TOKEN) is None


def told(page: Page, tab: Page) -> list[str]:
    """The kinds of messages that a stranger in `page` hears when it asks: all that `tab` answers."""
    tab.evaluate(LISTEN)
    page.evaluate(LISTEN)
    page.evaluate(ASK)
    until(tab, "window.heard.length > 0")
    tab.evaluate(END)
    until(page, "window.heard.some(({ kind }) => kind === 'end')")
    kinds: list[str] = page.evaluate("window.heard.map(({ kind }) => kind)")
    return kinds[:-1]


def stranger_on_the_port(web: Web) -> Elsewhere:
    """Another program that listens where the daemon did, as soon as it no longer does."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        try:
            return Elsewhere(STRANGER, web.port)
        except OSError:  # the daemon is still closing it
            assert time.monotonic() < deadline
            time.sleep(0.01)


def refuses_a_stranger(web: Web, context: BrowserContext, tab: Page) -> None:
    """Another program has the daemon's port, and `tab` tells its page nothing."""
    stranger = stranger_on_the_port(web)
    try:
        page = in_new_tab(web, context)
        assert page.title() == "a stranger"
        assert told(page, tab) == []
    finally:
        stranger.close()
        web.errors.clear()


def test_a_new_tab_is_let_in(web: Web) -> None:
    """By any of several; it then does without them, also after a reload, and the token is in no URL that it asked for."""
    context = web.context()
    first = web.open(context)
    second = in_new_tab(web, context)
    connected(second)
    asked: list[str] = []
    third = web.tab(context)
    third.on("request", lambda request: asked.append(request.url))
    third.goto(web.url)
    connected(third)
    assert third.evaluate(TOKEN) == web.token
    assert asked and all(web.token not in url for url in asked)
    first.close()
    second.close()
    third.reload()
    connected(third)


def test_a_copied_link_opens_its_session(web: Web) -> None:
    """At the message whose link was copied; and the list beside it is there."""
    client = web.client()
    client.call("session/new", sessionId="s", name="A session")
    say(client, "s", *(f"message {number}" for number in range(200)))
    context = web.context()
    first = web.open(context)
    web.show(first, "s", 20)
    link = first.locator(".message[data-seq='20'] a[href^='#/s/']").first.get_attribute("href")
    assert link is not None
    second = in_new_tab(web, context, link)
    expect(second.locator(".message[data-seq='20']")).to_be_in_viewport()
    expect(second.locator("a.row")).to_have_count(1)


def test_a_link_that_is_opened_in_a_new_tab(web: Web) -> None:
    """With the middle button, in the list of sessions."""
    client = web.client()
    client.call("session/new", sessionId="s", name="A session")
    say(client, "s", "what was said")
    context = web.context()
    first = web.open(context)
    with context.expect_page() as opened:
        first.click("a.row", button="middle")
    expect(opened.value.locator(".message .body")).to_have_text("what was said")


def test_a_code_that_was_used_in_a_browser_that_is_let_in(web: Web) -> None:
    """Somebody who opens an address a second time sees the page, not that the address works only once."""
    context = web.context()
    link = web.link()
    first = web.tab(context)
    first.goto(link)
    connected(first)
    second = web.tab(context)
    second.goto(link)
    connected(second)
    assert [error for error in web.errors if "401" not in error] == []
    web.errors.clear()


def test_no_tab_is_open(web: Web) -> None:
    """Then it says that it is not let in, and what to do. A private window, which is another context, changes nothing."""
    web.open()
    refused(in_new_tab(web, web.context(), "#/s/s"))


def test_a_tab_that_came_too_early(web: Web) -> None:
    """It is let in as soon as another one is, and shows the session that its address names."""
    client = web.client()
    client.call("session/new", sessionId="s", name="A session")
    say(client, "s", "what was said")
    context = web.context()
    early = in_new_tab(web, context, "#/s/s")
    refused(early)
    home = in_new_tab(web, context)
    expect(home.locator(".locked")).to_contain_text("As soon as this page is open in another tab")
    web.open(context)
    expect(early.locator(".message .body")).to_have_text("what was said")
    expect(home.locator(".empty")).to_contain_text("Choose a session")
    expect(home.locator(".locked")).to_have_count(0)


def test_a_browser_without_channels(web: Web) -> None:
    """It says at once what it said before there were any."""
    context = web.context()
    context.add_init_script("delete globalThis.BroadcastChannel")
    web.open(context)
    page = in_new_tab(web, context)
    refused(page)
    expect(page.locator(".locked")).not_to_contain_text("As soon as")


def test_a_name_that_may_lead_to_two_programs(web: Web) -> None:
    """`localhost` may be the daemon at 127.0.0.1 for one tab, and another program at ::1 for the next."""
    context = web.context()
    first = web.tab(context)
    first.goto(web.link().replace("127.0.0.1", "localhost"))
    connected(first)
    second = web.tab(context)
    second.goto(web.url.replace("127.0.0.1", "localhost"))
    refused(second)


def test_the_tab_that_is_asked_answers_strangers_only_while_it_is_connected(web: Web) -> None:
    """A page of the same origin gets an answer from a tab that is let in, and none once the daemon has gone and another program
    serves that page on its port.
    """
    context = web.context()
    first = web.open(context)
    page = in_new_tab(web, context, "page/icon.svg")
    assert told(page, first) == ["answer"]
    web.kill()
    first.wait_for_selector("html[data-connection=waiting]")
    refuses_a_stranger(web, context, first)


def test_a_connection_that_outlives_the_port_lets_nobody_in(web: Web) -> None:
    """The daemon no longer listens, the tab is still connected, and another program has the port."""
    context = web.context()
    first = web.open(context)
    web.holder.close()
    refuses_a_stranger(web, context, first)
    assert first.evaluate("document.documentElement.dataset.connection") == "open"


def test_another_origin_hears_nothing(web: Web) -> None:
    """A page on another port of this machine, in the same browser, neither hears what tabs say to each other nor is heard."""
    context = web.context()
    first = web.open(context)
    first.evaluate(LISTEN)
    stranger = Elsewhere(STRANGER)
    try:
        page = web.tab(context)
        page.goto(stranger.origin)
        page.evaluate(LISTEN)
        page.evaluate(ASK)
        connected(in_new_tab(web, context))
        until(first, "window.heard.some(({ kind }) => kind === 'open')")
        assert page.evaluate("window.heard.length") == 0
        assert first.evaluate("window.heard.every(({ id }) => id !== 'a stranger')")
    finally:
        stranger.close()
        web.errors.clear()


def test_a_false_answer_is_not_taken(web: Web) -> None:
    """A token that is not the daemon's lets nobody in, and keeps nobody out."""
    context = web.context()
    liar = in_new_tab(web, context, "page/icon.svg")
    liar.evaluate(ANSWER_FALSELY)
    page = in_new_tab(web, context)
    refused(page)
    web.open(context)
    connected(page)
    connected(in_new_tab(web, context))
    assert [
        error for error in web.errors if "404" not in error
    ] == []  # for an icon alone, the browser asks for another icon
    web.errors.clear()
