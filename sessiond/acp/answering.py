"""The agent answers what others say in its session: in a window of VS Code, for example.

The daemon asks whoever has said, when it opened the session, that it answers (`session/asked`). The message is in the session then.
It goes to the agent as the prompt of a visitor, with its id, so that it is not recorded a second time; the editor sees it as it
sees the prompts of all who have joined. What the agent says is recorded like everything that it says.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from sessiond.acp import visitor
from sessiond.acp.turn import MESSAGE_ID
from sessiond.client import Asked, Interrupted, Message
from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.aio.session import AsyncSession
from sessiond.endpoint import NoHome
from sessiond.errors import SessiondError

_NEWEST = 50
"""The message that the agent is asked to answer is among the last ones."""


class Answering:
    """Of one connection. `pid`: of the process that has the agent."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._following: dict[str, asyncio.Task[None]] = {}
        """By the agent's id of a session."""
        self._prompts: set[asyncio.Task[None]] = set()

    def follow(self, key: str, session: AsyncSession) -> None:
        """Answer in a session, from now on."""
        if key not in self._following:
            self._following[key] = asyncio.create_task(self._follow(key, session), name=f"answer {key}")

    def close(self) -> None:
        """The connection has ended."""
        for task in (*self._following.values(), *self._prompts):
            task.cancel()

    async def _follow(self, key: str, session: AsyncSession) -> None:
        changes: AsyncChanges | None = None
        try:
            changes = await session.changes(answers=True)
            async for change in changes:
                if isinstance(change, Asked):
                    self._begin(self._prompt(key, session, change.message_id))
                elif isinstance(change, Interrupted):
                    self._begin(self._cancel(key))
        except SessiondError as error:
            print(f"{key} is not answered from elsewhere: {error.message}", file=sys.stderr, flush=True)
        finally:
            if changes is not None:
                changes.close()

    def _begin(self, doing: Any) -> None:
        task = asyncio.create_task(doing, name="prompt")
        self._prompts.add(task)
        task.add_done_callback(self._prompts.discard)

    async def _prompt(self, key: str, session: AsyncSession, message_id: str) -> None:
        try:
            found = await session.messages(last=_NEWEST)
            message = next((one for one in found if one.id == message_id), None)
            if message is None:
                print(f"{message_id} in {key} is not answered: it is gone", file=sys.stderr, flush=True)
                return
            params = {"sessionId": key, "prompt": _blocks(message), "_meta": {MESSAGE_ID: message_id}}
            await visitor.ask(self._pid, key, "sessiond", {"method": "session/prompt", "params": params})
        except (SessiondError, NoHome, OSError, TimeoutError) as error:
            print(f"{message_id} in {key} is not answered: {error}", file=sys.stderr, flush=True)

    async def _cancel(self, key: str) -> None:
        try:
            await visitor.say(self._pid, key, "sessiond", {"method": "session/cancel", "params": {"sessionId": key}})
        except (NoHome, OSError, TimeoutError) as error:
            print(f"{key} is not cancelled: {error}", file=sys.stderr, flush=True)


def _blocks(message: Message) -> list[dict[str, Any]]:
    """As the protocol has them; of other blocks, what they say."""
    if isinstance(message.content, list) and all(_is_text(block) for block in message.content):
        return [{"type": "text", "text": block["text"]} for block in message.content]
    return [{"type": "text", "text": message.text}]


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
