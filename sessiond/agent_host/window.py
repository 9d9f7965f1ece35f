"""A connection: JSON-RPC with one window of VS Code.

    connected ──initialize, reconnect──> known ──> ended

Requests and notifications are handled one after the other, in the order in which they came, because the protocol wants its
actions echoed in order. `ping` is answered at once: a window gives up a host that does not. A window that reads too slowly is cut
off; it comes back by itself, and is brought up to date. What a window pushes of itself (its settings, its tools, its drafts) is
confirmed to it, and neither kept nor logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from sessiond.agent_host import shapes
from sessiond.agent_host.numbers import Numbers
from sessiond.agent_host.outbox import Outbox
from sessiond.agent_host.shapes import SessionSummary, State
from sessiond.agent_host.writing import WindowRefused, decode_created
from sessiond.errors import SessiondError
from sessiond.limits import MIB
from sessiond.rpc.envelope import ABSENT, Envelope, InvalidMessage, decode
from sessiond.transports.channel import Channel
from sessiond.transports.framing import Fault

log = logging.getLogger(__name__)
_MOST_WAITING = 200
"""Messages of a window that wait; beyond that nothing more is read until half of them are done."""
_PATIENCE_S = 20.0
"""How long a window may take to read what is more than is allowed to wait."""
_MOST_BEHIND = 32 * MIB
"""What may come on top of that, meanwhile."""
_MOST_CHANNELS = 200
"""Of one window; it shows a few at a time."""
_OWN = frozenset(
    [
        *("session/isReadChanged", "session/activeClientSet", "session/activeClientRemoved"),
        *("chat/draftChanged", "chat/inputAnswerChanged"),
    ]
)
"""Actions that concern the window alone."""
_AGAIN_S = 3.0
"""A window that has come back sends again what was not confirmed, at once."""
_READ_ONLY = "sessions can only be read here"


class WindowHost(Protocol):
    """The part of its host that a window needs."""

    numbers: Numbers
    outbox: Outbox

    def refuse(self, versions: Sequence[str]) -> None:
        """Remember the versions of a window that was refused."""

    async def subscribe(self, window: Window, channels: Sequence[str]) -> list[State]:
        """A snapshot of each channel that there is; what comes later is sent. SessiondError."""

    def unsubscribe(self, window: Window, channel: str) -> None: ...

    def channels_of(self, window: Window) -> int:
        """Return the number of channels of sessions that the window has."""

    def has(self, window: Window, channel: str) -> bool: ...

    async def replay(
        self, window: Window, number: int, channels: Sequence[str]
    ) -> tuple[list[State] | None, list[str]]:
        """Return what a window that saw all numbers up to this one lacks, and the channels that are gone. It has the others from now on.
        None: what it knew of one of them is not known here. SessiondError.
        """

    async def rows(self) -> list[SessionSummary]:
        """The one that changed last first. SessiondError."""

    async def tell_list(self, window: Window) -> None:
        """Send the list as it is. SessiondError."""

    async def write(self, channel: str, kind: str, action: bytes, origin: State) -> bool:
        """Do what the action of a window says. Returns whether the window was told of it already. Refused, SessiondError, DecodeError,
        TimeoutError.
        """

    async def create(self, channel: str, folders: Sequence[str]) -> None:
        """Refused, SessiondError."""

    async def delete(self, channel: str) -> None:
        """Refused, SessiondError."""

    def forget(self, window: Window) -> None: ...


class _Params(msgspec.Struct, rename="camel"):
    """Root of params. Unknown fields are ignored, as the protocol wants it."""


class _Initialize(_Params):
    protocol_versions: list[str]
    client_id: str
    initial_subscriptions: list[str] = []


class _Reconnect(_Params):
    client_id: str
    last_seen_server_seq: int
    subscriptions: list[str]


class _Subscribe(_Params):
    channel: str


class _Action(msgspec.Struct):
    """The part of an action that is looked at."""

    type: str


class _Dispatch(_Params):
    channel: str
    client_seq: int
    action: _Action


class _Echo(_Params):
    """The action as it came."""

    action: msgspec.Raw


_decode_initialize = msgspec.json.Decoder(_Initialize).decode
_decode_reconnect = msgspec.json.Decoder(_Reconnect).decode
_decode_subscribe = msgspec.json.Decoder(_Subscribe).decode
_decode_dispatch = msgspec.json.Decoder(_Dispatch).decode
_decode_echo = msgspec.json.Decoder(_Echo).decode


class Window:
    """A `Receiver` of the transport."""

    def __init__(self, channel: Channel, host: WindowHost, *, writes: bool = False) -> None:
        self.writes = writes
        self._channel = channel
        self._host = host
        self.client_id = ""
        """Stands for what the window calls itself, also when it comes back; empty until then."""
        self._own_name = ""
        self._back_at = 0.0
        """When it came back, by the loop's clock."""
        self._behind_on: set[str] = set()
        """Chats in which something had happened until then."""
        self._waiting: deque[Envelope] = deque()
        self._working: asyncio.Task[None] | None = None
        self._paused = False
        self._left_out = False
        """It came back, and had to begin again."""
        self._reads = asyncio.Event()
        self._reads.set()
        """Not set while so much waits for the window that it has to read first."""
        self._behind = 0
        """Bytes that were sent since then."""
        self._deadline: asyncio.TimerHandle | None = None
        self.closed = False

    def send(self, message: bytes) -> None:
        if self.closed:
            return
        self._channel.send(message)
        if not self._reads.is_set():
            self._behind += len(message)
            if self._behind > _MOST_BEHIND:
                self._cut_off()

    def end(self) -> None:
        self._channel.close()

    # Receiver

    def received(self, message: bytes) -> None:
        found = decode(message, 1)
        if isinstance(found, list):
            self._fail(None, WindowRefused("batches are not part of this protocol", shapes.INVALID_REQUEST))
        elif isinstance(found, InvalidMessage):
            self._fail(msgspec.Raw(found.id), WindowRefused(str(found.error), shapes.INVALID_REQUEST))
        elif found.method == "ping":
            self._answer(found, {}, at_once=True)
        elif found.method is not None:  # else an answer, and we ask for nothing
            self._waiting.append(found)
            if len(self._waiting) > _MOST_WAITING and not self._paused:
                self._paused = True
                self._channel.hold()
            if self._working is None:
                self._working = asyncio.create_task(self._work(), name="agent host")

    def broken(self, fault: Fault) -> None:
        log.info("a window is cut off: %s", fault.message)
        self._channel.close()

    def ended(self) -> None:
        self._channel.close()

    def choked(self) -> None:
        """It has a moment to read: one answer may be more than is allowed to wait. Called from within `send`."""
        self._reads.clear()
        self._behind = 0
        self._deadline = asyncio.get_running_loop().call_later(_PATIENCE_S, self._cut_off)

    def drained(self) -> None:
        self._reads.set()
        if self._deadline is not None:
            self._deadline.cancel()

    def _cut_off(self) -> None:
        if not self.closed:
            log.info("a window reads too slowly; it is cut off, and will come back")
            self._channel.abort()

    def lost(self) -> None:
        self.closed = True
        self.drained()
        self._waiting.clear()
        if self._working is not None:
            self._working.cancel()
        self._host.forget(self)

    # Requests

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._handle(self._waiting.popleft())
                await self._host.outbox.sent()
                await self._reads.wait()
                if self._paused and len(self._waiting) <= _MOST_WAITING // 2:
                    self._paused = False
                    self._channel.release()
        finally:
            self._working = None

    async def _handle(self, message: Envelope) -> None:
        assert message.method is not None
        handler = _HANDLERS.get(message.method)
        try:
            if handler is None:
                raise WindowRefused(f"{message.method} is not served here", shapes.METHOD_NOT_FOUND)
            if not self.client_id and message.method not in ("initialize", "reconnect"):
                raise WindowRefused("`initialize` comes first", shapes.INVALID_REQUEST)
            await handler(self, b"{}" if message.params is ABSENT else bytes(message.params), message)
        except WindowRefused as refused:
            self._fail(message.id, refused)
        except msgspec.DecodeError as error:
            self._fail(message.id, WindowRefused(str(error), shapes.INVALID_PARAMS))
        except SessiondError as error:
            self._fail(message.id, WindowRefused(str(error), shapes.INTERNAL_ERROR))
        except Exception:
            log.exception("%s of a window failed", message.method)
            self._fail(
                message.id, WindowRefused("an internal error: the daemon's log says which", shapes.INTERNAL_ERROR)
            )

    def _answer(self, message: Envelope, result: object, *, at_once: bool = False) -> None:
        if message.id is ABSENT:
            return
        encoded = msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "result": result})
        if at_once:
            self.send(encoded)
        else:
            self._host.outbox.post([self], encoded)

    def _fail(self, id: msgspec.Raw | None, refused: WindowRefused) -> None:
        if id is ABSENT:
            return
        error: State = {"code": refused.code, "message": str(refused)}
        if refused.data is not None:
            error["data"] = refused.data
        self.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error}))

    # Handlers

    async def _initialize(self, params: bytes, message: Envelope) -> None:
        wanted = _decode_initialize(params)
        version = next((one for one in wanted.protocol_versions if one in shapes.VERSIONS), None)
        if version is None:
            self._host.refuse(wanted.protocol_versions)
            data = {"supportedVersions": list(shapes.VERSIONS)}
            raise WindowRefused(f"this host speaks {', '.join(shapes.VERSIONS)}", shapes.UNSUPPORTED_VERSION, data)
        self.client_id, self._own_name = _named(wanted.client_id), wanted.client_id
        snapshots = await self._host.subscribe(self, wanted.initial_subscriptions[:_MOST_CHANNELS])
        number = self._host.numbers.last
        self._answer(message, {"protocolVersion": version, "serverSeq": number, "snapshots": snapshots})
        if self._left_out:
            await self._host.tell_list(self)

    async def _reconnect(self, params: bytes, message: Envelope) -> None:
        """Send the window what came since, of all that it had; if that is not known of one session, it has to begin again."""
        wanted = _decode_reconnect(params)
        self.client_id, self._own_name = _named(wanted.client_id), wanted.client_id
        try:
            channels = wanted.subscriptions[:_MOST_CHANNELS]
            actions, missing = await self._host.replay(self, wanted.last_seen_server_seq, channels)
        except SessiondError as error:
            log.warning("a window begins again: %s", error)
            actions, missing = None, []
        if actions is None:
            self._left_out = True
            raise WindowRefused("it is not known here what came since then", shapes.NOT_FOUND)
        self._answer(message, {"type": "replay", "actions": actions, "missing": missing})
        self._back_at = asyncio.get_running_loop().time()
        self._behind_on = {action["channel"] for action in actions if shapes.is_chat(action["channel"])}
        if shapes.ROOT in wanted.subscriptions:
            await self._host.tell_list(self)

    async def _subscribe(self, params: bytes, message: Envelope) -> None:
        channel = _decode_subscribe(params).channel
        if self._host.channels_of(self) >= _MOST_CHANNELS:
            raise WindowRefused(f"a window may have {_MOST_CHANNELS} channels at a time", shapes.INVALID_REQUEST)
        snapshots = await self._host.subscribe(self, [channel])
        if not snapshots:
            raise WindowRefused(f"{channel} was not found", shapes.NOT_FOUND)
        self._answer(message, {"snapshot": snapshots[0]})

    async def _unsubscribe(self, params: bytes, message: Envelope) -> None:
        self._host.unsubscribe(self, _decode_subscribe(params).channel)
        self._answer(message, None)

    async def _list(self, params: bytes, message: Envelope) -> None:
        self._answer(message, {"items": await self._host.rows()})

    async def _dispatch(self, params: bytes, message: Envelope) -> None:
        wanted = _decode_dispatch(params)
        known = self._host.has(self, wanted.channel)
        # From a row's menu comes what is about a session that the window has not opened; one that it had may be gone.
        if not known and not (self.writes and shapes.session_of(wanted.channel) and wanted.action.type not in _OWN):
            return
        origin = {"clientId": self._own_name, "clientSeq": wanted.client_seq}
        action, why_not = _decode_echo(params).action, None
        if wanted.action.type not in _OWN:
            try:
                if not self.writes:
                    raise WindowRefused(_READ_ONLY)
                if wanted.action.type == "chat/truncated" and self._meant_what_was(wanted.channel):
                    raise WindowRefused("more was said since then")
                told = await self._host.write(wanted.channel, wanted.action.type, bytes(action), origin)
                if told and known:
                    return
            except (WindowRefused, SessiondError, msgspec.DecodeError) as error:
                why_not = str(error)
            except TimeoutError:
                why_not = "it took too long; what was kept is shown later"
            except Exception:
                log.exception("%s of a window failed", wanted.action.type)
                why_not = "an internal error: the daemon's log says which"
        echo = {**shapes.envelope(wanted.channel, action, self._host.numbers.next()), "origin": origin}
        if why_not is not None:
            echo["rejectionReason"] = why_not
        self._host.outbox.post([self], notification("action", echo))

    def _meant_what_was(self, channel: str) -> bool:
        """Return whether a cut was perhaps sent again after a lost connection, by a window that did not see what it cuts off."""
        now = asyncio.get_running_loop().time()
        return channel in self._behind_on and now < self._back_at + _AGAIN_S

    async def _configuration(self, params: bytes, message: Envelope) -> None:
        """Answer with the configuration of a new session: nothing can be chosen."""
        self._answer(message, {"schema": {"type": "object", "properties": {}}, "values": {}})

    async def _create(self, params: bytes, message: Envelope) -> None:
        self._may_write()
        wanted = decode_created(params)
        await self._host.create(wanted.channel, wanted.working_directories)
        self._answer(message, None)

    async def _dispose(self, params: bytes, message: Envelope) -> None:
        self._may_write()
        await self._host.delete(_decode_subscribe(params).channel)
        self._answer(message, None)

    async def _no_chats(self, params: bytes, message: Envelope) -> None:
        self._may_write()
        raise WindowRefused("a session has one chat here", shapes.METHOD_NOT_FOUND)

    def _may_write(self) -> None:
        if not self.writes:
            raise WindowRefused(_READ_ONLY, shapes.PERMISSION_DENIED)


_HANDLERS: dict[str, Callable[[Window, bytes, Envelope], Awaitable[None]]] = {
    "initialize": Window._initialize,
    "reconnect": Window._reconnect,
    "subscribe": Window._subscribe,
    "unsubscribe": Window._unsubscribe,
    "listSessions": Window._list,
    "dispatchAction": Window._dispatch,
    "resolveSessionConfig": Window._configuration,
    "createSession": Window._create,
    "disposeSession": Window._dispose,
    "createChat": Window._no_chats,
    "disposeChat": Window._no_chats,
}


def _named(client_id: str) -> str:
    """Short, whatever a window calls itself: it is kept with each of its snapshots."""
    return hashlib.blake2b(client_id.encode(), digest_size=8).hexdigest()


def notification(method: str, params: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})
