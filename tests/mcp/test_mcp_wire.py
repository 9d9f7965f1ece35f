"""`sessiond mcp` on its two pipes: order, cancelling, broken input, the end of either side, and a daemon that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.mcp.raw import Raw
from tests.mcp.served import ask, served

BOTH = pytest.mark.parametrize("modern", [False, True], ids=["2025-11-25", "2026-07-28"])


@BOTH
def test_requests_are_pipelined(shell, modern):
    """Hundreds of requests at once, reads and writes mixed, are all answered, each once; what is
    written is there in the order in which it was sent.
    """
    raw = Raw(shell, "--write", modern=modern)
    chat = raw.tool("append", text="number 0")["sessionId"]
    numbers = [
        raw.send("tools/call", name="append", arguments={"sessionId": chat, "text": f"number {n}"})
        for n in range(1, 150)
    ]
    numbers += [raw.send("tools/call", name="search", arguments={"query": f"{n}"}) for n in range(150)]
    for number in numbers:
        assert not raw.answer(number)["result"].get("isError")
    read = raw.tool("read", sessionId=chat, maxTokens=50_000)
    assert [one["quote"] for one in read["messages"]] == [f"number {n}" for n in range(150)]
    code, out, err = raw.end()
    assert (code, out, err) == (0, b"", b"")


@BOTH
def test_a_cancelled_request_is_not_answered(shell, modern):
    """A pattern that would take seconds is cancelled: others are answered, and this one never."""
    with shell.client() as daemon:
        daemon.new(id="chat").append("user", "a" * 40_000)
    raw = Raw(shell, modern=modern)
    slow = raw.send("tools/call", name="search", arguments={"query": "(a+)+b", "mode": "regex"})
    raw.notify("notifications/cancelled", requestId=slow, reason="changed my mind")
    assert raw.tool("list")["sessions"][0]["sessionId"] == "chat"
    assert raw.tool("read", sessionId="chat", maxTokens=300)["messages"]
    assert slow not in raw.answers
    code, out, _ = raw.end()
    assert code == 0 and out == b""


def test_broken_lines_are_answered(shell):
    """What is not JSON, not JSON-RPC or too long gets an error, and the next request its answer."""
    raw = Raw(shell)
    for line in (
        b"{",
        b"[]",
        b"nonsense",
        b'"x"',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":{},"method":"x"}',
        b"x" * 9_000_000,
    ):
        raw.write_raw(line + b"\n")
        assert raw.answer(None)["error"]["code"] in (-32700, -32600), line[:40]
    raw.write_raw(b"\n\r\n")
    assert raw.tool("list")["sessions"] == []
    number = raw.send("no/such/method")
    assert raw.answer(number)["error"]["code"] == -32601
    assert raw.end()[0] == 0


def test_a_request_that_cannot_be_read_is_answered_by_its_id(shell):
    """Half a surrogate pair, as some programs write it where they cut a text, or params of another kind."""
    raw = Raw(shell)
    half = raw.send("tools/call", name="search", arguments={"query": "caf\ud83d"})
    error = raw.answer(half)["error"]
    assert error["code"] == -32600 and "surrogate" in error["message"]
    raw.write({"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": 1})
    assert raw.answer("a")["error"]["code"] == -32600
    assert raw.tool("list")["sessions"] == []
    assert raw.end()[0] == 0


def test_it_ends_with_its_input(shell):
    """Closing standard input ends it, before the first message, with requests under way, and from a file; the daemon goes on."""
    for first in (b"", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 50, b'{"jsonrpc":'):
        process = shell.start("mcp")
        _, err = process.communicate(first, timeout=20)
        assert process.returncode == 0, err
    path = shell.path / "input"
    path.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with path.open() as file:
        done = subprocess.run(
            shell.command("mcp"), stdin=file, capture_output=True, env=shell.env, timeout=20, check=False
        )
    assert done.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in done.stdout.splitlines())


def test_it_ends_with_its_reader(shell):
    """An agent that was killed reads no more: the server ends by itself, without a trace on the terminal."""
    raw = Raw(shell)
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    raw.send("tools/list")
    assert raw.process.wait(20) == 0
    assert raw.process.stderr is not None and raw.process.stderr.read() == b""


def test_it_ends_at_ctrl_c(shell):
    """Without a trace on the terminal."""
    raw = Raw(shell)
    raw.process.send_signal(signal.SIGINT)
    code, out, err = raw.end()
    assert (code, out, err.strip()) == (130, b"", b"")


@BOTH
def test_a_killed_daemon_comes_back(shell, modern):
    """kill -9 between and during requests: the next ones are answered by a daemon that the client starts, and nothing is doubled."""
    raw = Raw(shell, "--write", modern=modern)
    chat = raw.tool("append", text="number 0")["sessionId"]
    for round_ in range(1, 4):
        numbers = [
            raw.send("tools/call", name="append", arguments={"sessionId": chat, "text": f"number {round_}.{n}"})
            for n in range(10)
        ]
        if round_ == 2:
            raw.answer(numbers[0])
            numbers = numbers[1:]
        shell.kill()
        for number in numbers:
            assert not raw.answer(number)["result"].get("isError")
    quotes = [one["quote"] for one in raw.tool("read", sessionId=chat, maxTokens=50_000)["messages"]]
    assert sorted(quotes) == sorted(["number 0", *(f"number {r}.{n}" for r in range(1, 4) for n in range(10))])


@BOTH
def test_subscriptions(shell, modern):
    """A change by another client is told, also after a kill -9 of the daemon; a private session is silent; an unknown one is refused."""
    with shell.client() as daemon:
        chat, other = daemon.new(id="chat"), daemon.new(id="other")
        for one in (chat, other):
            one.append("user", "x")
    raw = Raw(shell, modern=modern)
    uris = ["sessiond://session/chat", "sessiond://session/other"]
    if modern:
        raw.send(
            "subscriptions/listen",
            notifications={"resourceSubscriptions": [*uris, "sessiond://session/nobody"], "resourcesListChanged": True},
        )
        raw.heard("notifications/subscriptions/acknowledged")
    else:
        for uri in uris:
            raw.call("resources/subscribe", uri=uri)
        assert "error" in raw.answer(raw.send("resources/subscribe", uri="sessiond://session/nobody"))
    updated = "notifications/resources/updated"

    def told() -> str:
        found: str = raw.heard(updated)["params"]["uri"]
        return found

    with shell.client() as daemon:
        daemon.session("other").append("user", "y")
        assert told() == uris[1]
        daemon.session("other").update(tags=["private"])
        daemon.session("other").append("user", "hidden")
        daemon.session("chat").append("user", "y")
        assert told() == uris[0]
    shell.kill()
    with shell.client() as daemon:
        daemon.session("chat").append("user", "z")
        assert told() == uris[0]
        daemon.session("other").update(tags=[])
        assert told() == uris[1]
        if modern:
            daemon.new(id="third", name="a new one").append("user", "x")
            raw.heard("notifications/resources/list_changed")
        else:
            raw.call("resources/unsubscribe", uri=uris[0])
    assert raw.end()[0] == 0


async def test_a_huge_session_takes_little_memory(shell):
    """A session of 60 MB in large messages is searched, read and shown as a resource by a process that stays below 250 MB."""
    with shell.client() as daemon:
        chat = daemon.new(id="huge")
        for n in range(60):
            chat.append("tool", f"elephant {n} " + "lorem ipsum dolor\n" * 55_000, timeout_s=60)
    async with served(shell) as client:
        for _ in range(3):
            assert (await ask(client, "search", query="elephant"))["hits"]
            assert (await ask(client, "read", sessionId="huge", around=30))["messages"][0]["seq"] == 30
            text = (await client.read_resource("sessiond://session/huge")).contents[0].text
            assert len(text) < 300_000
        peak = max(_peak_kib(pid) for pid in _servers(str(shell.path)))
    assert peak < 250 * 1024


def _servers(home: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if b"mcp" in command and f"SESSIOND_HOME={home}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    assert found
    return found


def _peak_kib(pid: int) -> int:
    text = (Path("/proc") / str(pid) / "status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])
