"""The host: its windows, the sessions that they have open, and the list.

Sessions are open here as long as a window has one of their two channels. All windows share one `Hosted`, so a change is
translated once, however many look on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

import msgspec

from sessiond.agent_host import shapes
from sessiond.agent_host.hosted import Hosted
from sessiond.agent_host.known import KnownState
from sessiond.agent_host.listing import Listing
from sessiond.agent_host.numbers import Numbers
from sessiond.agent_host.outbox import Outbox
from sessiond.agent_host.shapes import Action, SessionSummary, State
from sessiond.agent_host.window import Window, notification
from sessiond.agent_host.writing import Writing
from sessiond.clock import Clock
from sessiond.errors import SessionNotFound
from sessiond.fs import FileSystem, off_loop
from sessiond.limits import Limits
from sessiond.schema.sessions import ListChangedResult, ListResult, OpenResult
from sessiond.schema.types import Activity
from sessiond.service.sessions import Service
from sessiond.transports.channel import Channel

log = logging.getLogger(__name__)
_LINGER_S = 30.0
"""How long a session stays open here that no window has any more."""
_NEWEST = 500
"""Rows that a window is told when it comes back."""
_MOST_MESSAGE_BYTES = 1024 * 1024
"""Of a window that only reads: it describes its tools in tens of kilobytes, and says nothing larger."""
_MOST_DRAFTS = 1000


class _ListPeer:
    """A `Peer` that is told when the list changes."""

    client = "agent host"
    closed = False

    def __init__(self, peer_id: int, changed: Callable[[], None]) -> None:
        self.id = peer_id
        self._changed = changed

    def notify(self, method: str, params: bytes) -> bool:
        return True

    def notify_owed(self, method: str, params: bytes) -> None:
        self._changed()


class WindowDoor:
    """An `Acceptor` for a listener of windows. `writes`: whether they may."""

    def __init__(self, host: AgentHost, *, writes: bool) -> None:
        self._host = host
        self._writes = writes

    def refusal(self, trusted: bool, coming: int = 0) -> bytes | None:
        return self._host.refusal(coming)

    def connect(self, channel: Channel) -> Window:
        return self._host.connect(channel, writes=self._writes)


class AgentHost:
    """`peer_id`: gives each `Peer` a number that no other connection has."""

    def __init__(
        self, service: Service, fs: FileSystem, path: str, clock: Clock, limits: Limits, peer_id: Callable[[], int]
    ) -> None:
        self._service = service
        self._clock = clock
        self._limits = limits
        self._peer_id = peer_id
        self._hosted: dict[str, Hosted] = {}
        self._loading: dict[str, asyncio.Task[Hosted]] = {}
        self.windows: set[Window] = set()
        self._roots: set[Window] = set()
        """Windows that have the root channel."""
        self.numbers = Numbers(fs, path)
        self.outbox = Outbox(self.numbers)
        self._listing = Listing(self, self._row_changed, lambda: bool(self._roots))
        self._list_peer = _ListPeer(peer_id(), self._listing.changed)
        self._writing = Writing(service, self)
        self._drafts: dict[str, str | None] = {}
        """Sessions in which nothing was said -> their folders; also of those that no window has for the moment."""
        self._writes: set[asyncio.Task[bool]] = set()
        self.refused: list[str] = []
        """The versions that the last window offered which was refused."""

    async def start(self) -> None:
        await off_loop(self.numbers.load, self._clock.now_ms())

    async def close(self) -> None:
        for window in list(self.windows):
            window.end()
        self._listing.close()
        self._list_peer.closed = True
        loads = list(self._loading.values())
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        for hosted in list(self._hosted.values()):
            self._drop(hosted)
        await asyncio.gather(*self._writes, return_exceptions=True)  # what they wait for is over
        await self.outbox.sent()

    # Windows

    def refusal(self, coming: int) -> bytes | None:
        if len(self.windows) + coming < self._limits.connections:
            return None
        return b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too many windows"}}'

    def connect(self, channel: Channel, *, writes: bool) -> Window:
        window = Window(channel, self, writes=writes)
        self.windows.add(window)
        channel.limit_messages(self._limits.message_bytes if writes else _MOST_MESSAGE_BYTES)
        return window

    def forget(self, window: Window) -> None:
        self.windows.discard(window)
        self._roots.discard(window)
        for hosted in self._hosted.values():
            watched = [watching for watching in hosted.channels.values() if window in watching]
            for watching in watched:
                watching.remove(window)
            if watched:
                self._let_go(hosted)

    def refuse(self, versions: Sequence[str]) -> None:
        """A window shows an empty list then, and says nothing."""
        self.refused = [version[:20] for version in versions[:10]]
        log.warning("a window speaks only %s of the Agent Host Protocol", ", ".join(self.refused) or "no version")

    # Channels

    async def subscribe(self, window: Window, channels: Sequence[str]) -> list[State]:
        """A snapshot of each channel that there is; what comes later is sent. SessiondError."""
        found = await self._all(channels)
        snapshots: list[State] = []
        for channel, hosted in found.items():  # from here on nothing waits: what comes next is in no snapshot
            self._join(window, channel, hosted)
            writes = window.writes
            state = shapes.root_state(writes=writes) if hosted is None else hosted.state(channel, writes=writes)
            if hosted is not None and shapes.is_chat(channel):
                number = self.numbers.next()
                self._mark(hosted, number, client=window.client_id, asked=hosted.asking.shown)
            snapshots.append({"resource": channel, "state": state, "fromSeq": self.numbers.last})
        return snapshots

    def _join(self, window: Window, channel: str, hosted: Hosted | None) -> None:
        if hosted is None:
            self._roots.add(window)
        else:
            hosted.channels[channel].add(window)

    def unsubscribe(self, window: Window, channel: str) -> None:
        if channel == shapes.ROOT:
            self._roots.discard(window)
        elif (hosted := self._hosted.get(shapes.session_of(channel) or "")) is not None:
            hosted.channels.get(channel, set()).discard(window)
            self._let_go(hosted)

    def channels_of(self, window: Window) -> int:
        """Return the number of channels of sessions that the window has."""
        return sum(window in watching for hosted in self._hosted.values() for watching in hosted.channels.values())

    def has(self, window: Window, channel: str) -> bool:
        hosted = self._hosted.get(shapes.session_of(channel) or "")
        return hosted is not None and window in hosted.channels.get(channel, ())

    async def replay(
        self, window: Window, number: int, channels: Sequence[str]
    ) -> tuple[list[State] | None, list[str]]:
        """Return what a window that saw all numbers up to this one lacks, and the channels that are gone. It has the others from now on.
        None: what it knew of one of them is not known here. SessiondError.
        """
        if number > self.numbers.last:  # what is here is older than the window
            return None, []
        found = await self._all(channels)  # from here on nothing waits
        known: dict[str, KnownState] = {}
        for channel, hosted in found.items():
            if hosted is not None and shapes.is_chat(channel):
                state = hosted.known_by(self.numbers.seen(hosted.key, number, window.client_id))
                if state is None:
                    log.info("a window begins again: what it had of %s is not known any more", hosted.wire_id)
                    return None, []
                known[channel] = state
        actions: list[State] = []
        for channel, hosted in found.items():
            self._join(window, channel, hosted)
            if hosted is not None:
                missed = hosted.since(known[channel]) if channel in known else _about(hosted)
                actions += [shapes.envelope(channel, action, self.numbers.last) for action in missed]
        return actions, [channel for channel in channels if channel not in found]

    # Sessions

    async def _all(self, channels: Sequence[str]) -> dict[str, Hosted | None]:
        """The channels that there are, with their sessions; the root has none. SessiondError."""
        found: dict[str, Hosted | None] = {}
        for channel in channels:
            if channel == shapes.ROOT:
                found[channel] = None
            elif (wire_id := shapes.session_of(channel)) is not None and channel in shapes.channels_of(wire_id):
                with contextlib.suppress(SessionNotFound):
                    found[channel] = await self._of(wire_id)
        # One may have gone while others were loaded.
        return {channel: hosted for channel, hosted in found.items() if hosted is None or not hosted.closed}

    async def _of(self, wire_id: str) -> Hosted:
        hosted = self._hosted.get(wire_id)
        if hosted is None:
            loading = self._loading.get(wire_id)
            if loading is None:
                loading = self._loading[wire_id] = asyncio.create_task(self._load(wire_id), name="agent host")
                loading.add_done_callback(_seen)
            hosted = await asyncio.shield(loading)
        hosted.used_at = asyncio.get_running_loop().time()
        return hosted

    async def _load(self, wire_id: str) -> Hosted:
        hosted = Hosted(self, self.numbers, wire_id, self._peer_id())
        try:
            await hosted.load()
        except SessionNotFound:
            hosted.close()
            self._service.disconnected(hosted)
            if (
                wire_id in self._drafts or self.numbers.newest(wire_id) is not None
            ):  # marks of drafts have no time in their name
                return self._hosted.get(wire_id) or self._draft(wire_id)
            raise
        except BaseException:
            hosted.close()
            self._service.disconnected(hosted)
            raise
        finally:
            del self._loading[wire_id]
        if hosted.closed:
            raise SessionNotFound(f"{wire_id!r} was deleted while it was read")
        self._hosted[wire_id] = hosted
        self.status_changed(hosted)
        self._let_go(hosted)
        return hosted

    def _let_go(self, hosted: Hosted) -> None:
        """A while after nobody has it. A window that is loaded again leaves for a moment, and one that came may not have it yet."""
        asyncio.get_running_loop().call_later(_LINGER_S, self._look_at, hosted)

    def _look_at(self, hosted: Hosted) -> None:
        if hosted.closed or hosted.attended:
            return
        if asyncio.get_running_loop().time() - hosted.used_at < _LINGER_S:
            self._let_go(hosted)
        else:
            self._drop(hosted)

    def _drop(self, hosted: Hosted) -> None:
        if self._hosted.get(hosted.wire_id) is hosted:
            del self._hosted[hosted.wire_id]
        hosted.close()
        self._service.disconnected(hosted)
        # Nobody hears here any more what its last turn does.
        self._row_told(hosted.wire_id, {"status": hosted.summary.status})

    async def opened(self, hosted: Hosted, *, last: int) -> OpenResult:
        found = await self._service.open(hosted, hosted.wire_id, last=last)
        self._drafts.pop(hosted.wire_id, None)
        return found

    def say(
        self,
        hosted: Hosted,
        channel: str,
        actions: Sequence[Action],
        split: str | None = None,
        unanswered: str | None = None,
        asked: str | None = None,
        marked: bool = True,
    ) -> None:
        first = self.numbers.last + 1
        numbered = [(self.numbers.next(), action) for action in actions]
        if shapes.is_chat(channel) and marked:
            if not numbered:
                self.numbers.next()
            self._mark(hosted, first, split=split, unanswered=unanswered, asked=asked)
        windows = list(hosted.channels[channel])
        for number, action in numbered if windows else []:
            told = shapes.envelope(channel, action, number)
            if (origin := hosted.confirmations.origin_of(action)) is not None:
                told["origin"] = origin
            self.outbox.post(windows, notification("action", told))

    def _mark(
        self,
        hosted: Hosted,
        first: int,
        *,
        split: str | None = None,
        client: str | None = None,
        unanswered: str | None = None,
        asked: str | None = None,
    ) -> None:
        shown = hosted.shown()
        mark = self.numbers.mark(
            first, hosted.key, shown, split=split, client=client, unanswered=unanswered, asked=asked
        )
        hosted.said(first, mark.number)
        self.outbox.mark(mark)

    def activity(self, hosted: Hosted) -> Activity | None:
        return self._service.open_sessions.activities.of(hosted.wire_id)

    def was_answered(self, question_id: str) -> bool:
        return self._service.open_sessions.activities.was_answered(question_id)

    def gone(self, hosted: Hosted) -> None:
        self.numbers.forget(hosted.key)
        self._drop(hosted)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # What windows change

    async def write(self, channel: str, kind: str, action: bytes, origin: State) -> bool:
        """Goes on to its end if the window is lost meanwhile."""
        hosted = await self._of(shapes.session_of(channel) or "")
        task = asyncio.create_task(self._writing.take(hosted, kind, action, origin), name="agent host")
        self._writes.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: asyncio.Task[bool]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # the window was told, if it is still there

    async def create(self, channel: str, folders: Sequence[str]) -> None:
        await self._writing.create(channel, folders)

    async def delete(self, channel: str) -> None:
        await self._writing.delete(channel)

    async def opened_here(self, wire_id: str) -> Hosted:
        return await self._of(wire_id)

    def draft(self, wire_id: str, cwd: str | None) -> bool:
        if wire_id in self._hosted:
            return False
        self._drafts[wire_id] = cwd
        if len(self._drafts) > _MOST_DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        self._draft(wire_id)
        return True

    def _draft(self, wire_id: str) -> Hosted:
        hosted = self._hosted[wire_id] = Hosted(self, self.numbers, wire_id, self._peer_id())
        hosted.draft(self._drafts.get(wire_id))
        hosted.used_at = asyncio.get_running_loop().time()
        self._let_go(hosted)
        return hosted

    def forget_draft(self, wire_id: str) -> bool:
        hosted, was = self._hosted.get(wire_id), wire_id in self._drafts
        self._drafts.pop(wire_id, None)
        if hosted is not None and hosted.is_draft:
            self.gone(hosted)
            return True
        self.numbers.forget(wire_id)
        return was

    # The list

    async def rows(self) -> list[SessionSummary]:
        """The one that changed last first. SessiondError."""
        rows = [self._row(wire_id, row) for wire_id, row in (await self._listing.rows()).items()]
        return sorted(rows, key=lambda row: row.modified_at, reverse=True)

    async def tell_list(self, window: Window) -> None:
        """The list as it is, to a window that was away. It does not ask for it again, and its rows have no numbers; what it knows
        already does no harm. The newest are enough: an older one is rarely what changed. SessiondError.
        """
        rows = await self.rows()
        for row in rows[:_NEWEST]:
            message = notification("root/sessionAdded", {"channel": shapes.ROOT, "summary": row})
            self.outbox.post([window], message)
        known = {row.resource for row in rows}
        trash = await self._service.list(limit=_NEWEST, filter={"deleted": True})
        arrivals = self._service.catalog.arrivals
        removed = [] if arrivals is None else arrivals.gone_lately()
        for wire_id in {*removed, *(info.session_id for info in trash.sessions)}:
            session = shapes.session_uri(wire_id)
            if session not in known:
                gone = notification("root/sessionRemoved", {"channel": shapes.ROOT, "session": session})
                self.outbox.post([window], gone)

    def _row(self, wire_id: str, row: SessionSummary) -> SessionSummary:
        """With what its last turn does, if that is known here."""
        hosted = self._hosted.get(wire_id)
        return row if hosted is None else msgspec.structs.replace(row, status=hosted.status)

    def _row_changed(self, wire_id: str, before: SessionSummary | None, after: SessionSummary | None) -> None:
        if after is None:
            self._tell("root/sessionRemoved", session=shapes.session_uri(wire_id))
        elif before is None:
            self._tell("root/sessionAdded", summary=self._row(wire_id, after))
        else:
            old, new = msgspec.to_builtins(before), msgspec.to_builtins(self._row(wire_id, after))
            ended = {"activity": ""} if "activity" in old and "activity" not in new else {}
            self._row_told(wire_id, {key: value for key, value in new.items() if old.get(key) != value} | ended)

    def status_changed(self, hosted: Hosted) -> None:
        self._row_told(hosted.wire_id, {"status": hosted.status})

    def _row_told(self, wire_id: str, changes: State) -> None:
        if changes:
            self._tell("root/sessionSummaryChanged", session=shapes.session_uri(wire_id), changes=changes)

    def _tell(self, method: str, **params: object) -> None:
        self.outbox.post(list(self._roots), notification(method, {"channel": shapes.ROOT, **params}))

    async def page(self, cursor: str | None, limit: int) -> ListResult:
        return await self._service.list(limit=limit, cursor=cursor)

    async def changed(self, cursor: str | None) -> ListChangedResult:
        return await self._service.finder.changed(limit=None, cursor=cursor, tell=self._list_peer)

    def removed(self, cursor: str) -> list[str] | None:
        arrivals = self._service.catalog.arrivals
        return None if arrivals is None else arrivals.removed(cursor)


def _about(hosted: Hosted) -> list[Action]:
    """Return what a window may have missed of a session besides its words."""
    title, archived = hosted.summary.title, bool(hosted.summary.status & shapes.ARCHIVED)
    return [
        shapes.title_changed(title),
        shapes.archived_changed(archived),
        shapes.activity_changed(hosted.summary.activity),
        shapes.chat_changed(hosted.wire_id, title=title, status=hosted.chat_status),
    ]


def _seen(load: asyncio.Task[Hosted]) -> None:
    """Mark its error as seen: the windows that waited for it may all have left."""
    if not load.cancelled():
        load.exception()
