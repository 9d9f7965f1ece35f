"""transports/ws.py, ws_framing.py, ws_http.py: real sockets and real frames, an echo behind them."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus
from websockets.frames import Frame, Opcode

from sessiond.limits import Limits
from sessiond.transports import unix, ws
from sessiond.transports.framing import Fault
from sessiond.transports.ws_framing import WsFraming
from sessiond.transports.ws_http import HttpResponse, OriginCheck
from tests.transports.test_listeners import Acceptor

TOKEN = "the-token"


class Files:
    async def get(self, path: str, query: str, authorization: str, port: int) -> HttpResponse | None:
        if path == "/broken":
            raise OSError("no")
        return HttpResponse(200, "text/plain", f"{path} {query} {authorization}".encode()) if path == "/file" else None


Made = tuple[ws.WsListener, Acceptor]
Opener = Callable[..., Any]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    listeners = []

    async def make(limits: Limits | None = None, **door: Any) -> Made:
        acceptor = Acceptor()
        gate = ws.Gate(OriginCheck(**door), Files(), lambda token: token == TOKEN)
        listener = await ws.listen(None, 0, acceptor, limits or Limits(), gate)
        listeners.append(listener)
        return listener, acceptor

    yield make
    for listener in listeners:
        listener.close()
        for channel in list(listener.channels):
            channel.abort()
    while any(listener.channels for listener in listeners):
        await asyncio.sleep(0)


def dial(listener: ws.WsListener, **options: Any) -> connect:
    return connect(f"ws://{listener.host}:{listener.port}/", compression=None, **options)


async def raw(listener: ws.WsListener, data: bytes) -> bytes:
    """All that comes for these bytes."""
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()


async def closing(client: ClientConnection) -> tuple[list[str | bytes], int | None]:
    """What still arrives, and the close code."""
    got: list[str | bytes] = []
    try:
        while True:
            got.append(await asyncio.wait_for(client.recv(), 20))
    except ConnectionClosed:
        return got, client.close_code


async def test_a_message_is_a_text_frame_both_ways(opened: Opener) -> None:
    """Whole or in fragments, with pings in between, also one of exactly the limit; the peer's close is answered."""
    listener, acceptor = await opened(Limits(unauthenticated_message_bytes=1000))
    async with dial(listener) as client:
        await client.send("één")
        assert await client.recv() == "één"
        await client.send(["a" * 400, "", "b" * 600])
        assert await client.recv() == "a" * 400 + "b" * 600
        await (await client.ping())
        assert (acceptor.made[0].channel.kind, acceptor.made[0].channel.trusted) == ("ws", False)
    assert client.close_code == 1000
    await asyncio.wait_for(acceptor.made[0].gone.wait(), 10)
    assert acceptor.made[0].lost_times == 1


@pytest.mark.parametrize("parts", [["x" * 1001], ["x" * 600, "x" * 600]], ids=["frame", "fragments"])
async def test_a_message_over_the_limit(opened: Opener, parts: list[str]) -> None:
    """It is answered, then the connection is closed with 1009; it is never collected."""
    listener, acceptor = await opened(Limits(unauthenticated_message_bytes=1000))
    async with dial(listener) as client:
        await client.send(parts if len(parts) > 1 else parts[0])
        assert await closing(client) == (["tooLarge"], 1009)
    [fault] = acceptor.made[0].faults
    assert fault.limit == 1000


async def test_the_limit_of_the_next_message_may_change(opened: Opener) -> None:
    """A message that came together with the one which lifts the limit is judged by the new limit."""
    framing = WsFraming(10)
    small, large = b"small", b"l" * 1000
    framing.feed(b"".join(Frame(Opcode.TEXT, data).serialize(mask=True) for data in (small, large, large)))
    assert framing.next() == small
    framing.message_limit = 1000
    assert framing.next() == large
    framing.message_limit = 999
    fault = framing.next()
    assert isinstance(fault, Fault) and fault.kind == "tooLarge"
    assert framing.next() is None


async def test_binary_frames(opened: Opener) -> None:
    """A binary frame is answered and the connection closed with 1003."""
    listener, acceptor = await opened()
    async with dial(listener) as client:
        await client.send(b"{}")
        assert await closing(client) == (["parseError"], 1003)
    assert "text frame" in str(acceptor.made[0].faults[0].hint)


def frame(opcode: int, data: bytes, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(Opcode(opcode), data, fin).serialize(mask=mask)


MALFORMED = {
    "unmasked": frame(1, b"{}", mask=False),
    "unknown opcode": b"\x83\x80\0\0\0\0",
    "reserved bit": b"\xc1\x80\0\0\0\0",
    "continuation of nothing": frame(0, b"x"),
    "message inside a message": frame(1, b"a", fin=False) + frame(1, b"b"),
    "long ping": b"\x89\xfe\x00\x7e\0\0\0\0" + b"x" * 126,
    "fragmented ping": b"\x09\x80\0\0\0\0",
    "close of one byte": frame(8, b"x"),
    "close with a reserved code": frame(8, b"\x03\xed"),
    "close that is not UTF-8": frame(8, b"\x03\xe8\xff"),
    "endless length": b"\x81\xff\x7f" + b"\xff" * 7,
}


def handshake(host: str = "127.0.0.1", *rows: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        "GET / HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13", *rows,
    ]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_frames(opened: Opener, bad: bytes) -> None:
    """Each is answered by a text frame, then a close frame, then the end; what came before it is served."""
    listener, acceptor = await opened()
    got = await raw(listener, handshake() + frame(1, b"before") + bad + frame(1, b"after"))
    head, _, frames = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101")
    assert acceptor.made[0].got == [b"before"]
    kind = b"tooLarge" if bad == MALFORMED["endless length"] else b"parseError"
    assert frames.startswith(frame(1, b"before", mask=False) + frame(1, kind, mask=False) + b"\x88")
    await asyncio.wait_for(acceptor.made[0].gone.wait(), 10)


async def test_frames_byte_by_byte(opened: Opener) -> None:
    """However the handshake and its frames are cut into packets, they are the same."""
    listener, acceptor = await opened()
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    for byte in handshake() + frame(1, b"one") + frame(9, b"?") + frame(1, b"two") + frame(8, b""):
        writer.write(bytes([byte]))
        await writer.drain()
    got = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert acceptor.made[0].got == [b"one", b"two"]
    assert frame(10, b"?", mask=False) in got
    assert got.endswith(frame(8, b"\x03\xe8", mask=False))


@pytest.mark.parametrize("how", ["bearer", "subprotocol"])
async def test_the_token_in_the_handshake(opened: Opener, how: str) -> None:
    """Either way the peer is trusted from the start; the subprotocol with the token is never sent back."""
    listener, acceptor = await opened()
    options: dict[str, Any] = {"additional_headers": {"Authorization": f"Bearer {TOKEN}"}}
    if how == "subprotocol":
        options = {"subprotocols": ["sessiond", f"sessiond.token.{TOKEN}"]}
    async with dial(listener, **options) as client:
        await client.send("x" * 100_000)
        assert len(await client.recv()) == 100_000
        assert acceptor.made[0].channel.trusted
        assert client.subprotocol == ("sessiond" if how == "subprotocol" else None)


@pytest.mark.parametrize("how", ["bearer", "subprotocol"])
async def test_a_wrong_token_in_the_handshake(opened: Opener, how: str) -> None:
    """It is refused before there is a connection."""
    listener, acceptor = await opened()
    options: dict[str, Any] = {"additional_headers": {"Authorization": "Bearer wrong"}}
    if how == "subprotocol":
        options = {"subprotocols": ["sessiond", "sessiond.token.wrong"]}
    with pytest.raises(InvalidStatus) as refused:
        await dial(listener, **options)
    assert refused.value.response.status_code == 401
    assert b'"unauthorized"' in bytes(refused.value.response.body or b"")
    assert acceptor.made == []


GOOD_HOSTS = [
    "127.0.0.1:{}",
    "127.0.0.1",
    "localhost:{}",
    "LOCALHOST:{}",
    "[::1]:{}",
    "127.9.9.9",
    "box.example",
    "box2.example:{}",
]
BAD_HOSTS = [
    "evil.example:{}", "127.0.0.1.evil.example", "localhost.evil.example:{}", "10.0.0.1", "", "127.0.0.1:1:2", "[::2]:1", "2130706433",
    "box2.example:1", "[::1]; script-src *", "127.0.0.1:{}; script-src *", "127.0.0.1:x",
]  # fmt: skip


async def test_hosts(opened: Opener) -> None:
    """A name that is neither loopback nor configured is refused for a handshake and for a file alike, however it looks."""
    port = 0
    listener, acceptor = await opened(allowed_hosts=["box.example"])
    port = listener.port
    door = OriginCheck(["box.example", f"Box2.example:{port}"])
    listener.gate = msgspec.structs.replace(listener.gate, door=door)
    for host in GOOD_HOSTS:
        got = await raw(listener, handshake(host.format(port)) + frame(8, b""))
        assert got.startswith(b"HTTP/1.1 101"), host
    made = len(acceptor.made)
    for host in BAD_HOSTS:
        assert (await raw(listener, handshake(host.format(port)))).startswith(b"HTTP/1.1 403"), host
        page = f"GET /file HTTP/1.1\r\nHost: {host.format(port)}\r\n\r\n".encode()
        assert (await raw(listener, page)).startswith(b"HTTP/1.1 403"), host
    assert (await raw(listener, b"GET /file HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")
    twice = b"GET /file HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert (await raw(listener, twice)).startswith(b"HTTP/1.1 403")
    assert len(acceptor.made) == made


async def test_origins(opened: Opener) -> None:
    """Its own page and configured origins may connect; every other page may not, also one of the same host."""
    listener, acceptor = await opened(allowed_origins=["https://App.example/"])
    own = f"127.0.0.1:{listener.port}"
    for origin in (f"http://{own}", "https://app.example"):
        got = await raw(listener, handshake(own, f"Origin: {origin}") + frame(8, b""))
        assert got.startswith(b"HTTP/1.1 101"), origin
    made = len(acceptor.made)
    for origin in ("http://127.0.0.1:1", f"http://localhost:{listener.port}", f"https://{own}", "https://evil.example", "null", "https://app.example.evil", ""):  # fmt: skip
        assert (await raw(listener, handshake(own, f"Origin: {origin}"))).startswith(b"HTTP/1.1 403"), origin
    assert len(acceptor.made) == made


async def test_files(opened: Opener) -> None:
    """A plain GET is answered by the site with strict headers, then the connection ends; other methods are refused."""
    listener, _ = await opened()
    got = await raw(listener, b"GET /file?a=b HTTP/1.1\r\nHost: localhost\r\nAuthorization: Code 1\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == b"/file a=b Code 1"
    policy = next(line for line in head.decode().splitlines() if line.startswith("Content-Security-Policy"))
    assert "default-src 'none'" in policy and "unsafe" not in policy and "ws://localhost wss://localhost;" in policy
    assert b"X-Content-Type-Options: nosniff" in head and b"Access-Control" not in head
    head_only = await raw(listener, b"HEAD /file HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert head_only.endswith(b"\r\n\r\n") and b"Content-Length: 7" in head_only
    for request, status in {
        b"POST /file": 405, b"GET /none": 404, b"GET /broken": 500, b"PUT /": 405,
    }.items():  # fmt: skip
        got = await raw(listener, request + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 %d" % status), request
    got = await raw(listener, b"POST /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
    assert got.startswith(b"HTTP/1.1 405") and b"only GET is served here" in got


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 a TLS hello", 400),
        (b"{}\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nNo header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 400),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 40_000, 431),
        (handshake().replace(b"Version: 13", b"Version: 8"), 400),
        (handshake().replace(b"Connection: Upgrade", b"Connection: close"), 426),
    ],
)
async def test_requests_that_are_none(opened: Opener, data: bytes, status: int) -> None:
    """Anything that is not a request, or too long or malformed, gets an answer and is closed."""
    listener, acceptor = await opened()
    assert (await raw(listener, data)).startswith(b"HTTP/1.1 %d" % status)
    assert acceptor.made == []


async def test_who_says_nothing_is_cut_off(opened: Opener) -> None:
    """A peer that sends its request slowly, or none, has a deadline; it costs no connection of the daemon's."""
    listener, acceptor = await opened(Limits(first_message_s=0.05))
    for data in (b"", b"GET / HTTP/1.1\r\nHost"):
        assert await raw(listener, data) == b""
    assert acceptor.made == []
    assert listener.channels == set()


async def test_too_many_on_the_way(opened: Opener) -> None:
    """Peers that have asked for nothing are bounded in number too; one more gets 503."""
    listener, _ = await opened(Limits(connections=3))
    waiting = [await asyncio.open_connection(listener.host, listener.port) for _ in range(3)]
    while len(listener.channels) < 3:
        await asyncio.sleep(0)
    assert (await raw(listener, handshake())).startswith(b"HTTP/1.1 503")
    for _, writer in waiting:
        writer.close()


async def test_refusal_after_the_handshake(opened: Opener) -> None:
    """When the daemon is full, a browser too can read why: the word comes as a message, with close code 1013."""
    listener, acceptor = await opened()
    acceptor.word = b"full"
    async with dial(listener) as client:
        assert await closing(client) == (["full"], 1013)
    assert acceptor.made == []


async def test_a_silent_peer_is_pinged_and_then_cut_off(opened: Opener) -> None:
    """One that answers pings stays however long it says nothing; one that does not is gone after two."""
    listener, acceptor = await opened(Limits(ping_s=0.05))
    async with dial(listener) as client:
        assert b"\x89\x00" in await raw(listener, handshake())  # ends by itself
        dead = acceptor.made[1]
        await asyncio.wait_for(dead.gone.wait(), 10)
        await client.send("still here")
        assert await client.recv() == "still here"


async def test_a_slow_reader_is_not_read_from(opened: Opener) -> None:
    """A peer that sends and never reads chokes its channel, and gets everything once it reads."""
    listener, acceptor = await opened(Limits(outgoing_bytes=64 * 1024))
    loop = asyncio.get_running_loop()
    client = socket.create_connection((listener.host, listener.port))
    client.sendall(handshake())
    client.setblocking(False)
    reply = b""
    while not reply.endswith(b"\r\n\r\n"):
        reply += await loop.sock_recv(client, 65536)
    one, echo = frame(1, b"x" * 9000), frame(1, b"x" * 9000, mask=False)
    sent = stuck = 0
    while stuck < 200 and sent < 5000 * len(one):
        try:
            sent += client.send(one[sent % len(one) :])
            stuck = 0
        except BlockingIOError:
            stuck += 1
        await asyncio.sleep(0)
    assert stuck, "the channel never stopped reading"
    assert acceptor.made[0].choked_times
    whole = sent // len(one) * len(echo)
    got = b""
    while len(got) < whole:
        got += await asyncio.wait_for(loop.sock_recv(client, 2**20), 10)
    assert got == echo * (whole // len(echo))
    client.close()


async def test_twelve_megabytes(opened: Opener) -> None:
    """A message of 12 MB comes back whole."""
    listener, _ = await opened()
    text = "\N{SNOWMAN}" * 4_000_000
    async with dial(listener, max_size=None, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        await client.send(text)
        assert await asyncio.wait_for(client.recv(), 60) == text


async def test_one_that_leaves_before_it_has_asked(opened: Opener) -> None:
    """Half a request does not count: nothing happens, and nothing is answered."""
    listener, acceptor = await opened()
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    writer.write(b"GET / HT")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    assert acceptor.made == []


def test_what_comes_after_the_end_is_thrown_away() -> None:
    """After the peer's close frame, and after a fault, nothing is a message any more."""
    for last in (frame(8, b"\x03\xe8"), frame(2, b"binary")):
        framing = WsFraming(1000)
        framing.feed(last)
        ended = framing.next()
        assert ended is None or isinstance(ended, Fault)
        framing.feed(frame(1, b"late"))
        assert not isinstance(framing.next(), bytes)


async def test_a_unix_socket_takes_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else may open its file; whoever reaches it all the same is turned away before the handshake."""
    path = str(tmp_path / "run" / "a.sock")
    gate = ws.Gate(OriginCheck(), Files(), lambda _: True)
    listener = ws.listen_unix(path, Acceptor(), Limits(), gate)
    try:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        async with unix_connect(path, "ws://localhost/", compression=None) as mine:
            await mine.send('{"a":1}')
            assert await mine.recv() == '{"a":1}'
        monkeypatch.setattr(unix, "peer_uid", lambda _: os.getuid() + 1)
        with pytest.raises((ConnectionClosed, InvalidMessage, OSError)):
            await unix_connect(path, "ws://localhost/", compression=None)
    finally:
        listener.close()
    assert not os.path.exists(path)
