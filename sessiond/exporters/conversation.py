"""A conversation as the APIs of models take it: the one form that message lists and copies for other tools are made from.

Whatever the session holds, the result is valid: every call has exactly one result, ids are unique and short, names are those
that an API accepts, no text is empty. What is left out is counted in `lost`, in words for people.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from sessiond.exporters.picture import picture
from sessiond.exporters.turns import pretty
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

NO_RESULT = "(no result: the call was cut off)"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_CHARS = 64
"""Of a tool's name and of a call's id, in all APIs."""
_LEFT_OUT = {
    "injected": "messages that the tool added by itself",
    "sidechain": "messages of subagents",
    "branch": "messages of abandoned branches",
    "rewound": "messages of abandoned branches",
    "superseded": "earlier forms of messages",
    "compaction": "summaries of what is told in full",
    "checkpoint": "messages that the tool added by itself",
    "isApiErrorMessage": "the tool's records",
    "record": "the tool's records",
}
"""Marks in the metadata of messages that the model is not sent again, and what they are."""
_RAN = "bashExecution"
"""pi's role of a command that the person ran, with its output, which is the shell's."""
_NOTICES = frozenset(
    {
        "conversationCompacted", "contextLengthExceeded", "summarizationRequested", "systemNotification", "toolConfirmationRequest",
        "actionRequired", "compaction", "retry",
    }
)  # fmt: skip
"""Types of blocks in which a tool speaks in its own name, whatever the role of the message."""


class ExportedCall(msgspec.Struct):
    """`id`: unique in the conversation. `result`: blocks; None if there is none."""

    id: str
    name: str
    arguments: JsonObject
    result: list[JsonObject] | None = None
    failed: bool = False


class ExportedTurn(msgspec.Struct):
    """`role`: system, user or assistant. `blocks`: texts and pictures, with Anthropic's shape. `timestamp`: as in a Message."""

    role: str
    blocks: list[dict[str, Any]]
    calls: list[ExportedCall] = []
    timestamp: str = ""
    messages: int = 1
    """How many messages of the session it holds."""


class ExportedConversation(msgspec.Struct):
    """`lost`: what was left out -> how often."""

    turns: list[ExportedTurn]
    lost: Counter[str]


def conversation(messages: Iterable[Message], *, aside: bool = False) -> ExportedConversation:
    """Return what was said. `aside`: the session is a subagent's own, so its messages are not left out."""
    told = _Telling()
    asked = 0
    for message in messages:
        why = _why_left_out(message, aside=aside)
        if why is None and asked and message.metadata.get("summary") is True:
            why = _LEFT_OUT["compaction"]
        # opencode may file a message of its own between the prompt for a summary and the summary.
        asked = 2 if asks_for_a_summary(message) else max(0, asked - 1)
        if why is not None:
            told.lost[why] += 1
            continue
        told.lost["thinking"] += bool(message.rest.get("thinking") or message.metadata.get("thinkingBlocks"))
        if not isinstance(message.content, str):
            told.lost["the tool's records"] += sum(map(_is_notice, message.content))
        told.take(message)
    return ExportedConversation(told.turns, +told.lost)


def without_its_screen(session: Session, messages: Iterable[Message], lost: Counter[str]) -> list[Message]:
    """Aider has no calls: what it files as a tool's is what it shows to people, and does not tell its model."""
    given = list(messages)
    source = session.metadata.get("source")
    if not isinstance(source, dict) or source.get("tool") != "aider":
        return given
    kept = [one for one in given if one.role != "tool"]
    lost["the tool's records"] += len(given) - len(kept)
    return kept


def asks_for_a_summary(message: Message) -> bool:
    """opencode's own prompt: a block that says where the kept messages begin."""
    content = [] if isinstance(message.content, str) else message.content
    return any(isinstance(one, dict) and one.get("type") == "compaction" for one in content)


def _why_left_out(message: Message, *, aside: bool) -> str | None:
    for key, why in _LEFT_OUT.items():
        if (
            message.metadata.get(key)
            and not (aside and key == "sidechain")
            and not (key == "record" and _is_said(message))
        ):
            return why
    return None


def _is_said(message: Message) -> bool:
    """Return whether a record that is not a turn of the tool's holds what somebody said: a prompt that was typed while it worked."""
    return message.role in ("user", "assistant") and bool(message.content)


class _Telling:
    """A conversation while it is told, message by message."""

    def __init__(self) -> None:
        self.turns: list[ExportedTurn] = []
        self.lost: Counter[str] = Counter()
        self._waiting: list[tuple[str, ExportedCall, ExportedTurn]] = []
        """Calls without a result, with the ids that their tool gave them."""
        self._ids: set[str] = set()

    def take(self, message: Message) -> None:
        blocks = blocks_of(message.content)
        if message.role == "tool":
            self._answer(message, blocks)
            return
        if message.role == _RAN:
            arguments = {"command": message.metadata["command"]} if "command" in message.metadata else {}
            self._stand_in({"id": message.id, "name": _RAN, "arguments": arguments}, blocks, message.timestamp)
            return
        role = {"assistant": "assistant", "system": "system", "developer": "system"}.get(message.role, "user")
        given = [one for one in message.tool_calls if isinstance(one, dict)]
        if not blocks and not given:
            return
        calls = [self._call(one) for one in given]
        turn = self._turn_for(role, blocks, calls)
        if turn is None:
            turn = ExportedTurn(role, blocks, calls, message.timestamp)
            self.turns.append(turn)
        else:
            turn.blocks, turn.calls, turn.messages = turn.blocks + blocks, turn.calls + calls, turn.messages + 1
        self._waiting += [(str(one.get("id") or ""), call, turn) for one, call in zip(given, calls, strict=True)]

    def _turn_for(self, role: str, blocks: list[JsonObject], calls: list[ExportedCall]) -> ExportedTurn | None:
        """The last turn if the new message is another piece of the same answer: more of its text, or calls made in parallel."""
        last = self.turns[-1] if self.turns else None
        if last is None or role != "assistant" or last.role != role:
            return None
        parallel = not blocks and all(call.result is None for call in last.calls)
        return last if not last.calls or parallel else None

    def _call(self, given: JsonObject) -> ExportedCall:
        name = _NOT_IN_NAMES.sub("_", str(given.get("name") or "tool"))[:_MOST_CHARS]
        wanted = _NOT_IN_NAMES.sub("_", str(given.get("id") or "call"))[: _MOST_CHARS - 8]
        fresh, nth = wanted, 1
        while fresh in self._ids:
            nth += 1
            fresh = f"{wanted}-{nth}"
        self._ids.add(fresh)
        return ExportedCall(fresh, name, _arguments(given.get("arguments")))

    def _answer(self, message: Message, blocks: list[JsonObject]) -> None:
        """Give the results of a message to their calls. One whose call is unknown gets a call that only stands for it: an API
        takes no result without a call, and a person did not say it.
        """
        several = message.metadata.get("toolCallIds")
        ids = (
            [str(one) for one in several] if isinstance(several, list) else [str(message.rest.get("toolCallId") or "")]
        )
        for call_id in ids:
            own = [one for one in blocks if len(ids) == 1 or one.get("tool_use_id", ids[0]) == call_id]
            failed = message.metadata.get("isError") is True or any(one.get("is_error") is True for one in own)
            own = [{key: value for key, value in one.items() if key in ("type", "text", "source")} for one in own]
            place = next((n for n, one in enumerate(self._waiting) if call_id in ("", one[0])), None)
            if place is not None:
                _, call, turn = self._waiting.pop(place)
                call.result, call.failed = own, failed
                turn.messages += 1
            elif own:
                self._stand_in({"id": call_id}, own, message.timestamp, failed=failed)

    def _stand_in(self, call: JsonObject, result: list[JsonObject], timestamp: str, *, failed: bool = False) -> None:
        made = self._call(call)
        made.result, made.failed = result, failed
        self.turns.append(ExportedTurn("assistant", [], [made], timestamp))


def _arguments(given: object) -> JsonObject:
    if isinstance(given, str):
        try:
            decoded = msgspec.json.decode(given)
        except (msgspec.DecodeError, RecursionError):
            return {"input": given} if given else {}
        given = decoded if isinstance(decoded, dict) else {"input": decoded}
    return given if isinstance(given, dict) else {}


def result_of(call: ExportedCall) -> list[JsonObject]:
    """Its result, or the words that stand for a missing one: models refuse a call without a result."""
    return [text_block(NO_RESULT)] if call.result is None else call.result


# Content


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def blocks_of(content: str | list[object]) -> list[JsonObject]:
    """Texts and pictures of a content; what no API takes becomes a text that shows it."""
    found = []
    for block in [text_block(content)] if isinstance(content, str) else content:
        if _is_notice(block):
            continue
        one = _block(block)
        if one.get("type") != "text" or one["text"].strip():
            found.append(one)
    return found


def _is_notice(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str) and block["type"] in _NOTICES


def _block(block: object) -> dict[str, Any]:
    if isinstance(block, str):
        return text_block(block)
    if not isinstance(block, dict):
        return text_block(pretty(block))
    marks = {key: block[key] for key in ("tool_use_id", "is_error") if key in block}
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return {**text_block(block["text"]), **marks}
    shown = picture(block)
    return {**(shown or text_block(f"[{block.get('type', 'block')}]\n{pretty(block)}")), **marks}
