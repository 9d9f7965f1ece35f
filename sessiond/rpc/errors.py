"""Turns errors into those of the wire: codes, and what a client is told.

`CODES` is the whole table. `error.data` always has `kind`; clients decide by it, people read `message` and `hint`.
Unexpected errors go to the log with their traceback, and to the client as `internalError` without it.
"""

from __future__ import annotations

import logging
import re

import msgspec

from sessiond import program
from sessiond.errors import FEWER_FILES, OUT_OF_FILES, InvalidParams, SessiondError, TooLarge
from sessiond.model.values import JsonObject
from sessiond.transports.framing import Fault

_log = logging.getLogger(__name__)

CODES: dict[str, int] = {
    "parseError": -32700,
    "invalidRequest": -32600,
    "methodNotFound": -32601,
    "invalidParams": -32602,
    "internalError": -32603,
    "notInitialized": -32002,
    "cancelled": -32800,
    "sessionNotFound": -31001,
    "conflict": -31002,
    "badFile": -31003,
    "unauthorized": -31004,
    "readOnly": -31005,
    "tooLarge": -31006,
    "alreadyExists": -31007,
    "indeterminate": -31008,
    "unavailable": -31009,
}

ANY_METHOD_ERRORS = ("invalidParams", "internalError", "cancelled", "tooLarge")
"""Every method may return these: any response may be too large to be sent."""

MEANINGS: dict[str, str] = {
    "parseError": "The message is not JSON: malformed, invalid UTF-8, a lone surrogate, NaN or Infinity, or nested over 100 deep.",
    "invalidRequest": "Valid JSON, but not a JSON-RPC 2.0 request, or a request that is not allowed at this point.",
    "methodNotFound": "The method does not exist.",
    "invalidParams": "A field is missing, of the wrong type, or out of range; `field` names it.",
    "internalError": "A bug in the daemon; its log has the details.",
    "notInitialized": "One of LSP's own methods came before `initialize`.",
    "cancelled": "Ended by `$/cancelRequest` or by a time limit, before anything was durable.",
    "sessionNotFound": "The session does not exist.",
    "conflict": "Another change came first (`seq` is the current one), or the same id with other content.",
    "badFile": "A session file cannot be read (`path`, `line`); it is left untouched.",
    "unauthorized": "No token, a wrong one, or a forbidden origin. The connection is closed.",
    "readOnly": "The disk failed or is full (`reason`); nothing was acknowledged that is not durable. Reading still works.",
    "tooLarge": "A limit was broken; `limit` is its value.",
    "alreadyExists": "An id or a path is taken.",
    "indeterminate": "The disk failed while this was being made durable; it may or may not be there. Retry by id.",
    "unavailable": "A store cannot be reached.",
}

_OTHER_KINDS = {"configError": "invalidParams", "daemonUnreachable": "unavailable"}
"""Kinds that do not exist on the wire."""


class ParseError(SessiondError):
    kind = "parseError"


class InvalidRequest(SessiondError):
    kind = "invalidRequest"


class MethodNotFound(SessiondError):
    kind = "methodNotFound"

    def __init__(self, method: str) -> None:
        super().__init__(f"unknown method {method!r}", method=method)


class NotInitialized(SessiondError):
    kind = "notInitialized"


class WireError(msgspec.Struct, frozen=True):
    """The `error` member of a response."""

    code: int
    message: str
    data: JsonObject


def wire_error(error: BaseException) -> WireError:
    """Return what the client is told about an exception. Logs unexpected ones."""
    if isinstance(error, msgspec.ValidationError):
        error = invalid_params(error)
    if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
        _log.warning("a request failed: %s", error)
        data: JsonObject = {"kind": "internalError", "hint": FEWER_FILES}
        return WireError(CODES["internalError"], "the daemon has too many files and connections open", data)
    if not isinstance(error, SessiondError):
        _log.error("an unexpected error", exc_info=error)
        return _unexpected()
    kind = _OTHER_KINDS.get(error.kind, error.kind)
    if kind not in CODES or kind == "internalError":
        _log.error("an unexpected error", exc_info=error)
        return _unexpected()
    data = {"kind": kind}
    if error.hint:
        data["hint"] = error.hint
    for key, value in error.data.items():
        data.setdefault(key, value)
    return WireError(CODES[kind], error.message, data)


def _unexpected() -> WireError:
    message, hint = "internal error", "this is a bug in the daemon; its log has the details"
    if program.is_replaced():
        message, hint = f"internal error: {program.UPDATED}", program.WHAT_TO_DO
    return WireError(CODES["internalError"], message, {"kind": "internalError", "hint": hint})


def of_fault(fault: Fault) -> SessiondError:
    if fault.kind == "tooLarge":
        return TooLarge(fault.message, limit=fault.limit)
    return ParseError(fault.message, hint=fault.hint)


_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$[^`]*)`)?", re.DOTALL)


def invalid_params(error: msgspec.ValidationError, choices: dict[str, str] | None = None) -> SessiondError:
    """msgspec's words -> `messages[0].role: expected str, got int`. `choices`: field -> its permitted values, for fields
    with a closed list.
    """
    match = _PLACE.fullmatch(str(error))
    what, path = (match["what"], match["path"] or "$") if match else (str(error), "$")
    if what == "Number out of range":
        return ParseError("a number is too large for a 64-bit float")
    field = path.removeprefix("$").removeprefix(".")
    missing = _MISSING.fullmatch(what)
    if missing is not None:
        field = f"{field}.{missing['field']}" if field else missing["field"]
        what = "required, but missing"
    elif what.startswith("Invalid enum value") and choices and field in choices:
        what = f"expected one of {choices[field]}"
    else:
        what = what[:1].lower() + what[1:].replace("`", "")
    return InvalidParams(f"{field or 'params'}: {what}", field=field or "params")
