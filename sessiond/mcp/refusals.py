"""Errors as a model reads them: what is wrong, and what to do next. No I/O."""

from __future__ import annotations

import json

from sessiond.errors import (
    BadFile,
    Cancelled,
    Conflict,
    DaemonUnreachable,
    InvalidParams,
    ReadOnly,
    SessiondError,
    TooLarge,
    Unavailable,
)


class Refused(Exception):
    """A refusal: what a tool says instead of a result."""


NEXT = {
    DaemonUnreachable: "Try once more; if it fails again, tell the user to run `sessiond doctor`.",
    Cancelled: "It took too long: make the search narrower, with a project, a time or a more telling word.",
    Conflict: "Something else has this id; leave the id out, or use another one.",
    TooLarge: "Send less.",
    ReadOnly: "Nothing was written. Reading still works; tell the user to run `sessiond doctor`.",
    BadFile: "This session cannot be read now; use another one.",
    Unavailable: "Use mode text, or try again later.",
}


def said(error: SessiondError) -> str:
    """An error of the daemon's, for a model."""
    for kind, then in NEXT.items():
        if isinstance(error, kind):
            return f"{_sentence(error.message)} {then}"
    if isinstance(error, InvalidParams):
        hint = f" {_sentence(error.hint)}" if error.hint else " Change that and call again."
        return _sentence(error.message) + hint
    return _sentence(error.message) + (f" {_sentence(error.hint)}" if error.hint else "")


def no_session(session_id: str) -> Refused:
    """The same words for a session that does not exist and for one that must not be shown."""
    shown = json.dumps(session_id[:200], ensure_ascii=False)
    return Refused(f"There is no session {shown} here. Call `list` or `search`, and use a sessionId from its result.")


def stale_cursor() -> Refused:
    return Refused(
        "This cursor is unknown, or belongs to another call. Call again with the same arguments and without a cursor."
    )


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
