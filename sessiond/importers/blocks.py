"""Turns lists of content blocks, as model vendors' APIs and most tools write them, into the parts of one message.

Text, images and unknown blocks stay in `content` as they are; calls go to `toolCalls`, thinking goes to `thinking`, and a
tool's result becomes the content of a message with role `tool`. Anything else in these blocks is kept in `metadata`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sessiond.importers.jsontext import as_text
from sessiond.model.values import JsonObject, WireObject

_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
_CALLS = ("tool_use", "toolCall", "tool_call", "server_tool_use", "mcp_tool_use")
_RESULTS = ("tool_result", "server_tool_result", "web_search_tool_result", "mcp_tool_result")
_RANK = {"thinking": 0, "content": 1, "call": 2}


class MessageParts(msgspec.Struct):
    """The parts of a message. `result_ids`: ids of the calls that its tool results answer, in order."""

    content: str | list[Any]
    thinking: str | None
    calls: list[JsonObject]
    result_ids: list[str]
    metadata: WireObject

    def fields(self) -> JsonObject:
        """The message fields other than role, content and metadata."""
        out: JsonObject = {}
        if self.calls:
            out["toolCalls"] = self.calls
        if self.result_ids:
            out["toolCallId"] = self.result_ids[0]
        if self.thinking is not None:
            out["thinking"] = self.thinking
        return out


def parts_of(content: object) -> MessageParts:
    """Split a message's content: a string, a list of blocks, None, or anything else (kept as its JSON)."""
    parts = MessageParts(content="", thinking=None, calls=[], result_ids=[], metadata={})
    if not isinstance(content, list):
        parts.content = content if isinstance(content, str) else "" if content is None else as_text(content)
        return parts
    if len(content) == 1 and _is_alone(content[0], parts):  # nearly all of them
        return parts
    kept: list[object] = []
    results = sum(1 for block in content if _kind(block) in _RESULTS)
    alone = results == 1 and all(_kind(block) in _RESULTS for block in content)
    thoughts: list[str] = []
    order = [_place(block, kept, thoughts, parts, alone=alone) for block in content]
    if thoughts:
        parts.thinking = "\n\n".join(thoughts)
    if len(parts.result_ids) > 1:
        parts.metadata["toolCallIds"] = parts.result_ids
    if order != sorted(order, key=_RANK.__getitem__):
        parts.metadata["blockOrder"] = order
    parts.content = simple(kept)
    return parts


def _is_alone(block: Any, parts: MessageParts) -> bool:
    """Put the only block of a content where it belongs if it is a text, a call or a result. Returns whether it was one."""
    kind = _kind(block)
    if kind == "text" and _is_plain(block):
        parts.content = block["text"]
    elif kind in _CALLS:
        parts.calls.append(call_of(block))
    elif kind in _RESULTS:
        kept: list[object] = []
        _take_result(block, kept, parts, alone=True)
        parts.content = simple(kept)
    else:
        return False
    return True


def _kind(block: object) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None


def _place(block: Any, kept: list[object], thoughts: list[str], parts: MessageParts, *, alone: bool) -> str:
    """Put one block where it belongs. Returns its kind, for the order."""
    kind = _kind(block)
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        thoughts.append(block["thinking"])
        _remember(parts, "thinkingBlocks", {k: v for k, v in block.items() if k not in ("type", "thinking")})
        return "thinking"
    if kind == "redacted_thinking":
        _remember(parts, "thinkingBlocks", block)
        return "thinking"
    if kind in _CALLS:
        parts.calls.append(call_of(block))
        return "call"
    if kind in _RESULTS:
        _take_result(block, kept, parts, alone=alone)
        return "content"
    kept.append(text_block(block))
    return "content"


def _remember(parts: MessageParts, key: str, value: JsonObject) -> None:
    if value:
        parts.metadata.setdefault(key, []).append(value)


def call_of(block: JsonObject) -> JsonObject:
    """A call block as `{id, name, arguments}` with its other fields."""
    rest = {k: v for k, v in block.items() if k not in ("type", "id", "name", "input", "arguments")}
    arguments = block.get("input", block.get("arguments"))
    return tool_call(block.get("id"), block.get("name"), arguments) | rest


def tool_call(call_id: object, name: object, arguments: object) -> JsonObject:
    """The protocol's `{id, name, arguments: object|string}` from whatever a tool wrote."""
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, (dict, str)):
        arguments = as_text(arguments)
    return {
        "id": call_id if isinstance(call_id, str) else "" if call_id is None else as_text(call_id),
        "name": name if isinstance(name, str) else "" if name is None else as_text(name),
        "arguments": arguments,
    }


def _take_result(block: JsonObject, kept: list[object], parts: MessageParts, *, alone: bool) -> None:
    call_id = block.get("tool_use_id", block.get("toolUseId", block.get("tool_call_id")))
    parts.result_ids.append(call_id if isinstance(call_id, str) else "")
    inner = block.get("content")
    rest = {k: v for k, v in block.items() if k not in ("type", "content", "tool_use_id", "toolUseId", "tool_call_id")}
    blocks = inner if isinstance(inner, list) else [] if inner in (None, "") else [_as_block(inner)]
    if alone:
        kept.extend(_result_block(item) for item in blocks)
        if block.get("is_error") is not None:
            parts.metadata["isError"] = rest.pop("is_error")
        if rest:
            parts.metadata["toolResult"] = rest
        return
    # Several results in one record: each block names its call.
    marks = {"tool_use_id": parts.result_ids[-1], **rest}
    for item in blocks or [{"type": "text", "text": ""}]:
        shown = _result_block(item)
        kept.append(shown | marks if isinstance(shown, dict) else {"type": "text", "text": as_text(shown), **marks})


def _result_block(item: object) -> object:
    """One block of a result. Some tools return objects without a type: these become a text block that keeps their other
    fields.
    """
    if not isinstance(item, dict) or "type" in item:
        return text_block(item)
    key = next((key for key in ("result", "output", "text", "content") if isinstance(item.get(key), str)), None)
    if key is None:
        return {"type": "text", "text": as_text(item)}
    return {"type": "text", "text": item[key], **{k: v for k, v in item.items() if k not in (key, "text")}}


def _as_block(inner: object) -> JsonObject:
    return {"type": "text", "text": inner if isinstance(inner, str) else as_text(inner)}


def text_block(block: Any) -> Any:
    """A text block of any vendor, or a bare string, as `{type: "text", text}`; anything else unchanged."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if _kind(block) in _TEXTS and isinstance(block.get("text"), str) and block["type"] != "text":
        return {**block, "type": "text"}
    return block


def simple(blocks: list[Any]) -> str | list[object]:
    """Blocks as a message's content: no blocks become "", a single plain text becomes a string."""
    if not blocks:
        return ""
    return str(blocks[0]["text"]) if len(blocks) == 1 and _is_plain(blocks[0]) else blocks


def _is_plain(block: object) -> bool:
    """Return whether a block is a text and nothing else."""
    return (
        isinstance(block, dict)
        and len(block) == 2
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    )


def text_of(content: object) -> str:
    """The readable text of a content: the string, or its text blocks joined by newlines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    shown = (text_block(block) for block in content)
    return "\n".join(b["text"] for b in shown if _kind(b) == "text" and isinstance(b.get("text"), str))
