"""Editors for tests: one runs `sessiond acp -- AGENT` and speaks the protocol with it, others join it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from sessiond.client import Message, SessionNotFound
from tests.shell import Shell, wait_until

AGENT = Path(__file__).with_name("agent.py")


class Peer:
    """An editor over a process that is an agent to it. `session`: what the agent calls its session."""

    def __init__(self, process: subprocess.Popen[Any], session: str) -> None:
        self.process = process
        self.session = session
        self._last = 0
        self.heard: list[dict[str, Any]] = []
        self._parts: dict[str, list[str]] = {}
        """Texts by kind of update."""
        self._lines: SimpleQueue[bytes] | None = None

    def follow(self) -> None:
        """Read all that comes from here on, as an editor does, also while the test does not ask for it."""
        self._lines = lines = SimpleQueue()
        out = self.process.stdout
        assert out is not None

        def read() -> None:
            for line in out:
                lines.put(line)
            lines.put(b"")

        threading.Thread(target=read, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> int:
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        return self._last

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline() if self._lines is None else self._lines.get()
        if not line:
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        self.heard.append(message)
        if message.get("method") == "session/update":
            update = message["params"]["update"]
            if update["sessionUpdate"].endswith("_chunk"):
                self._parts.setdefault(update["sessionUpdate"], []).append(update["content"]["text"])
        return message

    def first(self, test: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message that passes, of those that have come or will come."""
        for message in self.heard:
            if test(message):
                return message
        while not test(message := self.read()):
            pass
        return message

    def until(self, number: int) -> dict[str, Any]:
        """The response to a request."""
        return self.first(lambda message: message.get("id") == number and "method" not in message)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The response to a request made now."""
        return self.until(self.request(method, **params))

    def initialize(self) -> dict[str, Any]:
        """What the agent can, as the editor sees it."""
        about = {"name": type(self).__name__, "version": "1"}
        answer = self.call("initialize", protocolVersion=1, clientCapabilities={}, clientInfo=about)
        found: dict[str, Any] = answer["result"]["agentCapabilities"]
        return found

    def load(self, session: str, method: str = "session/load") -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The response, and the updates that came before it."""
        self.session = session
        begin = len(self.heard)
        answer = self.call(method, sessionId=session, cwd="/tmp", mcpServers=[])
        heard = [one for one in self.heard[begin:] if one.get("method") == "session/update"]
        assert all(one["params"]["sessionId"] == session for one in heard)
        return answer, [one["params"]["update"] for one in heard]

    def prompt(self, text: str) -> int:
        return self.request("session/prompt", sessionId=self.session, prompt=[{"type": "text", "text": text}])

    def cancel(self) -> None:
        self.send({"method": "session/cancel", "params": {"sessionId": self.session}})

    def asked(self) -> int:
        """The agent's question for permission."""
        return int(self.first(lambda message: message.get("method") == "session/request_permission")["id"])

    def choose(self, number: int, option: str) -> None:
        self.send({"id": number, "result": {"outcome": {"outcome": "selected", "optionId": option}}})

    def end(self) -> int:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.stdin = None  # nobody flushes it again
        return self.process.wait(30)

    def close(self) -> None:
        """It is gone at once, as after a kill."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stdin = self.process.stdout = None

    @property
    def said(self) -> str:
        """All text of the agent that came here."""
        return "".join(self._parts.get("agent_message_chunk", ()))

    def texts(self, kind: str, until: str) -> str:
        """The texts of one kind that have come, once they end so."""
        parts = self._parts.setdefault(kind, [])

        def there() -> bool:
            last = parts[-1] if parts else ""  # a look at it spares most of the work
            return (until.endswith(last) or last.endswith(until)) and "".join(parts).endswith(until)

        while not there():
            self.read()
        return "".join(parts)


class Editor(Peer):
    """The editor that has the agent."""

    def __init__(
        self,
        shell: Shell,
        session: str = "s1",
        *,
        check: bool = False,
        replay: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        mode = [] if replay is None else ["--replay", replay]
        agent = [sys.executable, str(AGENT), session, *(["--check"] if check else []), *options]
        super().__init__(shell.start("acp", *mode, "--", *agent, stderr=subprocess.DEVNULL), session)

    def begin(self) -> None:
        self.initialize()
        self.session = self.call("session/new", cwd="/tmp", mcpServers=[])["result"]["sessionId"]


class Joiner(Peer):
    """An editor that joins."""

    def __init__(self, shell: Shell, name: str = "acp-s1", session: str = "s1") -> None:
        super().__init__(shell.start("acp", "--join", name, stderr=subprocess.DEVNULL), session)
        self.able = self.initialize()

    def open(self, method: str = "session/load", **params: Any) -> dict[str, Any]:
        """The response to how it begins."""
        given = {} if method == "session/new" else {"sessionId": self.session}
        return self.call(method, **{"cwd": "/tmp", "mcpServers": [], **given, **params})


def spools(shell: Shell) -> list[Path]:
    folder = shell.data / "acp"
    return sorted(folder.glob("*.spool")) if folder.exists() else []


def recorded(shell: Shell, session: str = "acp-s1") -> list[Message]:
    """The messages of a session once no spool is left."""
    wait_until(lambda: not spools(shell))
    with shell.client() as client:
        try:
            return client.session(session).messages()
        except SessionNotFound:
            return []
