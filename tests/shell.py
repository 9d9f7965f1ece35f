"""The real program as a shell runs it, in a throwaway home, with whatever daemon that starts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sessiond.client import Sessiond, connect
from sessiond.endpoint import read_endpoint
from tests import processes

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 30.0


class Done:
    """How a command ended. It reads like a transcript where it is shown."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}--- stderr\n{self.err}"

    @property
    def json(self) -> Any:
        """Standard output as the one document that it must be."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"standard output is not a JSON document: {self!r}") from None


class Shell:
    """SESSIOND_HOME for one test. `close` ends whatever daemon runs there and removes it."""

    def __init__(self, **env: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="sd-"))  # short, so that the socket is in it
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "XDG_"))}
        path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
        self.env = {**kept, "SESSIOND_HOME": str(self.path), "PYTHONPATH": path, "TERM": "dumb", **env}
        self._running: list[subprocess.Popen[Any]] = []

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sessiond", *arguments]

    def __call__(self, *arguments: str, stdin: str = "", cwd: str = "/") -> Done:
        """`sessiond ARGUMENTS`, waited for."""
        done = subprocess.run(
            self.command(*arguments),
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.env,
            cwd=cwd,
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        """`sessiond ARGUMENTS` between pipes, ended with the test if it still runs."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(self.command(*arguments), **{**pipes, "env": self.env, "cwd": "/", **options})
        self._running.append(process)
        return process

    def client(self, *, start: bool = True, name: str = "test") -> Sessiond:
        """A blocking client of this home's daemon. `name`: what others see."""
        if start:
            assert self("status").code == 0
            self("list")
        return connect(home=str(self.path), start=False, name=name, timeout_s=DEADLINE_S)

    @property
    def data(self) -> Path:
        return self.path / "data"

    def pid(self) -> int:
        """The daemon's. A client may still be starting it, after a kill for instance: it is waited for."""
        wait_until(self.held)
        return int(self("status", "--json").json["pid"])

    def held(self) -> bool:
        """Whether some daemon has this home."""
        try:
            with open(self.data / "lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def kill(self) -> int:
        """kill -9 the daemon, as a crash would; returns when it is gone. Its pid."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        # A client may start the next one at once, so that the home is never seen without a daemon.
        wait_until(lambda: not self.held() or self._owner() not in (None, pid))
        return pid

    def _owner(self) -> int | None:
        record = read_endpoint(str(self.data))
        return None if record is None else record.pid

    def write_config(self, text: str) -> None:
        (self.path / "config").mkdir(exist_ok=True)
        (self.path / "config" / "config.toml").write_text(text)

    def close(self) -> None:
        for process in self._running:
            with contextlib.suppress(OSError):
                process.terminate()  # kill -9 would leave no measure of what it did
            try:
                process.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        if self.held() and self("stop").code != 0:
            record = read_endpoint(str(self.data))
            assert record is not None
            os.kill(record.pid, signal.SIGKILL)
        self._end_all()
        shutil.rmtree(self.path)

    def _is_over(self) -> bool:
        """A daemon that a client was still starting when the test ended is stopped too."""
        if self.held():
            self("stop")
        return not self.held() and not processes.of_home(self.path)

    def _end_all(self) -> None:
        """Nobody writes into the home any more when this returns. What a test has left running fails it, and says so."""
        try:
            wait_until(self._is_over)
        except AssertionError:
            left = processes.of_home(self.path)
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not self.held() and not processes.of_home(self.path))
            raise AssertionError(f"the test left processes of its home: {left}") from None


def on_terminal(shell: Shell, *arguments: str, **env: str) -> tuple[int, str]:
    """Exit code, and what the command writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    full = {**shell.env, "TERM": "xterm-256color", "COLUMNS": "100", "PAGER": "cat", **env}
    process = subprocess.Popen(shell.command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=full, cwd="/")
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal with EIO
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    return process.wait(30), shown.decode().replace("\r\n", "\n")


def wait_until(condition: Any, deadline_s: float = DEADLINE_S) -> None:
    """Ask again and again, a hundred times a second; fails the test after the deadline."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {deadline_s:g} s"
        time.sleep(0.01)
