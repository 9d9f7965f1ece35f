"""A daemon that has as many connections as it takes: everybody is told so at once, and it can be stopped."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sessiond.client import TooLarge, aconnect, connect
from sessiond.endpoint import read_endpoint
from tests.shell import Shell

_LIMIT = 3
_HELLO = b'{"jsonrpc":"2.0","id":1,"method":"daemon/hello"}\n'


@pytest.fixture
def full(shell: Shell) -> Iterator[Shell]:
    (shell.path / "config").mkdir()
    (shell.path / "config" / "config.toml").write_text(f"[limits]\nconnections = {_LIMIT}\n")
    assert shell("new", "--id", "s").code == 0
    record = read_endpoint(str(shell.data))
    assert record is not None and record.socket is not None
    with ExitStack() as open_ones:
        for _ in range(_LIMIT):
            one = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(20)
            one.connect(record.socket)
            one.sendall(_HELLO)
            assert b"result" in one.recv(4096)
        yield shell


@pytest.mark.parametrize("command", [("list",), ("append", "s", "words"), ("status",)])
def test_a_command_says_which_limit_is_reached(full: Shell, command: tuple[str, ...]) -> None:
    done = full(*command)
    assert done.code != 0
    assert f"the limit of {_LIMIT} connections is reached" in done.err
    assert "limits.connections" in done.err


def test_a_client_is_told_at_once(full: Shell) -> None:
    with pytest.raises(TooLarge, match="connections"):
        connect(home=str(full.path), start=False, timeout_s=10)


async def test_a_client_for_asyncio_is_told_at_once(full: Shell) -> None:
    with pytest.raises(TooLarge, match="connections"):
        await aconnect(home=str(full.path), start=False, timeout_s=10)


def test_stop_needs_no_connection(full: Shell) -> None:
    done = full("stop")
    assert (done.code, done.err) == (0, "")
    assert "has stopped" in done.out
    assert full("status").out.startswith("no daemon is running")
