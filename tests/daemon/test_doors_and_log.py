"""The files of the token and of the log."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond import config as configuration
from sessiond.daemon import listeners
from sessiond.daemon.core import Daemon
from sessiond.daemon.listeners import NetworkListeners, TokenFile, UnixDoor, tcp_listeners
from sessiond.daemon.log import logging_to
from sessiond.endpoint import Places, places, read_endpoint
from sessiond.errors import AlreadyExists, InvalidParams
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.transports import unix
from tests.fakes.clock import ManualClock


@pytest.fixture
def where(tmp_path: Path) -> Places:
    found = places({"HOME": "/", "SESSIOND_HOME": str(tmp_path)})
    os.mkdir(found.data, 0o700)
    return found


class Nobody:
    """An acceptor that is never asked."""

    def refusal(self, *_: Any) -> bytes | None:
        raise NotImplementedError

    def connect(self, *_: Any) -> Any:
        raise NotImplementedError


def doors(token: TokenFile) -> NetworkListeners:
    return tcp_listeners(token, Limits(), Nobody())


async def token_of(where: Places) -> str:
    token = TokenFile(RealFileSystem(), where)
    tcp = doors(token)
    address, _ = await tcp.listen(None, 0)
    tcp.close()
    file = Path(address.token_file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text() == f"{token.token}\n"
    return str(token.token)


async def test_a_token_lives_as_long_as_the_data_folder(where: Places) -> None:
    """A restart keeps it, so that a script continues; one that others could read, or that is cut off, is replaced."""
    first = await token_of(where)
    assert len(first) >= 43
    assert await token_of(where) == first
    os.chmod(where.data + "/token", 0o644)
    second = await token_of(where)
    assert second != first
    Path(where.data + "/token").write_text("short\n")
    assert await token_of(where) not in (second, "short")


async def test_what_cannot_be_listened_on_is_said(where: Places) -> None:
    """A taken port and a name that is not an address are errors of their kinds."""
    tcp = doors(TokenFile(RealFileSystem(), where))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AlreadyExists, match="is taken by another program"):
            await tcp.listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(InvalidParams, match="is not an address"):
        await tcp.listen("no such host", 0)
    assert tcp.status() is None
    tcp.close()


async def test_14_a_socket_that_could_not_be_put_back_is_put_back_later(
    where: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed while no descriptor is left: restoring is tried until it succeeds, and the old socket serves until then."""
    door = UnixDoor(RealFileSystem(), where, Limits(), Nobody(), version="0", instance="i")
    door.open()
    try:
        listen = unix.listen
        os.unlink(door.path)

        def fails(*_: Any) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

        monkeypatch.setattr(unix, "listen", fails)
        for _ in range(3):
            with pytest.raises(OSError, match="Too many open files"):
                await door.look_after()
        monkeypatch.setattr(unix, "listen", listen)
        await door.look_after()
        assert Path(door.path).is_socket()
        before = os.stat(door.path).st_ino
        await door.look_after()
        assert os.stat(door.path).st_ino == before
        Path(where.endpoint_file).unlink()
        await door.look_after()
        record = read_endpoint(where.data)
        assert record is not None
        assert (record.socket, os.stat(door.path).st_ino) == (door.path, before)
    finally:
        door.close()
    assert not os.path.exists(door.path)


@pytest.fixture
def door(where: Places) -> Iterator[UnixDoor]:
    made = UnixDoor(RealFileSystem(), where, Limits(), Nobody(), version="0", instance="i")
    yield made
    made.close()


def cannot_write(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_daemon_that_nobody_would_find_does_not_start(
    where: Places, door: UnixDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the last daemon leads here as well, so with that one it starts."""
    with monkeypatch.context() as patch:
        patch.setattr(listeners, "atomic_write", cannot_write)
        with pytest.raises(OSError, match="No space"):
            door.open()
        assert os.listdir(where.run) == []
    door.open()
    door.close()
    monkeypatch.setattr(listeners, "atomic_write", cannot_write)
    door.open()
    assert Path(door.path).is_socket()


async def test_a_socket_returns_to_its_folder(where: Places, door: UnixDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something was in the place of the folder for a while. Until the record leads to the new socket, the other one serves."""
    door.open()
    shutil.rmtree(where.run)
    Path(where.run).write_text("in the way")
    await door.look_after()
    away = door.path
    assert not away.startswith(where.run)
    os.unlink(where.run)
    with monkeypatch.context() as patch:
        patch.setattr(listeners, "atomic_write", cannot_write)
        await door.look_after()
        assert Path(away).is_socket()
    await door.look_after()
    record = read_endpoint(where.data)
    assert record is not None
    assert record.socket == door.path == where.run + "/sessiond.sock"
    assert Path(door.path).is_socket()
    assert not os.path.exists(away)


async def test_a_folder_that_clients_would_not_trust_is_made_private(where: Places, door: UnixDoor) -> None:
    door.open()
    os.chmod(where.run, 0o755)
    await door.look_after()
    assert stat.S_IMODE(os.stat(where.run).st_mode) == 0o700
    assert Path(door.path).is_socket()


async def test_whatever_goes_wrong_with_a_socket_is_tried_again(
    where: Places, door: UnixDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even after an exception that is not an OSError, which is logged once."""
    daemon = Daemon(RealFileSystem(), where, configuration.load(RealFileSystem(), where), ManualClock())
    daemon._unix = door
    door.open()
    os.unlink(door.path)

    def no_thread(*_: Any) -> Any:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(unix, "listen", no_thread)
        assert [await daemon._look_after_socket() for _ in range(3)] == [False] * 3
    assert [one.message for one in caplog.records if "new thread" in one.message] == [
        "the socket could not be restored: can't start new thread"
    ]
    assert await daemon._look_after_socket()
    assert Path(door.path).is_socket()


def test_the_log_rotates_and_stays_private(where: Places) -> None:
    """No file grows over its limit by more than a line, there are only so many, and all are 0600 under any umask."""
    before = os.umask(0)
    try:
        with logging_to(where, Limits(log_bytes=2000, log_files=2), on_stderr=False):
            for number in range(200):
                logging.getLogger("test").info("line %d", number)
    finally:
        os.umask(before)
    files = sorted(Path(where.log).iterdir())
    assert [file.name for file in files] == ["sessiond.log", "sessiond.log.1", "sessiond.log.2"]
    assert all(file.stat().st_size <= 2000 and stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert files[0].read_text().endswith("INFO    test: line 199\n")


def test_a_log_that_cannot_be_written_costs_only_the_log(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    """A file in the log folder's place: what was to be logged goes to stderr alone."""
    Path(where.log).write_text("")
    with logging_to(where, Limits(), on_stderr=True):
        logging.getLogger("test").info("still here")
    assert "still here" in capsys.readouterr().err
