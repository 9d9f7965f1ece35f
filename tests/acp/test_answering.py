"""Which answer a Stop is about, when what runs is not known exactly."""

from __future__ import annotations

import asyncio
from typing import Any

from sessiond.acp.answering import Answering
from sessiond.client import Asked, Interrupted


class Scripted:
    """A session in which things are asked and stopped, and an agent whose last turn has ended before that is known here."""

    id = "a"

    def __init__(self) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.over = asyncio.Event()
        self.looked_for: list[str] = []

    async def changes(self, *, answers: bool) -> Scripted:
        assert answers
        return self

    def __aiter__(self) -> Scripted:
        return self

    async def __anext__(self) -> Any:
        return await self.told.get()

    def close(self) -> None:
        pass

    async def messages(self, *, last: int) -> list[Any]:
        self.looked_for.append(f"the last {last}")
        return []

    def runs(self, key: str) -> bool:
        return not self.over.is_set()

    async def idle(self, key: str) -> None:
        await self.over.wait()


async def test_a_stop_is_about_its_own_message() -> None:
    """The message waits for the end of a turn, which has ended by now: the agent must not get it, and the others come."""
    scripted = Scripted()
    answering = Answering(1, scripted, frozenset(), _nothing)  # type: ignore[arg-type]
    answering.follow("s1", scripted)  # type: ignore[arg-type]
    for change in (
        Asked(session_id="a", seq=1, message_id="stopped"),
        Interrupted(session_id="a", seq=1, message_id="stopped"),
        Asked(session_id="a", seq=2, message_id="wanted"),
    ):
        scripted.told.put_nowait(change)
    await _turns()
    conversation = answering._conversations["s1"]
    assert list(conversation._waiting) == ["wanted"]
    scripted.over.set()
    await _turns()
    assert len(scripted.looked_for) == 1
    scripted.told.put_nowait(
        Interrupted(session_id="a", seq=2, message_id="stopped")
    )  # once more: nothing is to be stopped
    await _turns()
    answering.close()


async def _nothing(key: str) -> None:
    raise AssertionError(key)


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
