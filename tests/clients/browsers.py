"""The real Chromium, a real daemon with its WebSocket, and the page in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from sessiond.daemon import codes
from tests.home import Client, Home
from tests.programs import need

BROWSER = Path(__file__).resolve().parents[2] / "clients" / "browser"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--host-resolver-rules=MAP rebound.example 127.0.0.1", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
PATIENCE_MS = 20_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips with the reason if it is not installed."""
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
        """Open a session in the page and wait until its messages are there."""
        page.evaluate("hash => { location.hash = hash }", f"#/s/{session_id}" + (f"/{seq}" if seq else ""))
        page.wait_for_selector(".session .tools button")


class Elsewhere:
    """A program's own pages on an origin of its own, with the client's modules next to them. `port`: 0 for any free one."""

    def __init__(self, pages: dict[str, str], port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                module = BROWSER / path.lstrip("/")
                if path in pages:
                    self._give(pages[path], "text/html; charset=utf-8")
                elif module.suffix == ".js" and module.is_file():
                    self._give(module.read_text(), "text/javascript; charset=utf-8")
                else:
                    self.send_error(404)

            def _give(self, text: str, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def until(page: Page, expression: str, arg: Any = None) -> None:
    """Wait until a script's expression (or function of `arg`) holds. Playwright's own waiting needs `eval`, which the page's
    policy forbids.
    """
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate(expression, arg):
        assert time.monotonic() < deadline, f"not so: {expression}"
        page.wait_for_timeout(10)


def say(client: Client, session_id: str, *texts: str, role: str = "user") -> None:
    """Append messages."""
    client.call("session/append", sessionId=session_id, messages=[{"role": role, "content": text} for text in texts])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def web(tmp_path: Path, browser: Browser) -> Iterator[Web]:
    with Web(tmp_path, browser) as made:
        yield made
        assert made.errors == []
