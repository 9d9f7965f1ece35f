"""A session becomes private while requests are under way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sessiond.client import AsyncSession, aconnect
from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.dialing import target
from sessiond.mcp.memory import Memory
from sessiond.mcp.refusals import Refused
from sessiond.mcp.resources import markdown
from sessiond.mcp.scope import Scope
from sessiond.mcp.tools import READING, WRITING, ToolDefinition, run
from tests.mcp.served import ask, served
from tests.shell import Shell

ROUNDS = 25


async def test_what_was_private_before_a_request_is_not_in_its_result(shell: Shell) -> None:
    """While one task tags and untags sessions, others search, list, read and tag. A request that began after the tag was acknowledged
    never shows a word that was said under it; and tagging something else at the same time never takes `private` away.
    """
    assert shell("status").code == 0
    rng = random.Random(7)
    async with (
        await aconnect(home=str(shell.path)) as daemon,
        served(shell, "--write") as client,
    ):
        chats = [await daemon.new(id=f"chat{n}", name="elephant") for n in range(4)]
        for chat in chats:
            await chat.append("user", "a word of elephant")
        secrets: dict[str, str] = {}
        """Session that is private and stays so -> a word that was said since."""

        async def hide() -> None:
            for n in range(ROUNDS):
                chat = rng.choice(chats)
                while True:
                    await chat.update(tags=["private"])
                    await asyncio.sleep(0)
                    if "private" in (await chat.info()).tags:
                        break
                await chat.append("user", f"elephant secret{n}x")
                secrets[chat.id] = f"secret{n}x"
                await asyncio.sleep(0.01)
                assert "private" in (await chat.info()).tags, "somebody took the tag away"
                del secrets[chat.id]
                await chat.truncate((await chat.messages())[0].seq)
                await chat.update(tags=[])

        async def look(done: asyncio.Task[None]) -> None:
            while not done.done():
                before = dict(secrets)
                tool, arguments = rng.choice([
                    ("search", {"query": "elephant", "limit": 2}), ("search", {"query": "secret.*x", "mode": "regex"}), ("list", {}),
                    ("read", {"sessionId": rng.choice(chats).id}), ("tag", {"sessionId": rng.choice(chats).id, "add": [f"t{rng.random()}"]}),
                ])  # fmt: skip
                result = await client.call_tool(tool, arguments)
                said = str(result.structured_content) + str(result.content)
                for session_id, word in before.items():
                    assert word not in said
                    if secrets.get(session_id) == word and tool in ("search", "list"):
                        assert f"'{session_id}'" not in said

        hiding = asyncio.create_task(hide())
        await asyncio.gather(*[look(hiding) for _ in range(4)], hiding)
        assert len((await ask(client, "search", query="elephant", limit=50))["hits"]) >= 8


class Interrupted(AsyncSessiond):
    """A client that does something before its `at`-th request to the daemon (0: never)."""

    at = 0
    asked = 0

    def begin(self, at: int, then: Callable[[], Awaitable[None]]) -> None:
        self.at, self.asked, self._then = at, 0, then
        original = type(self._link).answer

        async def answer(request: Any, timeout_s: float | None = None) -> Any:
            self.asked += 1
            if self.asked == self.at:
                await self._then()
            return await original(self._link, request, timeout_s)

        self._link.answer = answer  # type: ignore[method-assign]


CALLS: list[tuple[ToolDefinition | None, dict[str, Any]]] = [
    (READING[0], {"query": "elephant"}),
    (READING[0], {"query": "elephant", "mode": "regex", "limit": 1}),
    (READING[1], {"sessionId": "ID", "notes": True}),
    (READING[1], {"sessionId": "ID", "around": 1}),
    (READING[1], {"sessionId": "ID", "after": 1}),
    (READING[2], {"limit": 1}),
    (WRITING[2], {"sessionId": "ID", "add": ["zoo"]}),
    (None, {}),
]


@pytest.mark.parametrize("redact", [False, True], ids=["", "redact"])
@pytest.mark.parametrize("number", range(len(CALLS)))
async def test_a_session_becomes_private_between_any_two_steps(shell: Shell, number: int, redact: bool) -> None:
    """Before each request that a tool sends to the daemon, the session is tagged `private`, and more is said in it. Wherever that
    happens, nothing of it is in the result, and no tool takes the tag away.
    """
    assert shell("status").code == 0
    tool, arguments = CALLS[number]
    there = target(None, token=None, token_file=None, home=str(shell.path), start=True)
    async with await aconnect(home=str(shell.path)) as other, Interrupted(there, "mcp", 30) as client:
        memory = Memory(client, Scope(None), redact=redact)
        await (await other.new(id="other")).append("user", "an elephant")
        at, asked = 0, 1
        while at <= asked:
            chat = await other.new(id=f"chat{at}", name="an elephant")
            for text in ("elephant one", "elephant two", "elephant three"):
                await chat.append("user", text)

            async def hide(chat: AsyncSession = chat) -> None:
                await chat.update(tags=["private"], name="elephant hidden")
                await chat.append("user", "elephant hidden")
                await chat.note("elephant hidden", "elephant hidden")

            client.begin(at, hide)
            if tool is None:
                try:
                    said = await markdown(memory, f"sessiond://session/{chat.id}")
                except Refused as refused:
                    said = str(refused)
            else:
                given = {key: chat.id if value == "ID" else value for key, value in arguments.items()}
                said = str(await run(memory, tool, given))
            asked = max(asked, client.asked)
            assert "hidden" not in said, (at, said)
            assert at == 0 or client.asked < at or "private" in (await chat.info()).tags, at
            await chat.delete(permanent=True)
            at += 1
        assert asked >= 2
