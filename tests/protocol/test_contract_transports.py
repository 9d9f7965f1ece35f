"""docs/wire.md: transports and framing."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.home import Client
from tests.protocol.raw import framed, frames, line, lines, request, say, until_end

HELLO = request(1, "daemon/hello")


def test_lines(home):
    """A peer whose first byte is `{` gets one message a line, and after its half-close its answers and then the end."""
    answers = lines(say(home.connect(), line(HELLO) + line(request("x", "session/list", params={}))))
    assert {answer["id"] for answer in answers} == {1, "x"}
    assert all("result" in answer for answer in answers)


def test_last_line_needs_no_newline(home):
    """`printf` without a newline and a closed sending half are a message too."""
    assert lines(say(home.connect(), line(HELLO).rstrip()))[0]["result"]["protocolVersion"] == 1


@pytest.mark.parametrize(
    "header",
    [
        "Content-Length: {}\r\n\r\n",
        "content-length: {}\r\n\r\n",
        "CONTENT-LENGTH:{}\r\n\r\n",
        "Content-Length:   {}  \r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        "Content-Type: application/vscode-jsonrpc; charset=utf8\r\nContent-length: {}\r\n\r\n",
    ],
)
def test_headers(home, header):
    """Header names compare case-insensitively, blanks around the value and a Content-Type are accepted."""
    answer = frames(say(home.connect(), framed(HELLO, header) + framed(HELLO, header)))
    assert [one["id"] for one in answer] == [1, 1]


def test_length_counts_bytes(home, sid):
    """Content-Length counts bytes of UTF-8 both ways, not characters."""
    new = request(1, "session/new", params={"sessionId": sid, "name": "über 🦊"})
    body = json.dumps(new, ensure_ascii=False).encode()
    data = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    (answer,) = frames(say(home.connect(), data))
    assert answer["result"]["session"]["name"] == "über 🦊"


def test_a_message_in_pieces(home):
    """However a message is cut into packets, it is one message."""
    with home.connect() as sock:
        for byte in framed(HELLO):
            sock.sendall(bytes([byte]))
        sock.shutdown(socket.SHUT_WR)
        assert frames(until_end(sock))[0]["id"] == 1


@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}'])
def test_absent_params(home, params):
    """Absent params, null and an empty object are the same."""
    data = ('{"jsonrpc":"2.0","id":1,"method":"session/list"%s}\n' % params).encode()
    assert "sessions" in lines(say(home.connect(), data))[0]["result"]


def test_batches(home):
    """A batch is answered by one array without its notifications; one of notifications only gets nothing."""
    batch = [HELLO, {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 9}}, 7, request(2, "none")]
    data = framed(batch) + framed([{"jsonrpc": "2.0", "method": "initialized"}]) + framed([])
    answers = frames(say(home.connect(), data))
    assert len(answers) == 2
    [first] = [one for one in answers if isinstance(one, list)]
    [empty] = [one for one in answers if isinstance(one, dict)]
    assert [one["id"] for one in first] == [1, None, 2]
    assert [one.get("error", {}).get("code") for one in first] == [None, -32600, -32601]
    assert empty["error"]["code"] == -32600


def test_the_socket_is_private(home):
    """The socket is 0600 in a folder of 0700, and `status` names it."""
    path = home.client().call("daemon/status")["socket"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


@pytest.mark.parametrize("flags", [[], ["--stdio"], ["--stdio", "--clientProcessId=1"]])
def test_relay(home, flags):
    """`sessiond` and `sessiond --stdio` speak the base protocol; end of input ends the relay with 0 and not the daemon."""
    done = subprocess.run(
        [sys.executable, "-m", "sessiond", *flags],
        input=framed(HELLO),
        env=home.env,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert frames(done.stdout)[0]["result"]["pid"] == home.process.pid
    assert home.process.poll() is None


class Tcp:
    def __init__(self, house) -> None:
        self.holder = house.client()
        self.address = self.holder.call("daemon/listen", kind="tcp", host="127.0.0.1", port=0)
        self.token = Path(self.address["tokenFile"]).read_text().strip()

    def connect(self) -> socket.socket:
        sock = socket.create_connection((self.address["host"], self.address["port"]))
        sock.settimeout(20)
        return sock

    def initialize(self, token: object, **more: object) -> dict:
        return request(1, "initialize", params={"initializationOptions": {"token": token}, "capabilities": {}, **more})


@pytest.fixture(scope="module")
def tcp(home):
    made = Tcp(home)
    yield made
    made.holder.close()


@pytest.mark.parametrize("pack", [line, framed], ids=["lines", "framed"])
def test_tcp_needs_the_token(tcp, pack):
    """Over TCP `initialize` with the token opens everything; both framings work."""
    unpack = lines if pack is line else frames
    first, second = unpack(say(tcp.connect(), pack(tcp.initialize(tcp.token)) + pack(request(2, "session/list"))))
    assert first["result"]["serverInfo"]["name"] == "sessiond"
    assert "sessions" in second["result"]


@pytest.mark.parametrize(
    "message",
    [
        request(1, "session/list"),
        request(1, "daemon/hello"),
        request(1, "daemon/stop"),
        request(1, "initialize", params={"capabilities": {}}),
        request(1, "initialize", params={"capabilities": {}, "initializationOptions": {"token": "wrong"}}),
        request(1, "initialize", params={"capabilities": {}, "initializationOptions": {"token": None}}),
        request(1, "initialize", params={"capabilities": {}, "initializationOptions": {"token": "ü🦊"}}),
        [request(1, "session/list")],
        {"jsonrpc": "2.0", "method": "session/list"},
    ],
)
def test_tcp_without_the_token(home, tcp, message):
    """Anything but `initialize` with the token is answered `unauthorized` and the connection is closed."""
    with tcp.connect() as sock:
        sock.sendall(framed(message) + framed(tcp.initialize(tcp.token)))
        (answer,) = frames(until_end(sock))
    assert answer["error"]["code"] == -31004
    assert answer["error"]["data"]["kind"] == "unauthorized"
    assert answer["error"]["data"]["hint"]
    assert home.process.poll() is None


def test_tcp_first_message_is_bounded(tcp):
    """Before the token a message may have 64 KiB."""
    with tcp.connect() as sock:
        sock.sendall(b"Content-Length: 70000\r\n\r\n")
        (answer,) = frames(until_end(sock))
    assert answer["error"]["data"] | {"hint": 0} == {"kind": "tooLarge", "limit": 65536, "hint": 0}


def test_listening_ends_with_its_connection(home):
    """`daemon/listen` lasts as long as the requesting connection; clients that connected by it remain; status shows it."""
    made = Tcp(home)
    status = home.client().call("daemon/status")
    assert set(status["tcp"]) == {"host", "port", "tokenFile"}
    sock = made.connect()
    client = Client(sock)
    client.call("initialize", initializationOptions={"token": made.token}, capabilities={})
    assert made.address["port"] > 0
    made.holder.close()
    asker = home.client()
    while (asker.call("daemon/status")["tcp"] or {}).get("port") == made.address["port"]:
        pass
    with pytest.raises(ConnectionRefusedError):
        made.connect()
    assert client.call("daemon/hello")["pid"] == home.process.pid
    client.close()


def test_the_token_is_private(tcp):
    """The token's file is 0600."""
    assert stat.S_IMODE(os.stat(tcp.address["tokenFile"]).st_mode) == 0o600
