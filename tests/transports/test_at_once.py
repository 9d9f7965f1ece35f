"""Messages that another thread writes: they are complete, and each is there once, whatever the loop writes meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from sessiond.limits import Limits
from sessiond.transports import unix
from sessiond.transports.channel import Channel
from tests.transports.test_listeners import Acceptor


async def channel_and_peer(folder, limits: Limits = Limits()) -> tuple[Channel, socket.socket, Acceptor]:  # noqa: B008
    """A channel of lines, and the peer's blocking end."""
    acceptor = Acceptor()
    listener = unix.listen(str(folder / "s"), acceptor, limits)
    peer = socket.socket(socket.AF_UNIX)
    await asyncio.to_thread(peer.connect, listener.path)
    peer.sendall(b"{hello}\n")
    while not acceptor.made or not acceptor.made[0].got:
        await asyncio.sleep(0.001)
    listener.close()
    return acceptor.made[0].channel, peer, acceptor


def lines_of(peer: socket.socket, rng: random.Random) -> Iterator[bytes]:
    """What comes, read in pieces of random sizes with pauses between them."""
    held = b""
    while chunk := peer.recv(rng.choice((100, 5_000, 100_000))):
        held += chunk
        *lines, held = held.split(b"\n")
        yield from lines
        if rng.random() < 0.05:
            threading.Event().wait(0.002)
    assert not held


@pytest.mark.parametrize("seed", range(12))
async def test_two_writers_do_not_mix(tmp_path, seed):
    """A thread writes while the loop writes and the peer reads slowly, through a small buffer. What the thread was told is out
    arrives once, what it was told is not out never arrives, and no line is torn.
    """
    rng = random.Random(seed)
    channel, peer, acceptor = await channel_and_peer(tmp_path)
    channel._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(lines_of(peer, random.Random(seed))))
    reader.start()
    out: list[bytes] = []
    size = rng.choice((10, 3_000, 20_000))
    pauses = random.Random(seed)

    def write() -> None:
        for number in range(200):
            message = b"thread %d %b" % (number, os.urandom(size).hex().encode())
            send = channel.at_once(message, lambda: True)
            if send is not None and send():
                out.append(message)
            threading.Event().wait(pauses.choice((0, 0, 0.002)))

    writer = threading.Thread(target=write)
    writer.start()
    sent = []
    while writer.is_alive():
        message = b"loop %d %b" % (len(sent), b"x" * rng.choice((5, 2_000)))
        channel.send(message, soon=rng.random() < 0.5)
        sent.append(message)
        await asyncio.sleep(rng.choice((0, 0.001, 0.003)))
    channel.close()
    async with asyncio.timeout(30):
        await acceptor.made[0].gone.wait()
    await asyncio.to_thread(reader.join)
    peer.close()
    assert [line for line in got if line.startswith(b"loop")] == sent
    assert [line for line in got if line.startswith(b"thread")] == out
    assert len(got) == 1 + len(sent) + len(out)
    assert out


async def test_nothing_is_written_once_the_channel_is_closed(tmp_path):
    """Its socket's number may belong to somebody else by then."""
    channel, peer, acceptor = await channel_and_peer(tmp_path)
    send = channel.at_once(b"late", lambda: True)
    channel.abort()
    assert not send()
    await acceptor.made[0].gone.wait()
    with open(tmp_path / "other", "wb") as other:
        assert not send()
        assert other.tell() == 0
    peer.close()


async def test_what_may_not_be_sent_is_not(tmp_path):
    """Somebody else has sent it; it is asked only when nothing else is in the way."""
    channel, peer, _ = await channel_and_peer(tmp_path)
    asked = []
    send = channel.at_once(b"twice", lambda: asked.append(1) is not None)
    assert not send()
    assert asked == [1]
    channel.send(b"waits", soon=True)
    assert not send()
    assert asked == [1]
    channel.close()
    peer.close()
