"""What a window makes of the actions that we send, by the text of the protocol (0.9.0). States and actions are JSON."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

State = dict[str, Any]
_BASE = ("toolCallId", "toolName", "displayName", "_meta")


def reduced(state: State, actions: Iterable[Any]) -> State:
    state = copy.deepcopy(state)
    for action in actions:
        plain = msgspec.json.decode(msgspec.json.encode(action))
        if plain["type"].startswith("chat/"):
            _chat(state, plain)
        elif "chats" in state:  # VS Code sends some of a session's to its chat, where they do nothing
            _session(state, plain)
    return state


def _session(state: State, action: State) -> None:
    match action["type"]:
        case "session/titleChanged":
            state["title"] = action["title"]
        case "session/isArchivedChanged":
            state["status"] = state["status"] | 64 if action["isArchived"] else state["status"] & ~64
        case "session/activityChanged":
            state.pop("activity", None)
            state |= {key: action[key] for key in ("activity",) if key in action}
        case "session/chatUpdated":
            for chat in state["chats"]:
                if chat["resource"] == action["chat"]:
                    chat.update(action["changes"])
        case other:
            raise AssertionError(other)


def _chat(state: State, action: State) -> None:
    kind = action["type"].removeprefix("chat/")
    if kind == "turnStarted":
        started = {"id": action["turnId"], "startedAt": action["startedAt"], "message": action["message"]}
        state["activeTurn"] = {**started, "responseParts": []}
        state["status"] = 8
        _queue(state, [one for one in state.get("queuedMessages", []) if one["id"] != action.get("queuedMessageId")])
    elif kind == "truncated":
        kept = [at for at, turn in enumerate(state["turns"]) if turn["id"] == action.get("turnId")]
        if kept or "turnId" not in action:
            state["turns"] = state["turns"][: kept[0] + 1 if kept else 0]
            state.pop("activeTurn", None)
            state["status"] = 1
    elif kind == "pendingMessageSet":
        queue = {one["id"]: one for one in state.get("queuedMessages", [])}
        queue[action["id"]] = {"id": action["id"], "message": action["message"]}
        _queue(state, list(queue.values()))
    elif kind == "pendingMessageRemoved":
        _queue(state, [one for one in state.get("queuedMessages", []) if one["id"] != action["id"]])
    elif kind in ("inputRequested", "inputCompleted"):
        if (turn := state.get("activeTurn")) is not None:
            (_asked if kind == "inputRequested" else _answered)(turn, action)
            state["status"] = 24 if open_questions(turn) else 8
    elif (turn := state.get("activeTurn")) is not None and turn["id"] == action["turnId"]:
        if kind in ENDS:
            _end(state, turn, action, kind)
        else:
            WITHIN[kind](turn, action)


def _queue(state: State, queue: list[State]) -> None:
    state.pop("queuedMessages", None)
    if queue:
        state["queuedMessages"] = queue


def open_questions(turn: State) -> dict[str, State]:
    """The parts that wait for an answer, by the id of their request."""
    parts = [part for part in turn["responseParts"] if part["kind"] == "inputRequest" and "response" not in part]
    return {part["request"]["id"]: part for part in parts}


def _asked(turn: State, action: State) -> None:
    known = open_questions(turn).get(action["request"]["id"])
    if known is None:
        turn["responseParts"].append({"kind": "inputRequest", "request": action["request"]})
    else:
        known["request"] = action["request"]


def _answered(turn: State, action: State) -> None:
    known = open_questions(turn).get(action["requestId"])
    if known is not None:
        known["response"] = action["response"]
        known["request"] |= {"answers": action["answers"]} if "answers" in action else {}


def _end(state: State, turn: State, action: State, kind: str) -> None:
    for part in turn["responseParts"]:
        call = part.get("toolCall")
        if call is not None and call["status"] in ("streaming", "running"):
            kept = {key: call[key] for key in (*_BASE, "invocationMessage", "toolInput") if key in call}
            part["toolCall"] = {"status": "cancelled", "invocationMessage": "", **kept, "reason": "skipped"}
    if "part" in action:
        turn["responseParts"].append(action["part"])
    state["turns"].append({**turn, "duration": max(0, action["duration"]), "state": ENDS[kind]})
    del state["activeTurn"]
    state["status"] = 2 if kind == "error" else 1


ENDS = {"turnComplete": "complete", "turnCancelled": "cancelled", "error": "error"}


def _text(turn: State, action: State) -> None:
    wanted = "markdown" if action["type"] == "chat/delta" else "reasoning"
    found = next((part for part in turn["responseParts"] if part.get("id") == action["partId"]), None)
    if found is not None and found["kind"] == wanted:
        found["content"] += action["content"]


def _part(turn: State, action: State) -> None:
    assert action["part"]["kind"] not in ("error", "toolCall")
    turn["responseParts"].append(action["part"])


def _call_started(turn: State, action: State) -> None:
    kept = {key: action[key] for key in _BASE if key in action}
    turn["responseParts"].append({"kind": "toolCall", "toolCall": {"status": "streaming", **kept}})


def _call_changed(turn: State, action: State) -> None:
    for part in turn["responseParts"]:
        call = part.get("toolCall")
        if call is None or call["toolCallId"] != action["toolCallId"]:
            continue
        kept = {key: call[key] for key in _BASE if key in call}
        if action["type"] == "chat/toolCallReady" and call["status"] == "streaming":
            said = {key: action[key] for key in ("invocationMessage", "toolInput", "confirmed") if key in action}
            part["toolCall"] = {"status": "running", **kept, **said}
        elif action["type"] == "chat/toolCallComplete" and call["status"] == "running":
            said = {key: call[key] for key in ("invocationMessage", "toolInput", "confirmed") if key in call}
            part["toolCall"] = {"status": "completed", **kept, **said, **action["result"]}


def _usage(turn: State, action: State) -> None:
    turn["usage"] = action["usage"]


WITHIN: dict[str, Callable[[State, State], None]] = {
    "delta": _text,
    "reasoning": _text,
    "responsePart": _part,
    "toolCallStart": _call_started,
    "toolCallReady": _call_changed,
    "toolCallComplete": _call_changed,
    "usage": _usage,
}
