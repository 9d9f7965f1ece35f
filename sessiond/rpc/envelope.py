"""One message in, its JSON-RPC envelope out; and answers the other way. Params stay undecoded bytes until their type is
known.

These are refused here, for the whole message, so that nothing is accepted that could not be stored:

    parseError       malformed JSON, invalid UTF-8, lone surrogates, NaN, Infinity, nesting over 100
    invalidRequest   not a JSON-RPC 2.0 message
    invalidParams    an integer that does not fit into 64 bits, a number with more digits than a double has

Each check has a cheap form that nearly every message passes: a count of brackets before the nesting is examined, a search
for 17 digits in a row before numbers are parsed. Errors are values: `decode` never raises.
"""

from __future__ import annotations

import math
import re

import msgspec

from sessiond.errors import InvalidParams, SessiondError, TooLarge
from sessiond.limits import INT64_MIN, MAX_JSON_DEPTH, UINT64_MAX
from sessiond.model import wire
from sessiond.rpc.errors import InvalidRequest, ParseError, wire_error

ABSENT = msgspec.Raw()
NULL_ID = b"null"


class Envelope(msgspec.Struct):
    """A message that is JSON-RPC. `id` is empty for a notification; `method` None for a response."""

    jsonrpc: str = ""
    id: msgspec.Raw = ABSENT
    method: str | None = None
    params: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


class InvalidMessage(msgspec.Struct, frozen=True):
    """A message that is refused. `id`: as in the answer."""

    id: bytes
    error: SessiondError

    def answer(self) -> bytes:
        return failure(self.id, self.error)


Item = Envelope | InvalidMessage

_envelopes = msgspec.json.Decoder(Envelope)
_batches = msgspec.json.Decoder(list[msgspec.Raw])

encode_json = wire.encode

_DIGITS = bytes(
    0x30 if byte in b"0123456789." else 0x65 if byte in b"eE" else byte if byte == 0x2D else 0x20 for byte in range(256)
)
"""Maps digits and points to zeros, `E` to `e`, a minus to itself and everything else to a blank: one pass for everything
that is checked in numbers. This matters: the loop waits for each pass over a message of 60 MB.
"""
_LARGE = 1024 * 1024
"""Bytes of a message whose long strings are left out first."""
_LONG_STRING = 64 * 1024
_MOST_QUOTES, _MOST_ESCAPES = 4096, 64
_LONG = b"0" * 17
"""The length, including the point, of the shortest number that a double may be unable to hold; an integer is longer."""
_LONGEST_DOUBLE = 1100
"""Characters of the longest double, written out to its last digit."""
_TINY = re.compile(rb"[0-9.][eE]-[0-9]{3}")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*+")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_ALIKE = bytes.maketrans(b"{}", b"[]")
_INTEGER = re.compile(rb"-?[0-9]+")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NO_NUMBER = re.compile(rb"[:\[,\s](?:NaN|-?Infinity)\b")


def decode(message: bytes, batch_limit: int) -> Item | list[Item]:
    """A request, notification or response; a list of them for a batch; or why it is refused."""
    try:
        flaw = _flaw(message)
        if flaw is None:
            if message.lstrip()[:1] == b"[":
                return _decode_batch(message, batch_limit)
            return _check(_envelopes.decode(message))
    except msgspec.ValidationError as error:
        return InvalidMessage(recover_id(message), InvalidRequest(f"not a JSON-RPC 2.0 message: {error}"))
    except (msgspec.DecodeError, RecursionError) as error:
        flaw = _explain(message, error)
    return InvalidMessage(recover_id(message), flaw)


def _decode_batch(message: bytes, limit: int) -> Item | list[Item]:
    parts = _batches.decode(message)
    if not parts:
        return InvalidMessage(NULL_ID, InvalidRequest("an empty batch"))
    if len(parts) > limit:
        return InvalidMessage(NULL_ID, TooLarge(f"a batch of more than {limit} requests", limit=limit))
    return [_decode_one(bytes(part)) for part in parts]


def _decode_one(part: bytes) -> Item:
    try:
        return _check(_envelopes.decode(part))
    except msgspec.DecodeError as error:
        return InvalidMessage(recover_id(part), InvalidRequest(f"not a JSON-RPC 2.0 message: {error}"))


def _check(envelope: Envelope) -> Item:
    raw_id = b"" if envelope.id is ABSENT else bytes(envelope.id)
    if raw_id and not _is_id(raw_id):
        return InvalidMessage(NULL_ID, InvalidRequest("an id is an integer, a string or null"))
    if envelope.jsonrpc != "2.0":
        return InvalidMessage(raw_id or NULL_ID, InvalidRequest('`"jsonrpc": "2.0"` is missing'))
    if envelope.method is None and envelope.result is ABSENT and envelope.error is ABSENT:
        return InvalidMessage(raw_id or NULL_ID, InvalidRequest("`method` is missing"))
    return envelope


def _is_id(raw: bytes) -> bool:
    return raw[0] == 0x22 or raw == b"null" or _INTEGER.fullmatch(raw) is not None


def _flaw(message: bytes) -> SessiondError | None:
    if not message.isascii():
        try:
            str(message, "utf-8")
        except UnicodeDecodeError as error:
            return ParseError(f"the message is not UTF-8: {error.reason} at byte {error.start}")
    if len(message) > _LARGE:
        message = without_long_strings(message)
    if message.count(b"{") + message.count(b"[") > MAX_JSON_DEPTH and depth(message) > MAX_JSON_DEPTH:
        return ParseError(f"the message is nested deeper than {MAX_JSON_DEPTH}", limit=MAX_JSON_DEPTH)
    numbers = message.translate(_DIGITS)
    if _LONG in numbers or (b"e-000" in numbers and _TINY.search(message)):
        return _number_flaw(message)
    return None


def without_long_strings(message: bytes) -> bytes:
    """The same structure and numbers, but without what is in long strings: a few searches, where each check would go over all
    of it. What comes after too many quotes is kept. Anything for malformed JSON.
    """
    kept: list[bytes] = []
    done, begin, at = 0, -1, -1
    for _ in range(_MOST_QUOTES):
        at = message.find(b'"', at + 1)
        if at < 0:
            break
        if begin < 0:
            begin = at
            continue
        before = message[max(begin + 1, at - _MOST_ESCAPES) : at]
        escapes = len(before) - len(before.rstrip(b"\\"))
        if escapes == _MOST_ESCAPES:
            break
        if escapes % 2:
            continue
        if at - begin > _LONG_STRING:
            kept.append(message[done : begin + 1])
            done = at
        begin = -1
    return b"".join((*kept, message[done:]))


def depth(message: bytes) -> int:
    """Return how deep a JSON text is nested, at most one more than is allowed. Any number for a malformed one."""
    # Remove escapes first, so that every remaining quote begins or ends a string; then everything that is neither quote nor
    # bracket. Then each round removes the innermost pairs of brackets, which are all those of the deepest level: a few
    # passes in C for usual messages.
    bare = message.replace(rb"\\", b"").replace(rb"\"", b"").translate(_ALIKE, _NOT_STRUCTURE)
    brackets = _STRING.sub(b"", bare)
    level = 0
    while brackets and level <= MAX_JSON_DEPTH:
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):
            break
        brackets = outer
        level += 1
    return level


def _number_flaw(message: bytes) -> SessiondError | None:
    """The error for a number that could only be stored rounded."""
    for number in _NUMBER.findall(_STRING.sub(b'""', message)):
        if not _INTEGER.fullmatch(number):
            if _is_rounded(number.decode()):
                shown = number[:40].decode()
                hint = "a number has the digits of a double, at most 17; send it as a string"
                return InvalidParams(f"the number {shown} would be rounded", hint=hint, field="params")
            continue
        if len(number) < len(_LONG):
            continue
        if len(number) > 20 or not INT64_MIN <= int(number) <= UINT64_MAX:
            shown = number[:40].decode()
            return InvalidParams(
                f"the integer {shown} does not fit into 64 bits", hint="send it as a string", field="params"
            )
    return None


def _is_rounded(number: str) -> bool:
    """Return whether the number is not the text of any double: neither in the shortest form, nor with 17 digits, as in C."""
    from decimal import Decimal, InvalidOperation

    try:
        kept = float(number)
    except ValueError:
        return False  # not a number; the decoder reports it
    if not math.isfinite(kept) or len(number) > _LONGEST_DOUBLE:
        return math.isfinite(kept)
    try:
        return Decimal(number) not in (Decimal(repr(kept)), Decimal(f"{kept:.16e}"), Decimal(kept))
    except InvalidOperation:  # a huge exponent
        return True


def _explain(message: bytes, error: Exception) -> ParseError:
    if isinstance(error, RecursionError):
        return ParseError(f"the message is nested deeper than {MAX_JSON_DEPTH}", limit=MAX_JSON_DEPTH)
    if _NO_NUMBER.search(message):
        return ParseError(f"not JSON: {error}", hint="NaN and Infinity are not JSON")
    if _SURROGATE.search(message):
        return ParseError(f"not JSON: {error}", hint="a lone surrogate (half of a \\uD83D\\uDE00) is not text")
    return ParseError(f"not JSON: {error}")


_SCANNED = 256 * 1024
_PIECE = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|([\[{])|([\]}])|(-?[0-9][0-9.eE+-]*+|[a-z]++)', re.DOTALL)


def recover_id(message: bytes) -> bytes:
    """The id of a message that is not JSON, if it can be found, so that its sender does not wait for ever."""
    if not message.lstrip().startswith(b"{"):
        return NULL_ID
    level = 0
    previous = b""
    for piece in _PIECE.finditer(message, 0, _SCANNED):
        text, opening, closing, word = piece.groups()
        if opening:
            level += 1
        elif closing:
            level -= 1
        elif level == 1:
            value = text or word
            if previous == b'"id"' and _is_id(value) and _sound(value):
                return bytes(value)
            if previous == b'"id"':
                return NULL_ID
            previous = value
            continue
        previous = b""
    return NULL_ID


def _sound(value: bytes) -> bool:
    try:
        value.decode()
        msgspec.json.decode(value)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return False
    return True


def success(request_id: bytes, result: object) -> bytes:
    """A response. Raises the encoder's error if the result is not JSON."""
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id, b',"result":', encode_json(result), b"}"))


def answer_raw(request_id: bytes, result: bytes) -> bytes:
    """A response whose result is already encoded."""
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id, b',"result":', result, b"}"))


def failure(request_id: bytes, error: BaseException) -> bytes:
    told = wire_error(error)
    try:
        raw = encode_json(told)
    except (TypeError, OverflowError, ValueError):  # an error that quotes what cannot be encoded must still be sent
        raw = encode_json({"code": told.code, "message": ascii(told.message), "data": {"kind": told.data["kind"]}})
    return b"".join((b'{"jsonrpc":"2.0","id":', request_id, b',"error":', raw, b"}"))


def notification(method: str, params: bytes) -> bytes:
    """`params` is encoded JSON; `method` is one of our own names, which do not need escaping."""
    return b"".join((b'{"jsonrpc":"2.0","method":"', method.encode(), b'","params":', params, b"}"))
