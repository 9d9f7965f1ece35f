"""One client does its worst, in several ways; the others are answered, and memory remains bounded."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Home
from tests.shell import wait_until

MIB = 1024 * 1024
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"daemon/hello"}\n'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Home(tmp_path, "[limits]\nfirst_message_s = 120.0\n") as home:
        client = home.client()
        client.call(
            "session/new", sessionId="a", messages=[{"role": "user", "content": "x" * 50_000} for _ in range(100)]
        )
        yield home


def rss(home: Home) -> int:
    assert home.process is not None
    status = Path(f"/proc/{home.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def others_are_answered(home: Home) -> None:
    client = home.client()
    for number in range(20):
        client.call("session/append", sessionId="a", messages=[{"role": "user", "content": str(number)}])
        assert client.call("session/read", sessionId="a", last=1)["messages"][0]["content"] == str(number)
    client.close()


def push(sock: socket.socket, data: bytes, times: int) -> None:
    """Send until all is sent or nobody takes any more."""
    sock.settimeout(0.5)
    with contextlib.suppress(OSError):
        for _ in range(times):
            sock.sendall(data)


def is_let_in(home: Home) -> bool:
    with home.connect() as sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(HELLO)
        return b"protocolVersion" in sock.recv(4096)
    return False


def test_a_thousand_connections(home: Home) -> None:
    """All of them are served, one after another and all at once; one beyond the limit gets an error and is closed."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 3000:
        pytest.skip(f"this machine gives a process {before[1]} descriptors")
    assert home.process is not None
    resource.setrlimit(resource.RLIMIT_NOFILE, (3000, before[1]))
    resource.prlimit(home.process.pid, resource.RLIMIT_NOFILE, (3000, before[1]))
    try:
        crowd = [home.connect() for _ in range(1000)]
        for sock in crowd:
            sock.sendall(HELLO)
        for sock in crowd:
            assert b"protocolVersion" in sock.recv(4096)
        others_are_answered(home)
        said = b""
        while b"connections is reached" not in said:
            assert len(crowd) < 1030
            crowd.append(home.connect())
            with contextlib.suppress(BrokenPipeError):
                crowd[-1].sendall(HELLO)
            said = crowd[-1].recv(4096)
        for sock in crowd:
            sock.close()
        wait_until(lambda: is_let_in(home))  # the daemon has noticed that they left
        others_are_answered(home)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_request_of_a_hundred_megabytes(home: Home) -> None:
    """Its length is refused before anything of it is stored; the sender gets an error and is closed."""
    before = rss(home)
    sock = home.connect()
    sock.sendall(b"Content-Length: 104857600\r\n\r\n")
    push(sock, b"x" * MIB, 100)
    sock.settimeout(20)
    assert b"tooLarge" in sock.recv(65536)
    others_are_answered(home)
    assert rss(home) - before < 30 * MIB
    sock.close()


def test_a_client_that_never_reads(home: Home) -> None:
    """It asks for a thousand pages of five megabytes and takes none: it is not read from any more, and others are served."""
    before = rss(home)
    sock = home.connect()
    ask = b'{"jsonrpc":"2.0","id":1,"method":"session/read","params":{"sessionId":"a","last":100}}\n'
    push(sock, ask * 100, 10)
    others_are_answered(home)
    assert rss(home) - before < 300 * MIB
    sock.close()
    others_are_answered(home)


def test_a_flood_of_bad_requests(home: Home) -> None:
    """Twenty thousand requests that are not JSON, no JSON-RPC or no method: each is answered, others in between."""
    sock = home.connect()
    bad = [b"{nonsense}", b'{"jsonrpc":"1.0","id":1}', b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', b'{"a":' * 300]
    flood = b"\n".join(bad) + b"\n"
    sender = threading.Thread(target=sock.sendall, args=(flood * 5000,))
    answers = 0

    def count() -> None:
        nonlocal answers
        with sock.makefile("rb") as file:
            for line in file:
                answers += b'"error"' in line
                if answers == 20_000:
                    return

    reader = threading.Thread(target=count)
    sender.start()
    reader.start()
    others_are_answered(home)
    sender.join()
    reader.join()
    assert answers == 20_000
    sock.close()


def test_a_flood_of_good_requests(home: Home) -> None:
    """Five thousand appends in one go: all are done, in order, and others come in between."""
    client, flooder = home.client(), home.connect()
    client.call("session/new", sessionId="flood", name="n")
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "session/append",
                    "params": {"sessionId": "flood", "messages": [{"role": "user", "content": str(number)}]}}).encode()
        for number in range(5000)
    ]  # fmt: skip
    sender = threading.Thread(target=flooder.sendall, args=(b"\n".join(lines) + b"\n",))
    sender.start()
    others_are_answered(home)
    with flooder.makefile("rb") as file:
        seqs = [json.loads(file.readline())["result"]["seq"] for _ in range(5000)]
    sender.join()
    assert seqs == sorted(seqs)
    flooder.close()


def test_a_first_message_that_comes_byte_by_byte(tmp_path: Path) -> None:
    """A byte now and then is not a message: after the limit it gets an error and is closed, over TCP and over the Unix socket."""
    with Home(tmp_path, "[limits]\nfirst_message_s = 3.0\n") as home:
        dribble(home)


def dribble(home: Home) -> None:
    client = home.client()
    port = client.call("daemon/listen", kind="tcp", host="127.0.0.1", port=0)["port"]
    for sock, kind in (
        (socket.create_connection(("127.0.0.1", port)), b"unauthorized"),
        (home.connect(), b"invalidRequest"),
    ):
        sock.settimeout(0.05)
        said = b""
        for byte in (b"Content-Length: 10\r\n" + b"X" * 4000)[:4000]:
            with contextlib.suppress(TimeoutError):
                part = sock.recv(65536)
                said += part
                break
            try:
                sock.sendall(bytes([byte]))
            except OSError:
                break
        sock.settimeout(20)
        with contextlib.suppress(OSError):
            said += sock.recv(65536)
        assert kind in said
        sock.close()
    assert client.call("daemon/hello")
