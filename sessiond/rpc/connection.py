"""One connection: its states, its requests in flight, what waits for it to be read.

    connected ──initialize──> initialized ──shutdown──> shut down ──exit──> ended
        │                                                                     ↑
        └── our own methods already work, if the transport trusts the peer    └── also when the stream ends or breaks

Rules
- Requests start in the order in which they came, each as a task of its own; answers go out as they are ready.
- What is in flight is bounded by weight: beyond it nothing more is read. A batch runs alone, its requests one after the
  other.
- A peer that reads too slowly gets no new work done, loses notifications and is told to resync; answers are never
  dropped.
- A peer that is not trusted must begin with `initialize` and the token. Anything else ends it.
- When the peer stops sending, it still gets its answers. When it is gone, what was asked to be kept is still kept, what
  was only asked to be
  read is dropped, and after that the service is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from sessiond.errors import Cancelled, SessiondError, TooLarge, Unauthorized
from sessiond.rpc import lifecycle
from sessiond.rpc.envelope import (
    ABSENT,
    NULL_ID,
    Envelope,
    Item,
    Refused,
    answer_raw,
    decode,
    encode_json,
    failure,
    success,
)
from sessiond.rpc.envelope import notification as encode_notification
from sessiond.rpc.errors import InvalidRequest, MethodNotFound, NotInitialized, of_fault, wire_error
from sessiond.rpc.jobs import Job, Request, Work, cancelled_id, cancelled_token, command
from sessiond.rpc.lsp_gate import LspGate
from sessiond.rpc.methods import METHODS
from sessiond.rpc.progress import WorkDone
from sessiond.rpc.promptly import begin
from sessiond.transports.channel import Channel
from sessiond.transports.framing import Fault

if TYPE_CHECKING:
    from sessiond.rpc.methods import Daemon
    from sessiond.rpc.server import Server
    from sessiond.service.sessions import Service

_FULL, _CHOKED, _BATCH, _OVER = 1, 2, 4, 8
"""Reasons for reading nothing more."""
_LOG_ERROR = 1


class Connection:
    """A `Receiver` for its transport, a `Peer` for the service, a `Client` and the `Call` for handlers."""

    def __init__(self, number: int, channel: Channel, server: Server) -> None:
        self.id = number
        self.client = "unknown"
        self.closed = False
        self.folders: list[str] = []
        """URIs of the workspace folders that the client named."""
        self._channel = channel
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._trusted = channel.trusted
        self._lsp: LspGate | None = None
        """There from `initialize` on."""
        self._shut_down = False
        self._requests: set[Request] = set()
        self._by_id: dict[bytes, Request] = {}
        self._weight = 0
        self._not_begun = 0
        """Requests whose task has not had its first turn."""
        self._holds = 0
        self._room = asyncio.Event()
        self._room.set()
        self._dropped = False
        self._winding_up = False
        self._linger = False
        self._told_service = False
        self._on_closed: list[Callable[[], None]] = []
        self._progress: dict[int | str | None, asyncio.Task[Any] | None] = {}
        self._first: asyncio.TimerHandle | None = self._loop.call_later(self._limits.first_message_s, self._too_late)

    # For the service and the handlers

    @property
    def service(self) -> Service:
        return self._server.service

    @property
    def daemon(self) -> Daemon:
        return self._server.daemon

    @property
    def peer(self) -> Connection:
        return self

    def notify(self, method: str, params: bytes) -> bool:
        if self._holds & _CHOKED:
            self._dropped = True
            return False
        self._channel.send(encode_notification(method, params), soon=True)
        return True

    def notify_owed(self, method: str, params: bytes) -> None:
        # No more than its answer can wait: while the peer does not read, nothing more is read from it.
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
        item = decode(message, self._limits.batch_requests)
        if self._first is not None:
            self._first.cancel()
            self._first = None
        if not self._trusted:
            self._knock(item)
        elif type(item) is Envelope:
            self._take(item)
        elif isinstance(item, Refused):
            self._channel.send(item.answer())
        elif isinstance(item, list):
            self._hold(_BATCH)
            request = Request(b"", "batch", 1, outlives=True)
            self._start(request, self._perform_batch(request, item))

    def broken(self, fault: Fault) -> None:
        self._end_with(NULL_ID, of_fault(fault))

    def ended(self) -> None:
        self._wind_up()

    def choked(self) -> None:
        self._room.clear()
        self._hold(_CHOKED)

    def drained(self) -> None:
        self._release(_CHOKED)
        self._room.set()
        if self._dropped:
            self._dropped = False
            self._server.service.drained(self)

    def lost(self) -> None:
        self.closed = True
        if self._first is not None:
            self._first.cancel()
        self._room.set()
        self._drop_reads()
        callbacks, self._on_closed = self._on_closed, []
        for callback in callbacks:
            callback()
        if self._lsp is not None:
            self._lsp.close()
            self._lsp = None
        self._server.forget(self)
        self._tell_service()

    # For the server

    def end(self) -> None:
        """The daemon stops: answer what is in flight, then close."""
        self._hold(_OVER)
        self._wind_up()

    def abort(self) -> None:
        self._channel.abort()

    @property
    def is_stranger(self) -> bool:
        """Has not shown its token yet."""
        return not self._trusted

    @property
    def has_spoken(self) -> bool:
        """Its first message has come."""
        return self._first is None

    def turn_out(self) -> None:
        """A stranger makes room for somebody known."""
        self._channel.send(failure(NULL_ID, Unauthorized("too many connections have not shown a token")))
        self._channel.abort()

    # Getting in

    def _too_late(self) -> None:
        self._first = None
        seconds = f"{self._limits.first_message_s:g} s"
        if self._trusted:
            self._end_with(NULL_ID, InvalidRequest(f"no message came within {seconds}"))
        else:
            self._end_with(NULL_ID, Unauthorized(f"no token was shown within {seconds}"))

    def _knock(self, item: Item | list[Item]) -> None:
        """The first message of a peer that is not trusted yet."""
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
        known = NULL_ID if isinstance(item, list) or item.id is ABSENT else bytes(item.id)
        self._end_with(
            known,
            Unauthorized(
                "the first message must be `initialize` with the token",
                hint="put the content of the file that `sessiond status` names into initializationOptions.token",
            ),
        )

    # Messages

    def _take(self, envelope: Envelope) -> None:
        request_id = b"" if envelope.id is ABSENT else bytes(envelope.id)
        method = METHODS.get(envelope.method or "")
        if method is not None and not self._shut_down:
            request = Request(request_id, method.name, method.weight, method.outlives)
            self._start(request, self._perform(request, method.call, envelope.params), promptly=method.promptly)
            return
        try:
            found = self._route(envelope)
        except SessiondError as error:
            if request_id:
                self._channel.send(failure(request_id, error))
            return
        if isinstance(found, Job):
            request = Request(request_id, envelope.method or "", found.weight, found.outlives)
            self._start(request, self._perform(request, found.work, envelope.params))
        elif request_id and envelope.method is not None:
            self._channel.send(answer_raw(request_id, found or b"null"))

    def _route(self, envelope: Envelope) -> Job | bytes | None:
        """Everything that is not plainly one of our own methods: a job, or a result in JSON, or nothing. Raises
        SessiondError.
        """
        method = envelope.method
        if method is None:
            return None  # an answer to a request that nobody remembers
        own = METHODS.get(method)
        if method == "exit":
            self._hold(_OVER)
            self._drop_reads()
            self._wind_up()
            return None
        if self._shut_down:
            raise InvalidRequest("the connection was shut down; only `exit` may follow")
        if own is not None:
            return Job(own.call, own.weight, own.outlives)
        if method in _QUIET:
            _QUIET[method](self, envelope.params)
            return None
        if lifecycle.is_lsp(method):
            return self._route_lsp(method, envelope)
        raise MethodNotFound(method)

    def _route_lsp(self, method: str, envelope: Envelope) -> Job | bytes | None:
        if method == "initialize":
            return self._initialize(envelope)
        gate = self._lsp
        if gate is None:
            raise NotInitialized(f"`initialize` must come before {method!r}", hint="session/* and the like need none")
        if method == "shutdown":
            self._shut_down = envelope.id is not ABSENT
            return None
        if method == "initialized":
            return None
        if method == "workspace/executeCommand":
            return command(envelope.params)
        if method in lifecycle.FEATURES:
            is_request = envelope.id is not ABSENT
            return Job(lambda _, params: gate.call(method, params, is_request))
        raise MethodNotFound(method)

    def _initialize(self, envelope: Envelope) -> bytes | None:
        if envelope.id is ABSENT:
            return None
        if self._lsp is not None:
            raise InvalidRequest("`initialize` was sent twice")
        params = lifecycle.decode_initialize(envelope.params)
        self.client = params.client
        self.folders = params.folders
        raw = b"{}" if envelope.params is ABSENT else bytes(envelope.params)
        self._lsp = LspGate(self._server.documents, self.notify, raw)
        return self._server.initialize_result

    def _cancel_request(self, params: msgspec.Raw) -> None:
        request = self._by_id.get(cancelled_id(params))
        if request is not None:
            request.cancel()

    def _cancel_progress(self, params: msgspec.Raw) -> None:
        task = self._progress.get(cancelled_token(params))
        if task is not None:
            task.cancel()

    # Requests in flight

    def _start(self, request: Request, work: Coroutine[Any, Any, None], *, promptly: bool = False) -> None:
        """`promptly`: it may begin before this returns, unless one that came before it has not begun yet."""
        self._requests.add(request)
        if request.id:
            self._by_id[request.id] = request
        self._weight += request.weight
        if self._weight >= self._limits.in_flight_requests:
            self._hold(_FULL)
        if promptly and not self._not_begun:
            self._not_begun += 1
            request.task = begin(work)
        else:
            self._not_begun += 1
            request.task = self._loop.create_task(work)

    def _begun(self, request: Request) -> None:
        request.started = True
        self._not_begun -= 1

    def _done(self, request: Request, answer: bytes | None) -> None:
        self._requests.discard(request)
        if request.id and self._by_id.get(request.id) is request:
            del self._by_id[request.id]
        self._weight -= request.weight
        if answer is not None:
            self._channel.send(answer, soon=bool(self._requests))
        if self._holds & _FULL and self._weight <= self._limits.in_flight_requests // 2:
            self._release(_FULL)
        if not self._requests:
            self._tell_service()
            self._close_if_done()

    async def _perform(self, request: Request, work: Work, params: msgspec.Raw) -> None:
        self._begun(request)
        self._done(request, await self._answer(request, request.id, request.method, work, params))

    async def _answer(
        self,
        request: Request,
        request_id: bytes,
        method: str,
        work: Work,
        params: msgspec.Raw,
    ) -> bytes | None:
        """Do the work; the answer, or None for a notification. Never raises."""
        error: BaseException
        try:
            if request.cancelled:
                raise Cancelled("the request was cancelled")
            while not self._room.is_set():
                await self._room.wait()
            result = await work(self, params)
            if not request_id:
                return None
            answer = success(request_id, result)
            if len(answer) <= self._limits.message_bytes:
                return answer
            error = TooLarge(
                f"the answer is longer than {self._limits.message_bytes} bytes",
                hint="ask for less at once",
                limit=self._limits.message_bytes,
            )
        except asyncio.CancelledError:
            error = Cancelled("the request was cancelled")
        except Exception as raised:  # whatever it is, the peer gets an answer
            error = raised
        if request_id:
            return failure(request_id, error)
        self._log_to_client(method, error)
        return None

    async def _perform_batch(self, request: Request, items: list[Item]) -> None:
        self._begun(request)
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
        self._release(_BATCH)
        self._done(request, b"[" + b",".join(answers) + b"]" if answers else None)

    async def _answer_item(self, request: Request, item: Item) -> bytes | None:
        if isinstance(item, Refused):
            return item.answer()
        request_id = b"" if item.id is ABSENT else bytes(item.id)
        try:
            found = self._route(item)
        except SessiondError as error:
            return failure(request_id, error) if request_id else None
        if isinstance(found, Job):
            return await self._answer(request, request_id, item.method or "", found.work, item.params)
        return answer_raw(request_id, found or b"null") if request_id and item.method is not None else None

    def _log_to_client(self, method: str, error: BaseException) -> None:
        told = wire_error(error)
        params = encode_json({"type": _LOG_ERROR, "message": f"{method}: {told.message} ({told.data['kind']})"})
        self.notify("window/logMessage", params)

    # Reading on and off

    def _hold(self, reason: int) -> None:
        if not self._holds:
            self._channel.hold()
        self._holds |= reason

    def _release(self, reason: int) -> None:
        if self._holds:
            self._holds &= ~reason
            if not self._holds:
                self._channel.release()

    # The end

    def _end_with(self, request_id: bytes, error: SessiondError) -> None:
        self._channel.send(failure(request_id, error))
        self._linger = True
        self._wind_up()

    def _wind_up(self) -> None:
        self._winding_up = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._winding_up and not self._requests:
            self._channel.close(linger=self._linger)

    def _drop_reads(self) -> None:
        for request in list(self._requests):
            if not request.outlives:
                request.cancel()

    def _tell_service(self) -> None:
        if self.closed and not self._requests and not self._told_service:
            self._told_service = True
            self._server.service.disconnected(self)


_QUIET: dict[str, Callable[[Connection, msgspec.Raw], None]] = {
    "$/cancelRequest": Connection._cancel_request,
    "window/workDoneProgress/cancel": Connection._cancel_progress,
}
"""Notifications that are obeyed without a word."""
