"""Connections to one hub: made when needed, a bounded number, thrown away at the first doubt.

A connection whose statement failed for another reason than an error of the server is not used again: it may be a half-open link, and
ending it politely could take as long as the statement did. So it is aborted.

A pooler in transaction mode gives each transaction another server: prepared statements and LISTEN do not work there. It is known by
the process id that it claims to have, which differs from the one of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg
import msgspec

from sessiond.errors import SessiondError, Unavailable
from sessiond.hub.address import HubAddress, arguments
from sessiond.hub.failures import OF_ASYNCPG, LinkLost, meaning
from sessiond.limits import HUB_ANSWER_S, HUB_CONNECT_S, HUB_CONNECTIONS

T = TypeVar("T")

_SETTINGS = (
    # A server whose client vanished in the middle of a transaction must not hold a session's row for hours.
    "SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false), set_config('lock_timeout', '10s', false),"
    " set_config('statement_timeout', '60s', false)"
)
_SETTING_OF_17 = "SELECT set_config('transaction_timeout', '60s', false)"


class PostgresLink(msgspec.Struct, frozen=True, gc=False):
    """One connection. `pooled`: a pooler is in between."""

    connection: asyncpg.Connection
    pooled: bool

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        if not self.pooled:
            return await work(self.connection)
        # Preparing a statement and carrying it out are two steps, and only a transaction stays with one server.
        async with self.connection.transaction():
            return await work(self.connection)


async def connect(address: HubAddress, url: str | None = None, pooled: bool | None = None) -> PostgresLink:
    """A connection. `pooled` None: find out. Unavailable, Unauthorized, ConfigError."""
    keywords = arguments(address, url)
    try:
        async with asyncio.timeout(HUB_CONNECT_S):
            return await _connect(keywords, pooled)
    except OF_ASYNCPG as error:
        raise _never_sent(meaning(error, address.shown())) from None


async def _connect(keywords: dict[str, Any], pooled: bool | None) -> PostgresLink:
    if pooled is None:
        made = await asyncpg.connect(**keywords, timeout=HUB_CONNECT_S, statement_cache_size=0)
        try:
            async with made.transaction():
                pooled = await made.fetchval("SELECT pg_backend_pid()") != made.get_server_pid()
        finally:
            made.terminate()
    if pooled:
        return PostgresLink(await asyncpg.connect(**keywords, timeout=HUB_CONNECT_S, statement_cache_size=0), True)
    made = await asyncpg.connect(**keywords, timeout=HUB_CONNECT_S)
    try:
        await made.execute(_SETTINGS)
        if made.get_server_version().major >= 17:
            await made.execute(_SETTING_OF_17)
    except BaseException:
        made.terminate()
        raise
    return PostgresLink(made, False)


def _never_sent(error: Exception) -> Exception:
    """While connecting, nothing of the caller's was sent: it is certain that nothing was stored."""
    if isinstance(error, Unavailable):
        return Unavailable(error.message, hint=error.hint)
    return error


class Links:
    """A pool for one address. `on_trouble` is called when a link breaks, on the loop."""

    def __init__(self, address: HubAddress, on_trouble: Callable[[], None]) -> None:
        self._address = address
        self._on_trouble = on_trouble
        self._free = asyncio.Semaphore(HUB_CONNECTIONS)
        self._idle: list[PostgresLink] = []
        self._busy: list[PostgresLink] = []
        self._pooled: bool | None = None
        self._closed = False

    async def run(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """`work` with a connection. Unavailable: nothing was sent; LinkLost: it may have been carried out; and as `meaning`."""
        async with self._free:
            link = await self._take()
            try:
                async with asyncio.timeout(HUB_ANSWER_S):
                    result = await link.run(work)
            except OF_ASYNCPG as error:
                reason = meaning(error, self._address.shown())
                if isinstance(error, asyncpg.PostgresError) and not isinstance(reason, LinkLost):
                    self._give(link)
                else:
                    self._abort(link)
                    self.drop_idle()  # they share the fate of this one
                    self._on_trouble()
                raise reason from None
            except BaseException:
                self._abort(link)
                raise
            self._give(link)
            return result

    def drop_idle(self) -> None:
        """The hub was lost: connections that were idle meanwhile may be half-open."""
        for link in self._idle:
            link.connection.terminate()
        self._idle.clear()

    def close(self) -> None:
        self._closed = True
        self.drop_idle()
        for link in self._busy:
            link.connection.terminate()

    async def _take(self) -> PostgresLink:
        if self._closed:
            raise Unavailable("the hub was closed")
        while self._idle:
            link = self._idle.pop()
            if not link.connection.is_closed():
                self._busy.append(link)
                return link
        try:
            link = await connect(self._address, pooled=self._pooled)
        except SessiondError:
            self._on_trouble()
            raise
        self._pooled = link.pooled
        self._busy.append(link)
        return link

    def _give(self, link: PostgresLink) -> None:
        self._busy.remove(link)
        if self._closed or link.connection.is_closed() or link.connection.is_in_transaction():
            link.connection.terminate()
        else:
            self._idle.append(link)

    def _abort(self, link: PostgresLink) -> None:
        self._busy.remove(link)
        link.connection.terminate()
