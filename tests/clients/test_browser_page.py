"""The page, in the real Chromium against a real daemon."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.clients.browsers import PATIENCE_MS, Elsewhere, Web, browser, say, until, web

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)

expect.set_options(timeout=PATIENCE_MS)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def press(page: Page, name: str) -> None:
    """Press the button of exactly this name."""
    page.get_by_role("button", name=name, exact=True).click()


def seen(page: Page, text: str, times: int = 1) -> None:
    """Wait until the conversation shows a text, and so often."""
    expect(page.locator(".message .body", has_text=text)).to_have_count(times)


# Getting in


def test_a_code_lets_in_once_and_leaves_no_trace(web: Web) -> None:
    """The code is taken off the address at once and gives nothing a second time; a reload of the tab needs none; the token is
    in no URL that was asked for.
    """
    link = web.link()
    page = web.tab()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(link)
    page.wait_for_selector("html[data-connection=open]")
    assert page.url == web.url
    page.reload()
    page.wait_for_selector("html[data-connection=open]")
    assert all(web.token not in url and "code=" not in url.partition("#")[0] for url in asked)
    other = web.tab()
    other.goto(link)
    expect(other.locator(".locked")).to_contain_text("run `sessiond web` again")
    assert [error for error in web.errors if "401" not in error] == []
    web.errors.clear()


def test_a_code_in_a_tab_that_has_the_page(web: Web) -> None:
    """An address from `sessiond web --print` lets in also where the page waits for it already, and leaves no trace there either."""
    page = web.tab()
    page.goto(web.url)
    page.wait_for_selector(".locked")
    page.evaluate("link => { location.href = link }", web.link())
    page.wait_for_selector("html[data-connection=open]")
    assert page.url == web.url


def test_without_a_token(web: Web) -> None:
    """The bare address only shows which command to run."""
    page = web.tab()
    page.goto(web.url)
    expect(page.locator(".locked")).to_contain_text("sessiond web")
    assert page.locator(".row").count() == 0


def test_a_wrong_token(web: Web) -> None:
    """A token that is not, or no longer, the daemon's is never shown: the daemon cannot prove that it knows it."""
    page = web.tab()
    page.goto(web.url)
    page.evaluate("sessionStorage.setItem('sessiond.token', 'wrong')")
    page.reload()
    expect(page.locator("#notice")).to_contain_text("another program answers on the port")


REFUSED = """async ({url, token, header}) => {
  const {Connection} = await import('/sessiond.js')
  const socket = (to) => header ? new WebSocket(to, ['sessiond', `sessiond.token.${token}`]) : new WebSocket(to)
  const connection = new Connection({url, token: header ? null : token, socket})
  const states = []
  connection.on('state', ({state, error}) => states.push([state, error?.kind ?? null]))
  connection.connect().catch(() => {})
  await new Promise((resolve) => connection.on('state', ({state}) => ['open', 'waiting', 'refused'].includes(state) && resolve()))
  connection.close()
  return states
}"""


def test_who_is_refused(web: Web) -> None:
    """A page of another origin is refused although it has the token, a name that was pointed at our address serves nothing, and
    a wrong or missing token is answered `unauthorized`.
    """
    elsewhere = Elsewhere({"/": "<!doctype html><title>elsewhere</title>"})
    try:
        page = web.tab()
        page.goto(elsewhere.origin)
        url = web.url.replace("http", "ws")
        for header in (False, True):
            states = page.evaluate(REFUSED, {"url": url, "token": web.token, "header": header})
            assert states[1][0] == "waiting", states
        assert "403" in "".join(web.errors)
        web.errors.clear()
    finally:
        elsewhere.close()
    own = web.open()
    for token in ("wrong", None):
        states = own.evaluate(REFUSED, {"url": url, "token": token, "header": False})
        assert states[:2] == [["connecting", None], ["refused", "unauthorized"]]
    states = own.evaluate(REFUSED, {"url": url, "token": web.token, "header": True})
    assert states[1] == ["open", None]
    rebound = web.tab()
    response = rebound.goto(f"http://rebound.example:{web.port}/")
    assert response is not None and response.status == 403
    assert rebound.locator("#list").count() == 0
    web.errors.clear()


# The list


def test_the_list(web: Web) -> None:
    """The newest first under their days, with tags and counts; it follows what other tools do."""
    client = web.client()
    client.call("session/new", sessionId="one", name="Kitchen plan", tags=["home"])
    say(client, "one", "a", "b")
    page = web.open()
    row = page.locator("a.row")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("Kitchen plan")
    expect(row).to_contain_text("home")
    client.call("session/new", sessionId="two", name="Garden plan")
    expect(row).to_have_count(2)
    expect(row.first).to_contain_text("Garden plan")


def test_search_as_you_type(web: Web) -> None:
    """Hits come while one types, with what matched marked by code points, and lead to their message."""
    client = web.client()
    client.call("session/new", sessionId="s", name="Words")
    say(client, "s", *(f"filler {number}" for number in range(300)))
    say(client, "s", "🦊🦊 the lock order of the queue 日本語の検索")
    say(client, "s", *(f"more {number}" for number in range(300)))
    page = web.open()
    page.keyboard.press("/")
    page.keyboard.type("lock ord*", delay=5)
    hit = page.locator("a.hit")
    expect(hit).to_have_count(1)
    expect(hit.locator("mark").first).to_have_text("lock")
    expect(page.locator("#found")).to_have_text("1 found")
    page.fill("#query", "日本")
    expect(hit.locator("mark").first).to_have_text("日本")
    hit.click()
    expect(page.locator(".message.pointed")).to_contain_text("lock order")
    page.fill("#query", "")
    expect(page.locator("a.row")).to_have_count(1)
    expect(page.locator("a.hit")).to_have_count(0)


def test_filters_and_timeline(web: Web) -> None:
    """Shelves, tags, models and months narrow the list; the trash gives back."""
    client = web.client()
    client.call("session/new", sessionId="plain", name="Plain", model="small")
    client.call("session/new", sessionId="kept", name="Kept", tags=["x"])
    client.call("session/new", sessionId="old", name="Old")
    client.call("session/update", sessionId="old", archived=True)
    client.call("session/new", sessionId="gone", name="Gone")
    say(client, "gone", "something")
    client.call("session/delete", sessionId="gone")
    for session_id in ("plain", "kept", "old"):
        say(client, session_id, "text")
    page = web.open()
    names = page.locator("a.row .name")
    expect(names).to_have_text(["Kept", "Plain"])
    page.click(".filters summary")
    page.select_option("#filter-shelf", "archived")
    expect(names).to_have_text(["Old"])
    page.select_option("#filter-shelf", "deleted")
    expect(names).to_have_text(["Gone"])
    page.click("text=Restore")
    expect(names).to_have_count(0)
    page.select_option("#filter-shelf", "")
    expect(names).to_have_count(3)
    page.fill("#filter-tag", "x")
    expect(names).to_have_text(["Kept"])
    page.fill("#filter-tag", "")
    page.fill("#filter-model", "small")
    expect(names).to_have_text(["Plain"])
    page.fill("#filter-model", "")
    page.click(".timeline summary")
    month = page.locator(".months button")
    expect(month).to_have_count(1)
    expect(month).to_contain_text("· 3")
    month.click()
    expect(month).to_have_attribute("aria-pressed", "true")
    expect(names).to_have_count(3)


# Reading


def test_a_session_is_read_comfortably(web: Web) -> None:
    """Markdown, coloured code, folded tool calls and results, thinking, pictures, notes and state."""
    client = web.client()
    client.call("session/new", sessionId="s")
    client.call("session/append", sessionId="s", messages=[
        {"role": "assistant", "content": "# Title\n\n| a | b |\n|--|:-:|\n| 1 | 2 |\n\n```python\nreturn None\n```", "thinking": "let me see",
         "toolCalls": [{"id": "c1", "name": "read_file", "arguments": {"path": "notes.txt"}}]},
        {"role": "tool", "toolCallId": "c1", "content": "line one\nline two"},
        {"role": "user", "content": [{"type": "text", "text": "a picture"},
                                     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                                     {"type": "image_url", "image_url": {"url": "https://pictures.example/x.png"}},
                                     {"type": "odd", "value": 12345678901234567890}]},
    ])  # fmt: skip
    client.call("note/append", sessionId="s", heading="Remember", content="the milk")
    client.call("state/set", sessionId="s", values={"plan": {"steps": ["one"]}})
    page = web.open()
    web.show(page, "s")
    message = page.locator(".message")
    expect(message).to_have_count(3)
    expect(message.nth(0).locator("h1")).to_have_text("Title")
    expect(message.nth(0).locator("td").first).to_have_text("1")
    assert message.nth(0).locator("td").last.evaluate("one => getComputedStyle(one).textAlign") == "center"
    expect(message.nth(0).locator(".hljs-keyword")).to_have_text("return")
    call = message.nth(0).locator("details.call")
    expect(call.locator("> summary")).to_have_text("read_file notes.txt")
    assert not call.locator("pre").first.is_visible()
    call.locator("> summary").click()
    expect(call.locator("pre").first).to_contain_text('"path": "notes.txt"')
    expect(message.nth(0).locator("details.thinking pre")).to_have_text("let me see")
    expect(message.nth(1).locator("details.result pre")).to_have_text("line one\nline two")
    picture = message.nth(2).locator("img")
    expect(picture).to_have_count(1)
    assert picture.evaluate("async (one) => { await one.decode(); return one.naturalWidth }") == 1
    expect(message.nth(2).locator("a[href='https://pictures.example/x.png']")).to_have_count(1)
    expect(message.nth(2).locator("details.block pre")).to_contain_text("12345678901234567890")
    page.click(".aside summary")
    expect(page.locator(".aside")).to_contain_text("the milk")
    expect(page.locator(".aside")).to_contain_text('"steps"')


def test_days_and_typed_lines(web: Web) -> None:
    """Each day stands once, above its first message, also where messages of the day before are read later; the line ends of a
    person are kept, those of an answer are Markdown's.
    """
    client = web.client()
    client.call("session/new", sessionId="s")
    first, second = "2026-03-01T22:40:00.000Z", "2026-03-02T22:24:00.000Z"
    old = [{"role": "user", "content": f"old {number}", "timestamp": first} for number in range(100)]
    new = [{"role": role, "content": "one\ntwo", "timestamp": second} for role in ("user", "assistant")]
    client.call("session/append", sessionId="s", messages=[*old, *new])
    page = web.open()
    web.show(page, "s")
    days = page.locator(".messages .day")
    expect(days).to_have_text(["Sunday, 1 March 2026", "Monday, 2 March 2026"])
    assert days.last.evaluate("one => one.nextElementSibling.dataset.seq") == "101"
    expect(page.locator("[data-seq='101'] br")).to_have_count(1)
    expect(page.locator("[data-seq='102'] br")).to_have_count(0)
    page.evaluate("document.querySelector('.scroll').scrollTop = 0")
    page.wait_for_selector("[data-seq='1']", state="attached")
    expect(days).to_have_text(["Sunday, 1 March 2026", "Monday, 2 March 2026"])
    assert days.first.evaluate("one => one.nextElementSibling.dataset.seq") == "1"


def test_streaming_is_live(web: Web) -> None:
    """A reply is seen to grow, then to be done; one whose writer goes away is marked interrupted."""
    client = web.client()
    client.call("session/new", sessionId="s")
    page = web.open()
    web.show(page, "s")
    client.call(
        "session/append",
        sessionId="s",
        messages=[{"id": "r", "role": "assistant", "content": "Once", "status": "streaming"}],
    )
    seen(page, "Once")
    expect(page.locator(".message.streaming")).to_have_count(1)
    for part in (" upon", " a", " time"):
        client.call("session/extend", sessionId="s", messageId="r", text=part)
    seen(page, "Once upon a time")
    client.call("session/finish", sessionId="s", messageId="r")
    expect(page.locator(".message.streaming")).to_have_count(0)
    client.call(
        "session/append",
        sessionId="s",
        messages=[{"id": "q", "role": "assistant", "content": "And then", "status": "streaming"}],
    )
    seen(page, "And then")
    client.close()
    expect(page.locator(".message .status", has_text="interrupted")).to_have_count(1)


HOSTILE = [
    "<img src=x onerror=boom('img')>", "<script>boom('script')</script>", "[link](javascript:boom('md'))", "<javascript:boom('auto')>",
    "<a href=\"javascript:boom('a')\">x</a>", "<svg onload=boom('svg')><script>boom('svg')</script></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=boom('math')>", "![x](javascript:boom('image'))",
    "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImJvb20oKSI+PC9zdmc+)", "<iframe srcdoc=\"<script>parent.boom('frame')</script>\">",
    "<form action=javascript:boom('form')><button>x</button></form>", "[x](data:text/html,<script>boom('data')</script>)",
    "```html\n<img src=x onerror=boom('code')>\n```", "```<img src=x onerror=boom('lang')>\ncode\n```", "[x](vbscript:boom('vb'))",
    "<details open ontoggle=boom('toggle')>", "<body onpageshow=boom('body')>", "[a]: javascript:boom('ref')\n\n[a]", "\u202etxt.exe\u0000\u001b[31m",
    "<style>*{background:url(https://evil.example/x)}</style>", "<base href=https://evil.example/>", "<meta http-equiv=refresh content='0;url=https://evil.example'>",
]  # fmt: skip


def test_a_hostile_transcript_runs_nothing(web: Web) -> None:
    """Whatever is in messages, names, tags, tool calls, blocks, notes and search hits: nothing runs, nothing is fetched, and
    the policy had nothing to stop.
    """
    client = web.client()
    client.call(
        "session/new",
        sessionId="s",
        name="<img src=x onerror=boom('name')>",
        tags=["<svg onload=boom('tag')>"],
        model=HOSTILE[0],
    )
    client.call(
        "session/append", sessionId="s", messages=[{"role": "user", "content": text + " findme"} for text in HOSTILE]
    )
    client.call("session/append", sessionId="s", messages=[
        {"role": "assistant", "content": [{"type": "text", "text": text} for text in HOSTILE]},
        {"role": "tool", "content": "\n".join(HOSTILE), "toolCallId": "c"},
        {"role": HOSTILE[0], "content": "a role", "thinking": "\n".join(HOSTILE)},
        {"role": "assistant", "content": "", "toolCalls": [{"id": "c", "name": HOSTILE[0], "arguments": {HOSTILE[1]: text}} for text in HOSTILE]},
        {"role": "user", "content": [
            {"type": HOSTILE[0], "value": HOSTILE}, {"type": "image_url", "image_url": {"url": "javascript:boom('block')"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": base64.b64encode(b"<svg onload='boom()'/>").decode()}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png\" onerror=\"boom('mt')", "data": "x"}},
            {"type": "tool_use", "name": HOSTILE[0], "input": HOSTILE}, {"type": "tool_result", "content": [{"type": "text", "text": HOSTILE[0]}, {"type": "image", "source": {"url": "javascript:boom('r')"}}]},
        ]},
    ])  # fmt: skip
    client.call("note/append", sessionId="s", heading=HOSTILE[0], content=HOSTILE[1])
    client.call("state/set", sessionId="s", values={HOSTILE[0]: HOSTILE})
    context = web.context()
    context.add_init_script("window.booms = []; window.boom = (what) => window.booms.push(what)")
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = web.open(context)
    web.show(page, "s")
    expect(page.locator(".message")).to_have_count(len(HOSTILE) + 5)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    expect(page.locator(".aside pre")).to_have_count(1)
    links = page.eval_on_selector_all(".message a", "all => all.map((one) => one.getAttribute('href'))")
    assert all(re.match(r"https?:|mailto:|#/s/", link or "#/s/") for link in links), links
    inside = "script, svg, math, iframe, form, style, base, meta, object, embed, [onerror], [onload], [style]"
    assert page.locator(f".message :is({inside}), #list :is({inside}), .aside :is({inside})").count() == 0
    page.fill("#query", "findme")
    expect(page.locator("a.hit").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.booms") == []
    own = (web.url, web.url.replace("http", "ws"), "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []
    assert page.url.startswith(web.url)


# Putting in order


def test_rename_tag_archive_fork_delete(web: Web) -> None:
    """The daemon keeps the effect of each button."""
    client = web.client()
    client.call("session/new", sessionId="s", name="First")
    say(client, "s", "text")
    page = web.open()
    web.show(page, "s")
    press(page, "Rename")
    page.fill("#field-name", "Second 🦊")
    page.keyboard.press("Enter")
    expect(page.locator(".session h2")).to_have_text("Second 🦊")
    expect(page.locator("a.row .name")).to_have_text("Second 🦊")
    press(page, "Tags")
    page.fill("#field-tags", "one, two")
    page.keyboard.press("Enter")
    expect(page.locator(".facts .tag")).to_have_text(["one", "two"])
    press(page, "Archive")
    expect(page.get_by_role("button", name="Unarchive")).to_be_visible()
    info = client.call("session/open", sessionId="s")["session"]
    assert (info["name"], info["tags"], info["archived"]) == ("Second 🦊", ["one", "two"], True)
    press(page, "Unarchive")
    press(page, "Fork")
    expect(page.locator("dialog")).to_contain_text("begins as “Second 🦊” does")
    page.fill("#field-name", "Another way")
    page.click("dialog >> button:has-text('Fork')")
    until(page, "location.hash !== '#/s/s'")
    seen(page, "text")
    expect(page.locator(".session h2")).to_have_text("Another way")
    expect(page.locator(".facts")).to_contain_text("forked from Second 🦊")
    assert len(client.call("session/list")["sessions"]) == 2
    web.show(page, "s")
    press(page, "Delete")
    page.click("dialog >> button:has-text('Delete')")
    until(page, "location.hash === '#/'")
    assert client.fails("session/open", sessionId="s")["data"]["kind"] == "sessionNotFound"


def test_export(web: Web, tmp_path: Path) -> None:
    """A session is downloaded in a format of one's choice, as the daemon gives it."""
    client = web.client()
    client.call("session/new", sessionId="s", name="Exported")
    say(client, "s", "hello 🦊")
    page = web.open()
    web.show(page, "s")
    press(page, "Export")
    page.select_option("#field-format", "org")
    with page.expect_download() as download:
        press(page, "Download")
    assert download.value.suggested_filename == "s.org"
    assert (
        Path(download.value.path()).read_text() == client.call("session/export", sessionId="s", format="org")["content"]
    )


def test_a_new_session_and_its_first_message(web: Web) -> None:
    """Made, named, written to and found without the mouse."""
    page = web.open()
    page.keyboard.press("n")
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")
    page.wait_for_selector(".session .tools button")
    page.keyboard.press("r")
    page.keyboard.type("first words\nsecond line")
    page.keyboard.press("Control+Enter")
    seen(page, "first words")
    client = web.client()
    [session] = client.call("session/list")["sessions"]
    assert session["name"] == "By keyboard"
    [message] = client.call("session/read", sessionId=session["sessionId"])["messages"]
    assert (message["role"], message["content"]) == ("user", "first words\nsecond line")


def test_keys(web: Web) -> None:
    """Messages, list and search are walked through by keyboard; Escape leads back."""
    client = web.client()
    for name in ("a", "b"):
        client.call("session/new", sessionId=name, name=name.upper())
        say(client, name, *(f"{name}{number}" for number in range(5)))
    page = web.open()
    expect(page.locator("a.row")).to_have_count(2)
    page.focus("a.row >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == "a"
    page.keyboard.press("Enter")
    seen(page, "a4")
    focused = "document.activeElement.closest('.message')?.querySelector('.text')?.textContent.trim()"
    page.keyboard.press("g")
    until(page, f"{focused} === 'a0'")
    page.keyboard.press("j")
    page.keyboard.press("j")
    until(page, f"{focused} === 'a2'")
    page.keyboard.press("k")
    until(page, f"{focused} === 'a1'")
    page.keyboard.press("Shift+G")
    until(page, f"{focused} === 'a4'")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("next and previous message")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    until(page, "location.hash === '#/'")


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_axe_finds_nothing_serious(web: Web, look: Any, width: int) -> None:
    """List, session, search hits, dialogs and the locked page, light and dark, on a desk and on a phone."""
    client = web.client()
    client.call("session/new", sessionId="s", name="Accessible", tags=["x"])
    say(
        client,
        "s",
        "# Title\n\n[link](https://example.org) and `code`\n\n```python\ndef f(): return 'text'  # comment\n```\n\n| a |\n|--|\n| b |",
    )
    client.call("session/append", sessionId="s", messages=[
        {"role": "assistant", "content": "answer", "thinking": "t", "toolCalls": [{"id": "c", "name": "n", "arguments": {"a": 1}}]},
        {"role": "tool", "content": "result", "toolCallId": "c", "metadata": {"tokens": {"input": 5, "model": "m"}}}])  # fmt: skip
    client.call("state/set", sessionId="s", values={"plan": 1})
    page = web.open(color_scheme=look, viewport={"width": width, "height": 760}, bypass_csp=True)
    page.wait_for_selector("a.row")

    def check(view: str) -> None:
        found = Axe().run(page).response["violations"]
        bad = [
            (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert bad == [], view

    page.click(".filters summary")
    page.click(".timeline summary")
    page.wait_for_selector(".months button")
    check("list")
    page.fill("#query", "title")
    page.wait_for_selector("a.hit")
    check("hits")
    web.show(page, "s")
    page.wait_for_selector(".message")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    check("session")
    press(page, "Rename")
    check("dialog")
    page.keyboard.press("Escape")
    page.goto(web.url + "#/usage/all")
    page.wait_for_selector(".charts > .chart:nth-child(2) table")
    page.evaluate("document.querySelectorAll('.usage details').forEach((one) => { one.open = true })")
    check("usage")
    page.keyboard.press("Escape")
    page.evaluate("sessionStorage.clear()")
    page.goto(web.url + "page/index.html")
    page.wait_for_selector(".locked")
    check("locked")


def test_on_a_phone(web: Web) -> None:
    """On a narrow screen there is the list or a session, nothing is wider than the screen, and there is a way back."""
    client = web.client()
    client.call(
        "session/new", sessionId="s", name="A rather long name of a session that does not fit into one line of a phone"
    )
    say(
        client,
        "s",
        "x" * 3000,
        "```\n" + "y" * 3000 + "\n```",
        "| " + " | ".join("column" for _ in range(30)) + " |\n" + "|--" * 30 + "|",
    )
    page = web.open(viewport={"width": 360, "height": 640}, has_touch=True)
    page.tap("a.row")
    page.wait_for_selector(".message")
    assert not page.locator("#list").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(
        "document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth"
    )
    for button in page.locator(".tools button").all():
        assert button.evaluate(
            "(one) => one.getBoundingClientRect().right <= innerWidth && one.scrollWidth <= one.clientWidth"
        )
    page.tap(".back")
    expect(page.locator("a.row")).to_be_visible()


def test_what_to_do_next(web: Web) -> None:
    """Without sessions, without a model, in the field, and without a daemon."""
    page = web.open()
    expect(page.locator("#found")).to_contain_text("sessiond import")
    expect(page.locator("#main .empty")).to_contain_text("No model answers it unless")
    page.click(".filters summary")
    page.select_option("#filter-shelf", "archived")
    expect(page.locator("#found")).to_have_text("No sessions here.")
    client = web.client()
    client.call("session/new", sessionId="s", name="S")
    web.show(page, "s")
    expect(page.locator(".composer .hint")).to_have_text("Ctrl+Enter sends")
    web.kill()
    expect(page.locator("#notice")).to_contain_text("run sessiond web again")
    web.errors.clear()


def test_the_list_is_there_before_the_libraries(web: Web) -> None:
    """Those for Markdown and the colours of code are read after the list is shown, and before a session is."""
    client = web.client()
    client.call("session/new", sessionId="s", name="S")
    say(client, "s", "**bold**")
    page = web.tab()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/vendor/*", hold)
    page.goto(web.link())
    page.wait_for_selector("a.row[data-id=s]")
    page.click("a.row[data-id=s]")
    while len(held) < 3:
        page.wait_for_timeout(20)
    assert page.locator(".message").count() == 0
    for one in held:
        one.continue_()
    expect(page.locator(".message strong")).to_have_text("bold")


def test_no_frame_of_a_long_scroll_is_blank(web: Web) -> None:
    """As fast as a wheel goes, messages are in view: they are read before the view gets there."""
    client = web.client()
    client.call("session/new", sessionId="long", name="Long")
    for begin in range(0, 2000, 500):
        said = [{"role": "user", "content": f"{n} " + "words " * (n % 90)} for n in range(begin, begin + 500)]
        client.call("session/append", sessionId="long", messages=said)
    page = web.open()
    for step in (150, 600):
        web.show(page, "long")
        page.wait_for_selector(".message[data-seq='2000']")
        blank, reached = page.evaluate(SCROLLED, [step, 120])
        assert blank == 0, step
        assert reached < 2000 - step / 25
        page.evaluate("location.hash = '#/'")


SCROLLED = """([step, frames]) => new Promise((done) => {
  const box = document.querySelector('.session .scroll')
  const { top, bottom } = box.getBoundingClientRect()
  let blank = 0
  let reached = Infinity
  const look = () => {
    const seen = [...box.querySelectorAll('.message')].filter((one) => {
      const place = one.getBoundingClientRect()
      return place.bottom > top && place.top < bottom
    })
    if (seen.length === 0) blank++
    reached = Math.min(reached, ...seen.map((one) => Number(one.dataset.seq)))
    box.scrollTop -= step
    if (--frames > 0) requestAnimationFrame(look)
    else done([blank, reached])
  }
  requestAnimationFrame(look)
})"""
"""How many of so many frames show no message while the view moves up by `step` pixels in each, and the first seq that was seen."""


def test_settings_say_what_they_do(web: Web) -> None:
    """The look that was chosen is there after a reload."""
    page = web.open(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background)
    page.click("#theme")
    after = page.evaluate(background)
    assert before != after
    page.reload()
    page.wait_for_selector("html[data-connection=open]")
    assert page.evaluate(background) == after


def shown(page: Page) -> list[int]:
    """The seqs of the messages in the document."""
    return [int(one) for one in page.eval_on_selector_all(".message", "all => all.map((one) => one.dataset.seq)")]


TOP = """() => {
  const top = document.querySelector('.scroll').getBoundingClientRect().top
  const first = [...document.querySelectorAll('.message')].find((one) => one.getBoundingClientRect().bottom > top)
  return Number(first.dataset.seq)
}"""
"""The first message in view."""


def test_a_hundred_thousand_messages(web: Web) -> None:
    """Only some hundred are in the document at any time, in order and without a hole; any place is reached by wheel, scroll bar,
    keys and link, and what is in view does not jump.
    """
    client = web.client()
    client.call("session/new", sessionId="long")
    for start in range(0, 100_000, 5000):
        messages = [
            {"role": "user" if n % 2 else "assistant", "content": f"number {n} " + "word " * (n * 7 % 97)}
            for n in range(start + 1, start + 5001)
        ]
        client.call("session/append", sessionId="long", messages=messages)
    page = web.open(viewport={"width": 1000, "height": 800})
    web.show(page, "long")
    page.wait_for_selector("[data-seq='100000']")
    box = page.locator(".scroll").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    tops = [100_000]
    while tops[-1] > 99_000:
        page.mouse.wheel(0, -3000)
        tops.append(page.evaluate(TOP))
        seqs = shown(page)
        assert seqs == list(range(seqs[0], seqs[-1] + 1)) and len(seqs) <= 400
    assert tops == sorted(tops, reverse=True), "what is in view jumped back"
    page.keyboard.press("g")
    page.wait_for_selector("[data-seq='1']")
    web.show(page, "long", 50_000)
    expect(page.locator(".message.pointed")).to_contain_text("number 50000 ")
    expect(page.locator("[data-seq='50000']")).to_be_in_viewport()
    page.evaluate("document.querySelector('.scroll').scrollTop = document.querySelector('.scroll').scrollHeight * 0.25")
    until(page, "Math.abs(Number(document.querySelector('.message')?.dataset.seq ?? 0) - 25000) < 8000")
    seqs = shown(page)
    assert seqs == list(range(seqs[0], seqs[-1] + 1))
    say(client, "long", "something new")
    expect(page.locator(".below")).to_contain_text("1 new")
    page.click(".below")
    seen(page, "something new")
    expect(page.locator("[data-seq='100001']")).to_be_in_viewport()


SLOWLY = """
const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage')
Object.defineProperty(WebSocket.prototype, 'onmessage', {
  set(listener) { set.call(this, (event) => setTimeout(() => listener(event), 40)) },
})
"""
"""The daemon's messages may take a while."""
PLACE = """() => {
  const view = document.querySelector('.scroll').getBoundingClientRect()
  const first = [...document.querySelectorAll('.message')].find((one) => one.getBoundingClientRect().bottom > view.top)
  const top = first.getBoundingClientRect().top - view.top
  return top < 20 ? [Number(first.dataset.seq), top] : null
}"""
"""The message where the view begins and how far below that it does; null if none is there."""


SCROLL = """() => {
  document.querySelector('.scroll').scrollBy(0, -3000)
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))
}"""


def test_scrolling_faster_than_the_messages_come(web: Web) -> None:
    """Scrolling up through pages that are not loaded yet gets as far as waiting for them after each step."""
    client = web.client()
    client.call("session/new", sessionId="long")
    say(client, "long", *(f"number {n} " + "word " * (n * 7 % 97) for n in range(1, 1001)))
    context = web.context(viewport={"width": 1000, "height": 800})
    context.add_init_script(SLOWLY)

    def scrolled_up(patiently: bool) -> tuple[Page, int]:
        page = web.open(context)
        web.show(page, "long")
        page.wait_for_selector("[data-seq='1000']")
        voids = 0
        for _ in range(20):
            page.evaluate(SCROLL)
            voids += page.evaluate(PLACE) is None
            if patiently:
                until(page, f"({PLACE})() !== null")
        return page, voids

    seq, top = scrolled_up(patiently=True)[0].evaluate(PLACE)
    page, voids = scrolled_up(patiently=False)
    assert voids > 0
    there = f"([seq, top]) => {{ const now = ({PLACE})(); return now?.[0] === seq && Math.abs(now[1] - top) < 20 }}"
    until(page, there, [seq, top])


# Trouble


def test_two_tabs_and_another_program(web: Web) -> None:
    """Each sees the others' words at once and its own once."""
    client = web.client()
    client.call("session/new", sessionId="s")
    context = web.context()
    first, second = web.open(context), web.open(context)
    for page in (first, second):
        web.show(page, "s")
    first.fill("#say", "from the first tab")
    first.keyboard.press("Control+Enter")
    seen(second, "from the first tab")
    second.fill("#say", "from the second tab")
    second.keyboard.press("Control+Enter")
    say(client, "s", "from a program")
    for page in (first, second):
        for text in ("from the first tab", "from the second tab", "from a program"):
            seen(page, text)


def test_the_daemon_is_killed_under_an_open_page(web: Web) -> None:
    """Text written meanwhile is kept, even over a reload, and sent once when the daemon is back; other clients' messages are
    caught up, nothing twice.
    """
    client = web.client()
    client.call("session/new", sessionId="s")
    say(client, "s", "before")
    context = web.context()
    page = web.open(context)
    web.show(page, "s")
    seen(page, "before")
    web.kill()
    page.wait_for_selector("html[data-connection=waiting]")
    expect(page.locator("#notice")).to_contain_text("The daemon is away")
    page.fill("#say", "while it was away")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".waiting")).to_contain_text("One message waits")
    page.fill("#say", "a draft")
    super(Web, web).start()
    other = web.client()
    say(other, "s", "by somebody else")
    web.listen()
    page.wait_for_selector("html[data-connection=open]")
    for text in ("before", "by somebody else", "while it was away"):
        seen(page, text)
    expect(page.locator(".waiting")).to_have_text("")
    expect(page.locator("#notice")).to_have_text("")
    assert page.input_value("#say") == "a draft"
    contents = [message["content"] for message in other.call("session/read", sessionId="s")["messages"]]
    assert sorted(contents) == ["before", "by somebody else", "while it was away"]
    page.reload()
    web.show(page, "s")
    assert page.input_value("#say") == "a draft"
    web.errors.clear()  # refused connections, which Chromium reports


def test_deleted_meanwhile(web: Web) -> None:
    """A deleted session says so; unsent text remains where it can be copied."""
    client = web.client()
    client.call("session/new", sessionId="s", name="Doomed")
    say(client, "s", "text")
    page = web.open()
    web.show(page, "s")
    page.fill("#say", "unsent words")
    client.call("session/delete", sessionId="s")
    expect(page.locator("#notice")).to_contain_text("deleted")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notice")).to_contain_text("no session")
    expect(page.locator("#say")).to_have_value("unsent words")


@pytest.mark.parametrize("room", [True, False], ids=["room", "full"])
def test_deleted_while_one_was_elsewhere(web: Web, room: bool) -> None:
    """A message waiting for a session that is gone by then, and not in view, is reported and can be copied: from that
    session's field, or, if the browser cannot keep it, from the notice.
    """
    client = web.client()
    client.call("session/new", sessionId="s", name="Doomed")
    say(client, "s", "text")
    context = web.context()
    if not room:
        context.add_init_script(FULL)
    page = web.open(context)
    web.show(page, "s")
    web.kill()
    page.wait_for_selector("html[data-connection=waiting]")
    page.fill("#say", "words for later")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".waiting")).to_contain_text("One message waits")
    page.evaluate("location.hash = '#/'")
    super(Web, web).start()
    web.client().call("session/delete", sessionId="s")
    web.listen()
    expect(page.locator("#notice")).to_contain_text("Your message was not sent")
    if room:
        page.click("#notice a")
        expect(page.locator("#say")).to_have_value("words for later")
        expect(page.locator("#notice")).not_to_contain_text("Your message was not sent")
    else:
        expect(page.locator("#notice pre")).to_have_text("words for later")
    web.errors.clear()  # refused connections, which Chromium reports


def test_more_than_the_daemon_takes(tmp_path: Path, browser: Any) -> None:
    """A message over the limit is said and comes back into its field; the connection stays, and what follows is sent."""
    with Web(tmp_path, browser, "[limits]\nmessage_bytes = 200000\n") as web:
        client = web.client()
        client.call("session/new", sessionId="s")
        page = web.open()
        web.show(page, "s")
        page.fill("#say", "ö" * 120_000)
        page.keyboard.press("Control+Enter")
        expect(page.locator("#notice")).to_contain_text("longer than the 200000 bytes")
        expect(page.locator("#say")).to_have_value("ö" * 120_000)
        page.fill("#say", "short")
        page.keyboard.press("Control+Enter")
        seen(page, "short")
        assert page.get_attribute("html", "data-connection") == "open"
        assert web.errors == []


FULL = """
  const full = () => { throw new DOMException('full', 'QuotaExceededError') }
  Storage.prototype.setItem = new Proxy(Storage.prototype.setItem, { apply(target, self, args) { return self === sessionStorage ? Reflect.apply(target, self, args) : full() } })
  IDBObjectStore.prototype.add = full
  IDBObjectStore.prototype.put = full
"""


def test_the_browser_has_no_room(web: Web) -> None:
    """If the browser cannot keep anything the user is told, and the written text is still sent."""
    client = web.client()
    client.call("session/new", sessionId="s")
    context = web.context()
    context.add_init_script(FULL)
    page = web.open(context)
    web.show(page, "s")
    page.focus("#say")
    page.keyboard.type("x")
    expect(page.locator("#notice")).to_contain_text("no room to keep this draft")
    web.kill()
    page.wait_for_selector("html[data-connection=waiting]")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#notice")).to_contain_text("no room to keep what was not sent yet")
    expect(page.locator(".waiting")).to_contain_text("One message waits")
    super(Web, web).start()
    web.listen()
    seen(page, "x")
    contents = [message["content"] for message in web.client().call("session/read", sessionId="s")["messages"]]
    assert contents == ["x"]
    web.errors.clear()


def test_a_daemon_of_another_version(web: Web) -> None:
    """The page says what to do, and does not continue with a protocol that it does not know."""
    page = web.open()
    states = page.evaluate(
        """async () => {
          const {Connection} = await import('/sessiond.js')
          class Later {
            constructor() { setTimeout(() => this.onopen()) }
            send(text) {
              const {id} = JSON.parse(text)
              const result = {serverInfo: {name: 'sessiond'}, capabilities: {experimental: {sessiond: {protocolVersion: 2}}}}
              setTimeout(() => this.onmessage({data: JSON.stringify({jsonrpc: '2.0', id, result})}))
            }
            close() {}
          }
          const connection = new Connection({url: 'ws://none', socket: () => new Later()})
          return connection.connect().catch((error) => [error.kind, error.message, error.hint])
        }"""
    )
    assert states == ["otherVersion", "the daemon speaks protocol 2, this client 1", "reload the page"]


def test_json_is_not_rounded(web: Web) -> None:
    """Integers up to 64 bits come and go as they are."""
    client = web.client()
    client.call("session/new", sessionId="s")
    page = web.open()
    text = page.evaluate(
        """async ({url, token}) => {
          const {Connection} = await import('/sessiond.js')
          const connection = new Connection({url, token})
          await connection.connect()
          await connection.call('state/set', {sessionId: 's', values: {big: 18446744073709551615n, small: -9223372036854775808n, plain: 5}})
          const {values} = await connection.call('state/get', {sessionId: 's'})
          connection.close()
          return `${values.big} ${values.small} ${typeof values.plain}`
        }""",
        {"url": web.url.replace("http", "ws"), "token": web.token},
    )
    assert text == "18446744073709551615 -9223372036854775808 number"
    answer = json.dumps(client.call("state/get", sessionId="s")["values"], sort_keys=True)
    assert answer == '{"big": 18446744073709551615, "plain": 5, "small": -9223372036854775808}'


@pytest.mark.parametrize("width", [900, 1400, 2400])
def test_one_column(web: Web, width: int) -> None:
    """The title, the messages and the field to write in begin at the same place, however wide the window is."""
    client = web.client()
    client.call("session/new", sessionId="s")
    client.call("session/append", sessionId="s", messages=[{"role": "assistant", "content": "words"}])
    page = web.open()
    page.set_viewport_size({"width": width, "height": 700})
    web.show(page, "s")
    expect(page.locator(".message")).to_be_visible()
    places = [page.locator(one).first.bounding_box() for one in (".session h2", ".message", ".composer textarea")]
    edges = [box["x"] for box in places if box]
    assert len(edges) == 3 and max(edges) - min(edges) <= 1, edges


def test_the_list_is_told(web: Web) -> None:
    """What others do to sessions shows, without a request while nothing happens; what happens again and again, each time."""
    client = web.client()
    page = web.open()
    expect(page.locator("#found")).to_contain_text("No sessions yet")
    client.call("session/new", sessionId="a", name="first")
    row = page.locator(".row[data-id='a']")
    expect(row.locator(".name")).to_have_text("first", timeout=5000)
    for count in (1, 2):
        client.call("session/append", sessionId="a", messages=[{"role": "user", "content": "words"}])
        expect(row.locator(".about")).to_contain_text(f" · {count} message", timeout=5000)
    client.call("session/update", sessionId="a", name="second")
    expect(row.locator(".name")).to_have_text("second", timeout=5000)
    client.call("session/delete", sessionId="a")
    expect(row).to_have_count(0, timeout=5000)
    client.call("session/restore", sessionId="a")
    expect(row).to_have_count(1, timeout=5000)


def test_a_list_that_was_out_of_sight_is_told(web: Web) -> None:
    """The daemon is another one since; what came meanwhile shows when the tab is looked at, and what comes then, too."""
    page = web.open()
    expect(page.locator("#found")).to_contain_text("No sessions yet")
    page.evaluate("Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })")
    web.kill()
    page.wait_for_selector("html[data-connection=waiting]")
    web.start()
    page.wait_for_selector("html[data-connection=open]")
    client = web.client()
    client.call("session/new", sessionId="a")
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".row[data-id='a']")).to_have_count(1, timeout=5000)
    client.call("session/new", sessionId="b")
    expect(page.locator(".row[data-id='b']")).to_have_count(1, timeout=5000)
    web.errors.clear()  # of the port that nobody served
