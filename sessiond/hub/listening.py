"""Hints from the hub: which sessions changed, and whether it can be reached.

One connection listens, on a direct way to the server. Behind a pooler, and without a direct way, the list of changed sessions is read
again and again instead. Either connection also tells when the hub is lost: it has a heartbeat, and `look` makes it beat at once.

The states: `lost` (at the start too) -> connecting -> `back` -> ... -> `lost`. Listeners are told of each transition once,
and of another reason why the hub stays lost, if it is one that the hub gives.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Literal

from sessiond.errors import SessiondError, Unavailable
from sessiond.hub.address import HubAddress
from sessiond.hub.failures import OF_ASYNCPG, LinkLost, meaning
from sessiond.hub.links import PostgresLink, connect
from sessiond.hub.port import Back, HeadHint, HeadPage, Hint, HubCursor, Lost
from sessiond.limits import HUB_CONNECT_S, HUB_HEARTBEAT_S, HUB_POLL_S, HUB_RETRY_S


class Listening:
    """`channel` finds out where to listen, `poll` reads a page of changed sessions. `on_lost` is called with each `Lost`."""

    def __init__(
        self,
        address: HubAddress,
        channel: Callable[[], Awaitable[str]],
        poll: Callable[[HubCursor | None], Awaitable[HeadPage]],
        on_lost: Callable[[], None],
    ) -> None:
        self.way: Literal["listening", "polling"] = "listening"
        self._address = address
        self._channel = channel
        self._poll = poll
        self._on_lost = on_lost
        self._listeners: list[Callable[[Hint], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self._reached = False
        self._told: str | None = None
        """The reason that was told last."""

    def subscribe(self, listener: Callable[[Hint], None]) -> None:
        self._listeners.append(listener)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def look(self) -> None:
        """A link broke: find out now whether the hub can be reached, rather than with the next heartbeat."""
        self._look.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _tell(self, hint: Hint) -> None:
        for listener in self._listeners:
            listener(hint)

    async def _run(self) -> None:
        pause = HUB_RETRY_S[0]
        while True:
            why: SessiondError = Unavailable("the channel has changed")
            try:
                await self._once()
            except SessiondError as error:
                why = error
            except OF_ASYNCPG as error:
                why = meaning(error, self._address.shown())
            if self._reached:
                pause = HUB_RETRY_S[0]
            self._lost(why)
            # Many daemons lose a hub at the same moment, and need not come back at the same moment.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(pause * 2, HUB_RETRY_S[1])

    def _lost(self, why: SessiondError) -> None:
        """Tell that the hub is lost, and once more if it answers meanwhile, and refuses: waiting does not help then."""
        if self._reached or self._told is None:
            self._on_lost()
        elif isinstance(why, LinkLost) or why.message == self._told:
            return
        self._reached, self._told = False, why.message
        self._tell(Lost(why.message))

    def _arrived(self) -> None:
        self._reached = True
        self._tell(Back())

    async def _once(self) -> None:
        """Connect and pass on hints until the link breaks."""
        channel = await self._channel()
        link = await connect(self._address, self._address.listen_url)
        try:
            self.way = "polling" if link.pooled else "listening"
            await (self._ask_again(link) if link.pooled else self._listen(link, channel))
        finally:
            link.connection.terminate()

    async def _listen(self, link: PostgresLink, channel: str) -> None:
        gone = asyncio.Event()

        def ended(_: object) -> None:
            gone.set()
            self._look.set()

        link.connection.add_termination_listener(ended)
        async with asyncio.timeout(HUB_CONNECT_S):
            await link.connection.add_listener(channel, self._heard)
        self._look.clear()
        self._arrived()
        while not gone.is_set():
            await self._wait(HUB_HEARTBEAT_S)
            await self._beat(link)
            if await self._channel() != channel:
                return
        raise Unavailable(f"the hub {self._address.shown()} closed the link")

    async def _ask_again(self, link: PostgresLink) -> None:
        cursor = (await self._last()).cursor
        self._look.clear()
        self._arrived()
        while True:
            await self._wait(HUB_POLL_S)
            page = await self._poll(cursor)
            cursor = page.cursor
            for head in page.heads:
                self._tell(HeadHint(head.session, head.head))
            await self._beat(link)

    async def _last(self) -> HeadPage:
        """Read on to the end of the list. Whoever is told `Back` reads it too."""
        page = await self._poll(None)
        while page.more:
            page = await self._poll(page.cursor)
        return page

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._look.wait()
        except TimeoutError:
            pass
        self._look.clear()

    async def _beat(self, link: PostgresLink) -> None:
        async with asyncio.timeout(HUB_CONNECT_S):
            await link.run(lambda connection: connection.execute("SELECT 1"))

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        del connection, pid, channel
        head, _, session = str(payload).partition(" ")
        if session:
            self._tell(HeadHint(session, int(head)))
        else:
            # A name that is too long for a hint: whoever reads the list finds it. Or a member was revoked, and the channel is another.
            self._tell(Back())
            self.look()
