"""A copy from beginning to end: fitted to the target, written, read back, compared; removed if it differs."""

from __future__ import annotations

import time
from collections import Counter

import msgspec

from sessiond.errors import InvalidParams, SessiondError, Unavailable
from sessiond.exporters.conversation import ExportedConversation
from sessiond.model.session import Session
from sessiond.resume.check import compare
from sessiond.resume.fitting import fitted
from sessiond.resume.target import SessionCopy, Target, Written

_NAME_CHARS = 200


class Made(msgspec.Struct):
    """`written` None: it was only examined. `messages`: how many the copy tells, results included."""

    written: Written | None
    lost: Counter[str]
    messages: int


def make(
    target: Target,
    session: Session,
    session_id: str,
    told: ExportedConversation,
    cwd: str,
    *,
    at: int | None = None,
    calls: bool = True,
    dry_run: bool = False,
) -> Made:
    """Write the conversation for the target. `session_id`: as the daemon names it. `at`: the seq up to which
    it is told. The errors of `Target.write`, CopyDiffers, Unavailable; InvalidParams if nothing would be
    left."""
    shape = fitted(told, target, calls=calls)
    if not shape.turns:
        hint = "copy it with its calls, into a tool that has them"
        raise InvalidParams("nothing is said in it besides calls and results", hint=hint, field="sessionId")
    count = sum(1 + len(turn.calls) for turn in shape.turns)
    if dry_run:
        return Made(None, shape.lost, count)
    parent = {"sessionId": session_id, "seq": session.seq if at is None else at}
    name = session.name[:_NAME_CHARS] if session.name else None
    copy = SessionCopy(shape.turns, cwd, parent, time.time_ns() // 1_000_000, name, session.model)
    written = target.write(copy)
    try:
        compare(shape.turns, target.read(written))
    except BaseException as error:
        _take_back(target, written, error)
        raise
    return Made(written, shape.lost, count)


def _take_back(target: Target, written: Written, error: BaseException) -> None:
    """Remove the copy. Unavailable if that fails too; then a copy is there that nobody has checked."""
    try:
        target.remove(written)
    except (SessiondError, OSError) as another:
        hint = f"delete the session {written.id} in {target.name} before you go on"
        raise Unavailable(f"{error}; the copy could not be removed: {another}", hint=hint) from error
