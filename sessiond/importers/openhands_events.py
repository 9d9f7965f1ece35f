"""OpenHands' events as messages: those of version 1, which have a `kind`, and the actions and observations before it."""

from __future__ import annotations

from sessiond.importers.source_file import listed, mapped, rest_of
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_ROLES = {"agent": "assistant", "environment": "system"}
_BASIC = ("id", "kind", "timestamp", "source")


def turn_of(event: JsonObject) -> Turn | None:
    """The message of an event; None if it is of an unknown kind."""
    return _turn(event) if "kind" in event else _older_turn(event)


def _turn(event: JsonObject) -> Turn | None:
    kind, source = str(event["kind"]), str(event.get("source"))
    turn = Turn(_ROLES.get(source, source))
    said: object = None
    if kind == "MessageEvent" and isinstance(message := event.get("llm_message"), dict):
        turn = Turn(str(message.get("role") or turn.role), rest_of(event, *_BASIC, "llm_message"))
        turn.think(message.get("reasoning_content"))
        turn.take(listed(message.get("thinking_blocks")))
        said = message.get("content")
    elif kind == "ActionEvent":
        call = event.get("tool_call")
        arguments = call.get("arguments") if isinstance(call, dict) else event.get("action")
        turn = Turn("assistant", rest_of(event, *_BASIC, "thought", "reasoning_content", "thinking_blocks", "tool_call",
                                         "action", "tool_name", "tool_call_id"))  # fmt: skip
        turn.think(event.get("reasoning_content"))
        turn.take(listed(event.get("thinking_blocks")))
        turn.take(_plain(event.get("thought")))
        turn.call(event.get("tool_call_id"), event.get("tool_name"), arguments)
    elif "tool_call_id" in event and kind in ("ObservationEvent", "UserRejectObservation", "AgentErrorEvent"):
        seen = mapped(event.get("observation"))
        shown = seen.get("content", event.get("error", event.get("rejection_reason")))
        turn.metadata = {
            **rest_of(seen, "kind", "content", "is_error"),
            **rest_of(event, *_BASIC, "observation", "tool_call_id"),
        }
        turn.result(
            event["tool_call_id"], _plain(shown), error=bool(seen.get("is_error")) or kind != "ObservationEvent"
        )
    elif kind == "SystemPromptEvent":
        turn, said = Turn("system", {"injected": True}), event.get("system_prompt")
    elif kind.startswith("Condensation") and event.get("summary"):
        turn, said = Turn("system", rest_of(event, *_BASIC, "summary")), event["summary"]
    else:
        return None
    turn.take(_plain(said))
    return turn


def _plain(content: object) -> object:
    """Blocks without the mark that the SDK puts on each of them."""
    if isinstance(content, list):
        return [_plain(one) for one in content]
    return (
        {key: value for key, value in content.items() if key != "cache_prompt"}
        if isinstance(content, dict)
        else content
    )


def _older_turn(event: JsonObject) -> Turn | None:
    given, known = event.get("args"), event.get("tool_call_metadata")
    args = mapped(given)
    call = mapped(known)
    action, source = event.get("action"), str(event.get("source"))
    turn = Turn(_ROLES.get(source, source), rest_of(event, *_BASIC, "action", "args", "content", "message",
                                                    "observation", "tool_call_metadata"))  # fmt: skip
    if action in ("message", "system"):
        turn.role = "system" if action == "system" else turn.role
        turn.say(args.get("content"))
    elif action:
        turn.say(args.get("thought"))
        turn.call(
            call.get("tool_call_id") or str(event.get("id")),
            call.get("function_name") or action,
            rest_of(args, "thought"),
        )
    elif "observation" in event:
        call_id = call.get("tool_call_id") or str(event.get("cause", ""))
        turn.result(call_id, event.get("content"), error=event.get("observation") == "error")
    else:
        return None
    return turn
