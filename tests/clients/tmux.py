"""A program at a real terminal: tmux's. What it shows is what a person would see."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.processes import is_running
from tests.programs import need
from tests.shell import wait_until


class Terminal:
    """One program in a terminal of its own, with a tmux server of its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path, columns: int = 100, rows: int = 40
    ) -> None:
        self._tmux = [need("tmux"), "-u", "-S", str(folder / "tmux"), "-f", os.devnull]
        self._env = {**env, "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        # The screen stays when the program has ended, so that its last words can be read.
        self._run(
            "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh -c 'read -r _ <&3; exec cat' 3</dev/null"
        )
        self._run("set-option", "-g", "remain-on-exit", "on")
        self._run("set-option", "-g", "history-limit", "10000")
        self._run("respawn-window", "-k", shlex.join(command))

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], env=self._env, capture_output=True, check=False, timeout=20)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    @property
    def screen(self) -> str:
        """All that it shows, scrolled off or not."""
        return self._run("capture-pane", "-p", "-J", "-S", "-")

    @property
    def coloured(self) -> str:
        """What is on the screen now, with the escape sequences of its colours."""
        return self._run("capture-pane", "-p", "-e")

    @property
    def ended(self) -> bool:
        return self._run("display-message", "-p", "#{pane_dead}").strip() == "1"

    @property
    def pid(self) -> int:
        return int(self._run("display-message", "-p", "#{pane_pid}"))

    def type(self, text: str, *keys: str) -> None:
        """Text as it is, then keys by name (Enter, C-c, M-Enter, Tab, Up)."""
        if text:
            self._run("send-keys", "-l", text)
        for key in keys:
            self._run("send-keys", key)

    def say(self, text: str) -> None:
        self.type(text, "Enter")

    def paste(self, text: str) -> None:
        """As a terminal pastes where the program asked for brackets around it."""
        self._run("set-buffer", text)
        self._run("paste-buffer", "-p", "-r")

    def shows(self, text: str, times: int = 1) -> str:
        """Wait until it is there that often. The screen that showed it: the next one may be in the midst of being drawn."""
        screen = ""

        def is_there() -> bool:
            nonlocal screen
            screen = self.screen
            return screen.count(text) >= times

        try:
            wait_until(is_there)
        except AssertionError:
            raise AssertionError(f"{text!r} is not there {times} times:\n{screen}") from None
        return screen

    def close(self) -> None:
        """Ends the program as somebody does who closes the window, and waits for its last act."""
        pid = None if self.ended else self.pid
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=20)
        if pid is not None:
            wait_until(lambda: not is_running(pid))
