"""While the disk is full, what is said to an agent waits, and is recorded in order when there is room."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from sessiond.acp import spool as spooling
from sessiond.acp.spool import AGENT, EDITOR, END, HEAD, Spool, SpoolReader
from tests.acp.editor import AGENT as PROGRAM
from tests.acp.editor import Peer, recorded, spools
from tests.shell import Shell

pytestmark = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process")


def begun(shell: Shell) -> Peer:
    """An editor with an agent."""
    peer = Peer(shell.start("acp", "--", sys.executable, str(PROGRAM), "s1", stderr=subprocess.PIPE), "s1")
    peer.initialize()
    peer.call("session/new", cwd="/tmp", mcpServers=[])
    return peer


def allow(peer: Peer, size: int) -> None:
    """From here on no file of the process that passes the bytes becomes longer."""
    _, hard = resource.prlimit(peer.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(peer.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def told(peer: Peer) -> str:
    assert peer.process.stderr is not None
    return str(peer.process.stderr.readline(), "utf-8")


def test_what_was_said_meanwhile_is_recorded(shell: Shell) -> None:
    """A frame that was written in part goes on there; and the editor is told."""
    peer = begun(shell)
    peer.until(peer.prompt("before"))
    (path,) = spools(shell)
    allow(peer, path.stat().st_size + 10)
    peer.until(peer.prompt("while full"))
    assert "waits in memory" in told(peer)
    peer.until(peer.prompt("still full"))
    allow(peer, resource.RLIM_INFINITY)
    assert told(peer) == "sessiond: what waited is recorded\n"
    peer.until(peer.prompt("after"))
    peer.end()
    assert peer.process.stderr is not None and peer.process.stderr.read() == b""
    said = ["before", "while full", "still full", "after"]
    assert [one.text for one in recorded(shell) if one.role == "user"] == said


def test_what_is_lost_at_the_end_is_told(shell: Shell) -> None:
    """The agent ends while the disk is still full."""
    peer = begun(shell)
    peer.until(peer.prompt("before"))
    allow(peer, spools(shell)[0].stat().st_size + 10)
    peer.until(peer.prompt("while full"))
    assert "waits in memory" in told(peer)
    peer.end()
    assert "bytes of what was said here are recorded nowhere" in told(peer)
    assert [one.text for one in recorded(shell) if one.role == "user"] == ["before"]


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, frames are left out, and what comes next begins a line. The end is always noted."""
    write, room = os.write, False

    def full(descriptor: int, data: bytes) -> int:
        if descriptor == spool.descriptor and not room:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data)

    spool = Spool.made(str(tmp_path / "data" / "acp"), b"{}")
    monkeypatch.setattr(spooling, "MOST_WAITING", 100)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="full"):
        spool.write(EDITOR, b"half a line")
    spool.add(AGENT, b"x" * 50)
    spool.add(EDITOR, b"y" * 50)
    spool.add(END, b"0")
    assert spool.left_out == 50
    room = True
    spool.flush()
    spool.write(AGENT, b"agent")
    spool.write(EDITOR, b"editor")
    assert spool.waiting == 0
    frames = [(kind, data) for kind, _, data in SpoolReader(spool.descriptor).frames()]
    assert frames == [
        (HEAD, b"{}"),
        (EDITOR, b"half a line"),
        (AGENT, b"x" * 50),
        (END, b"0"),
        (AGENT, b"agent"),
        (EDITOR, b"\neditor"),
    ]
    os.close(spool.descriptor)
