"""Windows that speak the protocol badly, in whatever way a generator thinks of, and those beside them that speak it well."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from tests.agent_host.window import VERSIONS, Host, Window
from tests.home import Client, Home
from tests.suite.explore import seeds

METHODS = (
    *("initialize", "reconnect", "ping", "subscribe", "unsubscribe", "listSessions", "createSession", "disposeSession"),
    *(
        "createChat",
        "disposeChat",
        "fetchTurns",
        "resolveSessionConfig",
        "completions",
        "dispatchAction",
        "resourceRead",
    ),
    *("", "session/append", "rpc.discover", "\u0000"),
)
FIELDS = (
    *(
        "channel",
        "chat",
        "session",
        "clientId",
        "clientSeq",
        "protocolVersions",
        "initialSubscriptions",
        "cursor",
        "turnId",
    ),
    *(
        "lastSeenServerSeq",
        "subscriptions",
        "action",
        "type",
        "id",
        "message",
        "text",
        "requestId",
        "answers",
        "provider",
    ),
    *("workingDirectories", "config", "title", "isArchived", "draft", "source", "view", "kind", "response", "limit"),
)
ACTIONS = (
    *("chat/turnStarted", "chat/turnCancelled", "chat/truncated", "chat/inputCompleted", "chat/pendingMessageSet"),
    *("chat/pendingMessageRemoved", "chat/draftChanged", "session/titleChanged", "session/isArchivedChanged"),
    *("session/activeClientSet", "session/isReadChanged", "chat/delta", "root/agentsChanged", "", "nothing"),
)
CHANNELS = (
    *("ahp-root://", "sessiond:/locks", "ahp-chat://default/c2Vzc2lvbmQ6L2xvY2tz", "sessiond:/nothing", "sessiond:/"),
    *("ahp-chat://default/%%", "claude:/locks", "", "file:///etc/passwd", "sessiond:/../../x"),
)


class Bad:
    """One client, from its first byte to its last. It never writes: what it may do is not what is looked at."""

    def __init__(self, seed: int, host: Host) -> None:
        self._pick = random.Random(seed)
        self._host = host

    def live(self) -> None:
        with contextlib.suppress(OSError, WebSocketException, TimeoutError):
            self._pick.choice(
                [self._bytes, self._handshake, self._talk, self._talk, self._talk, self._listen_to_nothing]
            )()

    def _bytes(self) -> None:
        """Not HTTP, or not all of it."""
        with socket.create_connection(("127.0.0.1", self._host.port), timeout=5) as raw:
            raw.sendall(
                self._pick.choice([self._pick.randbytes(500), b"GET /", b"\x16\x03\x01\x02\x00", b"A" * 100_000])
            )
            time.sleep(self._pick.random() / 5)

    def _handshake(self) -> None:
        query = self._pick.choice(
            ["", "?tkn=", "?tkn=wrong", f"?tkn={self._host.token}x", "?tkn=%00", "?" + "a" * 40_000]
        )
        connect(f"ws://127.0.0.1:{self._host.port}/{query}", compression=None, open_timeout=5).close()

    def _talk(self) -> None:
        with self._connected() as mine:
            for _ in range(self._pick.randrange(80)):
                mine.send(self._frame())
                if self._pick.random() < 0.2:
                    with contextlib.suppress(TimeoutError):
                        mine.recv(timeout=self._pick.random() / 50)

    def _listen_to_nothing(self) -> None:
        """Asks for much, and reads none of it."""
        with self._connected() as mine:
            ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {"channel": CHANNELS[2]}})
            for _ in range(300):
                mine.send(ask)
            if self._pick.random() < 0.5:
                mine.socket.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        address = f"ws://127.0.0.1:{self._host.port}/?tkn={self._host.token}"
        with connect(address, compression=None, max_size=None, open_timeout=5, close_timeout=0.2) as mine:
            if self._pick.random() < 0.7:
                first = {"protocolVersions": VERSIONS, "clientId": "bad", "initialSubscriptions": ["ahp-root://"]}
                mine.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": first}))
            yield mine

    def _frame(self) -> str | bytes:
        kind = self._pick.random()
        if kind < 0.02:
            return self._pick.randbytes(self._pick.randrange(2000))
        if kind < 0.12:
            text = json.dumps(self._message())
            return text[: self._pick.randrange(len(text))]
        if kind < 0.17:
            return "[" * self._pick.choice([1, 1000, 50_000])
        if kind < 0.22:
            return json.dumps([self._message() for _ in range(self._pick.randrange(5))])
        return json.dumps(self._message())

    def _message(self) -> Any:
        message = {"jsonrpc": "2.0", "method": self._pick.choice(METHODS), "params": self._params()}
        if self._pick.random() < 0.7:
            message["id"] = self._pick.choice([self._pick.randrange(10), -1, "a", None, 1.5, [], 2**70])
        if self._pick.random() < 0.1:
            message.pop(self._pick.choice(list(message)))
        return message

    def _params(self) -> Any:
        if self._pick.random() < 0.1:
            return self._value(0)
        params = {self._pick.choice(FIELDS): self._value(0) for _ in range(self._pick.randrange(6))}
        if self._pick.random() < 0.8:
            params["channel"] = self._pick.choice(CHANNELS)
        if self._pick.random() < 0.5:
            params["action"] = {"type": self._pick.choice(ACTIONS), **{name: self._value(1) for name in self._some()}}
            params["clientSeq"] = self._pick.randrange(100)
        return params

    def _some(self) -> list[str]:
        return self._pick.sample(FIELDS, self._pick.randrange(5))

    def _value(self, depth: int) -> Any:
        plain = [None, True, 0, -1, 2**63, 1e300, "", "a", "\ud800", "x" * 5000, self._pick.choice(CHANNELS), "0.9.0"]
        if depth > 3 or self._pick.random() < 0.6:
            return self._pick.choice(plain)
        if self._pick.random() < 0.5:
            return [self._value(depth + 1) for _ in range(self._pick.randrange(4))]
        return {name: self._value(depth + 1) for name in self._some()}


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_ten_of_them_harm_nobody(home: Home, seed: int) -> None:
    """Windows of all versions beside them list, open and follow; so does a client of our own wire; what was said is there once."""
    client = home.client()
    client.call("session/new", sessionId="locks", name="Order of locks")
    host = Host(client.call("daemon/listen", kind="ahp"))
    windows = {version: Window(host) for version in VERSIONS}
    chats = {}
    for version, one in windows.items():
        assert one.ask("initialize", protocolVersions=[version], clientId=version)["protocolVersion"] == version
        chats[version] = one.open("locks")
    over = threading.Event()

    def badly(number: int) -> int:
        lives = 0
        while not over.is_set():
            Bad(seed * 100_000 + number * 1000 + lives, host).live()
            lives += 1
        return lives

    with ThreadPoolExecutor(10) as pool:
        bad = [pool.submit(badly, number) for number in range(10)]
        try:
            said = [_said(client, number, windows, chats) for number in range(50)]
        finally:
            over.set()
        assert all(one.result(30) > 0 for one in bad)
    assert [message["content"] for message in client.call("session/read", sessionId="locks")["messages"]] == said
    for version, one in windows.items():
        assert list(one.rows()) == ["sessiond:/locks"]
        assert one.words(chats[version]) == "\n".join(
            f"> {text}\n..." if text == said[-1] else f"> {text}" for text in said
        )
    assert home.process is not None
    assert home.process.poll() is None
    log = (home.path / "log" / "sessiond.log").read_text()
    assert "Traceback" not in log


def _said(client: Client, number: int, windows: dict[str, Window], chats: dict[str, str]) -> str:
    """A message of a client of our wire, once all windows show it."""
    text = f"Question {number} ends here."
    client.call("session/append", sessionId="locks", messages=[{"role": "user", "content": text}])
    for version, one in windows.items():
        one.until(lambda one=one, version=version: text in one.words(chats[version]))
    return text
