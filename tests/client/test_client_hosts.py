"""Programs in odd states start a daemon that works, and that inherits nothing of their state."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond import reach
from sessiond.client import DaemonUnreachable, connect
from tests.shell import Shell, wait_until

_BEGIN = """
import os, resource, signal, sys
from sessiond.client import connect
"""
_USE = """
with connect(timeout_s=30) as client:
    above = client._link._connection.fileno() > 2
    print(client.new(name="made").info().name, above, client.status().pid, file=open(sys.argv[1], "w"))
"""


def run_host(shell: Shell, state: str, *, pass_fds: tuple[int, ...] = ()) -> tuple[str, int]:
    """Run a program that gets into a state and then uses a client. What it learned, and the pid of its daemon."""
    told = shell.path / "told"
    subprocess.run(
        [sys.executable, "-c", _BEGIN + state + _USE, str(told)],
        env=shell.env, cwd="/", timeout=60, check=True, pass_fds=pass_fds,
    )  # fmt: skip
    *learned, pid = told.read_text().split()
    return " ".join(learned), int(pid)


def ended(shell: Shell) -> bool:
    return not shell.held()


@pytest.mark.parametrize("closed", ["(0, 1, 2)", "(0,)", "(1,)", "(2,)", "(0, 2)"])
def test_a_program_without_standard_files(shell: Shell, closed: str) -> None:
    """The daemon starts, and the client's connection is not where the program's output goes."""
    assert run_host(shell, f"for fd in {closed}: os.close(fd)")[0] == "made True"


def test_a_program_that_blocks_signals(shell: Shell) -> None:
    """SIGTERM ends the daemon nevertheless."""
    _, pid = run_host(shell, "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: ended(shell))


@pytest.mark.parametrize(
    "state",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.signal(signal.SIGCHLD, lambda *_: os.waitpid(-1, os.WNOHANG))",
        "for one in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT): signal.signal(one, signal.SIG_IGN)",
    ],
)
def test_a_program_whose_children_are_not_waited_for(shell: Shell, state: str) -> None:
    """Nothing waits for a zombie that never comes; and the daemon learns how the processes that it starts itself end."""
    said, pid = run_host(shell, state)
    assert said == "made True"
    if sys.platform == "linux":
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        masks = {name: int(value, 16) for name, value in (line.split(":\t") for line in status if line.startswith("Sig"))
                 if name != "SigQ"}  # fmt: skip
        ignored = {one for one in signal.valid_signals() if masks["SigIgn"] >> (one - 1) & 1}
        assert ignored <= {signal.SIGPIPE, signal.SIGXFSZ}
        assert not masks["SigBlk"]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: ended(shell))


def test_a_program_with_files_beyond_its_limit(shell: Shell) -> None:
    """The daemon keeps none of them open, also none with a greater number than the limit that holds by then."""
    reading, writing = os.pipe()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    state = f"""
os.dup2({writing}, {soft} - 1)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
"""
    run_host(shell, state, pass_fds=(writing,))
    os.close(writing)
    with open(reading, "rb") as file:
        os.set_blocking(reading, False)
        assert file.read() == b""  # its end: nobody can write any more


def test_a_start_for_which_nothing_is_left(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and leaves no file open."""

    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = set(os.listdir("/dev/fd"))
    monkeypatch.setattr(reach.os, "fork", fork)
    with pytest.raises(DaemonUnreachable, match=r"could not be started: .*temporarily unavailable"):
        connect(home=str(shell.path), timeout_s=5)
    assert set(os.listdir("/dev/fd")) <= before
