"""What the page shows of a shared store while its link is cut and healed."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.clients.browsers import PATIENCE_MS, Web, browser
from tests.home import Home
from tests.hub.postgres import Server
from tests.shared.machines import STORE, make_team
from tests.shared.proxy import Proxy

__all__ = ["browser"]
pytestmark = pytest.mark.timeout(300)

expect.set_options(timeout=PATIENCE_MS)


def test_the_page_shows_what_is_shared(hub_server: Server, browser: Browser, tmp_path: Path) -> None:
    """Beside the name of the session, at once and after the daemon came back; nothing at a session that is not shared."""
    with ThreadPoolExecutor(1) as thread:  # Playwright has a loop in this one
        thread.submit(make_team, hub_server, "page").result()
    link = Proxy(hub_server.port)
    url = hub_server.url("ada", "page", port=link.port, tcp=True)
    web = Web(tmp_path, browser, f'[stores.{STORE}]\nurl = "{url}"\n')
    web.start()
    try:
        client = web.client()
        session = client.call("session/new", store=STORE, name="one")["session"]["sessionId"]
        client.call("session/new", sessionId="own", name="own", messages=[{"role": "user", "content": "x"}])
        page = web.open()
        web.show(page, quote(session, safe=""))
        sharing = page.locator(".named .sharing")
        expect(sharing).to_have_text("shared")
        link.cut()
        expect(sharing).to_have_text(re.compile(r"^offline since \d{1,2}:\d\d( [AP]M)?$"))
        for text in ("a", "b"):
            client.call("session/append", sessionId=session, messages=[{"role": "user", "content": text}])
        expect(sharing).to_have_text(re.compile(r"^offline since .*, 2 waiting$"))
        expect(page.locator(".message .role")).to_have_text(["Ada", "Ada"])
        web.kill()
        Home.start(web)
        web.listen()
        expect(sharing).to_have_text(re.compile(r"^offline since .*, 2 waiting$"))
        link.heal()
        expect(sharing).to_have_text("shared")
        web.show(page, "own")
        expect(page.locator(".named h2")).to_have_text("own")
        expect(sharing).to_have_text("")
        assert [one for one in web.errors if "WebSocket" not in one and "ERR_CONNECTION" not in one] == []
    finally:
        web.stop()
        link.close()
