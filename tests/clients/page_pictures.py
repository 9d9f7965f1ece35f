"""The pictures of the page, in Chromium. `tests.clients.pictures` takes them."""

from __future__ import annotations

import io
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from tests.clients.browsers import Web, chromium, say, until

ANSWER = '''Three things can go wrong between the write and the answer:

1. The bytes are in memory, not on the disk. `fdatasync` is what makes them durable.
2. The rename is not: sync the **folder** too.
3. A torn last record looks like data. Give each one a length and a sum.

```python
def commit(log, record):
    """Durable when it returns."""
    log.write(frame(record))   # length, checksum, body
    os.fdatasync(log.fileno())
    return record.seq
```

| step | survives a crash | survives a power failure |
|------|:---:|:---:|
| `write` | yes | no |
| `fdatasync` | yes | yes |
'''
OTHERS = [
    ("Watering plan for the balcony", ["home"]), ("A parser for the config format", ["work", "python"]), ("Night trains to the coast", ["travel"]),
    ("Why the dough will not rise", ["home"]), ("Rebuilding the search index", ["work"]), ("Letter to the library", []),
    ("Split the scheduler in two", ["work", "python"]),
]  # fmt: skip


def fill(web: Web) -> None:
    client = web.client()
    for number, (name, tags) in enumerate(OTHERS):
        client.call("session/new", sessionId=f"other-{number}", name=name, tags=tags, model="local")
        say(
            client,
            f"other-{number}",
            *(f"What about the {word} of the index?" for word in ("size", "order", "age")[: number % 3 + 1]),
        )
    client.call(
        "session/new", sessionId="durable", name="When is a write really durable?", tags=["work"], model="local"
    )
    call = {"id": "c", "name": "read_file", "arguments": {"path": "journal/writer.py"}}
    client.call("session/append", sessionId="durable", messages=[
        {"role": "user", "content": "A program says “saved”, then the power fails. What has to happen **before** it may say that?"},
        {"role": "assistant", "content": "Let me look at how the journal does it.", "thinking": "The code is the best answer.", "toolCalls": [call]},
        {"role": "tool", "toolCallId": "c", "content": "def commit(log, record): ..."},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "And if the sync itself fails?"},
        {"role": "assistant", "content": "Then nothing that was in flight may be acknowledged, and **no retry** helps", "status": "streaming"},
    ])  # fmt: skip


AGENTS = [
    ("codex", "gpt-5.3-codex"),
    ("claude-code", "claude-opus-4-8"),
    ("pi", "claude-opus-4-8"),
    ("gemini-cli", "gemini-3-pro"),
]


def use(web: Web) -> None:
    """Thirty days with four agents."""
    chance, client, now = random.Random(1), web.client(), datetime.now(UTC)
    for number, (tool, model) in enumerate(AGENTS):
        messages = []
        for _ in range(40 - 8 * number):
            at = now - timedelta(days=chance.randrange(30))
            tokens = {
                "model": model, "input": chance.randrange(50_000), "cacheRead": chance.randrange(900_000),
                "cacheWrite": chance.randrange(80_000), "output": chance.randrange(60_000),
                **({"cost": chance.random() * 3} if tool != "gemini-cli" else {}),
            }  # fmt: skip
            stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            messages.append(
                {"role": "assistant", "content": "Done.", "timestamp": stamp, "metadata": {"tokens": tokens}}
            )
        name, tags = OTHERS[number]
        about = {"source": {"tool": tool}}
        folder = f"/home/me/{('engine', 'engine', 'site', 'notes')[number]}"
        client.call("session/new", name=name, tags=tags, model=model, cwd=folder, messages=messages, metadata=about)


def picture(page: Page, file: Path) -> None:
    """A small one: 128 colours."""
    page.evaluate("document.activeElement.blur()")
    whole = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
    whole.quantize(128, dither=Image.Dither.NONE).save(file, optimize=True)


def take(folder: Path) -> None:
    """All of them: a session, a search, a phone, the use of tokens, each light and dark."""
    with tempfile.TemporaryDirectory(prefix="sd-") as home, chromium() as browser, Web(Path(home), browser) as web:
        use(web)
        fill(web)
        for look in ("light", "dark"):
            page = web.open(viewport={"width": 1080, "height": 760}, color_scheme=look)
            page.wait_for_selector("a.row")
            web.show(page, "durable")
            page.wait_for_selector(".streaming")
            picture(page, folder / f"web-session-{look}.png")
            page.click(".timeline summary")
            page.fill("#query", "index")
            page.wait_for_selector("a.hit")
            page.wait_for_selector(".months button")
            picture(page, folder / f"web-search-{look}.png")
            phone = web.open(viewport={"width": 390, "height": 760}, color_scheme=look)
            phone.wait_for_selector("a.row")
            web.show(phone, "durable")
            phone.wait_for_selector(".streaming")
            until(phone, "document.fonts.status === 'loaded'")
            picture(phone, folder / f"web-phone-{look}.png")
            page.fill("#query", "")
            page.click(".timeline summary")
            page.goto(f"{web.url}#/usage")
            page.wait_for_selector(".charts > .chart:nth-child(2) table")
            picture(page, folder / f"web-usage-{look}.png")
        assert web.errors == []
