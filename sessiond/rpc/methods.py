"""The registry of our own methods: params, result, possible errors and handler of each.

To add a method: its types in `schema/`, the use case in `service/`, a handler of a few lines here below, a test, an
entry in `changelog.d/`.
"""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec

from sessiond.rpc.envelope import ABSENT
from sessiond.rpc.errors import invalid_params
from sessiond.schema.daemon import Address, BackupResult, FollowParams, FollowResult, HelloResult, StatusResult
from sessiond.schema.sessions import SessionFollowParams
from sessiond.schema.types import JsonObject, Wire

if typing.TYPE_CHECKING:
    from sessiond.service.sessions import Service
    from sessiond.service.subscribers import EarlyReply

P = TypeVar("P", bound=Wire)
R = TypeVar("R", bound=Wire)
BULKY_WEIGHT = 32
"""The weight in flight of a request whose answer may be a page of megabytes."""


class RemoteClient(Protocol):
    """A connection as handlers see it: the service's `Peer` and a way to learn of its end."""

    id: int
    client: str
    closed: bool

    def notify(self, method: str, params: bytes) -> bool: ...

    def notify_owed(self, method: str, params: bytes) -> None: ...

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the connection is gone; at once if it already is."""


class DaemonControl(Protocol):
    """The things that the wire needs from the process as a whole. The composition root implements it."""

    def hello(self) -> HelloResult: ...

    def stop(self) -> None:
        """Begin to stop; returns at once. Pending answers are still sent."""

    async def status(self) -> StatusResult: ...

    async def acknowledge(self) -> int:
        """Acknowledge all damage to the journal. Returns how many losses that covers. ReadOnly."""

    async def listen(
        self, peer: RemoteClient, kind: str, host: str | None, port: int, *, write: bool = False
    ) -> Address:
        """Listen as long as `peer` is connected."""

    async def follow(self, wanted: FollowParams) -> FollowResult:
        """Follow these tools from now on; None: as before."""

    async def follow_places(self, peer: RemoteClient, wanted: SessionFollowParams) -> None:
        """Follow these places as long as `peer` is connected. When this returns, they are watched."""

    async def backup(self, path: str, progress: Callable[[JsonObject], None] | None) -> BackupResult:
        """Copy everything to `path`. Cancelling this removes the copy."""


class Call(Protocol):
    """The things that a handler may use. One object for each connection, never kept by a handler."""

    @property
    def service(self) -> Service: ...

    @property
    def daemon(self) -> DaemonControl: ...

    @property
    def peer(self) -> RemoteClient: ...

    def progress(self, token: int | str, title: str) -> ProgressTeller: ...

    def early(self) -> EarlyReply | None:
        """For answering the request as soon as its change is durable. Call it in a handler's first step. None: no answer is
        due, or only the loop can send it.
        """

    def earlier(self, *methods: str) -> Awaitable[None]:
        """Resolves when the earlier requests of this connection are done: those of these methods, or all that change
        something. Call it in a handler's first step.
        """


class ProgressTeller(Protocol):
    """`$/progress` for one request."""

    def report(self, value: JsonObject) -> None: ...

    def end(self, message: str) -> None: ...


Handler = Callable[[Call, P], Awaitable[R]]

Order: TypeAlias = Literal["session", "after", "barrier", "free"]
"""What a request may overtake, and what may overtake it, among the requests of one connection.

`session`  It takes its place in the queue of the session that it names, in the turn of the loop in which it was read. It
           overtakes nothing that names the same session, and nothing of that overtakes it. Its handler's first step belongs
           to no task: it must neither ask for the current task nor use a timeout.
`after`    It concerns many sessions. It waits for all earlier requests that do something; later ones may overtake it.
`barrier`  As `after`, and all later ones but the free ones wait for it: it is not known beforehand which sessions it touches.
`free`     It depends on nothing, and may overtake everything.
"""


class Method(Generic[P, R]):
    """One method. `call` decodes and starts it; decoding happens at once, so errors in params come before anything is
    awaited.
    """

    __slots__ = ("_decode", "errors", "handler", "name", "order", "outlives", "params", "result", "weight")

    def __init__(
        self,
        name: str,
        params: type[P],
        result: type[R],
        handler: Handler[P, R],
        errors: tuple[str, ...],
        bulky: bool,
        outlives: bool,
        order: Order,
    ) -> None:
        self.name = name
        self.params = params
        self.result = result
        self.handler = handler
        self.errors = errors
        self.weight = BULKY_WEIGHT if bulky else 1
        self.outlives = outlives
        """Continues after its connection has ended: a change that a client asked for is made."""
        self.order = order
        self._decode = msgspec.json.Decoder(params).decode

    def call(self, call: Call, raw: msgspec.Raw) -> Awaitable[R]:
        """Raises SessiondError for params of another shape."""
        try:
            params = self._decode(b"{}" if raw is ABSENT else raw)
        except msgspec.ValidationError as error:
            if raw is ABSENT or bytes(raw) != b"null":
                raise invalid_params(error, choices(self.params)) from None
            return self.call(call, ABSENT)
        return self.handler(call, params)


METHODS: dict[str, Method[Wire, Wire]] = {}
"""`call` decodes what each handler takes, so nobody else needs to know."""


def method(
    name: str,
    params: type[P],
    result: type[R],
    *errors: str,
    bulky: bool = False,
    outlives: bool = True,
    order: Order = "session",
) -> Callable[[Handler[P, R]], Handler[P, R]]:
    """Register a handler. Its docstring is the method's description in the reference."""

    def register(handler: Handler[P, R]) -> Handler[P, R]:
        assert name not in METHODS
        made = Method(name, params, result, handler, errors, bulky, outlives, order)
        METHODS[name] = cast(Method[Wire, Wire], made)
        return handler

    return register


def choices(params: type[Wire]) -> dict[str, str]:
    """Fields with a closed list of values -> that list, for error messages."""
    found = {}
    for field in msgspec.structs.fields(params):
        for kind in (field.type, *get_args(field.type)):
            if get_origin(kind) is Literal:
                found[field.encode_name] = ", ".join(map(repr, get_args(kind)))
    return found
