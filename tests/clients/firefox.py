"""Debian's Firefox as a browser for tests, through WebDriver BiDi, which it speaks by itself."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.programs import need

START_S = 60.0
PATIENCE_S = 20.0
PREFERENCES = """
user_pref("app.update.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
user_pref("ui.prefersReducedMotion", 1);
"""


class Firefox:
    """One window, and the newest tab in it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        """What scripts of the page threw or logged as an error."""
        self._call("session.new", capabilities={})
        self._call("session.subscribe", events=["log.entryAdded"])
        self._context = self._call("browsingContext.getTree")["contexts"][0]["context"]

    def _call(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv(timeout=START_S))
            if said.get("method") == "log.entryAdded" and said["params"]["level"] == "error":
                self.errors.append(str(said["params"]["text"]))
            if said.get("id") == number:
                assert said["type"] == "success", said
                return said["result"]

    def new_tab(self) -> None:
        """Everything that follows is in it."""
        self._context = self._call("browsingContext.create", type="tab")["context"]

    def goto(self, url: str) -> None:
        self._call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression that gives text, a number, true, false or null."""
        found = self._call(
            "script.evaluate", expression=expression, target={"context": self._context}, awaitPromise=True
        )
        assert found["type"] == "success", found
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, f"not so: {expression}\n{self.evaluate('document.body.innerText')}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def keys(self, *keys: str) -> None:
        """Press and release each key, given as its character (WebDriver's code points for those without one)."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call(
            "input.performActions", context=self._context, actions=[{"type": "key", "id": "keyboard", "actions": steps}]
        )


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """Skips with the reason if it is not installed; fails with CI=true."""
    program = need("firefox-esr")
    profile = folder / "firefox"
    profile.mkdir()
    (profile / "user.js").write_text(PREFERENCES)
    command = [
        "timeout",
        "-s",
        "KILL",
        "200",
        program,
        "--headless",
        "--no-remote",
        "--profile",
        str(profile),
        "--remote-debugging-port",
        "0",
        "about:blank",
    ]
    log = (folder / "firefox.log").open("wb")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        address = _address(folder / "firefox.log", process)
        with connect(f"{address}/session", open_timeout=START_S, max_size=None) as socket:
            yield Firefox(socket)
    finally:
        process.terminate()
        process.wait(START_S)
        log.close()


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where it listens, which it says when it does."""
    deadline = time.monotonic() + START_S
    while True:
        for line in log.read_text("utf-8", "replace").splitlines():
            if "WebDriver BiDi listening on " in line:
                return line.rpartition(" ")[2]
        assert process.poll() is None, log.read_text("utf-8", "replace")
        assert time.monotonic() < deadline, "Firefox does not listen"
        time.sleep(0.05)
