"""rpc/early.py: the answer that a thread may send before the loop does."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from sessiond.errors import SessiondError
from tests.rpc.rpc_fakes import FakeService, world


class Racing(FakeService):
    """Answers from a thread and on the loop at about the same time. `broken`: every third append fails on the loop after that."""

    def __init__(self, rng: random.Random, broken: bool) -> None:
        super().__init__()
        self.rng = rng
        self.broken = broken
        self.by_thread = 0

    async def append(self, peer: Any, session_id: str, messages: list[Any], *_: Any, early: Any = None) -> Any:
        result = await super().append(peer, session_id, messages)
        if early is None:  # an earlier answer is due
            return result
        send = early.when_durable(result)
        told: list[bool] = []
        thread = threading.Thread(target=lambda: told.append(send()))
        if self.rng.random() < 0.8:
            thread.start()
            if self.rng.random() < 0.5:
                thread.join()
        if self.rng.random() < 0.5:
            await asyncio.sleep(0)
        self.by_thread += told == [True]
        if self.broken and told == [True] and self.rng.random() < 0.3:
            raise SessiondError("it went wrong after it was durable")
        return result


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_one_answer_whoever_is_first(seed, broken):
    """Each request has one answer, the right one, though a thread and the loop race for it; an error on the loop after the
    answer is out is not a second answer.
    """
    rng = random.Random(seed)
    async with world() as one:
        one.service = one.server.service = Racing(rng, broken)
        client = await one.client(lines=True)
        await client.call("session/new", {"sessionId": "s"})
        asked: list[int] = []
        answers: dict[int, Any] = {}
        for number in range(60):
            params = {"sessionId": "s", "messages": [{"role": "user", "content": f"word {number}"}]}
            asked.append(client.request("session/append", params))
            while len(answers) < len(asked) and rng.random() < 0.9:
                message = await client.receive()
                if "id" in message:
                    assert message["id"] not in answers, "answered twice"
                    answers[message["id"]] = message
        while len(answers) < len(asked):
            message = await client.receive()
            if "id" in message:
                assert message["id"] not in answers, "answered twice"
                answers[message["id"]] = message
        assert all("result" in answers[request] for request in asked)
        assert one.service.by_thread
        end = client.request("daemon/hello")
        while (message := await client.receive()).get("id") != end:
            assert "id" not in message, "answered twice"


async def test_a_thread_that_comes_late_sends_nothing():
    """The loop has answered: the thread's answer is not sent, and the thread learns that."""
    sends: list[Any] = []

    class Keeping(FakeService):
        async def append(self, peer: Any, session_id: str, messages: list[Any], *_: Any, early: Any = None) -> Any:
            result = await super().append(peer, session_id, messages)
            sends.append(early.when_durable(result))
            return result

    async with world() as one:
        one.service = one.server.service = Keeping()
        client = await one.client()
        await client.call("session/new", {"sessionId": "s"})
        await client.call("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": "a"}]})
        assert await asyncio.to_thread(sends[0]) is False
        end = client.request("daemon/hello")
        assert (await client.receive())["id"] == end


async def test_nobody_waits_for_the_answer_to_a_notification():
    """So there is nothing to send early."""
    seen = []

    class Looking(FakeService):
        async def append(self, peer: Any, session_id: str, messages: list[Any], *_: Any, early: Any = None) -> Any:
            seen.append(early)
            return await super().append(peer, session_id, messages)

    async with world() as one:
        one.service = one.server.service = Looking()
        client = await one.client()
        await client.call("session/new", {"sessionId": "s"})
        client.notify("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": "a"}]})
        for content in ("b", "c"):
            await client.call("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": content}]})
        assert seen[0] is None
        assert seen[2] is not None
