"""One record of a tool as the messages that it stands for.

Many tools file an answer, its calls and their results together. Here they become what the model saw: a message with what was
said and called, then a message of role `tool` for each result, then what was said after it, and so on.

    say, think, call   go into the message that is being made; the first one after a result begins another message
    result             ends it, and is a message of its own
    one_step           the record is one answer of the model: everything said and called goes into the first message, wherever it
                       stands among the results, because the model had none of them when it said it

The first message has the record's own id, and the others that id with a number or the id of their call, so that a turn that grows
keeps the ids of its messages. Where what was said, thought and called is not in the order in which messages are shown
(thinking, content, calls), the order is kept in `metadata.blockOrder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from sessiond.importers.blocks import parts_of, simple, tool_call
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event
from sessiond.model.values import JsonObject, WireObject

_RANK = {"thinking": 0, "content": 1, "call": 2}


class _Said(msgspec.Struct):
    """Everything that was said and called until the next result."""

    blocks: list[Any] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    order: list[str] = []
    metadata: WireObject = {}


class _Result(msgspec.Struct):
    """The result of one call."""

    call_id: str
    content: str | list[Any]
    metadata: WireObject


_Part: TypeAlias = _Said | _Result


class Turn:
    """Put the parts in with `say`, `think`, `call`, `result`, `add` and `take`, in their order; then ask for `events`."""

    def __init__(self, role: str, metadata: JsonObject | None = None, *, one_step: bool = False) -> None:
        """`one_step`: the record is one answer of the model, so what was said and called is one message in front of the results. Of
        calls that go on at once, any may have its result first.
        """
        self.role = role
        self._one_step = one_step
        self.metadata: WireObject = dict(metadata or {})
        """Of the first message."""
        self._parts: list[_Part] = []

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def say(self, text: object, **rest: object) -> None:
        """A text; nothing if it is empty. `rest`: other fields of its block."""
        if isinstance(text, str) and text:
            self.add({"type": "text", "text": text, **rest})

    def add(self, block: object) -> None:
        """A block of content that is kept as it is."""
        self._said("content").blocks.append(block)

    def think(self, text: object) -> None:
        """Thinking; nothing if it is empty."""
        if isinstance(text, str) and text:
            self._said("thinking").thoughts.append(text)

    def call(self, call_id: object, name: object, arguments: object, /, **rest: object) -> None:
        """A call. `rest`: other fields of the tool's record, which are kept in the call unless they are None or it has them."""
        call = tool_call(call_id, name, arguments)
        more = {key: value for key, value in rest.items() if value is not None and key not in call}
        self._said("call").calls.append(call | more)

    def result(
        self, call_id: object, content: object, metadata: JsonObject | None = None, *, error: bool = False
    ) -> None:
        """The result of a call: a text, a list of blocks, or any other value, which is kept as its JSON."""
        marks = {**(metadata or {}), **({"isError": True} if error else {})}
        self._parts.append(_Result("" if call_id is None else str(call_id), parts_of(content).content, marks))

    def take(self, content: object) -> None:
        """A content as the vendors' APIs have it: a text, or a list of text, thinking, call, result and other blocks."""
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, str):
                self.say(block)
            elif block is not None:
                self._take_block(block)

    def _take_block(self, block: object) -> None:
        if isinstance(block, dict) and self._take_of_sdk(block):
            return
        parts = parts_of([block])
        if parts.result_ids:
            self._parts.append(_Result(parts.result_ids[0], parts.content, parts.metadata))
            return
        said = self._said("call" if parts.calls else "thinking" if _is_thinking(block) else "content")
        said.calls += parts.calls
        said.thoughts += [parts.thinking] if parts.thinking else []
        for key, value in parts.metadata.items():
            said.metadata.setdefault(key, []).extend(value)
        if parts.content:
            text = parts.content
            said.blocks += [{"type": "text", "text": text}] if isinstance(text, str) else text

    def _take_of_sdk(self, block: JsonObject) -> bool:
        """A call, result or thought as the AI SDK writes it. Returns whether it was one."""
        kind = block.get("type")
        if kind in ("tool-call", "toolCall") and "toolCallId" in block:
            used = ("type", "toolCallId", "toolName", "input", "args")
            rest = {key: value for key, value in block.items() if key not in used}
            self.call(block["toolCallId"], block.get("toolName"), block.get("input", block.get("args")), **rest)
        elif kind == "tool-result":
            output = block.get("output", block.get("result"))
            error = False
            if isinstance(output, dict) and "value" in output:
                error = str(output.get("type")).startswith("error")
                output = output["value"]
            self.result(block.get("toolCallId"), output, {"name": block.get("toolName")}, error=error)
        elif kind == "reasoning" and isinstance(block.get("text"), str):
            self.think(block["text"])
        else:
            return False
        return True

    def _said(self, kind: str) -> _Said:
        said = self._parts[0 if self._one_step else -1] if self._parts else None
        if not isinstance(said, _Said):
            said = _Said()
            self._parts.insert(0 if self._one_step else len(self._parts), said)
        said.order.append(kind)
        return said

    def events(
        self, draft: SessionDraft, *, line: int | None = None, id: object = None, time: object = None, **rest: object
    ) -> Iterator[Event]:
        """The messages, one at least. `id` is the first one's; the others' are made from it. `rest`: fields of the first."""
        for nth, part in enumerate(self._parts or [_Said()]):
            first = nth == 0
            metadata = {**(self.metadata if first else {}), **part.metadata}
            fields = rest if first else {}
            if isinstance(part, _Result):
                yield from draft.message(
                    "tool",
                    part.content,
                    line=line,
                    id=id if first or id is None else f"{id}-{part.call_id or nth}",
                    time=time,
                    metadata=metadata,
                    toolCallId=part.call_id,
                    **fields,
                )
                continue
            if part.order != sorted(part.order, key=_RANK.__getitem__):
                metadata["blockOrder"] = part.order
            yield from draft.message(
                self.role,
                simple(part.blocks),
                line=line,
                id=id if first or id is None else f"{id}-{nth}",
                time=time,
                metadata=metadata,
                thinking="\n\n".join(part.thoughts) if part.thoughts else None,
                toolCalls=part.calls or None,
                **fields,
            )


def _is_thinking(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")
