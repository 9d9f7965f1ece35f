"""What goes on in sessions, on the page in the real Chromium: marks in the list, a question and its answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.clients.browsers import PATIENCE_MS, Web, browser, say, web
from tests.clients.test_browser_organise import accessible, rows

__all__ = ["browser", "web"]
pytestmark = pytest.mark.timeout(300)
expect.set_options(timeout=PATIENCE_MS)
CHOICES = [{"id": "y", "label": "Allow", "kind": "allow"}, {"id": "n", "label": "Deny", "kind": "deny"}]


def test_a_question_is_answered_on_the_page(web: Web) -> None:
    """The list marks the session that waits and shows only such ones on request; the first button that is pressed is the answer."""
    client, agent = web.client(), web.client()
    for name in ("build", "other"):
        client.call("session/new", sessionId=name, name=name.title())
        say(client, name, "words")
    page = web.open()
    page.wait_for_selector("a.row[data-id=build]")
    with ThreadPoolExecutor(1) as pool:

        def asked(**params: Any) -> Any:
            return pool.submit(agent.call, "session/ask", sessionId="build", **params)

        answer = asked(text="Run rm -r build?", choices=CHOICES, waitingFor="permission", toolCallId="c1")
        expect(page.locator("a.row[data-id=build] .now")).to_have_text("waits: permission")
        page.locator("summary", has_text="Filters").click()
        page.select_option("#filter-shelf", "waiting")
        expect(page.locator("a.row")).to_have_count(1)
        assert rows(page) == ["build"]
        page.click("a.row[data-id=build]")
        expect(page.locator(".doing .words")).to_contain_text("waits: permission · Run rm -r build?")
        accessible(page)
        page.get_by_role("button", name="Deny").click()
        assert answer.result(60) == {"client": "web", "choice": "n"}
        expect(page.locator(".doing")).to_be_hidden()
        expect(page.locator("a.row")).to_have_count(0)

        answer = asked(text="Which port?")
        page.get_by_label("Your answer").fill("80")
        client.call("session/activity", sessionId="build", state="working", text="meanwhile")
        page.get_by_label("Your answer").press("Enter")
        assert answer.result(60) == {"client": "web", "text": "80"}
        expect(page.locator(".doing .words")).to_contain_text("works · meanwhile")
