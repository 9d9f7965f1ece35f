"""Standard output that nobody reads is not taken for a lost daemon, and the other way round."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.endpoint import PROTOCOL_VERSION, Endpoint
from tests.shell import Shell
from tests.surroundings.strangers import DEADLINE_S, Lines, stranger
from tests.surroundings.test_waited_for import codex


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = stranger()
    yield made
    made.close()


def leave(process: subprocess.Popen[Any]) -> tuple[int, str]:
    """Read no more of what it prints. Its exit code, and what it said about that."""
    process.stdout.close()  # type: ignore[union-attr]
    process.stdin.close()  # type: ignore[union-attr]
    code = process.wait(DEADLINE_S)
    said = process.stderr.read().decode()  # type: ignore[union-attr]
    process.stderr.close()  # type: ignore[union-attr]
    process.stdin = process.stdout = process.stderr = None  # nothing is left to be closed with the home
    return code, said


def with_messages(shell: Shell, count: int) -> None:
    shell("new", "--id", "s")
    client = shell.client()
    messages = [{"role": "user", "content": f"message {number} {'x' * 2000}"} for number in range(count)]
    client.call("session/append", {"sessionId": "s", "messages": messages})
    client.close()


@pytest.mark.parametrize("count", [1, 200], ids=["while it waits", "while it prints"])
@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_19_a_tail_that_nobody_reads_ends(shell: Shell, as_json: bool, count: int) -> None:
    """`tail | head -1`, also where nothing more is said in the session: quietly, with exit code 1."""
    with_messages(shell, count)
    process = shell.start("tail", "s", "-n", str(count), *(["--json"] if as_json else []))
    Lines(process).until("message 0")
    assert leave(process) == (1, "")


@pytest.mark.parametrize("as_json", [False, True], ids=["people", "json"])
def test_19_an_import_that_nobody_reads_ends(shell: Shell, as_json: bool) -> None:
    """`import --follow | true`: it neither spins nor goes on unseen."""
    path = codex(shell.path / "rollouts")
    process = shell.start("import", "--follow", str(path.parent), *(["--json"] if as_json else []))
    assert leave(process) == (1, "")
    process = shell.start("import", "--follow", str(path.parent), *(["--json"] if as_json else []))
    Lines(process).until("sessions" if as_json else "following")
    assert leave(process) == (1, "")


@pytest.mark.parametrize(
    "arguments", [("list",), ("show", "s"), ("search", "message"), ("export", "s")], ids=lambda args: args[0]
)
def test_19_a_reader_that_has_seen_enough_is_no_error(shell: Shell, arguments: tuple[str, ...]) -> None:
    """Nothing is said about it, whatever the command."""
    with_messages(shell, 200)
    process = shell.start(*arguments)
    assert leave(process) in ((1, ""), (0, ""))


class Dying:
    """A daemon that takes the first bytes of each connection and is gone."""

    def __init__(self, shell: Shell) -> None:
        for name in ("run", "data"):
            (shell.path / name).mkdir(mode=0o700)
        path = shell.path / "run" / "s"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        (shell.data / "endpoint").write_bytes(Endpoint(str(path), PROTOCOL_VERSION, os.getpid(), "0", "x").encode())
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer:
                peer.recv(10)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.mark.parametrize(
    "arguments", [("append", "s"), ("list",), ("tail", "s", "-n", "0"), ("status",)], ids=lambda args: args[0]
)
def test_19_a_daemon_that_dies_is_said(shell: Shell, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Also under a request that it did not take whole: one line, and an exit code of its own."""
    dying = Dying(shell)
    try:
        if arguments[0] == "tail":  # it continues with the next daemon, and there is always one
            process = shell.start(*arguments)
            assert leave(process) == (1, "")
            return
        done = shell(*arguments, stdin="x" * 20_000_000 if arguments[0] == "append" else "")
        assert done.code == 1
        assert done.err.startswith("sessiond: the daemon closed the connection")
        assert done.err.count("\n") == 1
    finally:
        dying.close()
