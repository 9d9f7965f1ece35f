"""A daemon is killed behind a relay whose client sends without waiting and without ids: nothing is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sessiond.relay import EX_UNAVAILABLE
from tests.faults.injection import injected
from tests.home import Home
from tests.zygote import ForkedHome

COUNT = 200


@contextmanager
def begun(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """A relay to the daemon."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    env = {**os.environ, "SESSIOND_HOME": str(home.path)}
    process = subprocess.Popen([sys.executable, "-m", "sessiond"], env=env, **pipes)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def relay(forked: ForkedHome) -> Iterator[subprocess.Popen[bytes]]:
    with begun(forked) as process:
        yield process


def stop(pid: int) -> None:
    """Returns when the process takes in nothing more."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        pass


def send(relay: subprocess.Popen[bytes]) -> None:
    for number in range(COUNT):
        params = {"sessionId": "s", "messages": [{"role": "user", "content": f"{number}"}]}
        message = {"jsonrpc": "2.0", "id": number, "method": "session/append", "params": params}
        relay.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
    relay.stdin.flush()  # type: ignore[union-attr]


def there(home: Home) -> Counter[str]:
    page = home.client().call("session/read", sessionId="s", limit=1000)
    return Counter(one["content"] for one in page["messages"])


def test_what_was_read_is_not_sent_again(forked: ForkedHome, relay: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The first record is durable, its answer is not sent, since the sync takes long: the relay cannot know, and says so."""
    forked.client().call("session/new", sessionId="s")
    with injected(forked.process.pid, "fdatasync", "delay_exit=20000000", calls=tmp_path / "calls"):
        send(relay)
        while not any(
            b'"content":"0"' in path.read_bytes() for path in (forked.path / "data" / "journal").glob("*.journal")
        ):
            pass
        forked.kill()
    _, err = relay.communicate(timeout=30)
    assert (relay.returncode, b"may have been done, or not" in err) == (EX_UNAVAILABLE, True)
    forked.forget_clients()
    forked.start()
    found = there(forked)
    assert found
    assert max(found.values()) == 1


def test_what_nobody_read_is_sent_again(forked: ForkedHome) -> None:
    """The daemon was stopped before the relay came to it: the next one gets everything, once."""
    forked.client().call("session/new", sessionId="s")
    forked.forget_clients()
    stop(forked.process.pid)
    with begun(forked) as relay:
        send(relay)
        while not waiting(forked):
            pass
        forked.process.kill()
        forked.process.wait()
        out, err = relay.communicate(timeout=60)
    assert (relay.returncode, err) == (0, b"")
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(COUNT))
    assert there(forked) == Counter(f"{number}" for number in range(COUNT))
    forked.client().call("daemon/stop")  # the relay has started it


def waiting(home: Home) -> bool:
    """Whether a connection to the daemon's socket exists that it has not accepted. (It was bound under another name there.)"""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return any(f" {home.path}/run/" in line and line.split()[5] == "02" for line in lines)


def test_the_daemon_greets_whoever_asks_on_its_socket(forked: ForkedHome) -> None:
    """Before anything else, once, and only there; who does not ask is not greeted."""
    request = b'{"jsonrpc":"2.0","id":1,"method":"daemon/hello"}\n'
    asking, silent = forked.connect(), forked.connect()
    asking.sendall(b"?")
    assert asking.recv(100) == b"!"
    for connection in (asking, silent):
        connection.sendall(request)
        assert connection.recv(2).startswith(b"{")
    again = forked.connect()
    again.sendall(b"??" + request)
    said = b"".join(iter(lambda: again.recv(65536), b""))
    assert said.startswith(b"!Content-Length: ")
    assert b"parse" in said.lower()
    for one in (asking, silent, again):
        one.close()
