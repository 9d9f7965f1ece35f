"""All connections of the daemon, over any transport: which are admitted, how many, and how they end."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import sessiond.rpc.handlers  # noqa: F401 - fills the registry
from sessiond.errors import TooLarge
from sessiond.limits import Limits
from sessiond.rpc import lifecycle
from sessiond.rpc.connection import Connection
from sessiond.rpc.envelope import NULL_ID, encode_json, failure
from sessiond.schema.notifications import HubChanged
from sessiond.store.port import HubStatus
from sessiond.transports.channel import Channel

if TYPE_CHECKING:
    from sessiond.rpc.documents import Documents
    from sessiond.rpc.methods import DaemonControl
    from sessiond.service.sessions import Service


class Server:
    """An `Acceptor` for every listener. `token` None: peers of a transport that does not trust them by itself are never
    admitted.
    """

    def __init__(
        self,
        service: Service,
        daemon: DaemonControl,
        *,
        limits: Limits,
        version: str,
        token: str | None = None,
        formats: list[str] | None = None,
        search_modes: list[str] | None = None,
        documents: Documents | None = None,
    ) -> None:
        self.service = service
        self.daemon = daemon
        self.limits = limits
        self.documents = documents
        self.greeting: Callable[[], list[tuple[int, str]]] = list
        """What every client must be told once: (LSP's MessageType, text)."""
        self.settle: Callable[[], None] = lambda: None
        """Called before any message of a client is handled: applies what is already durable."""
        self._token = token
        self._connections: set[Connection] = set()
        self._hubs: dict[str, bytes] = {}
        """Store -> the params of its last `store/hubChanged`."""
        self._turned_out: set[Connection] = set()
        """Those connections that end as soon as the loop gets to it."""
        self._last_number = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self.initialize_result: bytes = encode_json(
            lifecycle.initialize_result(
                version=version,
                formats=formats or ["jsonl"],
                search_modes=search_modes or ["text", "regex"],
                limits=limits,
                documents=documents is not None,
            )
        )
        """Encoded once: it is the same for everyone."""

    @property
    def connections(self) -> int:
        return len(self._connections)

    def clients(self) -> dict[str, int]:
        """Names that clients gave -> how many connections have them."""
        named = (one.client for one in self._connections if one.client != lifecycle.UNNAMED)
        return dict(Counter(named))

    def set_token(self, token: str | None) -> None:
        """Valid from now on; present connections remain."""
        self._token = token

    def admits(self, token: str | None) -> bool:
        """Compared in constant time."""
        if self._token is None or token is None:
            return False
        return hmac.compare_digest(token.encode(), self._token.encode())

    def refusal(self, trusted: bool, coming: int = 0) -> bytes | None:
        if len(self._connections) - len(self._turned_out) + coming < self.limits.connections:
            return None
        # Strangers may fill every place, but must not lock out peers that do not need a token.
        strangers = (one for one in self._connections - self._turned_out if one.is_stranger)
        stranger = min(strangers, key=lambda one: one.id, default=None)
        if trusted and stranger is not None:
            self._turned_out.add(stranger)
            stranger.turn_out()
            return None
        return failure(
            NULL_ID,
            TooLarge(
                f"the limit of {self.limits.connections} connections is reached",
                hint="close one, or raise limits.connections in config.toml",
                limit=self.limits.connections,
            ),
        )

    def next_number(self) -> int:
        """For a connection, or whoever else opens sessions."""
        self._last_number += 1
        return self._last_number

    def connect(self, channel: Channel) -> Connection:
        connection = Connection(self.next_number(), channel, self)
        self._connections.add(connection)
        self._empty.clear()
        return connection

    def announce(self, type: int, text: str) -> None:
        """Send `window/logMessage` to every client that is trusted and has sent something: before that its framing is
        unknown. `type`: LSP's MessageType.
        """
        params = encode_json({"type": type, "message": text})
        for connection in list(self._connections):
            if not connection.is_stranger and connection.has_spoken:
                connection.notify("window/logMessage", params)

    def greet(self, connection: Connection) -> None:
        """Called after every answer, whatever it was. After the first one the client is told what every client must be told."""
        if not connection.greeted:
            connection.greeted = True
            for kind, text in self.greeting():
                connection.notify_owed("window/logMessage", encode_json({"type": kind, "message": text}))

    def announce_damage(self, type: int, text: str) -> None:
        """The same, to clients that have been greeted: later ones are told by the greeting."""
        params = encode_json({"type": type, "message": text})
        for connection in list(self._connections):
            if connection.greeted:
                connection.notify_owed("window/logMessage", params)

    def announce_hub(self, store: str, hub: HubStatus) -> None:
        """Send `store/hubChanged` to every client that is initialized."""
        params = self._hubs[store] = encode_json(HubChanged(store=store, hub=hub))
        for connection in list(self._connections):
            if connection.lsp is not None:
                connection.notify("store/hubChanged", params)

    def caught_up(self, connection: Connection) -> None:
        """It has lost notifications, and reads again."""
        self.settle()  # otherwise the change of an answer that was already sent could follow the resync
        self.service.drained(connection)
        if connection.lsp is not None:
            for params in self._hubs.values():
                connection.notify("store/hubChanged", params)

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._turned_out.discard(connection)
        if not self._connections:
            self._empty.set()

    async def close(self, timeout_s: float) -> None:
        """Let every connection get its answers and end; those that take longer than `timeout_s` are cut off."""
        for connection in list(self._connections):
            connection.end()
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._empty.wait()
