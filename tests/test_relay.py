"""The relay as an editor runs it: a real process between pipes, with the test's own socket at the other end."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sessiond import endpoint, reach, relay

Answering = Callable[[socket.socket], None]
HELLO = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":%d,"version":"9.9","pid":1,"instanceId":"x"}}\n'


class Stand:
    """A socket where a daemon's would be, and the record that names it. Each connection is handed to `answer`."""

    def __init__(
        self, home: Path, answer: Answering, protocol: int = endpoint.PROTOCOL_VERSION, *, greets: bool = False
    ) -> None:
        self.greets = greets
        self.where = endpoint.places({"HOME": "/", "SESSIOND_HOME": str(home)})
        self.path = endpoint.prepare_socket_path(self.where)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        endpoint.make_private_dir(self.where.data)
        self.record(protocol)
        self.answer = answer
        self.connections = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def record(self, protocol: int) -> None:
        record = endpoint.Endpoint(self.path, protocol, os.getpid(), "9.9", "x", greets=self.greets)
        Path(self.where.endpoint_file).write_bytes(record.encode())

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                with connection, contextlib.suppress(OSError):
                    self.answer(connection)

    def close(self) -> None:
        self.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def reset(connection: socket.socket) -> None:
    """Unread input and a close: the other side sees ECONNRESET, as when a process is killed."""
    select.select([connection], [], [])
    connection.close()


def greet(connection: socket.socket) -> None:
    assert connection.recv(1) == endpoint.GREETING
    connection.sendall(endpoint.GREETED)


def echo(connection: socket.socket) -> None:
    while chunk := connection.recv(65536):
        connection.sendall(chunk)


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def stand(user_home: Path) -> Iterator[Callable[..., Stand]]:
    stands: list[Stand] = []

    def make(answer: Answering, protocol: int = endpoint.PROTOCOL_VERSION, *, greets: bool = False) -> Stand:
        stands.append(Stand(user_home, answer, protocol, greets=greets))
        return stands[-1]

    yield make
    for one in stands:
        one.close()


def environment(home: Path) -> dict[str, str]:
    parent = str(Path(relay.__file__).resolve().parent.parent)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "SESSIOND_HOME": str(home), "PYTHONPATH": parent}


@pytest.fixture
def run(user_home: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        command = [sys.executable, *python, "-m", "sessiond", *arguments]
        pipe = subprocess.PIPE
        measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
        env = environment(user_home) | measured
        running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd="/"))
        return running[-1]

    yield start
    for process in running:
        process.terminate()
        process.communicate()


def test_fast_path_imports_next_to_nothing(user_home: Path, stand: Callable[..., Stand]) -> None:
    """With a daemon there, the relay that an editor waits for has loaded none of the slow modules."""
    stand(echo)
    as_the_script_does = "import sys; from sessiond.__main__ import main; sys.exit(main())"
    done = loading(as_the_script_does, user_home)
    assert done.stdout == b"x"
    loaded = modules(done) - modules(loading("pass", user_home))
    assert {"sessiond.relay", "_socket", "select"} <= loaded
    slow = {"asyncio", "pygls", "lsprotocol", "attrs", "attr", "msgspec", "platformdirs", "typing", "json", "pathlib",
            "re", "socket", "selectors", "subprocess", "signal", "click", "contextlib", "logging"}  # fmt: skip
    assert not loaded & slow
    assert len(loaded) <= 9, sorted(loaded)


def loading(program: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-X", "importtime", "-c", program]
    return subprocess.run(command, input=b"x", capture_output=True, env=environment(home), check=True, timeout=20)


def modules(done: subprocess.CompletedProcess[bytes]) -> set[str]:
    return {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}


def test_bytes_go_through_unchanged_both_ways(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Eight megabytes of any bytes come back the same, many times what the relay holds at once."""
    stand(echo)
    data = os.urandom(1 << 20) * 8
    out, err = run("--stdio", "--clientProcessId=1").communicate(data, timeout=30)
    assert (out == data, err) == (True, b"")


def test_a_half_closed_client_still_gets_its_answers(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The end of input is passed on, and what the daemon says after it still arrives."""

    def answer_at_the_end(connection: socket.socket) -> None:
        said = b"".join(iter(lambda: connection.recv(100), b""))
        connection.sendall(b"you said " + said)

    stand(answer_at_the_end)
    process = run()
    assert process.communicate(b"good bye", timeout=20) == (b"you said good bye", b"")
    assert process.returncode == 0


def test_the_daemon_closing_ends_the_relay(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A client whose daemon stopped sees its server end, though its own side is still open."""
    stand(lambda connection: connection.sendall(b"bye"))
    process = run()
    assert process.stdout is not None
    assert process.stdout.read() == b"bye"
    assert process.wait(20) == 0


def test_the_client_leaving_ends_the_relay_after_its_last_words(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A client that dies right after a message: the message arrives, the relay ends, the connection too."""
    heard = bytearray()
    ended = threading.Event()

    def listen(connection: socket.socket) -> None:
        connection.sendall(b"hello")
        while chunk := connection.recv(100):
            heard.extend(chunk)
        ended.set()

    stand(listen)
    process = run()
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.read(5) == b"hello"
    process.stdout.close()
    process.stdin.write(b"last words")
    process.stdin.flush()
    assert process.wait(20) == 0  # with its standard input still open
    assert ended.wait(20)
    assert heard == b"last words"


def test_a_reader_who_sleeps_slows_the_sender(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A relay whose client does not read takes no more from the daemon than pipes and one chunk hold."""
    taken = 0
    full = threading.Event()

    def flood(connection: socket.socket) -> None:
        nonlocal taken
        connection.settimeout(0.3)
        chunk = b"x" * 65536
        try:
            while taken < 64 << 20:
                taken += connection.send(chunk)
        except TimeoutError:
            full.set()

    stand(flood)
    process = run()
    assert full.wait(20)
    assert taken < 4 << 20
    process.kill()


def test_a_reset_before_the_greeting_is_dialled_again(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """What was sent to a daemon that was just being killed is sent again to the next one, and answered once."""

    def die_twice(connection: socket.socket) -> None:
        if daemon.connections < 3:
            reset(connection)
        else:
            greet(connection)
            echo(connection)

    daemon = stand(die_twice, greets=True)
    process = run()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"initialize")
    process.stdin.flush()
    assert process.stdout.read(10) == b"initialize"
    assert process.communicate(timeout=20) == (b"", b"")
    assert daemon.connections == 3


@pytest.mark.parametrize("greets", [True, False])
def test_a_reset_after_the_greeting_ends_the_relay(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]], greets: bool
) -> None:
    """What was sent may have been done, so it is not sent again, and that is said. So it is if the daemon, an older one, does
    not greet.
    """

    def die(connection: socket.socket) -> None:
        if greets:
            greet(connection)
        connection.recv(1)
        reset(connection)

    daemon = stand(die, greets=greets)
    process = run()
    assert process.stdin is not None
    process.stdin.write(b"append")
    process.stdin.flush()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 69
    assert b"may have been done, or not" in err
    assert daemon.connections == 1


def test_an_end_before_the_first_answer_is_not_an_orderly_one(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The daemon has read all that was sent, and is gone."""

    def die(connection: socket.socket) -> None:
        greet(connection)
        assert connection.recv(6, socket.MSG_WAITALL) == b"append"

    stand(die, greets=True)
    process = run()
    assert process.stdin is not None
    process.stdin.write(b"append")
    process.stdin.flush()
    assert process.wait(20) == 69  # its input is open
    assert b"may have been done, or not" in process.communicate(timeout=20)[1]


def test_what_a_daemon_says_instead_of_a_greeting_goes_through(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A refusal, for example because there are too many connections."""
    stand(lambda connection: connection.sendall(b"too many"), greets=True)
    process = run()
    assert process.stdout is not None
    assert process.stdout.read() == b"too many"
    assert process.wait(20) == 0


def test_little_is_taken_before_the_greeting_and_all_of_it_after(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Everything that is kept can be sent again; a client that sends more than that waits."""
    sent = threading.Event()
    data = os.urandom(1 << 20) * 3

    def late(connection: socket.socket) -> None:
        if daemon.connections == 1:
            assert not sent.wait(0.5), "more was taken than may be kept"
            reset(connection)
        else:
            greet(connection)
            echo(connection)

    daemon = stand(late, greets=True)
    process = run()
    assert process.stdin is not None
    assert process.stdout is not None

    def send() -> None:
        assert process.stdin is not None
        process.stdin.write(data)
        sent.set()
        process.stdin.close()
        process.stdin = None

    writer = threading.Thread(target=send)
    writer.start()
    assert process.stdout.read() == data
    writer.join(20)
    assert process.wait(20) == 0


def test_nothing_is_sent_twice_after_an_answer(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A daemon that is killed after it has answered ends the relay: its messages may have been carried out."""

    def answer_once(connection: socket.socket) -> None:
        connection.sendall(connection.recv(100))
        reset(connection)

    daemon = stand(answer_once)
    process = run()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one")
    process.stdin.flush()
    assert process.stdout.read(3) == b"one"
    process.stdin.write(b"two")
    process.stdin.flush()
    assert process.wait(20) == 0
    assert daemon.connections == 1


def test_a_daemon_that_resets_for_ever_is_given_up(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Dialling again has an end, exit code 69 and a word to the user."""
    daemon = stand(reset, greets=True)
    process = run()
    _, err = process.communicate(b"initialize", timeout=20)
    assert process.returncode == 69
    assert b"closed the connection 8 times" in err
    assert daemon.connections == relay.MAX_DIALS


def test_a_newer_daemon_is_refused_with_a_clear_word(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A daemon of a later protocol is neither used nor replaced."""
    heard: list[bytes] = []

    def newer(connection: socket.socket) -> None:
        heard.append(connection.recv(1000))
        connection.sendall(HELLO % 2)

    stand(newer, protocol=2)
    process = run()
    out, err = process.communicate(b"x", timeout=20)
    assert (process.returncode, out) == (69, b"")
    assert b"a newer daemon is running (version 9.9, protocol 2" in err
    assert len(heard) == 1
    assert b"daemon/hello" in heard[0]


def test_whoever_starts_no_daemon_may_talk_to_a_newer_one(stand: Callable[..., Stand]) -> None:
    """`stop` works on any later daemon, for that part of the protocol is frozen."""

    def newer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(HELLO % 2)

    daemon = stand(newer, protocol=2)
    connection = reach.reach(daemon.where, start=False)
    connection.sendall(b"x")
    assert connection.recv(1000) == HELLO % 2
    connection.close()


def test_a_socket_in_a_folder_open_to_others_is_not_trusted(user_home: Path, stand: Callable[..., Stand]) -> None:
    """Where others may put a socket, nobody dials."""
    daemon = stand(echo)
    os.chmod(os.path.dirname(daemon.path), 0o755)
    with pytest.raises(reach.Unreachable, match="cannot be trusted"):
        reach.reach(daemon.where, start=False)
    assert daemon.connections == 0


def test_peer_uid_is_ours_over_a_socket_of_ours() -> None:
    """The kernel names the user at the other end."""
    from sessiond.reach import peer_uid

    one, two = socket.socketpair()
    with one, two:
        assert peer_uid(one) == os.geteuid()
    if sys.platform == "linux":
        assert struct.calcsize("iII") == 12


def test_no_daemon_and_none_wanted(user_home: Path) -> None:
    """Without permission to start one, the error says that no daemon runs, and no folder is created."""
    with pytest.raises(reach.Unreachable, match="no daemon runs"):
        reach.reach(endpoint.places({"HOME": "/", "SESSIOND_HOME": str(user_home / "none")}), start=False)
    assert not (user_home / "none").exists()


def test_a_client_that_is_gone_is_noticed_by_its_pid(
    stand: Callable[..., Stand], run: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--clientProcessId ends a relay whose pipes somebody else still holds open."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    near, far = socket.socketpair()
    read_end, write_end = os.pipe()
    monkeypatch.setattr(relay, "CLIENT_CHECK_MS", 10)
    pump = relay.RelayPump(near.fileno(), write_end, gone.pid)
    one, two = socket.socketpair()
    with near, far, one, two:
        assert pump.run(one.fileno()) == relay.DONE  # or it would go on for ever
    os.close(read_end)
    os.close(write_end)
