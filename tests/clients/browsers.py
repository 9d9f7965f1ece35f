"""The real Chromium, a real daemon with its WebSocket, and the page in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from sessiond.daemon import codes
from tests.home import Client, Home
from tests.programs import need

BROWSER = Path(__file__).resolve().parents[2] / "clients" / "browser"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
PATIENCE_MS = 30_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips with the reason where there is none."""
    program = need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, headless=True)
        yield browser
        browser.close()


class Web(Home):
    """A home whose daemon listens on WebSocket, and tabs of its page."""

    def __init__(self, path: Path, browser: Browser, config: str = "") -> None:
        super().__init__(path, config)
        self.browser = browser
        self.port = 0
        self.errors: list[str] = []
        """What scripts of the page threw, and what the policy stopped."""
        self._contexts: list[BrowserContext] = []

    def start(self) -> None:
        super().start()
        self.listen()

    def listen(self) -> None:
        """Again on the same port, after the first time."""
        self.holder = self.client()
        address = self.holder.call("daemon/listen", kind="ws", host="127.0.0.1", port=self.port)
        self.port = address["port"]
        self.token = Path(address["tokenFile"]).read_text().strip()
        self.instance = self.holder.call("daemon/hello")["instanceId"]

    def stop(self) -> None:
        for context in self._contexts:
            context.close()
        super().stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def link(self) -> str:
        """As `sessiond web` makes it."""
        return f"{self.url}#code={codes.make(self.token, self.instance, self.port)}"

    def context(self, **options: Any) -> BrowserContext:
        context = self.browser.new_context(
            **{"locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        return context

    def tab(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """A new tab with nothing in it yet."""
        page = (context or self.context(**options)).new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.errors.append(said.text))
        return page

    def open(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """The page, let in and connected."""
        page = self.tab(context, **options)
        page.goto(self.link())
        page.wait_for_selector("html[data-connection=open]")
        return page

    def show(self, page: Page, session_id: str, seq: int | None = None) -> None:
        """Open a session in the page and wait till its messages are there."""
        page.evaluate("hash => { location.hash = hash }", f"#/s/{session_id}" + (f"/{seq}" if seq else ""))
        page.wait_for_selector(".session .tools button")


def served(origin: str, files: dict[str, str]) -> Any:
    """A route handler for a program of another origin: `files` are path -> HTML; the client's modules lie beside them."""

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(origin).partition("?")[0].lstrip("/")
        if path in files:
            route.fulfill(body=files[path], content_type="text/html")
        elif (BROWSER / path).is_file():
            route.fulfill(body=(BROWSER / path).read_text(), content_type="text/javascript")
        else:
            route.fulfill(status=404)

    return answer


def say(client: Client, session_id: str, *texts: str, role: str = "user") -> None:
    """Append messages."""
    client.call("session/append", sessionId=session_id, messages=[{"role": role, "content": text} for text in texts])


def in_ci() -> bool:
    return os.environ.get("CI") == "true"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def web(tmp_path: Path, browser: Browser) -> Iterator[Web]:
    with Web(tmp_path, browser) as made:
        yield made
        assert made.errors == []
