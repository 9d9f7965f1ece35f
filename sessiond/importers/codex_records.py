"""Reads what one record of a Codex rollout says."""

from __future__ import annotations

from typing import Any, NamedTuple

from sessiond.importers.blocks import parts_of, tool_call
from sessiond.importers.source_file import word
from sessiond.model.values import JsonObject, WireObject

TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "web_search_call": "action",
}
_ITEM_EVENTS = {"UserMessage": "user_message", "AgentMessage": "agent_message"}


class MessageOf(NamedTuple):
    """A message without its id and time. `fields`: those besides these four."""

    role: str
    content: str | list[Any]
    metadata: JsonObject
    fields: WireObject


def kind_of(record: JsonObject) -> tuple[str | None, JsonObject]:
    """The record's type and payload; those of today for a record from before payloads existed, when a rollout was a header and
    bare items.
    """
    kind, payload = word(record.get("type")), record.get("payload")
    if kind in TYPES and isinstance(payload, dict):
        return kind, payload
    if "type" not in record and "id" in record and ("instructions" in record or "timestamp" in record):
        return "session_meta", record
    if kind and kind not in TYPES and ("role" in record or "call_id" in record or "summary" in record):
        return "response_item", record
    return None, {}


def spoken(payload: JsonObject) -> tuple[str, object]:
    """Return what kind of event it is, and its text. Since 0.160 or so, Codex tells of items when they are complete, in place of
    events of their own.
    """
    item = payload.get("item")
    if payload.get("type") != "item_completed" or not isinstance(item, dict):
        return str(payload.get("type")), payload.get("message", payload.get("text"))
    kind = _ITEM_EVENTS.get(str(item.get("type")))
    if kind is None:
        return f"item_completed/{item.get('type')}", None
    return kind, "\n".join(_texts(item.get("content")))


def said(payload: JsonObject) -> MessageOf:
    """An item with words of the user's, the model's or Codex's own."""
    parts = parts_of(_content(payload))
    role = word(payload.get("role")) or "unknown"
    marks = {"injected": True} if role == "developer" else {}
    return MessageOf(role, parts.content, rest_of(payload, "role", "content") | parts.metadata | marks, parts.fields())


def thought(payload: JsonObject) -> MessageOf:
    """An item of reasoning: its summaries, then its content."""
    text = "\n\n".join([*_texts(payload.get("summary")), *_texts(payload.get("content"))])
    return MessageOf("assistant", "", rest_of(payload, "summary", "content"), {"thinking": text})


def used(payload: JsonObject, kind: str) -> MessageOf | None:
    """An item with a call or its output; None for any other kind."""
    call_id = payload.get("call_id") or payload.get("id")
    if kind in _CALLS:
        call = tool_call(call_id, payload.get("name") or kind.removesuffix("_call"), payload.get(_CALLS[kind]))
        rest = rest_of(payload, "name", "call_id", _CALLS[kind], keep_type=kind != "function_call")
        return MessageOf("assistant", "", rest, {"toolCalls": [call]})
    if kind.endswith("_output"):
        output = payload.get("output")
        metadata = rest_of(payload, "call_id", "output", keep_type=kind != "function_call_output")
        if isinstance(output, dict):
            metadata |= {key: value for key, value in output.items() if key != "content"}
            output = output.get("content")
        return MessageOf("tool", parts_of(output).content, metadata, {"toolCallId": str(call_id or "")})
    return None


def _texts(blocks: object) -> list[str]:
    given = blocks if isinstance(blocks, list) else []
    return [block["text"] for block in given if isinstance(block, dict) and isinstance(block.get("text"), str)]


def rest_of(payload: JsonObject, *used: str, keep_type: bool = False) -> JsonObject:
    """The part of a payload that no message field takes."""
    left_out = {*used, "id", "type"}
    out = {key: value for key, value in payload.items() if key not in left_out and value is not None}
    if keep_type:
        out["type"] = payload.get("type")
    return out


def _content(payload: JsonObject) -> object:
    """The content without empty annotations, so that a single text is a plain string. An item without an id keeps them, because
    its id is made from its content, and must stay what it was.
    """
    content = payload.get("content")
    if not isinstance(content, list) or not payload.get("id"):
        return content
    return [
        {key: value for key, value in block.items() if key != "annotations"}
        if isinstance(block, dict) and block.get("annotations") == []
        else block
        for block in content
    ]
