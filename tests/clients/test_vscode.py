"""The VS Code extension: its pure parts, its suite inside the real extension host, and once the whole user interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import vscodes
from tests.clients.vim_scenarios import contents, draft
from tests.clients.vims import WIRE, House, house
from tests.clients.vscodes import CLIENT
from tests.shell import wait_until

KEY = "draft:vscode"
SUITES = ("commands files", "live", "reconnect wire", "drafts trouble")
"""Parts of the suite that share one VS Code."""

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def built() -> None:
    """The bundles are those of the sources as they are."""
    vscodes.installed(vscodes.CLIENT / "node_modules")
    vscodes.build()


@pytest.fixture
def at(built: None) -> Iterator[House]:
    with house() as made:
        (made.path / "work").mkdir()
        yield made


def test_types(built: None) -> None:
    """The sources and the tests are well typed."""
    vscodes.node("node_modules/typescript/bin/tsc", "--noEmit")


def test_pure_parts(built: None) -> None:
    """What needs neither VS Code nor a daemon does what it says."""
    said = vscodes.node(
        "--test", *(f"out/unit/{path.stem}.js" for path in sorted((CLIENT / "test" / "unit").glob("*.ts")))
    )
    assert re.search(r"pass [1-9]", said), said


@pytest.mark.parametrize("wire", WIRE, ids=lambda path: path.stem)
def test_transcript(at: House, wire: Path) -> None:
    """The daemon answers as the wire transcript says, and whoever follows it as the extension does holds in the end what the daemon has."""
    assert "ok" in vscodes.node("out/wire/wire.js", at=at, env={"SESSIOND_WIRE": str(wire)})


@pytest.mark.parametrize("tests", SUITES)
def test_in_the_extension_host(at: House, tests: str) -> None:
    """Every test of these files under clients/vscode/test/host passes inside VS Code."""
    said = vscodes.run_suite(at, at.path / "work", tests)
    assert "FAILED" not in said, said


def test_the_manifest_names_what_is_there() -> None:
    """Commands of menus and keys are declared; every setting and command has a row in the README; versions are exact."""
    manifest = json.loads((CLIENT / "package.json").read_text())
    contributes = manifest["contributes"]
    commands = {command["command"] for command in contributes["commands"]}
    used = {entry["command"] for menu in contributes["menus"].values() for entry in menu}
    assert used | {key["command"] for key in contributes["keybindings"]} <= commands
    readme = (CLIENT / "README.md").read_text()
    assert [name for name in contributes["configuration"]["properties"] if f"`{name}`" not in readme] == []
    offered = {entry["command"] for entry in contributes["menus"]["commandPalette"] if entry.get("when") == "false"}
    titles = [command["title"] for command in contributes["commands"] if command["command"] not in offered]
    assert [title for title in titles if title not in readme] == []
    assert all(re.fullmatch(r"[0-9.]+", version) for version in manifest["devDependencies"].values())
    assert not (CLIENT / "package-lock.json").exists()


REMEMBERS = """async (tabs) => {
    for (const { name } of await indexedDB.databases()) {
        if (!name.startsWith('vscode-web-state-db')) continue;
        const db = await new Promise((resolve, reject) => {
            const asked = indexedDB.open(name);
            asked.onsuccess = () => resolve(asked.result);
            asked.onerror = () => reject(asked.error);
        });
        const values = await new Promise((resolve, reject) => {
            const asked = db.transaction('ItemTable').objectStore('ItemTable').get('memento/workbench.parts.editor');
            asked.onsuccess = () => resolve(asked.result);
            asked.onerror = () => reject(asked.error);
        });
        db.close();
        if (tabs.every((tab) => String(values).includes(tab))) return true;
    }
    return false;
}"""


def _remembered(page: Any, *tabs: str) -> None:
    """Waits until VS Code, which writes down every few seconds which tabs are open, has written down these."""

    def written() -> bool:
        page.wait_for_timeout(200)  # it writes when it has nothing else to do
        return bool(page.evaluate(REMEMBERS, list(tabs)))

    # Not `wait_for_function`: that takes the promise of an answer for a yes.
    wait_until(written, vscodes.START_S)


def test_the_whole_user_interface(at: House) -> None:
    """Installed from its package, by mouse and keys: the tree, a session, live words of others, search, a message, a draft that outlives the window."""
    client = at.client()
    vscodes.seed(client)
    with vscodes.whole(at, vscodes.package(at), at.path / "work") as page:
        page.get_by_role("tab", name="Sessions").click()
        vscodes.rows(page).filter(has_text="Group commit").wait_for()
        assert vscodes.rows(page).filter(has_text="Shopping list").count() == 1
        vscodes.rows(page).filter(has_text="Group commit").click()
        vscodes.shows(page, "one sync for all")
        page.get_by_role("button", name=re.compile("Group commit:4")).wait_for()

        client.call(
            "session/append",
            sessionId="lid",
            messages=[{"id": "r", "role": "assistant", "content": "Seen", "status": "streaming"}],
        )
        client.call("session/extend", sessionId="lid", messageId="r", text=" live from another client")
        vscodes.shows(page, "Seen live from another client")
        page.get_by_role("button", name=re.compile("Group commit:5")).wait_for()

        vscodes.command(page, "Sessions: Write a Message")
        page.locator(".tab", has_text="To Group commit").wait_for()
        page.keyboard.type("Does it hold after a crash?")
        wait_until(lambda: draft(client, "lid", KEY) == "Does it hold after a crash?")
        client.call("session/extend", sessionId="lid", messageId="r", text=": and it goes on while you type.")
        vscodes.shows(page, "it goes on while you type.")

        # Another window: what was typed is there again, and so is the conversation.
        _remembered(page, "/sessiond-chat/lid/", "/sessiond-draft/lid/")
        page.reload()
        vscodes.shows(page, "it goes on while you type.")
        vscodes.shows(page, "Does it hold after a crash?")
        page.locator(".tab", has_text="To Group commit").click()
        page.locator(".editor-instance:focus-within, .monaco-editor.focused").first.wait_for()
        page.keyboard.press("Control+Enter")
        wait_until(lambda: contents(client, "lid")[-1] == "Does it hold after a crash?")
        wait_until(lambda: draft(client, "lid", KEY) is None)

        vscodes.command(page, "Sessions: Search")
        page.locator(".quick-input-widget input").fill("sync")
        hit = page.locator(".quick-input-list .monaco-list-row", has_text="journal/segments.py")
        hit.wait_for()
        page.keyboard.press("Escape")

        at.kill_daemon(client)
        page.get_by_role("button", name=re.compile("Group commit:6")).wait_for()
        again = at.client()
        again.call("session/append", sessionId="lid", messages=[{"role": "user", "content": "after the crash"}])
        vscodes.shows(page, "after the crash")


def test_setup_says_how_to_install() -> None:
    """`sessiond setup vscode` names the command that makes the package and the one that installs it."""
    from tests.shell import Shell

    shell = Shell()
    try:
        done = shell("setup", "vscode")
    finally:
        shell.close()
    assert done.code == 0
    assert "code --install-extension" in done.out
    assert str(CLIENT) in done.out
    assert "npm run package" in done.out or (CLIENT / "sessiond.vsix").exists()
