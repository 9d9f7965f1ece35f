"""The real VS Code as tests run it: code-server's build of it, and Chromium as its window."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.clients.vims import ROOT, WIRE, House
from tests.programs import need
from tests.shell import Shell, wait_until

CLIENT = ROOT / "clients" / "vscode"
VERSION = "4.139.1"
"""Of code-server: VS Code 1.139. `vscode_install` brings the same."""
CACHE = Path(os.environ.get("SESSIOND_CACHE") or Path.home() / ".cache" / "sessiond-tests") / f"code-server-{VERSION}"
SERVER = CACHE / "node_modules" / "code-server"
WORKBENCH = SERVER / "lib" / "vscode" / "out" / "vs" / "code" / "browser" / "workbench" / "workbench.js"
NODE = CACHE / "node_modules" / "node" / "bin" / "node"
WINDOW = {"width": 1280, "height": 800}
CHROMIUM = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    " --disable-sync --lang=en-US"
).split()
LIGHT, DARK = "Default Light Modern", "Default Dark Modern"
SETTINGS = {
    "workbench.startupEditor": "none",
    "chat.disableAIFeatures": True,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
}
START_S = 90.0
RUN_S = 280


def installed(*more: Path) -> None:
    """Skips (fails with CI=true) where VS Code, its browser or something else is missing."""
    for path in (NODE, SERVER / "lib" / "vscode" / "node_modules", *more):
        if not path.exists():
            reason = f"{path.name} is not installed: sh tests/clients/vscode_install"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
    chromium()


def chromium() -> str:
    return need("chromium")


def node(*arguments: str, at: House | None = None, env: dict[str, str] | None = None) -> str:
    """What a script prints; AssertionError with everything where it fails."""
    done = subprocess.run(
        ["timeout", "-s", "KILL", str(RUN_S), str(NODE), *arguments],
        cwd=CLIENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**(at.env if at else os.environ), **(env or {})},
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build() -> None:
    """Bundles the extension and its tests, unless that was done of these very sources: a process next to this one may be running them."""
    files = [
        CLIENT / "esbuild.mjs",
        CLIENT / "package.json",
        *(CLIENT / "src").rglob("*.ts"),
        *(CLIENT / "test").rglob("*.ts"),
    ]
    sources = "\n".join(f"{path} {path.stat().st_mtime_ns}" for path in sorted(files))
    built = CLIENT / "out" / "sources"
    with (CLIENT / "node_modules" / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = built.exists() and (CLIENT / "dist" / "extension.js").exists()
        if not there or built.read_text() != sources:
            node("esbuild.mjs", "--tests")
            built.write_text(sources)


def package(at: House) -> Path:
    """The extension as a person installs it, made by the documented steps."""
    path = at.path / "sessiond.vsix"
    with (CLIENT / "node_modules" / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        node("package.mjs", str(path))
    return path


@contextlib.contextmanager
def _served(command: Sequence[str], at: House | Shell, env: dict[str, str], listening: str) -> Iterator[str]:
    """Runs a server until the block ends; answers its port, which the first group of `listening` matches in what it prints."""
    log = at.path / "vscode.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["timeout", "-s", "KILL", str(RUN_S), *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            # VSCODE_CLI: the environment is ours; VS Code does not have to ask a login shell for it.
            env={**at.env, "VSCODE_CLI": "1", **env},
        )
    try:
        wait_until(
            lambda: re.search(listening, log.read_text("utf-8", "replace")) or process.poll() is not None, START_S
        )
        found = re.search(listening, log.read_text("utf-8", "replace"))
        assert found, log.read_text("utf-8", "replace")
        yield found[1]
    finally:
        process.terminate()
        process.wait(START_S)


@contextlib.contextmanager
def _page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM)
        try:
            yield browser.new_page(viewport=WINDOW)
        finally:
            browser.close()


def run_suite(at: House, folder: Path, tests: str) -> str:
    """Runs a part of the suite in the extension host; what it printed. AssertionError with that unless all is well."""
    result = at.path / "result"
    command = [
        str(NODE),
        str(SERVER / "lib" / "vscode" / "out" / "server-main.js"),
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    ]
    command += ["--without-connection-token", "--enable-smoke-test-driver", "--accept-server-license-terms"]
    command += ["--disable-workspace-trust", "--telemetry-level", "off", "--server-data-dir", str(at.path / "vscode")]
    env = {"SESSIOND_TESTS": tests, "SESSIOND_RESULT": str(result), "SESSIOND_WIRE": " ".join(map(str, WIRE))}
    env["SESSIOND_GREP"] = os.environ.get("SESSIOND_GREP", "")
    printed: list[str] = []
    ended: list[int] = []
    with _served(command, at, env, r"listening on (\d+)") as port, _page() as page:
        host = f"127.0.0.1:{port}"
        page.expose_function(
            "codeAutomationLog", lambda kind, args: printed.append(f"{kind}: {' '.join(map(str, args))}")
        )
        page.expose_function("codeAutomationExit", lambda code, _logs=None: ended.append(code))
        payload = [
            ["extensionDevelopmentPath", f"vscode-remote://{host}{CLIENT}"],
            ["extensionTestsPath", f"vscode-remote://{host}{CLIENT / 'out' / 'host' / 'index.js'}"],
        ]
        page.goto(f"http://{host}/?folder={quote(str(folder))}&payload={quote(json.dumps(payload))}")
        for _ in range(RUN_S * 10):
            if ended:
                break
            page.wait_for_timeout(100)
    said = result.read_text("utf-8") if result.exists() else "\n".join(printed)
    assert ended == [0], f"ended with {ended}\n{said}\n{_logs(at)}"
    assert said.startswith("ok "), said
    return said


def _logs(at: House) -> str:
    """What the extension wrote into its log."""
    return "\n".join(path.read_text("utf-8", "replace") for path in sorted((at.path / "vscode").rglob("*sessiond.log")))


@contextlib.contextmanager
def whole(at: House, package: Path, folder: Path, theme: str = LIGHT) -> Iterator[Any]:
    """A window of VS Code with the extension installed, and `folder` open in it."""
    entry = [str(NODE), str(SERVER / "out" / "node" / "entry.js")]
    folders = ["--user-data-dir", str(at.path / "user"), "--extensions-dir", str(at.path / "extensions")]
    settings = at.path / "user" / "User" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({**SETTINGS, "workbench.colorTheme": theme}))
    env = {**at.env, "VSCODE_CLI": "1"}
    installing = ["timeout", "-s", "KILL", str(RUN_S), *entry, *folders, "--install-extension", str(package)]
    done = subprocess.run(installing, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False)
    assert "successfully installed" in done.stdout, done.stdout + done.stderr
    flags = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"]
    flags += ["--disable-workspace-trust", "--disable-getting-started-override"]
    with _served([*entry, *folders, *flags], at, {}, r"listening on http://127.0.0.1:(\d+)") as port, _page() as page:
        page.set_default_timeout(START_S * 1000)
        page.goto(f"http://127.0.0.1:{port}/?folder={quote(str(folder))}")
        try:
            yield page
        except Exception:
            page.screenshot(path=str(at.path.parent / "vscode-failed.png"))
            raise


def seed(client: Any) -> None:
    """Sessions for the pictures."""
    answer = (
        "Because a batch is **whatever waits** when the last sync returns. With one client that is one record:\n\n"
        "```python\nwhile records := await queue.drain():\n    segments.write(records)   # one sync for all\n```\n\n"
        "- one client: a sync a message\n- forty clients: still one sync at a time, forty messages in it"
    )
    lines = [
        ("user", "The journal is synced once per batch. Why is one client no slower for it?"),
        ("assistant", answer),
    ]
    messages = [{"role": role, "content": text} for role, text in lines]
    tools = {
        "role": "assistant",
        "content": "Let me look.",
        "toolCalls": [{"id": "c1", "name": "grep", "arguments": {"pattern": "fdatasync"}}],
    }
    result = {"role": "tool", "toolCallId": "c1", "content": "journal/segments.py:88: self._sync(log)"}
    new = "session/new"
    client.call(
        new,
        sessionId="milk",
        name="Shopping list",
        tags=["home"],
        messages=[{"role": "user", "content": "remember the milk"}],
    )
    client.call(new, sessionId="regex", name="A regular expression for dates", tags=["work"], messages=messages[:1])
    client.call(
        new, sessionId="lid", name="Group commit", tags=["work", "journal"], messages=[*messages, tools, result]
    )


def open_sessions(page: Any) -> None:
    """Show the list of agents' sessions. A key that is pressed before the window listens is lost; a click that took too long may have
    done its work, and then the command is not offered again.
    """
    title = "Maximize Secondary Side Bar"
    chosen = page.locator(".quick-input-list .monaco-list-row", has_text=title).first
    for _ in range(30):
        page.keyboard.press("F1")
        with contextlib.suppress(Exception):
            page.locator(".quick-input-widget input").fill(f">{title}", timeout=3000)
            chosen.click(timeout=3000)
            return
        if page.locator(".monaco-workbench.nomaineditorarea").count():
            page.keyboard.press("Escape")
            return
    raise AssertionError("the window does not listen")


def rows(page: Any) -> Any:
    return page.locator(".tree-explorer-viewlet-tree-view .monaco-list-row")


def command(page: Any, title: str) -> None:
    page.keyboard.press("F1")
    page.locator(".quick-input-widget input").fill(f">{title}")
    page.locator(".quick-input-list .monaco-list-row", has_text=title).first.click()


def shows(page: Any, text: str) -> None:
    # The editor renders blanks as no-break spaces.
    page.locator(".view-lines", has_text=re.compile(re.escape(text).replace(r"\ ", r"\s"))).first.wait_for()


@contextlib.contextmanager
def agents(
    at: Shell, folder: Path, port: int = 0, token: str = "", theme: str = LIGHT, config: str = ""
) -> Iterator[Any]:
    """A window without any extension, whose agent host is ours, with the list of sessions open; as its page documents it. How to
    reach it says the command line, or a file of code-server's options, `config`.
    """
    entry = [str(NODE), str(SERVER / "out" / "node" / "entry.js")]
    folders = ["--user-data-dir", str(at.path / "user"), "--extensions-dir", str(at.path / "extensions")]
    settings = at.path / "user" / "User" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"workbench.startupEditor": "none", "workbench.colorTheme": theme}))
    flags = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"]
    flags += ["--disable-workspace-trust", "--disable-getting-started-override"]
    if config:
        flags += ["--config", config]
    else:
        for name, value in (("host", "127.0.0.1"), ("port", port), ("connection-token", token)):
            flags += ["--vscode-option", f"agent-host-bridge-{name}={value}"]
    with _served([*entry, *folders, *flags], at, {}, r"listening on http://127.0.0.1:(\d+)") as served, _page() as page:
        page.set_default_timeout(START_S * 1000)
        page.route(lambda url: "127.0.0.1" not in url and url.startswith("http"), lambda route: route.abort())
        page.goto(f"http://127.0.0.1:{served}/?folder={quote(str(folder))}")
        page.wait_for_selector(".monaco-workbench")
        try:
            open_sessions(page)
            yield page
        except Exception:
            page.screenshot(path=str(at.path.parent / "vscode-failed.png"))
            raise
