"""The work of a connection: a job, and a request in flight that does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from sessiond.eager import EagerTask
from sessiond.errors import InvalidParams
from sessiond.rpc import lifecycle
from sessiond.rpc.early import EarlyAnswer
from sessiond.rpc.envelope import ABSENT
from sessiond.rpc.methods import METHODS, Call, Order

Work: TypeAlias = Callable[[Call, msgspec.Raw], Awaitable[object]]
"""Takes the connection and undecoded params, returns the result."""


class Routed(NamedTuple):
    """The work to do, its weight among the requests in flight, whether it continues after its connection has ended, and what it
    may overtake.
    """

    work: Work
    weight: int = 1
    outlives: bool = False
    order: Order = "free"
    name: str = ""
    """Our method, if it was sent as a command."""


OPEN_ENDED = frozenset({"session/ask"})
"""Requests that take as long as a person does. A daemon that stops neither waits for them nor answers them."""


class IncomingRequest:
    """A request, notification or batch in flight. `id` is empty if no answer is due."""

    __slots__ = (
        "cancelled",
        "done",
        "dropped",
        "early",
        "id",
        "method",
        "order",
        "outlives",
        "started",
        "task",
        "weight",
    )

    def __init__(
        self, request_id: bytes, method: str, weight: int = 1, outlives: bool = False, order: Order = "free"
    ) -> None:
        self.id = request_id
        self.method = method
        self.weight = weight
        self.outlives = outlives
        self.order = order
        self.done: asyncio.Future[None] | None = None
        """Set once something waits for it."""
        self.early: EarlyAnswer | None = None
        """Set if the answer may already have been sent when the request is done."""
        self.started = False
        self.cancelled = False
        self.dropped = False
        """Its connection ends without an answer to it."""
        self.task: asyncio.Task[None] | EagerTask | None = None

    def was_answered(self) -> bool:
        """Return whether the loop has nothing to answer: it was dropped, or the journal's thread answered it before it was done. Call this when
        it is done: if False, only the loop answers from then on.
        """
        return self.dropped or (self.early is not None and self.early.withdraw())

    @property
    def does_something(self) -> bool:
        """True if it changes anything that a later request could see. Lists, searches and questions to the daemon do not."""
        return self.order in ("session", "barrier") or (self.order == "after" and self.outlives)

    def cancel(self) -> None:
        """A task that has not begun is not cancelled but only marked: a coroutine that never ran could not answer."""
        self.cancelled = True
        if self.started and self.task is not None:
            self.task.cancel()


class Earlier:
    """Earlier requests, which the caller may wait for."""

    def __init__(self, futures: Sequence[asyncio.Future[None]]) -> None:
        self._futures = futures

    def __await__(self) -> Generator[object, None, None]:
        return all_of(self._futures).__await__()


async def all_of(futures: Sequence[asyncio.Future[None]]) -> None:
    """A caller that is cancelled meanwhile cancels none of them."""
    if futures:
        await asyncio.wait(futures)


class InFlight:
    """The unanswered requests of a connection, in order of arrival."""

    def __init__(self) -> None:
        self.requests: dict[IncomingRequest, None] = {}
        self.weight = 0
        self._by_id: dict[bytes, IncomingRequest] = {}

    def add(self, request: IncomingRequest) -> None:
        self.requests[request] = None
        self.weight += request.weight
        if request.id:
            self._by_id[request.id] = request

    def remove(self, request: IncomingRequest) -> None:
        del self.requests[request]
        self.weight -= request.weight
        if request.done is not None:
            request.done.set_result(None)
        if request.id and self._by_id.get(request.id) is request:
            del self._by_id[request.id]

    def drop_open_ended(self) -> None:
        """Those of OPEN_ENDED end without an answer."""
        for request in [one for one in self.requests if one.method in OPEN_ENDED]:
            request.dropped = True
            request.cancel()

    def find(self, request_id: bytes) -> IncomingRequest | None:
        return self._by_id.get(request_id)

    def earlier(self, request: IncomingRequest, methods: Sequence[str] = ()) -> list[asyncio.Future[None]]:
        """One future for each earlier request: those of these methods, or all that change something."""
        found = []
        for one in self.requests:
            if one is request:
                break
            if one.method in methods if methods else one.does_something:
                if one.done is None:
                    one.done = asyncio.get_running_loop().create_future()
                found.append(one.done)
        return found


class _CommandParams(msgspec.Struct):
    command: str
    arguments: list[msgspec.Raw] | None = None


class _CancelParams(msgspec.Struct):
    id: msgspec.Raw


class _TokenParams(msgspec.Struct):
    token: int | str


_command_params = msgspec.json.Decoder(_CommandParams).decode
_cancel_params = msgspec.json.Decoder(_CancelParams).decode
_token_params = msgspec.json.Decoder(_TokenParams).decode


def command(params: msgspec.Raw) -> Routed:
    """`workspace/executeCommand`: every method of ours as a command, its params as the one argument. Raises
    InvalidParams.
    """
    try:
        sent = _command_params(params)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"workspace/executeCommand: {error}", field="command") from None
    name = sent.command.removeprefix(lifecycle.COMMAND_PREFIX).replace(".", "/")
    method = METHODS.get(name)
    if method is None or lifecycle.command_of(name) != sent.command:
        raise InvalidParams(f"command: unknown command {sent.command!r}", field="command")
    arguments = sent.arguments or []
    if len(arguments) > 1:
        raise InvalidParams("arguments: expected one object, the params of the request", field="arguments")
    argument = arguments[0] if arguments else ABSENT
    return Routed(lambda call, _: method.call(call, argument), method.weight, method.outlives, method.order, name)


def cancelled_id(params: msgspec.Raw) -> bytes:
    """The id that `$/cancelRequest` names, as it was sent; empty if it lacks one."""
    try:
        return bytes(_cancel_params(params).id)
    except msgspec.DecodeError:
        return b""


def cancelled_token(params: msgspec.Raw) -> int | str | None:
    """The token that `window/workDoneProgress/cancel` names."""
    try:
        return _token_params(params).token
    except msgspec.DecodeError:
        return None
