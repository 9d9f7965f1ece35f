"""Between a transport and the layer above. Both sides know only these two Protocols, so the layer above is independent of
framing.

A transport creates a `Channel`, gets a `Receiver` for it, and then calls the receiver from the event loop, never
re-entrantly from a call that the receiver makes, except for `choked`, which `send` may cause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from sessiond.transports.framing import Fault


class Channel(Protocol):
    """The services that a transport provides: writing whole messages, and stopping and ending the reading."""

    @property
    def kind(self) -> str:
        """`unix`, `tcp`, `ws` or `ahp`."""

    @property
    def trusted(self) -> bool:
        """True if the peer is authenticated (same uid, or a token in the handshake)."""

    def send(self, message: bytes, *, soon: bool = False) -> None:
        """Write one message. `soon`: more will follow in this turn of the loop, so it may wait and be joined with them."""

    def at_once(self, message: bytes, claim: Callable[[], bool]) -> Callable[[], bool] | None:
        """Returns a function that sends one message from any thread, if nothing waits before it and `claim()` is then true;
        it returns whether the message is sent or on its way. None: only the loop can write here.
        """

    def limit_messages(self, size: int) -> None:
        """From the next message on, refuse messages with more bytes."""

    def hold(self) -> None:
        """Deliver nothing more, and read nothing more, until `release`."""

    def release(self) -> None: ...

    def close(self, *, linger: bool = False) -> None:
        """End it after everything has been sent. `linger`: the peer may still be sending; discard that for a while."""

    def abort(self) -> None:
        """End it at once."""


class Receiver(Protocol):
    """The layer above a transport: it is told what arrives, in order."""

    def received(self, message: bytes) -> None: ...

    def broken(self, fault: Fault) -> None:
        """The stream can no longer be followed; nothing more will be received. The receiver closes the channel."""

    def ended(self) -> None:
        """The peer closed its sending half; nothing more will be received. The receiver closes the channel when it has
        answered.
        """

    def choked(self) -> None:
        """The peer reads too slowly: the largest permitted amount is waiting for it. Called from within `send`, so the channel must
        be left alone until that returns.
        """

    def drained(self) -> None:
        """After `choked`: more can be sent again."""

    def lost(self) -> None:
        """The channel is gone, for any reason. Called exactly once, last."""


class Acceptor(Protocol):
    """Decides about new peers."""

    def refusal(self, trusted: bool, coming: int = 0) -> bytes | None:
        """The message that a peer gets instead of a connection, or None if there is room. `trusted` as in `Channel`;
        `coming`: how many were admitted for which `connect` has not been called yet.
        """

    def connect(self, channel: Channel) -> Receiver: ...


Connect: TypeAlias = Callable[[Channel], Receiver]
