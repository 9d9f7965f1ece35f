"""A process that has imported the daemon once and forks it on request: a start costs milliseconds instead of a third of a
second, so that thousands of rounds of kill -9 can be run. The fork is the real daemon from `main` on.

The other side, `python -m tests.zygote`, reads one JSON document per line: `{"env", "log"}` forks, `{"wait": pid}` reaps.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from tests.home import START_S, Home

ROOT = Path(__file__).resolve().parent.parent


class Zygote:
    """May be used from several threads. `within`: a command that starts it in other surroundings (`setpriv ...`)."""

    def __init__(self, within: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "tests.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def fork(self, env: dict[str, str], log: Path) -> Forked:
        return Forked(self, self._ask({"env": env, "log": str(log)}))

    def ended(self, pid: int) -> int | None:
        """The exit code (negative: the signal), None while it runs."""
        answer = self._ask({"wait": pid})
        return None if answer is None else int(answer)

    def _ask(self, question: dict[str, Any]) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with self._lock:
            stdin.write(json.dumps(question) + "\n")
            stdin.flush()
            return json.loads(stdout.readline())

    def close(self) -> None:
        self._process.communicate()


class Forked:
    """As much of a `Popen` as `Home` uses."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._zygote = zygote

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._zygote.ended(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (START_S if timeout is None else timeout)
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"the daemon {self.pid} does not end"
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedHome(Home):
    """A home whose daemon is forked."""

    def __init__(self, zygote: Zygote, path: Path, config: str = "", env: dict[str, str] | None = None) -> None:
        super().__init__(path, config, env)
        self._zygote = zygote

    def spawn(self) -> Any:
        return self._zygote.fork(self.env, self.path / "daemon.err")


def serve(questions: IO[str], answers: IO[str]) -> None:
    import sessiond.daemon.core
    import sessiond.daemon.log  # noqa: F401

    for line in questions:
        question = json.loads(line)
        answer: Any
        if "wait" in question:
            pid, status = os.waitpid(question["wait"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                _become_daemon(question["env"], question["log"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _become_daemon(env: dict[str, str], log: str) -> None:
    from sessiond.daemon import process

    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(env)
    process.main({}, None)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
