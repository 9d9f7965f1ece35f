"""One session of the agent: updates -> messages. No I/O.

prompt                   a message of role user
agent_message_chunk      a message of role assistant, which grows; the next other thing ends it
agent_thought_chunk      `thinking` of the message that follows
tool_call                a message of role assistant with the call, open while the tool runs ...
tool_call_update         ... and, when the tool has ended, a message of role tool with the result
request_permission       a message of role system: the question, and what was chosen once it is
plan, mode, usage        state
stop reason, usage       metadata of the message that is open when the turn ends, and state
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sessiond.acp.content import PRINTED, content, listed, mapped, model_from, printed, result, text_of, word
from sessiond.acp.steps import Ended, Grew, Kept, Learned, Said, Step
from sessiond.client.types import NewMessage, ToolCall
from sessiond.limits import ACP_PRINTED_CHARS, ACP_THOUGHT_CHARS

_OVER = ("completed", "failed")
MESSAGE_ID = "sessiond.messageId"
"""In `_meta` of a prompt: the message in the session that it says once more."""
_CALLS = 4096
"""Calls without a result that are remembered."""


class _Call(Struct):
    """A tool call that runs. `given`: all that was said of it, later words over earlier ones. `output`: what its command
    printed.
    """

    message_id: str
    given: dict[str, Any]
    output: list[str] = []
    output_chars: int = 0

    def take(self, update: dict[str, object]) -> None:
        """More is said of it."""
        if (text := printed(update)) and self.output_chars < ACP_PRINTED_CHARS:
            self.output.append(text[: ACP_PRINTED_CHARS - self.output_chars])
            self.output_chars += len(text)
        told = {name: value for name, value in update.items() if value is not None and name != "sessionUpdate"}
        meta = {**mapped(self.given.get("_meta")), **mapped(told.pop("_meta", None))}
        self.given.update(told, _meta={name: value for name, value in meta.items() if name not in PRINTED})


class RecordedTurn:
    """`name` is unique among all turns of all connections; ids of messages are made from it, in order."""

    def __init__(self, name: str, key: str) -> None:
        self._name = name
        self._key = key
        self._count = 0
        self._growing: tuple[tuple[str, object], str] | None = None
        """The text that grows: its role, what the agent calls its message, and our id."""
        self._thoughts: list[str] = []
        self._thought_chars = 0
        self._calls: dict[str, _Call] = {}
        self._questions: dict[str, str] = {}
        """Tool call -> the message that asks for permission."""

    def prompted(self, at: int, said: str | list[object], message_id: str | None = None) -> Iterator[Step]:
        """Somebody sends a prompt. `message_id`: of the message, if it is in the session already."""
        yield from self._settle(at)
        made = self._said(at, "user", said)
        if message_id is not None:
            made = Said(key=self._key, message=replace(made.message, id=message_id), there=True)
        yield made

    def updated(self, at: int, update: dict[str, object]) -> Iterator[Step]:
        """The agent says something."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            yield from self._chunk(at, ("assistant", update.get("messageId")), update.get("content"))
        elif kind == "user_message_chunk":
            yield from self._chunk(at, ("user", update.get("messageId")), update.get("content"))
        elif kind == "agent_thought_chunk":
            yield from self._thought(at, mapped(update.get("content")))
        elif kind in ("tool_call", "tool_call_update"):
            yield from self._tool(at, update)
        elif kind == "plan":
            yield Kept(key=self._key, values={"acp.plan": update.get("entries")})
        elif kind == "current_mode_update":
            yield Kept(key=self._key, values={"acp.mode": update.get("currentModeId")})
        elif kind == "config_option_update":
            yield Learned(key=self._key, model=model_from(update))
        elif kind == "usage_update":
            values = {name: value for name, value in update.items() if name != "sessionUpdate"}
            yield Kept(key=self._key, values={"acp.usage": values})
        elif kind == "session_info_update":
            yield Learned(key=self._key, name=word(update.get("title")))

    def answered(self, at: int, answer: dict[str, object], error: object) -> Iterator[Step]:
        """The turn ends, with its stop reason or an error."""
        reason = word(answer.get("stopReason"))
        said = {"stopReason": reason, "usage": answer.get("usage"), "error": error}
        told = {name: value for name, value in said.items() if value is not None}
        status = "error" if error is not None else "interrupted" if reason == "cancelled" else "done"
        yield from self.close(at, status, told or None)
        yield Kept(key=self._key, values={"acp.turn": told})

    def asked(self, at: int, params: dict[str, object]) -> Iterator[Step]:
        """The agent asks for permission."""
        yield from self._settle(at)
        call = mapped(params.get("toolCall"))
        names = [word(mapped(one).get("name")) or "" for one in listed(params.get("options"))]
        title = word(call.get("title")) or word(call.get("toolCallId")) or "a tool"
        question = self._said(
            at,
            "system",
            f"Permission asked for {title} ({', '.join(names)})",
            status="streaming",
            metadata={"acp": {"permission": {"toolCallId": call.get("toolCallId"), "options": params.get("options")}}},
        )
        assert question.message.id is not None
        self._questions[str(call.get("toolCallId"))] = question.message.id
        yield question

    def chosen(self, at: int, params: dict[str, object], answer: dict[str, object]) -> Iterator[Step]:
        """The editor answers the question."""
        call = mapped(params.get("toolCall"))
        message_id = self._questions.pop(str(call.get("toolCallId")), None)
        if message_id is None:
            return
        outcome = mapped(mapped(answer.get("result")).get("outcome"))
        option = outcome.get("optionId")
        names = {mapped(one).get("optionId"): mapped(one).get("name") for one in listed(params.get("options"))}
        taken = word(names.get(option)) if isinstance(option, str) else None
        yield Grew(key=self._key, message_id=message_id, text=f": {taken or option or 'cancelled'}")
        yield Ended(
            key=self._key, message_id=message_id, status="done" if option else "interrupted",
            metadata={"acp": {"permission": {"toolCallId": call.get("toolCallId"), "options": params.get("options"), "outcome": outcome}}},
        )  # fmt: skip

    def close(self, at: int, status: str, told: dict[str, object] | None) -> Iterator[Step]:
        """End all that is open."""
        if self._growing is None and self._thoughts:
            yield self._begins(at, ("assistant", None), "")
        metadata = {"acp": told} if told else None
        yield from self._settle(at, status, metadata)
        for message_id in self._questions.values():
            yield Ended(key=self._key, message_id=message_id, status="interrupted")
        self._questions.clear()
        for call in self._calls.values():
            yield self._call_ended(call, "error" if status == "error" else "interrupted")
        self._calls.clear()

    def _chunk(self, at: int, whose: tuple[str, object], block: object) -> Iterator[Step]:
        text = text_of(block)
        if text is None:
            yield from self._settle(at)
            yield self._said(at, whose[0], content([block]))
            return
        if self._growing is None or self._growing[0] != whose:
            yield from self._settle(at)
            yield self._begins(at, whose, text)
        elif text:
            yield Grew(key=self._key, message_id=self._growing[1], text=text)

    def _thought(self, at: int, block: dict[str, object]) -> Iterator[Step]:
        if self._growing is not None:
            yield from self._settle(at)
        text = word(block.get("text")) or ""
        if self._thought_chars < ACP_THOUGHT_CHARS:
            self._thoughts.append(text[: ACP_THOUGHT_CHARS - self._thought_chars])
            self._thought_chars += len(text)

    def _tool(self, at: int, update: dict[str, object]) -> Iterator[Step]:
        number = word(update.get("toolCallId"))
        if number is None:
            return
        call = self._calls.get(number)
        if call is None:
            if update.get("sessionUpdate") == "tool_call_update" and update.get("status") not in _OVER:
                return  # an afterthought: its result is there already
            yield from self._settle(at)
            begun = self._said(at, "assistant", "", status="streaming", tool_calls=[_called(update)])
            assert begun.message.id is not None
            call = self._calls[number] = _Call(begun.message.id, {})
            if len(self._calls) > _CALLS:
                del self._calls[next(iter(self._calls))]
            yield begun
        call.take(update)
        if call.given.get("status") in _OVER:
            yield from self._settle(at)  # what the agent said while the tool ran comes before the result
            del self._calls[number]
            yield self._call_ended(call, "done")
            said = {name: call.given[name] for name in ("status", "title", "kind", "locations") if name in call.given}
            brought = result(call.given, "".join(call.output))
            yield self._said(at, "tool", brought, tool_call_id=number, metadata={"acp": said})

    def _call_ended(self, call: _Call, status: str) -> Ended:
        return Ended(key=self._key, message_id=call.message_id, status=status, tool_calls=[_called(call.given)])

    def _settle(self, at: int, status: str = "done", metadata: dict[str, Any] | None = None) -> Iterator[Step]:
        """End the text that grows."""
        if self._growing is not None:
            (_, message_id), self._growing = self._growing, None
            yield Ended(key=self._key, message_id=message_id, status=status, metadata=metadata)

    def _begins(self, at: int, whose: tuple[str, object], text: str) -> Said:
        begun = self._said(at, whose[0], text, status="streaming")
        assert begun.message.id is not None
        self._growing = (whose, begun.message.id)
        return begun

    def _said(self, at: int, role: str, said: str | list[object], **more: Any) -> Said:
        """A message with the next id; an assistant's takes the thoughts before it."""
        self._count += 1
        thinking = None
        if role == "assistant" and self._thoughts:
            thinking = "".join(self._thoughts)
            self._thoughts.clear()
            self._thought_chars = 0
        time = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = NewMessage(
            id=f"{self._name}-{self._count}", role=role, content=said, timestamp=time, thinking=thinking, **more
        )
        return Said(key=self._key, message=message)


def _called(given: dict[str, object]) -> ToolCall:
    meta = mapped(mapped(given.get("_meta")).get("claudeCode"))
    name = word(meta.get("toolName")) or word(given.get("title")) or word(given.get("kind")) or "tool"
    raw = given.get("rawInput")
    arguments = raw if isinstance(raw, (dict, str)) else {} if raw is None else {"input": raw}
    return ToolCall(id=str(given.get("toolCallId")), name=name, arguments=arguments)
