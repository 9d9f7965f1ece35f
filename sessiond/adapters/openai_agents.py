"""The OpenAI Agents SDK's `Session`: `Runner.run(agent, "Hello", session=SessiondSession("chat"))`. Extra: `openai-agents`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from sessiond.adapters import clients, transcript
from sessiond.adapters.extras import missing
from sessiond.adapters.items import arguments, derived_id, item_in, readable, session_id_of, whole
from sessiond.client import Message, NewMessage, SessionNotFound, ToolCall

try:
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
    from agents.models.fake_id import FAKE_RESPONSES_ID
except ImportError as error:
    raise missing("openai-agents", error) from error

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

KEY = "openai-agents"
"""In a message's metadata: the item as the SDK gave it."""
_SPOKEN = ("user", "assistant", "system", "developer")


class SessiondSession(SessionABC):
    """A conversation in the session `session_id`, which the first item makes. Other clients may write to it too.

    `session_id`: the id of a session (`ID` or `STORE/ID`), or any other text, from which an id is made. `session_settings`: as for
    the SDK's own sessions. `home`: another SESSIOND_HOME. `name`, `model`, `cwd`, `tags`: of the session, if it is made here.
    """

    def __init__(
        self,
        session_id: str,
        *,
        store: str | None = None,
        home: str | None = None,
        session_settings: SessionSettings | None = None,
        name: str | None = None,
        model: str | None = None,
        cwd: str | None = None,
        tags: Iterable[str] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        own_id = session_id_of(session_id)
        self.id = f"{store}/{own_id}" if store else own_id
        """Of the session, as other clients see it."""
        self._home = home
        self._fields = {"name": name, "model": model, "cwd": cwd, "tags": tags, "metadata": {"source": {"tool": KEY}}}

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest `limit` items, oldest first; all of them if it is None or negative. TooLarge."""
        most = resolve_session_limit(limit, self.session_settings)
        if most == 0:
            return []
        session = (await clients.aclient(self._home)).session(self.id)
        try:
            if most is None or most < 0:
                return [item for one in await session.messages() for item in items_of(one)]
            found: list[TResponseInputItem] = []
            before: int | None = None
            while len(found) < most:
                page = await session.messages(last=most - len(found), before=before)
                if not page:
                    break
                found = [item for one in page for item in items_of(one)] + found
                before = page[0].seq
            return found[-most:]
        except SessionNotFound:
            return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items; durable on return. An item with an id that is there already, with the same content, adds nothing.
        TooLarge, ReadOnly.
        """
        if items:
            client = await clients.aclient(self._home)
            await transcript.aappend(client, self.id, [message_of(one) for one in items], **self._fields)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none. A message that another tool wrote may be several items:
        it goes as a whole, and its last item is returned.
        """
        client = await clients.aclient(self._home)
        while (newest := await transcript.apop(client, self.id)) is not None:
            if items := items_of(newest):
                return items[-1]
        return None

    async def clear_session(self) -> None:
        """Remove all items. They are in the trash."""
        await transcript.aclear(await clients.aclient(self._home), self.id)


def message_of(given: TResponseInputItem) -> NewMessage:
    """The message for an item. TypeError, ValueError if the item has no JSON."""
    item = cast("dict[str, Any]", given)
    # A `call_id` identifies nothing: some servers number their calls from the beginning in each turn.
    identity = None if item.get("id") == FAKE_RESPONSES_ID else item.get("id")
    fields: dict[str, Any] = {"id": identity and derived_id(f"{item.get('type', 'item')}.{identity}", item)}
    kind, role = item.get("type", "message"), item.get("role")
    if isinstance(role, str) and role and kind == "message":
        content = readable(item.get("content"))
        plain = list(item) == ["role", "content"] and item["content"] == content != "" and role in _SPOKEN
        return NewMessage(role=role, content=content, metadata=None if plain else whole(KEY, item), **fields)
    fields["metadata"] = whole(KEY, item)
    call_id = str(item.get("call_id") or item.get("id") or "")
    if kind == "reasoning":
        return NewMessage(role="assistant", content="", thinking=readable(item.get("summary")) or None, **fields)
    if str(kind).endswith("_output"):
        output = item.get("output", item.get("tools", ""))
        return NewMessage(role="tool", content=readable(output), tool_call_id=call_id or None, **fields)
    if str(kind).endswith("_call"):
        name = item.get("name") if isinstance(item.get("name"), str) else str(kind).removesuffix("_call")
        given_arguments = item.get("arguments", item.get("input", item.get("action", {})))
        call = ToolCall(id=readable(call_id) or "call", name=readable(name), arguments=arguments(given_arguments))
        return NewMessage(role="assistant", content="", tool_calls=[call], **fields)
    return NewMessage(role="system", content=f"[{readable(kind)}]", **fields)


def items_of(message: Message) -> list[TResponseInputItem]:
    """The items in a message: the one that this adapter put there, or what another tool's message amounts to."""
    kept = item_in(message, KEY)
    if isinstance(kept, Mapping):
        return [cast("TResponseInputItem", kept)]
    found: list[Any] = []
    if message.role == "tool":
        found.append({"type": "function_call_output", "call_id": message.tool_call_id or "", "output": message.text})
    elif message.text:
        role = message.role if message.role in _SPOKEN else "system"
        found.append({"role": role, "content": message.text})
    for call in message.tool_calls or ():
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        found.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": text})
    return found
