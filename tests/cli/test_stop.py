"""`sessiond stop` while others start daemons."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from sessiond.cli import stop as module
from sessiond.client import connect
from sessiond.endpoint import Endpoint
from sessiond.errors import DaemonUnreachable
from tests.shell import Shell

PID, ANOTHER = 2**30, 2**30 + 1
"""Of no process."""


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Endpoint]:
    """The folder stays held. The records that are read there, one after the other, the last one again and again."""
    records = [Endpoint("s", 1, PID, "1", "told")]
    monkeypatch.setenv("SESSIOND_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_tell_it", lambda _: (PID, "told"))
    monkeypatch.setattr(module, "is_held", lambda _: True)
    monkeypatch.setattr(module, "read_endpoint", lambda _: records.pop(0) if len(records) > 1 else records[0])
    return records


def test_another_daemon_that_has_taken_the_folder_is_not_waited_for(held: list[Endpoint]) -> None:
    """Even if it has the pid of the one that was told to stop, which is free by then."""
    held.append(Endpoint("s", 1, ANOTHER, "1", "another"))
    assert module.stop() == (PID, ANOTHER)
    held[:] = [Endpoint("s", 1, PID, "1", "another")]
    assert module.stop() == (PID, PID)


def test_what_holds_the_folder_is_named_after_all_patience(
    held: list[Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon itself if it still runs; otherwise one that has begun to start."""
    monkeypatch.setattr(module, "_GRACE_S", -module.DEFAULT.shutdown_s)
    with pytest.raises(DaemonUnreachable, match="has stopped, but another one"):
        module.stop()
    monkeypatch.setattr(module, "_lives", lambda _: True)
    with pytest.raises(DaemonUnreachable, match="still running"):
        module.stop()


def test_who_was_connected_is_named(shell: Shell) -> None:
    """An editor starts a daemon again; so whoever stops it is told which one that will be."""
    with connect(home=str(shell.path), name="emacs"), connect(home=str(shell.path), name="vim"):
        done = shell("stop")
        assert done.code == 0
        assert "has stopped; emacs and vim were connected and may start it again" in done.out
        shell("list")
        assert shell("stop", "--json").json.keys() == {"stopped", "pid"}


def test_a_stop_while_clients_start_daemons_ends_with_its_daemon(shell: Shell) -> None:
    """Whoever has the folder then; and it says who started that one, where the system tells."""
    shell("list")
    over = threading.Event()

    def start_again() -> None:
        while not over.is_set():
            shell("list")

    starting = [threading.Thread(target=start_again) for _ in range(2)]
    for one in starting:
        one.start()
    try:
        done = [shell("stop") for _ in range(3)]
    finally:
        over.set()
        for one in starting:
            one.join()
    assert [one.code for one in done] == [0, 0, 0], [one.err for one in done]
    assert all("has stopped" in one.out or "no daemon" in one.out for one in done)
    assert all("by a client" in one.out for one in done if "another" in one.out and Path("/proc/self/cmdline").exists())


def test_the_starter_is_read_off_the_command_line() -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("this system shows no command lines")
    for more, starter in (
        ("--ready-fd", "started by a client"),
        ("", "started by `sessiond serve`, as a service does"),
    ):
        with subprocess.Popen(
            ["sh", "-c", "echo; read _", "sessiond", more], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as one:
            assert one.stdout is not None
            one.stdout.readline()  # it runs, so its command line is there
            assert module._starter(one.pid) == starter
            one.communicate(b"\n")
    assert module._starter(PID) == ""
