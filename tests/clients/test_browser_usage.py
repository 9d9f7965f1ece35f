"""The page's view of tokens and costs, in the real Chromium against a real daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.clients.browsers import PATIENCE_MS, Web, browser, until, web

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)

expect.set_options(timeout=PATIENCE_MS)


def used(days_ago: int, **tokens: Any) -> dict[str, Any]:
    at = (datetime.now(UTC) - timedelta(days=days_ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"role": "assistant", "content": "x", "timestamp": at, "metadata": {"tokens": tokens}}


def filled(web: Web) -> None:
    """1,000 tokens today and 200 a week ago of one model, 50,000 of another 100 days ago."""
    client = web.client()
    recent = [used(7, model="m-a", input=200, cost=0.25), used(0, model="m-a", output=300, cacheRead=700)]
    client.call("session/new", sessionId="recent", name="Recent work", messages=recent, cwd="/w/recent")
    source = {"source": {"tool": "codex"}}
    client.call("session/new", sessionId="old", messages=[used(100, model="m-b", input=50_000)], metadata=source)


def usage(page: Page, period: str = "") -> None:
    page.goto(page.url.partition("#")[0] + f"#/usage{period}")


def table(page: Page, title: str) -> list[str]:
    """Names of its rows."""
    return page.locator(".chart", has=page.locator("caption", has_text=title)).locator("tbody th").all_inner_texts()


def test_what_is_shown(web: Web) -> None:
    """By day, and by model, tool, project and session; longer periods by month."""
    filled(web)
    page = web.open()
    page.get_by_role("link", name="Usage").click()
    sum_ = page.locator(".usage .facts")
    expect(sum_).to_contain_text("1,200 tokens · 2 requests · 1 session · $0.25+")
    assert page.title() == "Usage"
    columns = page.locator(".over-time > svg g")
    expect(columns).to_have_count(30)
    heights = columns.evaluate_all(
        "all => all.map((g) => [...g.querySelectorAll('rect')].reduce((sum, r) => sum + Number(r.getAttribute('height')), 0))"
    )
    assert heights[-1] == pytest.approx(180)
    assert heights[-8] == pytest.approx(36)
    assert sum(height > 0 for height in heights) == 2
    assert table(page, "Models") == ["m-a"]
    assert table(page, "Tools") == ["sessiond"]
    assert table(page, "Projects") == ["/w/recent"]
    assert table(page, "Sessions") == ["Recent work"]
    page.locator(".usage .tools").get_by_text("A year").click()
    expect(sum_).to_contain_text("51,200 tokens")
    assert table(page, "Models") == ["m-b", "m-a"]
    assert table(page, "Tools") == ["codex", "sessiond"]
    # The months between the two that have data are there, too.
    assert page.locator(".over-time > svg g").count() in (12, 13)
    page.click(".over-time summary")
    expect(page.locator(".over-time tbody tr").last).to_contain_text("700")
    page.get_by_role("link", name="Recent work").last.click()
    until(page, "location.hash === '#/s/recent'")
    expect(page.locator(".usage")).to_have_count(0)
    page.go_back()
    expect(page.locator(".usage")).to_have_count(1)


def test_it_opens_on_the_newest_period_with_data(web: Web) -> None:
    web.client().call("session/new", sessionId="old", messages=[used(100, model="m-b", input=50_000)])
    page = web.open()
    usage(page)
    current = page.locator(".usage .tools a[aria-current]")
    expect(current).to_have_text("A year")
    expect(page.locator(".usage .facts")).to_contain_text("50,000 tokens")
    usage(page, "/30")
    expect(current).to_have_text("30 days")
    expect(page.locator(".usage .facts")).to_have_text("No message of this period reports tokens.")


def test_months_without_data_are_there(web: Web) -> None:
    """Time is a scale: from the first month with data to this one."""
    messages = [used(days, model="m", input=1) for days in (800, 400, 0)]
    web.client().call("session/new", sessionId="s", messages=messages)
    page = web.open()
    usage(page, "/all")
    columns = page.locator(".over-time > svg g")
    expect(columns).not_to_have_count(0)
    keys = [title.partition(":")[0] for title in columns.locator("title").all_text_contents()]
    first = datetime.now(UTC) - timedelta(days=800)
    now = datetime.now(UTC)
    assert len(keys) in range((now.year - first.year) * 12 + now.month - first.month, 29)
    assert keys == sorted(set(keys)) and {f"{now.year - 1}-{month:02}" for month in range(1, 13)} < set(keys)


def test_cache_reads_can_be_left_out(web: Web) -> None:
    """In sums, charts and tables; the browser remembers it."""
    filled(web)
    page = web.open()
    usage(page, "/30")
    sum_ = page.locator(".usage .facts")
    expect(sum_).to_contain_text("1,200 tokens")
    page.get_by_label("Count cache reads").uncheck()
    expect(sum_).to_contain_text("500 tokens")
    expect(page.locator(".legend span")).to_have_text(["Input", "Cache write", "Output"])
    page.reload()
    expect(sum_).to_contain_text("500 tokens")
    page.get_by_label("Count cache reads").check()
    expect(sum_).to_contain_text("1,200 tokens")


def test_what_the_plus_means_is_said(web: Web) -> None:
    filled(web)
    page = web.open()
    usage(page, "/30")
    expect(page.locator(".usage .facts")).to_contain_text("$0.25+ (without 1 request of unknown cost)")
    cell = page.locator("tbody td", has_text="$0.25+").first
    expect(cell).to_have_attribute("title", "without 1 request of unknown cost")


def test_what_is_used_meanwhile_comes_in(web: Web) -> None:
    filled(web)
    page = web.open()
    page.keyboard.press("u")
    expect(page.locator(".usage .facts")).to_contain_text("1,200 tokens")
    web.client().call("session/append", sessionId="recent", messages=[used(0, model="m-c", output=34)])
    shown = "document.querySelector('.usage .facts').textContent.includes('1,234 tokens')"
    until(page, f"document.dispatchEvent(new Event('visibilitychange')) && {shown}")
    page.keyboard.press("Escape")
    until(page, "location.hash === '#/'")
    expect(page.locator("#main")).to_contain_text("Choose a session")


def test_nothing_was_reported(web: Web) -> None:
    page = web.open()
    usage(page)
    expect(page.locator(".usage .facts")).to_have_text("No message of this period reports tokens.")


def test_a_daemon_that_comes_back(web: Web) -> None:
    """The view stays, and shows what there is now."""
    filled(web)
    page = web.open()
    usage(page, "/30")
    expect(page.locator(".usage .facts")).to_contain_text("1,200 tokens")
    web.kill()
    web.start()
    web.client().call("session/append", sessionId="recent", messages=[used(0, output=34)])
    page.wait_for_selector("html[data-connection=open]")
    usage(page, "/90")
    expect(page.locator(".usage .facts")).to_contain_text("1,234 tokens")
    web.errors.clear()  # the connection that was refused meanwhile


def test_names_are_text(web: Web) -> None:
    """Whatever a transcript calls its model."""
    evil = "<img src=x onerror=alert(1)>\u202e"
    web.client().call("session/new", sessionId="s", messages=[used(0, model=evil, output=1)], cwd="/" + evil)
    page = web.open()
    usage(page)
    expect(page.locator(".chart caption", has_text="Models")).to_have_count(1)
    assert table(page, "Models") == ["<img src=x onerror=alert(1)>"]
    assert page.locator(".usage img").count() == 0


@pytest.mark.parametrize("width", [380, 1280])
def test_it_fits(web: Web, width: int) -> None:
    """Nothing is wider than its place, on a phone either; names of usual length are whole."""
    filled(web)
    named = [used(3, model="claude-opus-4-8", input=900_000, cost=81.21)]
    web.client().call("session/new", sessionId="named", name="Named", messages=named, cwd="/home/me/x")
    page = web.open(viewport={"width": width, "height": 760})
    usage(page, "/all")
    page.wait_for_selector(".charts > .chart:nth-child(2) table")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inner = page.evaluate("[...document.querySelectorAll('.chart')].every((one) => one.scrollWidth <= one.clientWidth)")
    assert inner
    names = page.locator(".chart tbody th")
    assert names.count() > 8
    assert (
        names.evaluate_all(
            "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
        )
        == []
    )
