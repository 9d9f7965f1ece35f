"""transports/unix.py, tcp.py, listener.py, stream.py: real sockets, an echo behind them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.errors import ConfigError
from sessiond.limits import Limits
from sessiond.transports import tcp, unix
from sessiond.transports.channel import Channel
from sessiond.transports.framing import Fault, encode
from sessiond.transports.listener import Listener


class Echo:
    """A receiver that sends back what it gets; `hold` and `end` are commands."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.got: list[bytes] = []
        self.faults: list[Fault] = []
        self.choked_times = 0
        self.drained_times = 0
        self.lost_times = 0
        self.gone = asyncio.Event()

    def received(self, message: bytes) -> None:
        self.got.append(message)
        if message == b"{hold}":
            self.channel.hold()
        elif message == b"{end}":
            self.channel.send(b"{bye}", soon=True)
            self.channel.close()
        else:
            self.channel.send(message, soon=True)

    def broken(self, fault: Fault) -> None:
        self.faults.append(fault)
        self.channel.send(fault.kind.encode())
        self.channel.close(linger=True)

    def ended(self) -> None:
        self.channel.close()

    def choked(self) -> None:
        self.choked_times += 1
        self.channel.hold()

    def drained(self) -> None:
        self.drained_times += 1
        self.channel.release()

    def lost(self) -> None:
        self.lost_times += 1
        self.gone.set()


class Acceptor:
    def __init__(self) -> None:
        self.made: list[Echo] = []
        self.word: bytes | None = None
        self.limit = 1000

    def refusal(self, trusted: bool, coming: int = 0) -> bytes | None:
        return self.word if len(self.made) + coming < self.limit else b"{full}"

    def connect(self, channel: Channel) -> Echo:
        self.made.append(Echo(channel))
        return self.made[-1]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sd-") as made:
        yield Path(made)


def listen(path: Path, limits: Limits | None = None) -> tuple[unix.UnixListener, Acceptor]:
    acceptor = Acceptor()
    return unix.listen(str(path), acceptor, limits or Limits()), acceptor


async def dial(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(str(path), limit=2**24)


async def end(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), 10)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        return


async def test_modes(folder: Path) -> None:
    """The socket is 0600 in a folder that is made 0700, and nothing else is left lying there."""
    path = folder / "new" / "s.sock"
    listener, _ = listen(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["s.sock"]
    listener.close()
    assert os.listdir(path.parent) == []


async def test_open_folder_is_refused(folder: Path) -> None:
    """A folder that others may enter is refused with a hint, and not touched."""
    folder.chmod(0o755)
    with pytest.raises(ConfigError) as raised:
        listen(folder / "s.sock")
    assert "chmod 700" in str(raised.value.hint)
    assert os.listdir(folder) == []


async def test_takes_over_a_stale_path(folder: Path) -> None:
    """A socket that nobody listens on any more is replaced in one step; the path is never without a socket."""
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener, acceptor = listen(path)
    reader, writer = await dial(path)
    writer.write(b"{1}\n")
    assert await reader.readline() == b"{1}\n"
    assert len(acceptor.made) == 1
    await hang_up(writer)
    listener.close()


async def test_a_path_that_is_taken_over_is_never_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that dials while a second daemon takes over finds one of the two: nothing removes the name first."""
    path = folder / "s.sock"
    first, _ = listen(path)
    gone: list[str] = []
    unlink = os.unlink

    def watched(name: str) -> None:
        gone.append(str(name))
        unlink(name)

    monkeypatch.setattr(os, "unlink", watched)
    second, _ = listen(path)
    assert str(path) not in gone
    assert second.in_place()
    monkeypatch.undo()
    first.close()
    second.close()


async def test_close_leaves_a_successor_alone(folder: Path) -> None:
    """A listener knows when its path was taken by another, and does not remove that one's socket."""
    path = folder / "s.sock"
    first, _ = listen(path)
    assert first.in_place()
    second, _ = listen(path)
    assert not first.in_place()
    first.close()
    assert second.in_place()
    path.unlink()
    assert not second.in_place()
    second.close()
    second.close()


async def test_other_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer of another uid is closed before anything is read from it."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    monkeypatch.setattr(unix, "peer_uid", lambda _: os.getuid() + 1)
    reader, writer = await dial(path)
    assert await end(reader) == b""
    assert acceptor.made == []
    await hang_up(writer)
    listener.close()


async def test_peer_uid_is_ours() -> None:
    """The kernel tells the uid of the other end."""
    one, two = socket.socketpair()
    with one, two:
        assert unix.peer_uid(one) == os.getuid()


def test_inherited_socket(folder: Path) -> None:
    """A socket that a service manager hands over is taken, and the variables do not reach children."""
    path = str(folder / "s.sock")
    script = """
import os
os.environ["LISTEN_PID"] = str(os.getpid())
from sessiond.transports.unix import inherited_sockets
print([s.getsockname() for s in inherited_sockets()], "LISTEN_FDS" in os.environ, inherited_sockets())
"""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()

        def hand_over() -> None:
            os.dup2(sock.fileno(), 3)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            done = subprocess.run(
                [sys.executable, "-c", script],
                env={**os.environ, "LISTEN_FDS": "1"},
                preexec_fn=hand_over,
                close_fds=False,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
    assert done.stdout.strip() == f"[{path!r}] False []", done.stderr


async def test_refusal(folder: Path) -> None:
    """A peer that is one too many gets a word and the end, and no channel is made."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    acceptor.word = b"full"
    reader, writer = await dial(path)
    assert await end(reader) == encode(b"full\n", lines=False)
    assert acceptor.made == []
    await hang_up(writer)
    listener.close()


async def test_a_burst_is_counted_before_it_is_in(folder: Path) -> None:
    """Of many that come in one turn of the loop only as many are let in as there is room for; the others are told."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    acceptor.limit = 5
    crowd = []
    for _ in range(40):  # nothing is accepted meanwhile
        crowd.append(socket.socket(socket.AF_UNIX))
        crowd[-1].connect(str(path))
    while len(acceptor.made) < 5:
        await asyncio.sleep(0)
    told, loop = 0, asyncio.get_running_loop()
    for sock in crowd:
        with sock:
            sock.setblocking(False)
            with contextlib.suppress(BrokenPipeError):
                await loop.sock_sendall(sock, b"{1}\n")
            told += await loop.sock_recv(sock, 100) == encode(b"{full}\n", lines=False)
    assert (len(acceptor.made), told) == (5, 35)
    listener.close()


async def test_out_of_descriptors(folder: Path) -> None:
    """Without a descriptor left, a peer is told and closed with the spare one, the loop does not spin, and after it all
    is well.
    """
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/dev/fd"))
    client = socket.socket(socket.AF_UNIX)
    turns = 0
    accept = listener._accept_waiting

    def counted() -> None:
        nonlocal turns
        turns += 1
        accept()

    loop = asyncio.get_running_loop()
    loop.add_reader(listener.socket, counted)
    hoard = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
        while True:
            try:
                hoard.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        client.setblocking(False)
        await loop.sock_connect(client, str(path))
        told = await asyncio.wait_for(loop.sock_recv(client, 4096), 10)
        assert b"file descriptor" in told
        assert await asyncio.wait_for(loop.sock_recv(client, 4096), 10) == b""
        assert acceptor.made == []
        assert turns < 5
    finally:
        for descriptor in hoard:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.close()
    reader, writer = await dial(path)
    writer.write(b"{1}\n")
    assert await reader.readline() == b"{1}\n"
    await hang_up(writer)
    listener.close()


async def test_hold_and_half_close(folder: Path) -> None:
    """A held channel delivers nothing, not even the end; released, it delivers all in order and then the end."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    reader, writer = await dial(path)
    writer.write(b"{1}\n{hold}\n{2}\n{3}")
    writer.write_eof()
    assert await reader.readline() == b"{1}\n"
    [echo] = acceptor.made
    assert echo.got == [b"{1}", b"{hold}"]
    echo.channel.release()
    assert await end(reader) == b"{2}\n{3}\n"
    await asyncio.wait_for(echo.gone.wait(), 10)
    assert echo.lost_times == 1
    await hang_up(writer)
    assert listener.channels == set()
    listener.close()


async def test_nothing_is_lost_between_release_and_more(folder: Path) -> None:
    """What arrives while a channel is held and after it comes in order."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    reader, writer = await dial(path)
    for number in range(20):
        writer.write(b"{hold}\n{%d}\n" % number)
        while len(acceptor.made) == 0 or acceptor.made[0].got.count(b"{hold}") <= number:
            await asyncio.sleep(0)
        acceptor.made[0].channel.release()
        assert await reader.readline() == b"{%d}\n" % number
    await hang_up(writer)
    listener.close()


async def test_back_pressure(folder: Path) -> None:
    """A peer that sends and never reads is not read from for ever; when it reads, all of it comes."""
    path = folder / "s.sock"
    listener, acceptor = listen(path, Limits(outgoing_bytes=64 * 1024))
    loop = asyncio.get_running_loop()
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    await loop.sock_connect(client, str(path))
    line = b"{" + b"x" * 9998 + b"\n"
    sent = 0
    stuck = 0
    while stuck < 50 and sent < 2000 * len(line):
        try:
            sent += client.send(line[sent % len(line) :])
            stuck = 0
        except BlockingIOError:
            stuck += 1
        await asyncio.sleep(0)
    assert sent < 300 * len(line)
    [echo] = acceptor.made
    assert echo.choked_times == 1
    whole = sent // len(line) * len(line)
    got = b""
    while len(got) < whole:
        got += await asyncio.wait_for(loop.sock_recv(client, 2**20), 10)
    assert got == line * (whole // len(line))
    assert echo.drained_times == echo.choked_times
    client.close()
    await asyncio.wait_for(echo.gone.wait(), 10)
    listener.close()


async def test_last_words_before_the_end(folder: Path) -> None:
    """Everything sent before `close` arrives, even if it is much, even in joined writes."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    reader, writer = await dial(path)
    writer.write((b"{" + b"y" * 99_998 + b"\n") * 10 + b"{end}\n{never}\n")
    assert await end(reader) == (b"{" + b"y" * 99_998 + b"\n") * 10 + b"{bye}\n"
    assert b"{never}" not in acceptor.made[0].got
    await hang_up(writer)
    listener.close()


async def test_a_dead_reader_is_cut_off(folder: Path) -> None:
    """A connection that ends does not wait for ever for a peer that takes nothing."""
    path = folder / "s.sock"
    listener, acceptor = listen(path, Limits(close_s=0.02))
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    client.sendall(b"{1}\n")
    while not acceptor.made or not acceptor.made[0].got:
        await asyncio.sleep(0)
    [echo] = acceptor.made
    echo.channel.send(b"z" * 3_000_000)
    echo.channel.close()
    await asyncio.wait_for(echo.gone.wait(), 10)
    client.close()
    listener.close()


async def test_linger_reads_on(folder: Path) -> None:
    """After a fault the answer arrives although the peer keeps sending megabytes."""
    path = folder / "s.sock"
    listener, _ = listen(path)
    reader, writer = await dial(path)
    writer.write(b"\x00" + b"x" * 8_000_000)
    assert await end(reader) == encode(b"parseError", lines=False)
    await asyncio.wait_for(writer.drain(), 10)
    await hang_up(writer)
    while listener.channels:
        await asyncio.sleep(0)
    listener.close()


async def test_linger_ends(folder: Path) -> None:
    """A peer that never ends after a fault is cut off."""
    path = folder / "s.sock"
    listener, acceptor = listen(path, Limits(linger_s=0.02))
    reader, writer = await dial(path)
    writer.write(b"\x00")
    assert await end(reader) == encode(b"parseError", lines=False)
    await asyncio.wait_for(acceptor.made[0].gone.wait(), 10)
    await hang_up(writer)
    listener.close()


async def test_tcp() -> None:
    """TCP listens on loopback and a free port unless told otherwise; its peers are not trusted and begin with the small
    limit.
    """
    acceptor = Acceptor()
    listener = await tcp.listen(None, 0, acceptor, Limits(unauthenticated_message_bytes=100))
    assert listener.host == "127.0.0.1"
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(encode(b"hello", lines=False))
    assert await reader.readexactly(len(encode(b"hello", lines=False))) == encode(b"hello", lines=False)
    channel = acceptor.made[0].channel
    assert (channel.kind, channel.trusted) == ("tcp", False)
    writer.write(b"Content-Length: 101\r\n\r\n")
    assert await end(reader) == encode(b"tooLarge", lines=False)
    await hang_up(writer)
    with pytest.raises(OSError, match=r"[Aa]ddress already in use"):
        await tcp.bind(listener.host, listener.port)
    listener.close()


async def test_names_are_resolved() -> None:
    """`localhost` is listened on by IPv4, where most clients look first."""
    sock = await tcp.bind("localhost", 0)
    assert sock.getsockname()[0] == "127.0.0.1"
    sock.close()


async def test_listener_serves_many(folder: Path) -> None:
    """Two hundred connections at once are all served."""
    path = folder / "s.sock"
    listener, _ = listen(path)
    assert isinstance(listener, Listener)

    async def one(number: int) -> bytes:
        reader, writer = await dial(path)
        writer.write(b"{%d}\n" % number)
        answer = await reader.readline()
        await hang_up(writer)
        return answer

    answers = await asyncio.gather(*(one(number) for number in range(200)))
    assert answers == [b"{%d}\n" % number for number in range(200)]
    listener.close()


async def test_an_address_that_others_can_reach_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Loopback in either family is not; a socket of the one family does not take the other's."""
    for host, warned in (("127.0.0.1", False), ("0.0.0.0", True)):
        caplog.clear()
        (await tcp.bind(host, 0)).close()
        assert ("other machines can reach" in caplog.text) is warned
    try:
        sock = await tcp.bind("::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    sock.close()


async def test_a_second_close_changes_nothing(folder: Path) -> None:
    """A listener that rests is not woken after its end."""
    listener, _ = listen(folder / "s.sock")
    listener._rest()
    listener.close()
    listener._wake()
    listener.close()
    assert listener.socket.fileno() < 0


async def test_a_channel_that_is_gone_takes_everything_and_does_nothing(folder: Path) -> None:
    """Code that keeps it need not know: nothing is sent, held or closed again."""
    path = folder / "s.sock"
    listener, acceptor = listen(path)
    reader, writer = await dial(path)
    writer.write(b"{1}\n")
    assert await reader.readline() == b"{1}\n"
    [echo] = acceptor.made
    await hang_up(writer)
    await asyncio.wait_for(echo.gone.wait(), 10)
    for call in (echo.channel.hold, echo.channel.release, echo.channel.abort, echo.channel.close):
        call()
    echo.channel.send(b"late")
    await asyncio.sleep(0)
    assert (echo.lost_times, echo.got) == (1, [b"{1}"])
    listener.close()
