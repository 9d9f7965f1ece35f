"""The site is whole: it builds without a warning, its links lead somewhere, and it needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import html5lib
import pytest
from playwright.sync_api import Page

from tests.clients.browsers import chromium, until
from tests.shell import ROOT, Shell
from tests.site.blocks import DOCS

BASE = "http://site/"
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
ANCHORS = {"a": "href"}


class Parsed:
    """The ids of a page and the addresses in it, by what they are for."""

    def __init__(self, path: Path) -> None:
        tree = html5lib.parse(path.read_text("utf-8"), namespaceHTMLElements=False)
        self.ids = {one.get("id") for one in tree.iter() if one.get("id")}
        self.links = [one.get("href") for one in tree.iter("a") if one.get("href")]
        self.loaded = [
            one.get(name) for tag, name in LOADED.items() for one in tree.iter(tag)
            if one.get(name) and one.get("rel") not in ("canonical", "next", "prev")
        ]  # fmt: skip


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[str, Parsed]:
    """Path below the site -> its page."""
    return {str(path.relative_to(site)): Parsed(path) for path in site.rglob("*.html")}


def test_every_page_is_there(parsed: dict[str, Parsed]) -> None:
    """Each Markdown file of the documentation has a page, and so has the index of decisions."""
    wanted = {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")}
    assert wanted <= set(parsed)
    assert "decisions/index.html" in parsed


def test_links_and_anchors_lead_somewhere(site: Path, parsed: dict[str, Parsed]) -> None:
    """Every link inside the site leads to a file of the site, and its anchor to an element with that id."""
    checked = 0
    for name, page in parsed.items():
        if name == "404.html":  # served under any address
            continue
        for link in page.links:
            address, anchor = urldefrag(urljoin(BASE + name, link))
            if urlsplit(address).netloc != "site":
                continue
            target = unquote(urlsplit(address).path).lstrip("/") or "index.html"
            assert (site / target).exists(), (name, link)
            if anchor and target in parsed:
                assert unquote(anchor) in parsed[target].ids | {"__top"}, (name, link)
            checked += 1
    assert checked > 2000


def test_nothing_is_loaded_from_elsewhere(site: Path, parsed: dict[str, Parsed]) -> None:
    """No page, style or script of the site makes a browser ask another machine."""
    for name, page in parsed.items():
        for address in page.loaded:
            assert urlsplit(urljoin(BASE + name, address)).netloc == "site", (name, address)
    for path in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//", path.read_text("utf-8")), path


@contextmanager
def shown(site: Path) -> Iterator[str]:
    """The address at which `sessiond docs` shows it."""
    home = Shell()
    program = f"from pathlib import Path\nfrom sessiond.cli import docs, main\ndocs.site = lambda: Path({str(site / 'index.html')!r})\nmain(['docs', '--print'])"
    process = subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True, env=home.env)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.terminate()
        process.communicate(timeout=30)
        home.close()


def fetch(address: str, host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(address, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_command_shows_it(site: Path) -> None:
    """Pages are served; folders are not listed; another Host, or a way out of the site, gets nothing."""
    with shown(site) as address:
        assert b"one daemon that keeps" in fetch(address)[1].lower()
        assert fetch(address + "assets/")[0] == 404
        assert fetch(address, host="evil.example")[0] == 403
        assert fetch(address + "../../../../../../etc/passwd")[0] == 404
        assert fetch(address + "%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd")[0] == 404


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Page]:
    """A tab of Chromium with the site's first page."""
    with shown(site) as address, chromium() as browser:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        made = context.new_page()
        made.goto(address)
        yield made


def test_search_works_without_a_network(page: Page) -> None:
    """In Chromium, the search finds a page by its words, and no request leaves the machine."""
    address = page.url
    elsewhere: list[str] = []
    page.on(
        "request",
        lambda asked: None if asked.url.startswith((address, "data:", "blob:")) else elsewhere.append(asked.url),
    )
    page.reload()
    page.keyboard.press("/")
    page.keyboard.type("acknowledged journal damaged")
    page.wait_for_selector(".md-search-result__item a[href*='what-if-it-breaks']")
    assert elsewhere == []


def test_what_is_copied_can_be_typed(page: Page) -> None:
    """The copy button takes a console block's commands without the prompts, which are shown all the same."""
    page.goto(urljoin(page.url, "how-to/share-a-session.html"))
    block = page.locator(".highlight", has_text="sessiond setup emacs --write")
    assert block.locator(".gp").first.evaluate("one => getComputedStyle(one, '::before').content") == '"$ "'
    block.hover()
    block.locator("button").click()
    until(page, "navigator.clipboard.readText().then((text) => text !== '')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines() == ["sessiond setup emacs --write", "sessiond setup vim --write"]


def test_a_copy_without_the_site_says_so(shell: Shell) -> None:
    """`sessiond docs` of an installation without the site names the two ways to read."""
    if os.path.exists(ROOT / "site" / "index.html"):
        pytest.skip("the site was built in this checkout")
    done = shell("docs")
    assert done.code == 1
    assert "sessiond help" in done.err
    assert "mkdocs build" in done.err
