"""Descriptors that are closed or full, and a demo that is told to end."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.shell import Shell, wait_until
from tests.surroundings.strangers import DEADLINE_S, Lines, stranger

CLOSED = [
    "".join(f" {fd}{'<' if fd == 0 else '>'}&-" for fd in some)
    for n in (1, 2, 3)
    for some in itertools.combinations((0, 1, 2), n)
]
FULL = [" >/dev/full", " 2>/dev/full", " >/dev/full 2>&1", " >/dev/full 2>&-", " <&- >/dev/full"]
COMMANDS = [
    "status",
    "status --json",
    "list",
    "list --json",
    "append s words",
    "show s",
    "search words",
    "export s",
    "doctor",
    "list --nonsense",
    "show none",
    "new",
    "--help",
    "--stdio",
]


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    made = stranger()
    assert made("new", "--id", "s").code == 0
    yield made
    made.close()


@pytest.mark.parametrize("redirected", [*CLOSED, *FULL])
def test_22_descriptors_that_are_closed_or_full(shell: Shell, redirected: str) -> None:
    """Every command ends, with an exit code of its own and never a traceback; where somebody can read it, one line says why."""
    for arguments in COMMANDS:
        line = f'exec "$0" -m sessiond {arguments}{redirected}'
        done = subprocess.run(
            ["/bin/sh", "-c", line, shell.command()[0]], env=shell.env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stdout + done.stderr, arguments
        assert "Exception ignored" not in done.stderr, arguments
        wrong = (
            2 if "nonsense" in arguments else 1 if "none" in arguments or "full" in redirected.partition("2>")[0] else 0
        )
        if not ("full" in redirected and wrong == 0) and arguments != "--help":
            assert done.returncode == (wrong if arguments != "--stdio" else 0), (arguments, done)
        if done.returncode and "2>" not in redirected:
            assert done.stderr.startswith(("sessiond: ", "Usage")), arguments
            assert done.stderr.count("\n") == 1, arguments


def test_22_a_message_that_was_taken_is_there_though_nobody_could_be_told(shell: Shell) -> None:
    """`append >&-` succeeds: a closed standard output means that nobody wants to read."""
    line = 'exec "$0" -m sessiond append s "told nobody" >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", line, shell.command()[0]],
        env=shell.env,
        cwd="/",
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "told nobody" in shell("show", "s").out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("step", ["A throwaway home", "1. ", "2. ", "3. "])
def test_22_a_demo_that_is_told_to_end_leaves_nothing(number: signal.Signals, step: str) -> None:
    """Neither its daemon nor its home, whichever step it is at."""
    shell = stranger()
    try:
        (shell.path / "t").mkdir()
        shell.env["TMPDIR"] = str(shell.path / "t")
        process = shell.start("demo")
        Lines(process).until(step)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) in (-number, 130)
        assert list((shell.path / "t").iterdir()) == []
        wait_until(lambda: not daemons_of(str(shell.path)))
    finally:
        shell.close()


def daemons_of(home: str) -> list[str]:
    """Processes with a home in that folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if f"SESSIOND_HOME={home}/".encode() in environ and b"sessiond" in command:
            found.append(pid)
    return found
