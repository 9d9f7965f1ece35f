"""A window of VS Code as the host sees it: it subscribes, reduces actions, and comes back with the last number it saw."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.sync.client import connect, unix_connect

from sessiond.agent_host import shapes
from tests.agent_host.reducers import reduced
from tests.shell import Shell

VERSIONS = ["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"]
DEADLINE_S = 20.0
_OF_A_WINDOW = ("session/isReadChanged", "session/activeClientSet", "session/activeClientRemoved", "chat/draftChanged")
"""They change nothing that is looked at here."""


class Answered(Exception):
    """An error is the answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Host:
    """Where a daemon listens, as `daemon/listen` and `daemon/status` say it."""

    def __init__(self, address: dict[str, Any]) -> None:
        self.socket: str | None = address.get("socket")
        self.port = int(address.get("port", 0))
        self.token = ""
        if "tokenFile" in address:
            self.token = Path(address["tokenFile"]).read_text().strip()


def by_command(shell: Shell, *options: str, port: int = 0) -> tuple[Host, subprocess.Popen[Any]]:
    """The same by `sessiond --ahp PORT`, as long as that runs."""
    process = shell.start("--ahp", str(port), *options)
    assert process.stdout is not None
    address, _, file = process.stdout.readline().decode().strip().partition(", the token is in ")
    return Host({"port": address.rpartition(":")[2], "tokenFile": file}), process


class Window:
    def __init__(self, host: Host, *, token: str | None = None, **options: Any) -> None:
        query = f"/?tkn={host.token if token is None else token}"
        options = {"compression": None, "max_size": None, "open_timeout": DEADLINE_S, **options}
        if host.socket is None:
            self.socket = connect(f"ws://127.0.0.1:{host.port}{query}", **options)
        else:
            self.socket = unix_connect(host.socket, "ws://localhost/", **options)
        self._ids = itertools.count(1)
        self.states: dict[str, dict[str, Any]] = {}
        self._told: list[dict[str, Any]] = []
        self.echoes: list[dict[str, Any]] = []
        self.kinds: list[str] = []
        """Of the actions that came."""
        self.seen = 0
        """The largest number."""

    def close(self) -> None:
        self.socket.close()

    # Asking

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self.send(id=number, method=method, params=params)
        while True:
            message = self.hear()
            if message.get("id") == number:
                if "error" in message:
                    raise Answered(message["error"])
                return message["result"]

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    def hear(self) -> dict[str, Any]:
        """The next message; an action is applied."""
        message: dict[str, Any] = json.loads(self.socket.recv(timeout=DEADLINE_S))
        if message.get("method") == "action":
            self._take(message["params"])
        elif str(message.get("method")).startswith("root/"):
            self._told.append(message)
        return message

    def _take(self, envelope: dict[str, Any]) -> None:
        self.seen = max(self.seen, envelope["serverSeq"])
        action = envelope["action"]
        self.kinds.append(action["type"])
        if "origin" in envelope:
            self.echoes.append(envelope)
        state = self.states.get(envelope["channel"])
        if state is not None and "rejectionReason" not in envelope and action["type"] not in _OF_A_WINDOW:
            self.states[envelope["channel"]] = reduced(state, [action])

    def until(self, condition: Callable[[], object]) -> None:
        ends = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < ends, self.states
            self.hear()

    def told(self, method: str) -> list[dict[str, Any]]:
        """Params of the notifications about the list that came."""
        return [message["params"] for message in self._told if message["method"] == method]

    def dispatch(self, channel: str, number: int, action: dict[str, Any]) -> None:
        self.send(method="dispatchAction", params={"channel": channel, "clientSeq": number, "action": action})

    # As VS Code does it

    def initialize(self) -> Any:
        result = self.ask("initialize", protocolVersions=VERSIONS, clientId="w", initialSubscriptions=["ahp-root://"])
        self.seen = result["serverSeq"]
        return result

    def rows(self) -> dict[str, dict[str, Any]]:
        return {one["resource"]: one for one in self.ask("listSessions", channel="ahp-root://")["items"]}

    def open(self, wire_id: str) -> str:
        """Subscribe to a session and its chat; returns the chat's channel."""
        for channel in (shapes.session_uri(wire_id), shapes.chat_uri(wire_id)):
            snapshot = self.ask("subscribe", channel=channel)["snapshot"]
            assert snapshot["resource"] == channel
            self.states[channel] = snapshot["state"]
        return shapes.chat_uri(wire_id)

    def come_back(self, host: Host) -> Window:
        """A new connection of the same window, after `reconnect`."""
        back = Window(host)
        back.states, back.seen = self.states, self.seen
        subscriptions = ["ahp-root://", *self.states]
        result = back.ask("reconnect", clientId="w", lastSeenServerSeq=self.seen, subscriptions=subscriptions)
        assert (result["type"], result["missing"]) == ("replay", [])
        for envelope in result["actions"]:
            back._take(envelope)
        return back

    def words(self, chat: str) -> str:
        """All that can be read in a chat."""
        return text(self.states[chat])


def text(state: dict[str, Any]) -> str:
    """Questions and answers of a chat's state, a line each; `...` ends a turn that goes on."""
    lines = []
    for turn in [*state["turns"], *([state["activeTurn"]] if "activeTurn" in state else [])]:
        lines.append(f"> {turn['message']['text']}")
        for part in turn["responseParts"]:
            call = part.get("toolCall")
            if part["kind"] == "inputRequest":
                lines.append(f"? {part['request']['questions'][0]['message']} {part.get('response', '')}".rstrip())
            else:
                lines.append(part.get("content", "") if call is None else f"[{call['toolName']} {call['status']}]")
        lines += [] if "state" in turn else ["..."]
    return "\n".join(lines)
