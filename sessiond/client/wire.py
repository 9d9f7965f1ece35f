"""Messages of JSON-RPC as lines of bytes, both ways. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from sessiond.client.failures import NotText
from sessiond.errors import InvalidParams, TooLarge

MAX_LINE_BYTES = 128 * 1024 * 1024
"""A daemon sends half of that at most; a peer that sends more without a newline is not one."""


class Incoming(Struct, frozen=True):
    """A message of the daemon's: a response (`id` and `result` or `error`), a notification, or a request."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"null")
    error: dict[str, Any] | None = None


decode = msgspec.json.Decoder(Incoming).decode
"""A message from its bytes. msgspec.MsgspecError."""
_encoder = msgspec.json.Encoder()


def request_line(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    """A request as a line. InvalidParams where a value in it has no JSON."""
    line = _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    if b"null" in line:  # what msgspec writes for them; few requests have one
        _check_numbers(params)
    return line


def too_large(number: int, line: bytes, limit: int | None) -> Incoming | None:
    """Return the response to a request that the daemon would end the connection for, so that it would be sent again for ever;
    None for any other.
    """
    if limit is None or len(line) - 1 <= limit:
        return None
    data = {"kind": TooLarge.kind, "limit": limit, "hint": "send it in parts"}
    message = f"the request is longer than the {limit} bytes that the daemon takes at once"
    return Incoming(id=number, error={"message": message, "data": data})


def cancellation(number: int) -> bytes:
    """Asks the daemon to stop a request. The request still gets a response."""
    return _line({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})


def refusal(incoming: Incoming) -> bytes:
    """The response to a request of the daemon's: this client takes none."""
    error = {"code": -32601, "message": "this client takes no requests"}
    return _line({"jsonrpc": "2.0", "id": incoming.id, "error": error})


def _line(message: dict[str, Any]) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        raise _not_text() from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParams(f"a value cannot be sent as JSON: {error}") from None


def _check_numbers(params: Mapping[str, Any]) -> None:
    """InvalidParams where there is NaN or an infinity: as null it could delete something."""
    left: list[Any] = [params]
    while left:
        value = left.pop()
        if isinstance(value, str):
            continue  # most are, and the question after a mapping takes long
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidParams(f"{value} cannot be sent as JSON", hint="send a finite number, a text or None")
        if isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            left.extend(value)
        elif isinstance(value, Struct):
            left.extend(msgspec.structs.asdict(value).values())


def check_text(text: str) -> None:
    """NotText where it cannot be sent."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _not_text() from None


def _not_text() -> NotText:
    return NotText("a text holds half a surrogate pair", hint="decode it as UTF-8")


class IncomingLines:
    """Cuts messages out of what a connection reads. What a daemon says to a peer of which it has read nothing is framed by
    headers, and ends with a newline; the headers are left out.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[Incoming]:
        """The messages that are complete now. ConnectionError where that is not JSON-RPC: nothing that follows can be trusted."""
        searched = len(self._buffer)
        self._buffer += chunk
        end = self._buffer.rfind(b"\n", searched)
        if end < 0:
            if len(self._buffer) > MAX_LINE_BYTES:
                raise ConnectionAbortedError("a message is longer than any of the protocol's")
            return []
        whole = bytes(memoryview(self._buffer)[:end])
        del self._buffer[: end + 1]
        try:
            return [decode(line) for line in whole.split(b"\n") if line and not line.endswith(b"\r")]
        except msgspec.MsgspecError as error:
            raise ConnectionAbortedError(f"what came is not a message: {error}") from None
