"""What helps a person with many sessions, on the page in the real Chromium: choosing several, filters, hits, relatives, branches."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.clients.browsers import PATIENCE_MS, Web, browser, say, until, web

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE_MS)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def rows(page: Page) -> list[str]:
    """The ids in the list, in its order."""
    found = page.evaluate("[...document.querySelectorAll('a.row')].map((one) => one.dataset.id)")
    assert isinstance(found, list)
    return found


def accessible(page: Page) -> None:
    """axe finds nothing that keeps somebody out."""
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def several(web: Web, count: int = 5) -> None:
    client = web.client()
    for number in range(count):
        client.call("session/new", sessionId=f"s{number}", name=f"Session {number}", tags=["old"])
        say(client, f"s{number}", f"words of {number}")


def choose(page: Page, *ids: str) -> None:
    press(page, "Select")
    for session_id in ids:
        page.check(f"[data-pick={session_id}]")


# Several at once


def test_several_are_tagged_and_archived(web: Web) -> None:
    """The chosen sessions, and no others, get the tag beside those that they have; then the same with the archive."""
    several(web)
    page = web.open()
    page.wait_for_selector("a.row[data-id=s0]")
    choose(page, "s1", "s3")
    expect(page.locator(".selection")).to_contain_text("2 chosen")
    accessible(page)
    press(page, "Tag")
    page.fill("#field-tags", "new, old")
    press(page, "Add")
    expect(page.locator("#notice")).to_contain_text("2 sessions tagged")
    client = web.client()
    infos = {one["sessionId"]: one for one in client.call("session/list")["sessions"]}
    assert {key: one["tags"] for key, one in infos.items()} == {
        f"s{n}": ["old", "new"] if n in (1, 3) else ["old"] for n in range(5)
    }
    choose(page, "s1")
    page.locator(".selection").get_by_role("button", name="Archive").click()
    expect(page.locator("a.row[data-id=s1]")).to_have_count(0)
    assert len(client.call("session/list")["sessions"]) == 4


def test_several_are_exported_into_one_file(web: Web, tmp_path: Path) -> None:
    """As JSON one array, with every chosen session in it."""
    several(web)
    page = web.open()
    page.wait_for_selector("a.row[data-id=s0]")
    choose(page, "s0", "s2", "s4")
    page.locator(".selection").get_by_role("button", name="Export").click()
    page.select_option("#field-format", "json")
    with page.expect_download() as download:
        press(page, "Download")
    download.value.save_as(tmp_path / "out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert len(found) == 3
    assert all(f"words of {n}" in json.dumps(found) for n in (0, 2, 4))


def test_several_are_deleted(web: Web) -> None:
    """After a question; one that somebody else deleted meanwhile does not keep the others from going, and is named."""
    several(web)
    page = web.open()
    page.wait_for_selector("a.row[data-id=s0]")
    choose(page, "s0", "s1", "s2")
    web.client().call("session/delete", sessionId="s1")
    page.locator(".selection").get_by_role("button", name="Delete").click()
    expect(page.locator("dialog h2")).to_have_text("Delete 3 sessions?")
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("dialog .problem")).to_contain_text("s1")
    press(page, "Cancel")
    until(page, "[...document.querySelectorAll('a.row')].length === 2")
    assert {one["sessionId"] for one in web.client().call("session/list")["sessions"]} == {"s3", "s4"}


def test_choosing_with_the_keyboard(web: Web) -> None:
    """`x` on a row chooses it, `s` begins and ends; a search keeps what was chosen."""
    several(web)
    page = web.open()
    page.wait_for_selector("a.row[data-id=s0]")
    page.focus("a.row[data-id=s2]")
    page.keyboard.press("x")
    expect(page.locator(".selection")).to_contain_text("1 chosen")
    page.fill("#query", "words")
    page.wait_for_selector("a.hit")
    expect(page.locator("[data-pick=s2]")).to_be_checked()
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    expect(page.locator(".selection")).to_be_hidden()


# Filters


def test_filters_by_tool_and_project(web: Web) -> None:
    """The list and a search are narrowed to a tool and to a folder; the fields offer what was seen."""
    client = web.client()
    for number, (tool, folder) in enumerate([("codex", "/a"), ("codex", "/b"), ("pi", "/a")]):
        made = {"metadata": {"source": {"tool": tool}}, "cwd": folder}
        client.call("session/new", sessionId=f"t{number}", name=f"T {number}", **made)
        say(client, f"t{number}", "needle")
    page = web.open()
    page.wait_for_selector("a.row[data-id=t0]")
    page.click(".filters summary")
    assert set(page.eval_on_selector_all("#known-tool option", "all => all.map((one) => one.value)")) == {"codex", "pi"}
    page.fill("#filter-tool", "codex")
    until(page, "document.querySelectorAll('a.row').length === 2")
    assert set(rows(page)) == {"t0", "t1"}
    page.fill("#filter-cwd", "/a")
    until(page, "document.querySelectorAll('a.row').length === 1")
    page.fill("#query", "needle")
    page.wait_for_selector("a.hit")
    assert rows(page) == ["t0", "t0"]  # the session, and its hit
    accessible(page)


def test_a_row_says_tool_project_and_model(web: Web) -> None:
    client = web.client()
    made = {"metadata": {"source": {"tool": "codex"}}, "cwd": "/home/me/parser", "model": "opus-5"}
    client.call("session/new", sessionId="s", name="S", **made)
    client.call("session/new", sessionId="bare", name="Bare")
    page = web.open()
    about = page.locator("a.row[data-id=s] .about")
    expect(about).to_contain_text("· codex · parser · opus-5")
    assert about.locator("[title]").last.get_attribute("title") == "/home/me/parser"
    assert "undefined" not in page.inner_text("a.row[data-id=bare]")


# Hits


def test_hits_are_grouped(web: Web) -> None:
    """Each session once, with its first hits below it and the rest on demand; what is open is marked, the session and the hit."""
    client = web.client()
    for number, count in enumerate((5, 1)):
        client.call("session/new", sessionId=f"g{number}", name=f"About needles {number}")
        say(client, f"g{number}", *(f"a needle, {place}" for place in range(count)))
    page = web.open()
    page.fill("#query", "needle")
    page.wait_for_selector("a.hit")
    groups = page.locator(".found-in")
    expect(groups).to_have_count(2)
    five = groups.filter(has=page.locator("a.row[data-id=g0]"))
    expect(five.locator("a.row:not(.hit)")).to_have_count(1)
    expect(five.locator("a.hit:visible")).to_have_count(3)
    five.get_by_role("button", name="2 more in this session").click()
    expect(five.locator("a.hit:visible")).to_have_count(5)
    five.locator("a.hit", has_text="a needle, 4").click()
    expect(page.locator("[aria-current=page]")).to_have_text("About needles 0")
    expect(page.locator("[aria-current=location]")).to_contain_text("a needle, 4")
    assert page.locator("#list [aria-current]").count() == 2
    accessible(page)
    page.locator(".session .scroll").focus()
    page.keyboard.press("[")
    expect(page.locator("[aria-current=location]")).to_contain_text("a needle, 3")


def test_a_name_that_matches_is_the_sessions_row(web: Web) -> None:
    """A name is not a hit below itself; what is found in a note is one, and leads to the session."""
    client = web.client()
    client.call("session/new", sessionId="n", name="The needle")
    client.call("note/append", sessionId="n", heading="Where", content="in a needle case")
    page = web.open()
    page.fill("#query", "needle")
    expect(page.locator(".found-in .name mark")).to_have_text("needle")
    expect(page.locator("a.hit")).to_have_count(1)
    page.click("a.hit")
    until(page, "location.hash === '#/s/n'")


def marks(page: Page) -> list[str]:
    """What is marked in the session, in its order."""
    found = page.evaluate("""() => [...(CSS.highlights.get('found') ?? [])].map((one) => {
        const range = document.createRange()
        range.setStart(one.startContainer, one.startOffset)
        range.setEnd(one.endContainer, one.endOffset)
        return range.toString()
    })""")
    assert isinstance(found, list)
    return found


def test_the_words_are_marked_in_the_session(web: Web) -> None:
    """In every hit, whatever their case, also one that comes into view later; not where a word only contains them. They are unfolded."""
    client = web.client()
    client.call("session/new", sessionId="w", name="W")
    say(client, "w", "Hay, **hay** and hayloft.", *("straw" for _ in range(500)))
    client.call("session/append", sessionId="w", messages=[{"role": "tool", "content": "a line\n" * 30 + "then HAY"}])
    page = web.open()
    page.fill("#query", "hay")
    page.locator("a.hit", has_text="then HAY").click()
    page.wait_for_selector("details.result[open]")
    until(page, "CSS.highlights.get('found')?.size === 1")
    assert marks(page) == ["HAY"]
    page.locator(".session .scroll").focus()
    page.keyboard.press("g")
    until(page, "CSS.highlights.get('found')?.size === 2")
    assert marks(page) == ["Hay", "hay"]
    page.get_by_role("button", name="Close the search in this session").click()
    assert marks(page) == []


def test_ways_of_searching(web: Web) -> None:
    """By words, by pattern, by meaning."""
    client = web.client()
    client.call("session/new", sessionId="m", name="M")
    say(client, "m", "error 42", "error none")
    page = web.open()
    expect(page.locator(".modes")).to_be_hidden()
    page.fill("#query", r"error \d+")
    press(page, "Pattern")
    expect(page.locator("a.hit")).to_have_count(1)
    page.click("a.hit")
    expect(page.locator(".hits")).to_contain_text("1 of 1")
    until(page, "CSS.highlights.get('found')?.size === 1")
    assert marks(page) == ["error 42"]
    press(page, "Words")
    expect(page.locator("#found")).to_have_text("0 found")
    accessible(page)
    page.fill("#query", "error")
    expect(page.locator("a.hit")).to_have_count(2)
    page.fill("#query", "error (")
    press(page, "Pattern")
    expect(page.locator("#found")).to_contain_text("missing )")
    expect(page.locator("a.hit")).to_have_count(0)
    page.fill("#query", "error")
    press(page, "Meaning")
    expect(page.locator("#found")).to_have_text(re.compile(r"[1-9]\d* found|pip install"))


def test_from_hit_to_hit(web: Web) -> None:
    """From a search, the session shows which hit this is; `]` and `[` go on and back, around the ends."""
    client = web.client()
    client.call("session/new", sessionId="long", name="Long")
    say(client, "long", *(f"{'needle' if n % 100 == 50 else 'hay'} {n}" for n in range(400)))
    page = web.open()
    page.fill("#query", "needle")
    page.wait_for_selector("a.hit")
    page.locator("a.hit", has_text="needle 150").click()
    expect(page.locator(".hits")).to_contain_text("2 of 4")
    page.locator(".session .scroll").focus()
    for key, place, text in (
        ("]", "3 of 4", "needle 250"),
        ("]", "4 of 4", "needle 350"),
        ("]", "1 of 4", "needle 50"),
        ("[", "4 of 4", "needle 350"),
    ):
        page.keyboard.press(key)
        expect(page.locator(".hits")).to_contain_text(place)
        expect(page.locator(".message.pointed")).to_contain_text(text)
    accessible(page)
    page.keyboard.press("Escape")
    expect(page.locator(".hits")).to_be_hidden()


def test_find_in_this_session(web: Web) -> None:
    """`f` asks for words; Return goes to the first hit; a word that is not there says so."""
    several(web)
    page = web.open()
    web.show(page, "s1")
    page.locator(".session .scroll").focus()
    page.keyboard.press("f")
    page.keyboard.type("words")
    page.keyboard.press("Enter")
    expect(page.locator(".message.pointed")).to_contain_text("words of 1")
    page.locator(".hits input").fill("nowhere")
    page.keyboard.press("Enter")
    expect(page.locator(".hits")).to_contain_text("nothing found")


# Relatives and branches


def relatives(web: Web) -> str:
    """A session of Codex, a fork of it with words of its own, and a fork of that. The middle one's id."""
    client = web.client()
    client.call("session/new", sessionId="root", name="Root", metadata={"source": {"tool": "codex"}})
    say(client, "root", "one", "two", "three")
    fork = client.call("session/fork", sessionId="root", atSeq=2, name="Fork")["session"]["sessionId"]
    say(client, fork, "another three")
    client.call("session/fork", sessionId=fork, name="Leaf")
    return str(fork)


def test_a_session_shows_its_relatives(web: Web) -> None:
    """From its oldest parent to all forks, with the tool of each and where it left; each leads there."""
    fork = relatives(web)
    page = web.open()
    web.show(page, fork)
    page.locator("summary", has_text="Forks and relatives").click()
    tree = page.locator(".family").first
    expect(tree.locator("> li > a").first).to_have_text("Root")
    expect(tree).to_contain_text("codex")
    expect(tree).to_contain_text("from #2")
    expect(tree.locator("[aria-current]")).to_have_text("Fork")
    accessible(page)
    tree.get_by_role("link", name="Leaf", exact=True).click()
    expect(page.locator(".session h2")).to_have_text("Leaf")


def test_a_session_alone_shows_none(web: Web) -> None:
    """Nothing is in the way where there is no relative."""
    several(web, 1)
    page = web.open()
    web.show(page, "s0")
    page.wait_for_selector(".message")
    expect(page.locator("summary", has_text="Forks and relatives")).to_be_hidden()


def test_two_branches_side_by_side(web: Web) -> None:
    """What both have is counted; what each has of its own is shown; on a phone below each other."""
    fork = relatives(web)
    page = web.open()
    web.show(page, fork)
    page.locator("summary", has_text="Forks and relatives").click()
    page.get_by_role("link", name="Compare with Root").click()
    expect(page.locator(".compare-view")).to_contain_text("2 messages are the same.")
    sides = page.locator(".sides > section")
    expect(sides.nth(0)).to_contain_text("another three")
    expect(sides.nth(1)).to_contain_text("three")
    assert sides.nth(0).locator(".message").count() == sides.nth(1).locator(".message").count() == 1
    accessible(page)
    page.set_viewport_size({"width": 390, "height": 760})
    boxes = [sides.nth(n).bounding_box() for n in (0, 1)]
    assert boxes[0] and boxes[1] and boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    page.keyboard.press("Escape")
    until(page, "location.hash === '#/'")


def test_a_branch_that_is_gone(web: Web) -> None:
    """The address of a session that was deleted says so instead of a blank page."""
    relatives(web)
    page = web.open()
    page.evaluate("location.hash = '#/compare/root/nobody'")
    expect(page.locator("#notice")).to_contain_text("nobody")


# Out of the page


def test_a_message_and_a_session_are_copied(web: Web) -> None:
    """As Markdown: a message with its calls, a session as the exporter writes it."""
    client = web.client()
    client.call("session/new", sessionId="c", name="Copied")
    call = {"id": "1", "name": "grep", "arguments": {"pattern": "a ``` b"}}
    client.call(
        "session/append", sessionId="c", messages=[{"role": "assistant", "content": "**Look**", "toolCalls": [call]}]
    )
    context = web.context(permissions=["clipboard-read", "clipboard-write"])
    page = web.open(context)
    web.show(page, "c")
    page.locator(".message").hover()
    page.get_by_role("button", name="Copy message 1").click()
    expect(page.locator("#notice")).to_contain_text("the message is on the clipboard")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("**Look**\n\n````\ngrep {")
    page.locator(".session .tools").get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("the session is on the clipboard")
    assert (
        page.evaluate("navigator.clipboard.readText()")
        == client.call("session/export", sessionId="c", format="markdown")["content"]
    )


def test_what_a_search_found_follows(web: Web) -> None:
    """A hit that comes while the search is shown joins it; what was unfolded stays so."""
    client = web.client()
    client.call("session/new", sessionId="long", name="Long")
    say(client, "long", *(f"needle {number}" for number in range(5)))
    page = web.open()
    page.fill("#query", "needle")
    expect(page.locator("#found")).to_have_text("5 found")
    page.get_by_role("button", name="2 more in this session").click()
    expect(page.locator("a.hit:visible")).to_have_count(5)
    client.call("session/new", sessionId="late", name="Late")
    say(client, "late", "a needle at last")
    expect(page.locator("#found")).to_have_text("6 found")
    expect(page.locator('a.hit[data-id="late"]')).to_be_visible()
    expect(page.locator("a.hit:visible")).to_have_count(6)


def test_a_fork_ends_at_the_hit(web: Web) -> None:
    """The dialog suggests the hit as the last message to keep, and rejects anything that is not a number."""
    client = web.client()
    client.call("session/new", sessionId="m", name="M")
    say(client, "m", "one", "needle", "three")
    page = web.open()
    page.fill("#query", "needle")
    page.click("a.hit")
    expect(page.locator(".message.pointed .link")).to_contain_text("#2")
    page.get_by_role("button", name="Fork", exact=True).click()
    last = page.get_by_label("Up to message")
    expect(last).to_have_value("2")
    last.fill("two")
    page.get_by_label("Name").fill("Half")
    page.locator("dialog").get_by_role("button", name="Fork").click()
    expect(page.locator("dialog")).to_contain_text("“two” is not the number of a message")
    last.fill("#2")
    page.locator("dialog").get_by_role("button", name="Fork").click()
    expect(page.locator(".session h2")).to_have_text("Half")
    expect(page.locator("article.message")).to_have_count(2)


def test_the_lines_of_a_call_can_be_read(web: Web) -> None:
    """A text of several lines stands below the other arguments, as it is."""
    call = {"id": "c", "name": "Write", "arguments": {"path": "a.py", "content": "def f():\n    return 1\n"}}
    client = web.client()
    client.call("session/new", sessionId="m", messages=[{"role": "assistant", "content": "", "toolCalls": [call]}])
    page = web.open()
    web.show(page, "m")
    fold = page.locator("details.call")
    fold.locator("summary").click()
    assert fold.locator("pre").all_inner_texts() == ['{\n  "path": "a.py"\n}', "def f():\n    return 1\n"]
    expect(fold.locator(".key")).to_have_text("content")
