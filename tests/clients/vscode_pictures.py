"""The pictures of the VS Code extension, installed from its package in the real program, light and dark."""

from __future__ import annotations

import io
import re
from pathlib import Path

from PIL import Image

from tests.clients import vscodes
from tests.clients.vims import house

THEMES = {"light": vscodes.LIGHT, "dark": vscodes.DARK}


def take(folder: Path, work: Path) -> None:
    """A conversation that grows while its reply arrives, with all sessions next to it."""
    vscodes.installed(vscodes.CLIENT / "node_modules")
    vscodes.build()
    for look, theme in THEMES.items():
        with house() as at:
            client = at.client()
            vscodes.seed(client)
            with vscodes.whole(at, vscodes.package(at), work, theme) as page:
                page.get_by_role("tab", name="Sessions").click()
                vscodes.rows(page).filter(has_text="Group commit").click()
                vscodes.shows(page, "one sync for all")
                reply = {"id": "r", "role": "assistant", "content": "Seen live", "status": "streaming"}
                client.call("session/append", sessionId="lid", messages=[reply])
                client.call("session/extend", sessionId="lid", messageId="r", text=" in every client")
                vscodes.shows(page, "Seen live in every client")
                page.get_by_role("button", name=re.compile("Group commit:5")).wait_for()
                page.mouse.move(700, 600)
                vscodes.rows(page).filter(has_text=re.compile("Group commit *(works )?5")).wait_for()
                page.locator(".view-line .mtkb").first.wait_for()  # the grammar has coloured the text
                whole = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
                whole.quantize(128, dither=Image.Dither.NONE).save(folder / f"vscode-{look}.png", optimize=True)
            client.close()
