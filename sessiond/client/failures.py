"""The things that can go wrong for a client: the daemon's errors as exceptions, and three that only a client can meet.

All are `SessiondError`s with `kind`, `message`, `hint` (may be None) and `data`. An error of a kind that this client does not
know is a plain `SessiondError` with that `kind`.
"""

from __future__ import annotations

from typing import Any

from sessiond import errors
from sessiond.errors import DaemonUnreachable, InvalidParams, SessiondError


class NoAnswer(DaemonUnreachable):
    """The daemon did not respond before the deadline. A change that was asked for may be made or not."""

    kind = "noAnswer"


class AnswerLost(DaemonUnreachable):
    """The connection ended before the response, and sending the request again could do more than was asked."""

    kind = "answerLost"


class NotText(InvalidParams):
    """A text that cannot be sent, because it has no UTF-8. Nothing was sent."""


class Closed(SessiondError):
    """The client, or the iteration over changes, was closed."""

    kind = "closed"


def _kinds() -> dict[str, type[SessiondError]]:
    found = (value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, SessiondError))
    return {error.kind: error for error in found}


_KINDS = _kinds()


def error_of(error: Any) -> SessiondError:
    """A JSON-RPC error object as the exception that the daemon raised."""
    data = error.get("data") if isinstance(error, dict) else None
    fields = dict(data) if isinstance(data, dict) else {}
    kind, hint = fields.pop("kind", ""), fields.pop("hint", None)
    message = str(error.get("message", "the request failed")) if isinstance(error, dict) else str(error)
    fields.pop("message", None)
    found = _KINDS.get(kind, SessiondError)(message, hint=hint)
    found.data.update(fields)
    if kind not in _KINDS:
        found.data["kind"] = kind  # one that has no class here; nobody else would know what it was
        if kind:
            vars(found)["kind"] = kind
    return found


def no_answer(method: str, timeout_s: float) -> NoAnswer:
    return NoAnswer(
        f"the daemon did not respond to {method} within {timeout_s:g} s",
        hint="run `sessiond doctor`; a change may have been made or not, and an append may be repeated by id",
    )


def answer_lost(method: str) -> AnswerLost:
    return AnswerLost(
        f"the connection ended before the daemon responded to {method}",
        hint="look whether it was done before you try again",
    )


def closed() -> Closed:
    return Closed("the client is closed", hint="connect again")
