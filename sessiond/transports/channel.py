"""Between a transport and what speaks over it. Both sides know only these two Protocols, so the speaker is independent
of framing.

A transport makes a `Channel`, asks for a `Receiver` for it, and then calls the receiver from the event loop, never
re-entrantly from a call that the receiver makes, except for `choked`, which `send` may cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from sessiond.transports.framing import Fault


class Channel(Protocol):
    """What a transport gives: a way to write whole messages, and to stop and end the reading."""

    @property
    def kind(self) -> str:
        """`unix`, `tcp` or `ws`."""

    @property
    def trusted(self) -> bool:
        """Whoever is at the other end has shown who he is (same uid, or a token in the handshake)."""

    def send(self, message: bytes, *, soon: bool = False) -> None:
        """Write one message. `soon`: more will follow in this turn of the loop, so it may wait and be joined with them."""

    def at_once(self, message: bytes, claim: Callable[[], bool]) -> Callable[[], bool] | None:
        """What sends one message from any thread, if nothing waits to go out before it and `claim` then says that it may; it
        returns whether the message is out or on its way. None: only the loop can write here.
        """

    def limit_messages(self, size: int) -> None:
        """From the next message on, refuse those of more bytes."""

    def hold(self) -> None:
        """Deliver nothing more, and read nothing more, until `release`."""

    def release(self) -> None: ...

    def close(self, *, linger: bool = False) -> None:
        """End it after everything that was sent has gone out. `linger`: the peer may still be sending, throw that away
        for a while.
        """

    def abort(self) -> None:
        """End it at once."""


class Receiver(Protocol):
    """What the layer above gives: it is told what arrives, in order."""

    def received(self, message: bytes) -> None: ...

    def broken(self, fault: Fault) -> None:
        """The stream can no longer be followed; nothing more will be received. The receiver closes the channel."""

    def ended(self) -> None:
        """The peer closed its sending half; nothing more will be received. The receiver closes the channel when it has
        answered.
        """

    def choked(self) -> None:
        """The peer reads too slowly: as much as allowed is waiting for it."""

    def drained(self) -> None:
        """After `choked`: there is room again."""

    def lost(self) -> None:
        """The channel is gone, for whatever reason. Called exactly once, last."""


class Acceptor(Protocol):
    """Decides about new peers."""

    def refusal(self, trusted: bool, coming: int = 0) -> bytes | None:
        """The message that a peer gets instead of a connection, or None if there is room. `trusted` as in `Channel`; `coming`: how
        many were let in of whom `connect` has not been told yet.
        """

    def connect(self, channel: Channel) -> Receiver: ...


Connect: TypeAlias = Callable[[Channel], Receiver]
