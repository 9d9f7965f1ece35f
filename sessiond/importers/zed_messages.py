"""Zed's messages: `User` and `Agent` with their parts, or before version 0.3 messages with segments. acpx writes them, too."""

from __future__ import annotations

from sessiond.importers.source_file import listed, mapped, rest_of, word
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_OLD_USED = ("id", "role", "segments", "tool_uses", "tool_results", "context")
_RESULT_USED = ("tool_use_id", "content", "is_error")


def turn_of(message: object, *, interleaved: bool = False) -> tuple[Turn, object]:
    """A message, and its id if it has one. `interleaved`: it is a whole answer, in which each result follows its call."""
    user = mapped(message).get("User")
    agent = mapped(message).get("Agent")
    if isinstance(user, dict):
        turn = Turn("user", rest_of(user, "id", "content"))
        _take(turn, user.get("content"))
        return turn, user.get("id")
    if isinstance(agent, dict):
        turn = Turn("assistant", rest_of(agent, "content", "tool_results"))
        results = dict(mapped(agent.get("tool_results")))
        for part in listed(agent.get("content")):
            _take(turn, [part])
            called = word(mapped(mapped(part).get("ToolUse")).get("id")) if interleaved else ""
            if called in results:
                _take_results(turn, [results.pop(called)])
        _take_results(turn, list(results.values()))
        return turn, None
    if isinstance(message, dict) and isinstance(message.get("segments"), list):
        return _older_turn(message), None
    return Turn("system", {"record": message}), None


def _take(turn: Turn, content: object) -> None:
    for part in listed(content):
        kind, value = next(iter(part.items())) if isinstance(part, dict) and len(part) == 1 else (None, part)
        if kind == "Text":
            turn.say(value)
        elif kind == "Thinking" and isinstance(value, dict):
            turn.take([{"type": "thinking", "thinking": value.get("text") or "", **rest_of(value, "text")}])
        elif kind == "ToolUse" and isinstance(value, dict):
            rest = rest_of(value, "id", "name", "raw_input", "input", "is_input_complete")
            turn.call(value.get("id"), value.get("name"), value.get("input", value.get("raw_input")), **rest)
        else:
            turn.add({"type": kind.lower(), "value": value} if kind else part)


def _take_results(turn: Turn, results: list[object]) -> None:
    for one in results:
        if isinstance(one, dict):
            shown, rest = _shown(one.get("content")), rest_of(one, *_RESULT_USED)
            output = one.get("output")
            if isinstance(output, dict) and isinstance(output.get("output"), str) and "{" in str(shown)[:1]:
                shown = output["output"]  # the content is the same as JSON
            turn.result(one.get("tool_use_id"), shown, rest, error=one.get("is_error") is True)


def _shown(content: object) -> object:
    """A result's content: `{Text}`, or a list of such."""
    if isinstance(content, list):
        return [_shown(one) for one in content] if len(content) != 1 else _shown(content[0])
    text = content.get("Text", content.get("text")) if isinstance(content, dict) else None
    return text if isinstance(text, str) else content


def _older_turn(message: JsonObject) -> Turn:
    turn = Turn(str(message.get("role")), rest_of(message, *_OLD_USED))
    for segment in listed(message["segments"]):
        thinking = isinstance(segment, dict) and segment.get("type") == "thinking"
        turn.take([{**rest_of(segment, "text"), "thinking": segment.get("text")}] if thinking else [segment])
    if turn.is_empty:
        turn.say(message.get("context"))
    for call in listed(message.get("tool_uses")):
        if isinstance(call, dict):
            turn.call(call.get("id"), call.get("name"), call.get("input"))
    _take_results(turn, listed(message.get("tool_results")))
    return turn
