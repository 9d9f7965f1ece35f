"""A process that writes to a session: `python -m tests.adapters.writer SDK WHO COUNT` says each number once it is acknowledged.
Items have ids, as a model's have. As a function, with WHO `read`, it gives all texts.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any


async def agents(who: str, count: int) -> list[str]:
    from sessiond.adapters.openai_agents import SessiondSession

    session = SessiondSession("shared")
    for number in range(count):
        part = {"type": "output_text", "text": f"{who} {number}", "annotations": []}
        item: Any = {
            "type": "message",
            "id": f"msg_{who}{number}",
            "role": "assistant",
            "content": [part],
            "status": "completed",
        }
        await session.add_items([item])
        print(number, flush=True)
    items: list[Any] = await session.get_items() if who == "read" else []
    return [one["content"][0]["text"] for one in items]


async def claude(who: str, count: int) -> list[str]:
    from sessiond.adapters.claude_agent_sdk import SessiondStore

    store, key = SessiondStore(), {"project_key": "p", "session_id": "shared"}
    for number in range(count):
        entry: Any = {
            "type": "user",
            "uuid": f"{who}{number}",
            "message": {"role": "user", "content": f"{who} {number}"},
        }
        await store.append(key, [entry])  # type: ignore[arg-type]
        print(number, flush=True)
    entries: list[Any] = (await store.load(key) if who == "read" else None) or []  # type: ignore[arg-type]
    return [one["message"]["content"] for one in entries]


async def langchain(who: str, count: int) -> list[str]:
    from langchain_core.messages import AIMessage

    from sessiond.adapters.langchain import SessiondChatMessageHistory

    history = SessiondChatMessageHistory("shared")
    for number in range(count):
        history.add_messages([AIMessage(f"{who} {number}", id=f"run--{who}{number}")])
        print(number, flush=True)
    return [str(one.content) for one in history.messages] if who == "read" else []


SDKS = {"openai-agents": agents, "claude-agent-sdk": claude, "langchain": langchain}

if __name__ == "__main__":
    asyncio.run(SDKS[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
