"""How much of a turn of the loop one connection takes, however much it sends at once."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from sessiond.limits import MESSAGES_AT_A_TIME, Limits
from sessiond.transports.framing import Decoder
from sessiond.transports.stream import StreamChannel

MANY = 10 * MESSAGES_AT_A_TIME


class Taking:
    """A receiver that counts, and holds its channel after `hold_after` messages, for a while."""

    def __init__(self, hold_after: int = 0) -> None:
        self.taken: list[int] = []
        self.ends = 0
        self.hold_after = hold_after
        self.channel: Any

    def received(self, message: bytes) -> None:
        self.taken.append(json.loads(message)["id"])
        if len(self.taken) == self.hold_after:
            self.channel.hold()
            asyncio.get_running_loop().call_later(0.01, self.channel.release)

    def ended(self) -> None:
        self.ends += 1
        self.channel.close()

    def lost(self) -> None: ...


async def connected(receiver: Taking) -> socket.socket:
    """The other end of a connection to it."""
    ours, theirs = socket.socketpair()

    def connect(channel: Any) -> Any:
        receiver.channel = channel
        return receiver

    def make() -> StreamChannel:
        return StreamChannel(
            connect, kind="unix", trusted=True, limits=Limits(), buffer=memoryview(bytearray(1 << 18)), forget=lambda _: None,
            framing=Decoder(header_limit=8192, message_limit=1 << 20, allow_lines=True),
        )  # fmt: skip

    ours.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(make, ours)
    return theirs


def requests(count: int) -> bytes:
    return b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n' % number for number in range(count))


async def test_a_turn_takes_some_messages_of_a_connection() -> None:
    """Of hundreds that came at once, so that whoever else is there has its turns in between; all are taken in the end, in order."""
    receiver = Taking()
    theirs = await connected(receiver)
    theirs.sendall(requests(MANY))
    before = most = 0
    while before < MANY:
        await asyncio.sleep(0)
        most, before = max(most, len(receiver.taken) - before), len(receiver.taken)
    assert most == MESSAGES_AT_A_TIME
    assert receiver.taken == list(range(MANY))
    theirs.close()


@pytest.mark.parametrize("hold_after", [1, MESSAGES_AT_A_TIME, MESSAGES_AT_A_TIME + 1])
async def test_what_is_held_in_between_goes_on(hold_after: int) -> None:
    """And the end of the stream is reported once, after the last message."""
    receiver = Taking(hold_after)
    theirs = await connected(receiver)
    theirs.sendall(requests(MANY))
    theirs.shutdown(socket.SHUT_WR)
    while not receiver.ends:
        await asyncio.sleep(0.001)
    assert receiver.taken == list(range(MANY))
    assert receiver.ends == 1
    theirs.close()
