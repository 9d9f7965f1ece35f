"""WebSocket against the real daemon: admission, tokens, and the same limits and errors as everywhere."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sessiond.daemon import codes
from tests.home import Home
from tests.shell import Shell

CONFIG = """
[daemon]
allowed_hosts = ["box.example"]
allowed_origins = ["https://app.example"]
"""


class Ws:
    def __init__(self, home: Home) -> None:
        self.holder = home.client()
        self.address = self.holder.call("daemon/listen", kind="ws", host="127.0.0.1", port=0)
        self.token = Path(self.address["tokenFile"]).read_text().strip()
        self.instance = self.holder.call("daemon/hello")["instanceId"]
        self.port = self.address["port"]
        self.url = f"http://127.0.0.1:{self.port}"

    def dial(self, **options: Any) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}/", max_size=None, compression=None, **options)

    def bearer(self) -> ClientConnection:
        return self.dial(additional_headers={"Authorization": f"Bearer {self.token}"})

    def get(self, path: str, **headers: str) -> tuple[int, bytes, Any]:
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=20) as got:
                return got.status, got.read(), got.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), error.headers


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with Home(tmp_path_factory.mktemp("ws"), CONFIG) as made:
        yield made


@pytest.fixture(scope="module")
def ws(home: Home) -> Ws:
    return Ws(home)


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def initialize(token: object) -> str:
    return request(1, "initialize", capabilities={}, initializationOptions={"token": token})


def ask(client: ClientConnection, number: int, method: str, **params: Any) -> Any:
    client.send(request(number, method, **params))
    while True:
        answer = json.loads(client.recv(60))
        if answer.get("id") == number:
            return answer


def test_the_first_message_shows_the_token(ws: Ws) -> None:
    """`initialize` with the token opens everything, also what was sent right behind it and is larger than a stranger's limit."""
    with ws.dial() as client:
        client.send(initialize(ws.token))
        client.send(request(2, "session/new", sessionId="first", name="x" * 100, metadata={"big": "y" * 100_000}))
        answers = {answer["id"]: answer for answer in (json.loads(client.recv(20)), json.loads(client.recv(20)))}
        assert answers[1]["result"]["serverInfo"]["name"] == "sessiond"
        assert answers[2]["result"]["session"]["sessionId"] == "first"


@pytest.mark.parametrize(
    "message",
    [
        request(1, "session/list"),
        request(1, "daemon/stop"),
        request(1, "initialize", capabilities={}),
        initialize("wrong"),
        initialize(None),
        initialize("ü🦊"),
        initialize("\ud800"),
        "[" + request(1, "session/list") + "]",
        "no JSON",
    ],
)
def test_without_the_token(home: Home, ws: Ws, message: str) -> None:
    """Anything else is answered `unauthorized`, with an absent Origin as with an allowed one, and the connection is closed."""
    for options in ({}, {"origin": "https://app.example"}):
        with ws.dial(**options) as client:
            client.send(message)
            answer = json.loads(client.recv(20))
            assert answer["error"]["code"] == -31004
            assert answer["error"]["data"]["kind"] == "unauthorized"
            with pytest.raises(ConnectionClosed):
                client.recv(20)
    assert home.process is not None and home.process.poll() is None


def test_a_wrong_token_is_called_wrong(ws: Ws) -> None:
    """Browsers show it in the first message, so as to be told."""
    for token, what in (
        ("wrong", "the token is wrong"),
        (None, "the first message must be `initialize` with the token"),
    ):
        with ws.dial() as client:
            client.send(initialize(token))
            assert json.loads(client.recv(20))["error"]["message"] == what


def test_a_broken_frame_is_told_of_frames(ws: Ws) -> None:
    """The hint is about this port, not about a framing by headers."""
    with ws.bearer() as client:
        client.send(b"bytes")
        error = json.loads(client.recv(20))["error"]
    assert (error["message"], error["data"]["hint"]) == (
        "unexpected binary frame",
        "a message is a text frame, or several fragments of one",
    )


def test_a_port_of_its_own_is_named(ws: Ws) -> None:
    error = ws.holder.fails("daemon/listen", kind="ws", host="127.0.0.1", port=ws.port)
    assert error["message"] == f"127.0.0.1:{ws.port} is taken by this daemon, which listens there already"


def test_a_stranger_may_send_little(ws: Ws) -> None:
    """Before the token a message may have 64 KiB; over it the answer is `tooLarge`, and the end."""
    with ws.dial() as client:
        client.send(initialize("x" * 70_000))
        data = json.loads(client.recv(20))["error"]["data"]
        assert (data["kind"], data["limit"]) == ("tooLarge", 65536)
        with pytest.raises(ConnectionClosed):
            client.recv(20)


def test_foreign_pages_and_names(ws: Ws) -> None:
    """A page of another origin and a name that is pointed at our address are refused although they have the token."""
    bearer = {"Authorization": f"Bearer {ws.token}"}
    for options in ({"origin": "https://evil.example"}, {"origin": "http://localhost:1"}, {"origin": "null"}):
        with pytest.raises(InvalidStatus) as refused:
            ws.dial(additional_headers=bearer, **options)
        assert refused.value.response.status_code == 403
    assert ws.get("/", Host=f"evil.example:{ws.port}")[0] == 403
    assert ws.get("/", Host=f"box.example:{ws.port}")[0] == 200
    with ws.dial(additional_headers=bearer, origin="https://app.example") as client:
        assert "result" in ask(client, 1, "daemon/hello")


def test_twelve_megabytes_of_state(ws: Ws) -> None:
    """12 MB go in with one message and come back whole."""
    blob = "äöü " * 3_000_000
    with ws.bearer() as client:
        ask(client, 1, "session/new", sessionId="large")
        assert ask(client, 2, "state/set", sessionId="large", values={"plan": blob})["result"]["seq"] == 1
        assert ask(client, 3, "state/get", sessionId="large", keys=["plan"])["result"]["values"]["plan"] == blob


def test_what_is_no_message_is_answered(ws: Ws) -> None:
    """No JSON, invalid UTF-8, too deep: an error answer each, and the connection continues."""
    with ws.bearer() as client:
        for bad in ("{", "\ud800".encode("utf-8", "surrogatepass"), "[" * 200 + "]" * 200):
            client.send(bad, text=True)
            assert json.loads(client.recv(20))["error"]["code"] == -32700
        assert "result" in ask(client, 1, "daemon/hello")


def test_two_on_one_session(home: Home, ws: Ws) -> None:
    """A WebSocket and a Unix socket share a session and hear each other."""
    other = home.client()
    with ws.bearer() as client:
        ask(client, 1, "session/new", sessionId="shared")
        other.call("session/open", sessionId="shared")
        ask(client, 2, "session/append", sessionId="shared", messages=[{"role": "user", "content": "from the browser"}])
        assert other.notification("session/changed")["changes"][0]["messages"][0]["content"] == "from the browser"
        other.call("session/append", sessionId="shared", messages=[{"role": "user", "content": "from the editor"}])
        told = json.loads(client.recv(20))
        assert told["method"] == "session/changed"
        assert told["params"]["changes"][0]["messages"][0]["content"] == "from the editor"
    other.close()


def test_a_code_gives_the_token_once(ws: Ws) -> None:
    """A one-time code, made by a program that can read the token's file, is exchanged for the token, and cannot be used again."""
    code = codes.make(ws.token, ws.instance, ws.port)
    status, body, headers = ws.get("/token", Authorization=f"Code {code}")
    assert (status, json.loads(body)) == (200, {"token": ws.token, "port": ws.port})
    assert headers["Cache-Control"] == "no-store"
    assert ws.get("/token", Authorization=f"Code {code}")[0] == 401


def test_codes_that_are_none(ws: Ws) -> None:
    """One that is old, of another daemon or port, or made without the token gives nothing; nor does a foreign page get one."""
    for code in (
        codes.make(ws.token, ws.instance, ws.port, now=0.0),
        codes.make(ws.token, ws.instance, ws.port, now=4e9),
        codes.make(ws.token, "another", ws.port),
        codes.make(ws.token, ws.instance, ws.port + 1),
        codes.make("guess", ws.instance, ws.port),
        "", ".", "1.2.3", "ü",
    ):  # fmt: skip
        assert ws.get("/token", Authorization=f"Code {code}")[0] == 401, code
    good = codes.make(ws.token, ws.instance, ws.port)
    assert ws.get("/token", Authorization=f"Code {good}", Origin="https://evil.example")[0] == 403
    assert ws.get("/token", Authorization=f"Bearer {ws.token}")[0] == 401


def test_bytes_that_are_not_ascii_are_answered_at_once(ws: Ws) -> None:
    """Wherever a request has them, it gets an answer that refuses it, and not the deadline."""
    random = Random(17)
    refused = []
    for place in (b"/%s", b"/proof?nonce=%s", b"/token", b"/") * 5:
        odd = bytes(random.choice(b"a.\x80\xc3\xbc\xff") for _ in range(8)) + b"\xfc"
        rows = {b"Host": b"127.0.0.1", b"Authorization": random.choice((b"Code ", b"Bearer ")) + odd}
        if place == b"/":
            name = random.choice((b"Host", b"Origin", b"Sec-WebSocket-Protocol", b"Authorization"))
            rows |= {b"Upgrade": b"websocket", name: random.choice((b"", b"Bearer ", b"sessiond.token.")) + odd}
        path = place % odd if b"%" in place else place
        head = b"GET %s HTTP/1.1\r\n" % path + b"".join(b"%s: %s\r\n" % row for row in rows.items()) + b"\r\n"
        with socket.create_connection(("127.0.0.1", ws.port), timeout=5) as peer:
            peer.sendall(head)
            answer = peer.recv(1 << 16)
        refused.append(answer.split(b" ")[1])
        assert refused[-1] in (b"400", b"401", b"403"), head
    assert set(refused) == {b"400", b"401", b"403"}


def test_the_daemon_proves_itself(ws: Ws) -> None:
    """It answers a nonce with something that requires the token, only for this port."""
    status, body, _ = ws.get("/proof?nonce=abc")
    assert (status, json.loads(body)["proof"]) == (200, codes.proof(ws.token, ws.port, "abc"))
    assert codes.proof(ws.token, ws.port + 1, "abc") != codes.proof(ws.token, ws.port, "abc")
    assert ws.get("/proof")[0] == 400


def test_only_the_pages_files(ws: Ws) -> None:
    """The page is served under a strict policy; nothing else of the client's folder or beyond it is."""
    status, body, headers = ws.get("/")
    assert status == 200 and b"<!doctype html>" in body.lower()
    assert "script-src 'self'" in headers["Content-Security-Policy"]
    assert ws.get("/sessiond.js")[0] == 200
    for path in ("/README.md", "/../../pyproject.toml", "/page/../../../pyproject.toml", "/%2e%2e/x.js", "/test/", "/page/",
                 "//etc/passwd", "/page/%00.js", "/.hidden.js", f"/{'x' * 300}.js", "/page%2f..%2f..%2fREADME.md", "/page/vendor/VENDORED.md"):  # fmt: skip
        assert ws.get(path)[0] == 404, path


def test_listening_ends_with_its_connection(home: Home) -> None:
    """`status` shows it as long as the asking connection lives."""
    made = Ws(home)
    assert home.client().call("daemon/status")["ws"].keys() == {"host", "port", "tokenFile"}
    made.holder.close()
    asker = home.client()
    while (asker.call("daemon/status")["ws"] or {}).get("port") == made.port:
        pass
    with pytest.raises(ConnectionRefusedError):
        made.dial()


def test_a_taken_port(home: Home, ws: Ws) -> None:
    """Listening on a port that is taken is `alreadyExists`."""
    assert (
        home.client().fails("daemon/listen", kind="ws", host="127.0.0.1", port=ws.port)["data"]["kind"]
        == "alreadyExists"
    )


def test_the_flag(home: Home) -> None:
    """`sessiond --ws 0` starts the daemon if need be, says where it listens and where the token is, and stays."""
    shell = Shell()
    try:
        process = shell.start("--ws", "0", text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        port, file = re.fullmatch(r"listening on ws 127\.0\.0\.1:(\d+), the token is in (.+)\n", line).groups()  # type: ignore[union-attr]
        with connect(f"ws://127.0.0.1:{port}", subprotocols=["sessiond", f"sessiond.token.{Path(file).read_text().strip()}"]) as client:  # fmt: skip
            assert "sessions" in ask(client, 1, "session/list")["result"]
    finally:
        shell.close()


def test_nobody_pays_who_does_not_listen() -> None:
    """The daemon does not import WebSocket code before it is requested."""
    script = "import sys, sessiond.daemon.core; print(any(name.startswith('websockets') for name in sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"
    )
