"""One connection: its states, its requests in flight, and what waits to be read by the peer.

    connected ──initialize──> initialized ──shutdown──> shut down ──exit──> ended
        │                                                                     ↑
        └── our own methods already work, if the transport trusts the peer    └── also when the stream ends or breaks

Theory of operation
-------------------
Messages come in order, and each request takes its place in the turn of the loop in which it was read: `Method.order` says
where. One that names a session runs at once up to its first wait; by then it is in the queue of its session, which keeps the
order from there on. One that concerns many sessions remembers which earlier requests are in flight and waits for them. While a
barrier (an import) is in flight, later requests wait in the backlog, except cancellations. Answers are sent when they are
ready, in any order.

The requests in flight, including the backlog, are bounded by weight: beyond that limit, nothing more is read. A batch runs
alone, its requests one after another. If a peer reads too slowly, nothing is read from it either, it loses notifications and
is told to resync; answers are never dropped, and neither is the last notification about a session that it has open.

A peer that is not trusted must begin with `initialize` and the token. Anything else ends the connection.

When the peer stops sending, it still gets its answers. When it is gone, its changes are still made, its reads are dropped,
and only then is the service told, so that the connection has no effect after its end.

What must never happen: a request begins before an earlier one has its place; a request gets two answers, or no answer; a
change is made but answered as cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from sessiond.eager import begin
from sessiond.errors import Cancelled, SessiondError, TooLarge, Unauthorized
from sessiond.limits import Limits
from sessiond.rpc import lifecycle
from sessiond.rpc.early import EarlyAnswer
from sessiond.rpc.envelope import (
    ABSENT,
    NULL_ID,
    Envelope,
    InvalidMessage,
    Item,
    answer_raw,
    decode,
    encode_json,
    failure,
    success,
)
from sessiond.rpc.envelope import notification as encode_notification
from sessiond.rpc.errors import InvalidRequest, MethodNotFound, NotInitialized, of_fault, wire_error
from sessiond.rpc.jobs import (
    OPEN_ENDED,
    Earlier,
    IncomingRequest,
    InFlight,
    Routed,
    Work,
    all_of,
    cancelled_id,
    cancelled_token,
    command,
)
from sessiond.rpc.lsp_gate import LspGate
from sessiond.rpc.methods import METHODS, Order
from sessiond.rpc.progress import WorkDone
from sessiond.transports.channel import Channel
from sessiond.transports.framing import Fault

if TYPE_CHECKING:
    from sessiond.rpc.documents import Documents
    from sessiond.rpc.methods import DaemonControl
    from sessiond.service.sessions import Service

_LOG_ERROR = 1
_FULL, _CHOKED, _BATCH, _OVER = 1, 2, 4, 8
"""Reasons to read nothing: too much is in flight, the peer does not read, a batch runs alone, the connection ends."""


class ConnectionHost(Protocol):
    """The part of its server that a connection needs."""

    service: Service
    daemon: DaemonControl
    limits: Limits
    documents: Documents | None
    initialize_result: bytes

    def greet(self, connection: Connection) -> None: ...

    def admits(self, token: str | None) -> bool: ...

    def caught_up(self, connection: Connection) -> None: ...

    def forget(self, connection: Connection) -> None: ...

    def settle(self) -> None:
        """Apply what is already durable."""


class ReadPause:
    """Pauses reading a connection's channel as long as there is a reason to."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reasons = 0

    def held(self, reason: int) -> bool:
        return bool(self._reasons & reason)

    def hold(self, reason: int) -> None:
        if not self._reasons:
            self._channel.hold()
        self._reasons |= reason

    def release(self, reason: int) -> None:
        if self._reasons:
            self._reasons &= ~reason
            if not self._reasons:
                self._channel.release()


class Connection:
    """A `Receiver` for its transport, a `Peer` for the service, a `RemoteClient` and the `Call` for handlers."""

    def __init__(self, number: int, channel: Channel, server: ConnectionHost) -> None:
        self.id = number
        self.client = lifecycle.UNNAMED
        self.closed = False
        self.folders: list[str] = []
        """URIs of the workspace folders that the client named."""
        self._channel = channel
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._trusted = channel.trusted
        self.lsp: LspGate | None = None
        """Set from `initialize` on."""
        self._shut_down = False
        self._in_flight = InFlight()
        self._barrier: IncomingRequest | None = None
        self._backlog: dict[IncomingRequest, tuple[Work, msgspec.Raw]] = {}
        """What arrived while a barrier was in flight, in order."""
        self._beginning: IncomingRequest | None = None
        """The request whose handler is in its first step."""
        self._reading = ReadPause(channel)
        self._dropped = False
        self._winding_up = False
        self._linger = False
        self._told_service = False
        self.greeted = False
        self._on_closed: list[Callable[[], None]] = []
        self._progress: dict[int | str | None, asyncio.Task[object] | None] = {}
        self._first: asyncio.TimerHandle | None = self._loop.call_later(self._limits.first_message_s, self._too_late)

    # For the service and the handlers

    @property
    def service(self) -> Service:
        return self._server.service

    @property
    def daemon(self) -> DaemonControl:
        return self._server.daemon

    @property
    def peer(self) -> Connection:
        return self

    def notify(self, method: str, params: bytes) -> bool:
        if self._reading.held(_CHOKED):
            self._dropped = True
            return False
        self._channel.send(encode_notification(method, params), soon=True)
        return True

    def notify_owed(self, method: str, params: bytes) -> None:
        # No more than its answer can be waiting: while the peer does not read, nothing more is read from it.
        self._channel.send(encode_notification(method, params), soon=True)

    def on_closed(self, callback: Callable[[], None]) -> None:
        if self.closed:
            callback()
        else:
            self._on_closed.append(callback)

    def progress(self, token: int | str, title: str) -> WorkDone:
        self._progress[token] = asyncio.current_task()
        return WorkDone(self.notify, token, title, self._loop.time, lambda: self._progress.pop(token, None))

    # For the transport

    def received(self, message: bytes) -> None:
        self._server.settle()
        item = decode(message, self._limits.batch_requests)
        if self._first is not None:
            self._first.cancel()
            self._first = None
        if not self._trusted:
            self._knock(item)
        elif type(item) is Envelope:
            self._take(item)
        elif isinstance(item, InvalidMessage):
            self._channel.send(item.answer())
        elif isinstance(item, list):
            self._reading.hold(_BATCH)
            request = IncomingRequest(b"", "batch", outlives=True, order="after")
            self._take_in(request)
            earlier = self._in_flight.earlier(request)
            request.task = self._loop.create_task(self._perform_batch(request, item, earlier))

    def broken(self, fault: Fault) -> None:
        self._end_with(NULL_ID, of_fault(fault))

    def ended(self) -> None:
        self._wind_up()

    def choked(self) -> None:
        self._reading.hold(_CHOKED)

    def drained(self) -> None:
        self._reading.release(_CHOKED)
        if self._dropped:
            self._dropped = False
            self._server.caught_up(self)

    def lost(self) -> None:
        self.closed = True
        if self._first is not None:
            self._first.cancel()
        self._drop_reads()
        while self._on_closed:
            self._on_closed.pop(0)()
        if self.lsp is not None:
            self.lsp.close()
            self.lsp = None
        self._server.forget(self)
        self._tell_service()

    # For the server

    def end(self) -> None:
        """The daemon stops: answer what is in flight, then close. Whoever waits for a person asks again over the next connection."""
        self._reading.hold(_OVER)
        self._in_flight.drop_open_ended()
        self._wind_up()

    def abort(self) -> None:
        self._channel.abort()

    @property
    def is_stranger(self) -> bool:
        """True if it has not shown its token yet."""
        return not self._trusted

    @property
    def has_spoken(self) -> bool:
        """True if its first message has arrived."""
        return self._first is None

    def turn_out(self) -> None:
        """Close this stranger to make room for a peer that is admitted."""
        self._channel.send(failure(NULL_ID, Unauthorized("too many connections have not shown a token")))
        self._channel.abort()

    # Admission

    def _too_late(self) -> None:
        self._first = None
        what, kind = ("message came", InvalidRequest) if self._trusted else ("token was shown", Unauthorized)
        self._end_with(NULL_ID, kind(f"no {what} within {self._limits.first_message_s:g} s"))

    def _knock(self, item: Item | list[Item]) -> None:
        """The first message of a peer that is not trusted yet."""
        what = "the first message must be `initialize` with the token"
        if isinstance(item, Envelope) and item.method == "initialize" and item.id is not ABSENT:
            try:
                token = lifecycle.decode_initialize(item.params).token
            except SessiondError:
                token = None
            if self._server.admits(token):
                self._trusted = True
                self._channel.limit_messages(self._limits.message_bytes)
                self._take(item)
                return
            if token is not None:
                what = "the token is wrong"
        known = NULL_ID if isinstance(item, list) or item.id is ABSENT else bytes(item.id)
        self._end_with(
            known,
            Unauthorized(
                what,
                hint="put the content of the file that `sessiond status` shows into initializationOptions.token",
            ),
        )

    # Messages

    def _take(self, envelope: Envelope) -> None:
        request_id = b"" if envelope.id is ABSENT else bytes(envelope.id)
        method = METHODS.get(envelope.method or "")
        if method is not None and not self._shut_down:
            if not request_id and method.name in OPEN_ENDED:  # nobody would hear the answer
                return
            self._start(
                IncomingRequest(request_id, method.name, method.weight, method.outlives, method.order),
                method.call,
                envelope.params,
            )
            return
        try:
            found = self._route(envelope)
        except SessiondError as error:
            if request_id:
                self._channel.send(failure(request_id, error))
            return
        if isinstance(found, Routed):
            name = found.name or envelope.method or ""
            request = IncomingRequest(request_id, name, found.weight, found.outlives, found.order)
            self._start(request, found.work, envelope.params)
        elif request_id and envelope.method is not None:
            self._channel.send(answer_raw(request_id, found or b"null"))
            self._server.greet(self)

    def _route(self, envelope: Envelope) -> Routed | bytes | None:
        """Anything except a plain call of our own methods: a job, a result in JSON, or None. Raises SessiondError."""
        method = envelope.method
        if method is None:
            return None  # an answer to an unknown request
        own = METHODS.get(method)
        if method == "exit":
            self._reading.hold(_OVER)
            self._drop_reads()
            self._wind_up()
            return None
        if self._shut_down:
            raise InvalidRequest("the connection was shut down; only `exit` may follow")
        if own is not None:
            return Routed(own.call, own.weight, own.outlives, own.order)
        if method in _QUIET:
            _QUIET[method](self, envelope.params)
            return None
        if lifecycle.is_lsp(method):
            return self._route_lsp(method, envelope)
        raise MethodNotFound(method)

    def _route_lsp(self, method: str, envelope: Envelope) -> Routed | bytes | None:
        if method == "initialize":
            return self._initialize(envelope)
        gate = self.lsp
        if gate is None:
            raise NotInitialized(
                f"`initialize` must come before {method!r}", hint="sessiond's own methods do not need it"
            )
        if method == "shutdown":
            self._shut_down = envelope.id is not ABSENT
            return None
        if method == "initialized":
            return None
        if method == "workspace/executeCommand":
            return command(envelope.params)
        if method in lifecycle.FEATURES:
            is_request = envelope.id is not ABSENT
            order: Order = "after" if method == "workspace/symbol" else "free"
            return Routed(lambda _, params: gate.call(method, params, is_request), order=order)
        raise MethodNotFound(method)

    def _initialize(self, envelope: Envelope) -> bytes | None:
        if envelope.id is ABSENT:
            return None
        if self.lsp is not None:
            raise InvalidRequest("`initialize` was sent twice")
        params = lifecycle.decode_initialize(envelope.params)
        self.client, self.folders = params.client, params.folders
        raw = b"{}" if envelope.params is ABSENT else bytes(envelope.params)
        self.lsp = LspGate(self._server.documents, self.notify, raw)
        return self._server.initialize_result

    def _cancel_request(self, params: msgspec.Raw) -> None:
        request = self._in_flight.find(cancelled_id(params))
        if request is not None:
            request.cancel()
            if request in self._backlog:  # its answer need not wait for the barrier
                self._begin(request, *self._backlog.pop(request))

    def _cancel_progress(self, params: msgspec.Raw) -> None:
        task = self._progress.get(cancelled_token(params))
        if task is not None:
            task.cancel()

    # Requests in flight

    def _start(self, request: IncomingRequest, work: Work, params: msgspec.Raw) -> None:
        self._take_in(request)
        if self._barrier is not None and request.order != "free":
            self._backlog[request] = (work, params)
        else:
            self._begin(request, work, params)

    def _take_in(self, request: IncomingRequest) -> None:
        self._in_flight.add(request)
        if self._in_flight.weight >= self._limits.in_flight_requests:
            self._reading.hold(_FULL)

    def _begin(self, request: IncomingRequest, work: Work, params: msgspec.Raw) -> None:
        if request.order == "session":
            self._beginning = request
            request.task = begin(self._perform(request, work, params))
            self._beginning = None
            return
        earlier = () if request.order == "free" or request.cancelled else self._in_flight.earlier(request)
        if request.order == "barrier" and not request.cancelled:
            self._barrier = request
        request.task = self._loop.create_task(self._perform(request, work, params, earlier))

    def earlier(self, *methods: str) -> Awaitable[None]:
        return Earlier(self._in_flight.earlier(self._beginning, methods) if self._beginning is not None else [])

    def early(self) -> EarlyAnswer | None:
        request = self._beginning
        if request is None or not request.id or len(self._in_flight.requests) > 1:
            return None  # an answer must not overtake one that is due
        request.early = EarlyAnswer(self._channel, request.id, self._limits.message_bytes, self._in_flight.requests)
        return request.early

    def _done(self, request: IncomingRequest, answer: bytes | None) -> None:
        self._in_flight.remove(request)
        if answer is not None:
            self._channel.send(answer, soon=bool(self._in_flight.requests))
        if answer is not None or request.was_answered():
            self._server.greet(self)
        if self._barrier is request:
            self._barrier = None
            self._begin_backlog()
        if self._reading.held(_FULL) and self._in_flight.weight <= self._limits.in_flight_requests // 2:
            self._reading.release(_FULL)
        if not self._in_flight.requests:
            self._tell_service()
            self._close_if_done()

    def _begin_backlog(self) -> None:
        while self._backlog and self._barrier is None:
            request = next(iter(self._backlog))
            self._begin(request, *self._backlog.pop(request))

    async def _perform(
        self, request: IncomingRequest, work: Work, params: msgspec.Raw, earlier: Sequence[asyncio.Future[None]] = ()
    ) -> None:
        request.started = True
        self._done(request, await self._answer(request, request.id, request.method, work, params, earlier))

    async def _answer(
        self,
        request: IncomingRequest,
        request_id: bytes,
        method: str,
        work: Work,
        params: msgspec.Raw,
        earlier: Sequence[asyncio.Future[None]] = (),
    ) -> bytes | None:
        """Do the work when the `earlier` requests are done; returns the answer, or None for a notification. Never raises."""
        error: BaseException
        try:
            if request.cancelled:
                raise Cancelled("the request was cancelled")
            if earlier:
                await all_of(earlier)
            result = await work(self, params)
            if not request_id or request.was_answered():
                return None
            if len(answer := success(request_id, result)) <= self._limits.message_bytes:
                return answer
            error = TooLarge(
                f"the answer is longer than {self._limits.message_bytes} bytes",
                hint="ask for less at once",
                limit=self._limits.message_bytes,
            )
        except asyncio.CancelledError:
            error = Cancelled("the request was cancelled")
        except Exception as raised:  # the peer always gets an answer
            error = raised
        if request_id and not request.was_answered():
            return failure(request_id, error)
        if not request.dropped:
            self._log_to_client(method, error)
        return None

    async def _perform_batch(
        self, request: IncomingRequest, items: list[Item], earlier: Sequence[asyncio.Future[None]]
    ) -> None:
        request.started = True
        await all_of(earlier)
        answers: list[bytes] = []
        size = 2
        for item in items:
            answer = await self._answer_item(request, item)
            if answer is None:
                continue
            if size + len(answer) >= self._limits.message_bytes:
                limit = self._limits.message_bytes
                answer = failure(
                    bytes(item.id), TooLarge(f"the batch's answer is longer than {limit} bytes", limit=limit)
                )
            answers.append(answer)
            size += len(answer) + 1
        self._reading.release(_BATCH)
        self._done(request, b"[" + b",".join(answers) + b"]" if answers else None)

    async def _answer_item(self, request: IncomingRequest, item: Item) -> bytes | None:
        if isinstance(item, InvalidMessage):
            return item.answer()
        request_id = b"" if item.id is ABSENT else bytes(item.id)
        try:
            if item.method in OPEN_ENDED:
                raise InvalidRequest(f"{item.method} takes as long as a person does", hint="send it outside of a batch")
            found = self._route(item)
        except SessiondError as error:
            return failure(request_id, error) if request_id else None
        if isinstance(found, Routed):
            return await self._answer(request, request_id, item.method or "", found.work, item.params)
        return answer_raw(request_id, found or b"null") if request_id and item.method is not None else None

    def _log_to_client(self, method: str, error: BaseException) -> None:
        told = wire_error(error)
        params = encode_json({"type": _LOG_ERROR, "message": f"{method}: {told.message} ({told.data['kind']})"})
        self.notify("window/logMessage", params)

    # The end

    def _end_with(self, request_id: bytes, error: SessiondError) -> None:
        self._channel.send(failure(request_id, error))
        self._linger = True
        self._wind_up()

    def _wind_up(self) -> None:
        self._winding_up = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._winding_up and not self._in_flight.requests:
            self._channel.close(linger=self._linger)

    def _drop_reads(self) -> None:
        for request in list(self._in_flight.requests):
            if not request.outlives:
                request.cancel()

    def _tell_service(self) -> None:
        if self.closed and not self._in_flight.requests and not self._told_service:
            self._told_service = True
            self._server.service.disconnected(self)


_QUIET: dict[str, Callable[[Connection, msgspec.Raw], None]] = {
    "$/cancelRequest": Connection._cancel_request,
    "window/workDoneProgress/cancel": Connection._cancel_progress,
}
"""Notifications that are handled without any reply."""
