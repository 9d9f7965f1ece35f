"""Selects the part of a session that a copy tells: up to a seq, the last messages, and after a compaction its summary and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from sessiond.errors import Conflict, InvalidParams
from sessiond.exporters.conversation import (
    ExportedConversation,
    ExportedTurn,
    asks_for_a_summary,
    conversation,
    without_its_screen,
)
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

_ASIDE = ("sidechain", "branch", "rewound")
_SUMMARY_MARKS = ("compaction", "isCompactSummary", "injected", "checkpoint", "summary", "record")
_GEMINI_SUMMARY = "<state_snapshot>"


def selected(session: Session, *, at: int | None = None, last: int | None = None) -> ExportedConversation:
    """The conversation to copy. InvalidParams if there is nothing, Conflict if a message is still being written."""
    aside = session.metadata.get("sidechain") is True
    messages = list(session.messages())
    if at is not None and at > session.seq:
        raise InvalidParams(
            f"--at {at}: the session ends at seq {session.seq}", hint="leave out --at to copy it all", field="at"
        )
    chosen = [one for one in messages if at is None or one.seq <= at]
    written = next((one for one in chosen if one.status == "streaming"), None)
    if written is not None:
        before = f", or copy what was said before it with --at {written.seq - 1}" if written.seq > 1 else ""
        raise Conflict("a reply is still being written", hint=f"wait until it has ended{before}")
    lost: Counter[str] = Counter({"messages after --at": len(messages) - len(chosen)})
    chosen = _after_compaction(without_its_screen(session, chosen, lost), lost)
    told = conversation(map(_with_branch_summary, chosen), aside=aside)
    told.lost.update(+lost)
    _drop_system(told)
    if last is not None:
        _only_last(told, last)
    if not told.turns:
        hint = "`sessiond show ID` shows what it holds"
        raise InvalidParams("nothing is said in it, so there is nothing to go on with", hint=hint, field="sessionId")
    return told


def _with_branch_summary(message: Message) -> Message:
    """pi tells its model what happened on a branch that was left, as something that the user says."""
    return _as_user(message) if message.metadata.get("branchSummary") is True else message


def _as_user(message: Message) -> Message:
    metadata = {key: value for key, value in message.metadata.items() if key not in _SUMMARY_MARKS}
    return msgspec.structs.replace(message, role="user", rest={"metadata": metadata} if metadata else {})


def _drop_system(told: ExportedConversation) -> None:
    """Instructions are for the tool that they were written for."""
    found = [turn for turn in told.turns if turn.role == "system"]
    told.lost["system prompts"] += len(found)
    told.turns = [turn for turn in told.turns if turn.role != "system"]
    told.lost = +told.lost


# A compaction


def _after_compaction(messages: list[Message], lost: Counter[str]) -> list[Message]:
    """After the last compaction a tool's model knows its summary, what was kept beside it, and what came after."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if any(message.metadata.get(key) for key in _ASIDE) or not message.text().strip():
            continue
        if _is_summary(messages, place):
            before = messages[:place]
            kept = before[_first_kept(before, message) :]
            kept = [one for one in kept if not asks_for_a_summary(one)]
            lost["messages before a compaction, which its summary stands for"] += _spoken(before) - _spoken(kept)
            return [_as_user(message), *kept, *messages[place + 1 :]]
    return messages


def _spoken(messages: Sequence[Message]) -> int:
    return sum(one.role != "system" for one in messages)


def _is_summary(messages: list[Message], place: int) -> bool:
    message = messages[place]
    marks = message.metadata
    if marks.get("compaction") is True or marks.get("isCompactSummary") is True:
        return True
    if marks.get("checkpoint") is True:
        return message.role == "user" and _GEMINI_SUMMARY in message.text()
    return marks.get("summary") is True and any(map(asks_for_a_summary, messages[max(0, place - 2) : place]))


def _blocks(message: Message) -> list[JsonObject]:
    return [] if isinstance(message.content, str) else message.content


def _first_kept(before: list[Message], summary: Message) -> int:
    """The place of the first message that was kept as it is, which pi, opencode and an import of Gemini CLI name."""
    wanted = [summary.metadata.get("firstKeptEntryId")]
    wanted += [one.get("tail_start_id") for message in before[-2:] for one in _blocks(message) if isinstance(one, dict)]
    ids = {one.id: place for place, one in enumerate(before)}
    return next((ids[one] for one in wanted if isinstance(one, str) and one in ids), len(before))


# The last messages


def _only_last(told: ExportedConversation, last: int) -> None:
    """Whole turns from the end until they hold `last` messages, so that no result is without its call."""
    kept: list[ExportedTurn] = []
    held = 0
    while told.turns and held < last:
        turn = told.turns.pop()
        kept.insert(0, turn)
        held += turn.messages
    told.lost["messages before the last ones"] += sum(turn.messages for turn in told.turns)
    told.lost = +told.lost
    told.turns = kept
