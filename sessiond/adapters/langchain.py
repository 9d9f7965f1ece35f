"""LangChain's chat history: `SessiondChatMessageHistory("chat")` for `RunnableWithMessageHistory`. Extra: `langchain`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessiond.adapters import clients, transcript
from sessiond.adapters.extras import missing
from sessiond.adapters.items import arguments, derived_id, item_in, readable, session_id_of, whole
from sessiond.client import Message, NewMessage, SessionNotFound, ToolCall

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        message_to_dict,
        messages_from_dict,
    )
except ImportError as error:
    raise missing("langchain", error) from error

KEY = "langchain"
"""In a message's metadata: what `message_to_dict` makes of it."""
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


class SessiondChatMessageHistory(BaseChatMessageHistory):
    """The messages of the session `session_id`, which the first message makes. Other clients may write to it too.

    `session_id`: the id of a session, or any other text, from which an id is made. `store`: where it is. `home`: another
    SESSIOND_HOME. `last`: only the newest messages are read. `name`, `model`, `cwd`, `tags`: of the session, if it is made here.
    """

    def __init__(
        self,
        session_id: str,
        *,
        store: str | None = None,
        home: str | None = None,
        last: int | None = None,
        name: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] | None = None,
    ) -> None:
        own_id = session_id_of(session_id)
        self.id = f"{store}/{own_id}" if store else own_id
        """Of the session, as other clients see it."""
        self._home = home
        self._last = last
        self._fields = {"name": name, "model": model, "cwd": cwd, "tags": tags, "metadata": {"source": {"tool": KEY}}}

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base has it as an attribute; its own stores do this too
        """All messages, oldest first, or the newest `last`. TooLarge."""
        try:
            return _read(clients.client(self._home).session(self.id).messages(last=self._last))
        except SessionNotFound:
            return []

    async def aget_messages(self) -> list[BaseMessage]:
        """Return all messages, oldest first, or the newest `last`. TooLarge."""
        try:
            return _read(await (await clients.aclient(self._home)).session(self.id).messages(last=self._last))
        except SessionNotFound:
            return []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages; durable on return. One with an `id` that is there already, with the same content, adds nothing.
        TooLarge, ReadOnly.
        """
        if messages:
            transcript.append(
                clients.client(self._home), self.id, [message_of(one) for one in messages], **self._fields
            )

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages as `add_messages` does."""
        if messages:
            client = await clients.aclient(self._home)
            await transcript.aappend(client, self.id, [message_of(one) for one in messages], **self._fields)

    def clear(self) -> None:
        """Remove all messages. They are in the trash."""
        transcript.clear(clients.client(self._home), self.id)

    async def aclear(self) -> None:
        """Remove all messages as `clear` does."""
        await transcript.aclear(await clients.aclient(self._home), self.id)


def message_of(given: BaseMessage) -> NewMessage:
    """The message for one of LangChain's."""
    item = message_to_dict(given)
    role = _ROLES.get(given.type.removesuffix("MessageChunk").lower(), getattr(given, "role", given.type))
    calls = getattr(given, "tool_calls", None) if isinstance(given, AIMessage) else None
    call_id = getattr(given, "tool_call_id", None)
    thinking = [
        text
        for one in (given.content if isinstance(given.content, list) else [])
        if isinstance(one, dict) and isinstance(text := one.get("thinking", one.get("reasoning")), str)
    ]
    return NewMessage(
        role=readable(role) or "user",
        content=_text(given.content),
        id=derived_id(given.id, item) if given.id else None,
        tool_calls=[
            ToolCall(id=readable(one["id"]) or "call", name=readable(one["name"]), arguments=arguments(one["args"]))
            for one in calls or ()
        ]
        or None,
        tool_call_id=(readable(call_id) or None) if role == "tool" else None,
        thinking=readable("\n".join(thinking)) or None,
        metadata={**whole(KEY, item), **_tokens(given)},
    )


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return readable(content)
    hidden = ("thinking", "reasoning", "tool_use", "tool_call")
    return readable([one for one in content if not (isinstance(one, dict) and one.get("type") in hidden)])


def _tokens(given: BaseMessage) -> dict[str, Any]:
    """Return what `sessiond stats` counts. LangChain's input includes what the cache holds."""
    used = getattr(given, "usage_metadata", None)
    if not used:
        return {}
    sent, made = used.get("input_token_details") or {}, used.get("output_token_details") or {}
    read, written = sent.get("cache_read") or 0, sent.get("cache_creation") or 0
    tokens = {
        "input": max(0, used.get("input_tokens", 0) - read - written),
        "cacheRead": read,
        "cacheWrite": written,
        "output": used.get("output_tokens", 0),
        "reasoning": made.get("reasoning") or 0,
    }
    model = given.response_metadata.get("model_name") or given.response_metadata.get("model")
    return {"tokens": {**tokens, "model": model} if isinstance(model, str) else tokens}


def _read(messages: Iterable[Message]) -> list[BaseMessage]:
    return [found for one in messages if (found := langchain_message_of(one)) is not None]


def langchain_message_of(message: Message) -> BaseMessage | None:
    """The message that this adapter put there, or what another tool's message amounts to; None if it has nothing to say."""
    kept = item_in(message, KEY)
    if isinstance(kept, Mapping):
        return messages_from_dict([dict(kept)])[0]
    match message.role:
        case "tool":
            return ToolMessage(content=message.text, tool_call_id=message.tool_call_id or "", id=message.id)
        case "assistant":
            calls: list[Any] = [
                {"id": one.id, "name": one.name, "args": _as_object(one.arguments)} for one in message.tool_calls or ()
            ]
            return AIMessage(content=message.text, tool_calls=calls, id=message.id) if message.text or calls else None
        case "user":
            return HumanMessage(content=message.text, id=message.id)
    return SystemMessage(content=message.text, id=message.id) if message.text else None


def _as_object(given: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    try:
        value = json.loads(given)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": given}
