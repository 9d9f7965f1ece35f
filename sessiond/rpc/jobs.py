"""What a connection has to do: a job, and a request in flight that does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from sessiond.errors import InvalidParams
from sessiond.rpc import lifecycle
from sessiond.rpc.envelope import ABSENT
from sessiond.rpc.methods import METHODS, Call

Work: TypeAlias = Callable[[Call, msgspec.Raw], Awaitable[Any]]
"""Takes the connection and undecoded params, gives the result."""


class Job(NamedTuple):
    """What to do, what it weighs among the requests in flight, and whether it goes on although its connection has
    ended.
    """

    work: Work
    weight: int = 1
    outlives: bool = False


class Request:
    """A request, notification or batch in flight. `id` is empty where no answer is due."""

    __slots__ = ("cancelled", "id", "method", "outlives", "started", "task", "weight")

    def __init__(self, request_id: bytes, method: str, weight: int, outlives: bool) -> None:
        self.id = request_id
        self.method = method
        self.weight = weight
        self.outlives = outlives
        self.started = False
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """A task that has not begun is not cancelled but told: a coroutine that never ran could not answer."""
        self.cancelled = True
        if self.started and self.task is not None:
            self.task.cancel()


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


def command(params: msgspec.Raw) -> Job:
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
        raise InvalidParams(f"command: there is no command {sent.command!r}", field="command")
    arguments = sent.arguments or []
    if len(arguments) > 1:
        raise InvalidParams("arguments: expected one object, the params of the request", field="arguments")
    argument = arguments[0] if arguments else ABSENT
    return Job(lambda call, _: method.call(call, argument), method.weight, method.outlives)


def cancelled_id(params: msgspec.Raw) -> bytes:
    """The id that `$/cancelRequest` names, as it was sent; empty if it names none."""
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
