"""Finding the daemon: who is trusted, and what is reported if it does not answer or could not be started."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond import endpoint, reach
from sessiond.endpoint import Endpoint, Places
from sessiond.reach import Unreachable


@pytest.fixture
def where(tmp_path: Path) -> Places:
    made = endpoint.places({"HOME": "/", "SESSIOND_HOME": str(tmp_path)})
    for folder in (made.run, made.data):
        endpoint.make_private_dir(folder)
    return made


def listening(where: Places) -> socket.socket:
    """A socket of ours where the daemon's would be, and the record that names it."""
    path = f"{where.run}/s.sock"
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    sock.listen()
    Path(where.endpoint_file).write_bytes(Endpoint(path, endpoint.PROTOCOL_VERSION, 1, "9", "x").encode())
    return sock


def test_a_process_of_somebody_elses_is_not_talked_to(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the uid of the process that took our socket's place, and we send it nothing."""
    monkeypatch.setattr(reach, "peer_uid", lambda connection: 12345)
    with listening(where) as sock:
        with pytest.raises(Unreachable, match="belongs to uid 12345"):
            reach.reach(where, start=False, patience_s=1.0)
        peer, _ = sock.accept()
        with peer:
            assert peer.recv(100) == b""


def test_a_daemon_that_neither_comes_nor_goes(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that holds the lock and does not answer is named by its pid when the time is over."""
    monkeypatch.setattr(reach, "spawn", lambda where: said(b"taken"))
    Path(where.endpoint_file).write_bytes(Endpoint(f"{where.run}/gone", 1, 4711, "9", "x").encode())
    with pytest.raises(Unreachable, match=r"a daemon \(pid 4711\) holds .* does not answer; run `sessiond doctor`"):
        reach.reach(where, patience_s=0.0)
    os.unlink(where.endpoint_file)
    with pytest.raises(Unreachable, match="another process holds"):
        reach.reach(where, patience_s=0.1)


def said(word: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, word)
    os.close(writing)
    return reading


def test_a_start_that_fails_says_why(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the daemon's own words; where it said none, in the last ones of its log."""
    monkeypatch.setattr(reach, "spawn", lambda where: said(b"failed the configuration is wrong\n"))
    with pytest.raises(Unreachable, match=r"^the configuration is wrong$"):
        reach.reach(where, patience_s=5.0)

    def dying(where: Places) -> int:
        endpoint.make_private_dir(where.log)
        Path(where.start_log).write_text("Traceback\nMemoryError: none left\n")
        return said(b"")

    monkeypatch.setattr(reach, "spawn", dying)
    with pytest.raises(Unreachable, match=r"could not be started: .*MemoryError: none left"):
        reach.reach(where, patience_s=5.0)


def test_a_start_that_takes_too_long_is_no_failure(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the start continues, and where to look."""
    reading, writing = os.pipe()
    monkeypatch.setattr(reach, "spawn", lambda where: reading)
    with pytest.raises(Unreachable, match="not ready yet"):
        reach.reach(where, patience_s=0.0)
    os.close(writing)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionResetError),
        (b'{"id":1', ConnectionResetError),
        (b"[1]\n", ValueError),
        (b'{"id":1,"error":{}}\n', ValueError),
        (b"HTTP/1.1 400\n", ValueError),
    ],
)
def test_an_answer_that_is_none(answer: bytes, error: type[Exception]) -> None:
    """The other end is not a daemon, or a dead one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(answer)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(error):
            reach.call(ours, "daemon/hello")
        assert theirs.recv(1000).startswith(b'{"jsonrpc":"2.0","id":1,"method":"daemon/hello"')


def test_an_older_daemon_is_told_to_stop(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked to stop, not killed; waiting callers are told while it is still stopping."""
    heard: list[bytes] = []

    def serve(sock: socket.socket, answer: Callable[[bytes], bytes]) -> None:
        peer, _ = sock.accept()
        with peer, peer.makefile("rb") as lines:
            for line in lines:
                heard.append(line)
                peer.sendall(answer(line))

    def old(line: bytes) -> bytes:
        return b'{"id":1,"result":{"protocolVersion":0,"version":"0.1"}}\n'

    with listening(where) as sock:
        Path(where.endpoint_file).write_bytes(Endpoint(f"{where.run}/s.sock", 0, 1, "0.1", "x").encode())
        thread = threading.Thread(target=serve, args=(sock, old), daemon=True)
        thread.start()
        with pytest.raises(Unreachable, match=r"older daemon \(version 0.1\) is still stopping"):
            reach.reach(where, patience_s=0.0)
        thread.join()
    assert [b"daemon/hello" in line or b"daemon/stop" in line for line in heard] == [True, True]


def test_the_log_of_starts_does_not_grow_for_ever(where: Places) -> None:
    """Beyond its size it is begun again."""
    endpoint.make_private_dir(where.log)
    log = Path(where.start_log)
    for size, left in ((reach.START_LOG_BYTES, reach.START_LOG_BYTES), (reach.START_LOG_BYTES + 1, 0)):
        log.write_bytes(b"x" * size)
        os.close(reach._open_start_log(where))
        assert log.stat().st_size == left


def test_a_daemon_that_was_just_started_is_not_asked_who_it_is(where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs this very code: once it says that it is ready it is dialled once, whatever an old record says of its version."""
    with listening(where) as sock:
        Path(where.endpoint_file).unlink()

        def start(where: Places) -> int:
            record = Endpoint(f"{where.run}/s.sock", 0, 1, "0.1", "x")
            Path(where.endpoint_file).write_bytes(record.encode())
            return said(b"ready")

        monkeypatch.setattr(reach, "spawn", start)
        connection = reach.reach(where, patience_s=5.0)
        connection.sendall(b"the first word")
        peer, _ = sock.accept()
        with peer:
            assert peer.recv(100) == b"the first word"
        connection.close()
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            sock.accept()
