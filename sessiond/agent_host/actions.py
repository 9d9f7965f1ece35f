"""The actions that lead a window from one state of a conversation to another. Pure.

A window reduces them as the protocol says: `reduce(before, changes(before, after)) == after`, whatever the two are. What is
usual costs what changed: text that grew, a call that was answered, a turn that ended. What a chat cannot do, such as growing in
the middle, becomes a cut and everything after it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessiond.agent_host import shapes
from sessiond.agent_host.shapes import Action, AnyPart, Queued, Turn
from sessiond.agent_host.turns import Conversation


def changes(before: Conversation, after: Conversation) -> list[Action]:
    return _of_turns(before, after) + _of_the_queue(before.queued, after.queued)


def _of_the_queue(before: Sequence[Queued], after: Sequence[Queued]) -> list[Action]:
    """A queue grows at its end."""
    kept = [one for one in before if one in after]
    if list(after[: len(kept)]) != kept:
        kept = []
    return [*(shapes.not_queued(one) for one in before if one not in kept), *map(shapes.queued, after[len(kept) :])]


def _of_turns(before: Conversation, after: Conversation) -> list[Action]:
    same = 0
    for old, new in zip(before.turns, after.turns, strict=False):
        if old is not new and old != new:
            break
        same += 1
    coming = [*after.turns[same:], *([] if after.active is None else [after.active])]
    if same == len(before.turns):
        if before.active is None:
            return _added(coming)
        if coming and (grown := _grown(before.active, coming[0])) is not None:
            return grown + _added(coming[1:])
    return [shapes.turns_cut(after.turns[same - 1] if same else None), *_added(coming)]


def _added(turns: list[Turn]) -> list[Action]:
    found: list[Action] = []
    for turn in turns:
        found.append(shapes.turn_started(turn))
        for part in _before_its_end(turn):
            found += shapes.part_added(turn.id, part)
        found += _closing(turn, None)
    return found


def _grown(old: Turn, new: Turn) -> list[Action] | None:
    """From a turn that goes on to a later state of it; None if it cannot have come from there."""
    if (old.id, old.started_at, old.message) != (new.id, new.started_at, new.message):
        return None
    parts = _before_its_end(new)
    if len(parts) < len(old.response_parts) or (old.usage is not None and new.usage is None):
        return None
    found: list[Action] = []
    for was, part in zip(old.response_parts, parts, strict=False):
        if was is part or was == part:
            continue
        grown = _part_grown(new.id, was, part)
        if grown is None:
            return None
        found.append(grown)
    for part in parts[len(old.response_parts) :]:
        found += shapes.part_added(new.id, part)
    return found + _closing(new, old.usage)


def _part_grown(turn_id: str, old: AnyPart, new: AnyPart) -> Action | None:
    if isinstance(old, shapes.Markdown | shapes.Reasoning) and isinstance(new, shapes.Markdown | shapes.Reasoning):
        if type(old) is type(new) and old.id == new.id and new.content.startswith(old.content):
            return shapes.text_added(turn_id, new, new.content[len(old.content) :])
    elif isinstance(old, shapes.ToolCallPart) and isinstance(new, shapes.ToolCallPart):
        was, call = old.tool_call, new.tool_call
        if was.status == "running" and call.status == "completed" and _same_call(was, call):
            return shapes.call_completed(turn_id, call)
    return None


def _same_call(old: shapes.ToolCall, new: shapes.ToolCall) -> bool:
    return (old.tool_call_id, old.tool_name, old.tool_input) == (new.tool_call_id, new.tool_name, new.tool_input)


def _before_its_end(turn: Turn) -> tuple[AnyPart, ...]:
    """Its parts before the action that ends it, which skips calls without a result, and adds what went wrong."""
    if turn.state is None:
        return turn.response_parts
    parts = turn.response_parts[:-1] if turn.state == "error" else turn.response_parts
    return tuple(_running(part) for part in parts)


def _running(part: AnyPart) -> AnyPart:
    if isinstance(part, shapes.ToolCallPart) and part.tool_call.status == "cancelled":
        return shapes.running(part)
    return part


def _closing(turn: Turn, known: shapes.Usage | None) -> list[Action]:
    found = [] if turn.usage is None or turn.usage == known else [shapes.usage_known(turn.id, turn.usage)]
    return found if turn.state is None else [*found, shapes.turn_ended(turn)]
