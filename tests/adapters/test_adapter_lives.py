"""Lives of every adapter under kill -9 (`lives.py`), and two processes that write to one session at once (`writer.py`)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from typing import Any, ClassVar

import pytest
from langchain_core.messages import AIMessage, HumanMessage, message_to_dict

from sessiond.adapters.claude_agent_sdk import SessiondStore
from sessiond.adapters.langchain import SessiondChatMessageHistory
from sessiond.adapters.openai_agents import SessiondSession
from tests.adapters.conftest import KilledHome
from tests.adapters.lives import live, some, spoken
from tests.adapters.writer import SDKS
from tests.shell import ROOT
from tests.suite.explore import seeds

LIVES = seeds(few=1, usual=2)
STEPS, KILLS = 40, 6


class Agents:
    def __init__(self, session: SessiondSession) -> None:
        self.session = session

    async def step(self, rng: random.Random, model: list[Any], number: int) -> None:
        kind = rng.choice(("add", "add", "add", "again", "pop", "pop", "clear" if rng.random() < 0.3 else "add"))
        if kind == "again" and (known := [one for one in model if "id" in one]):
            await self.session.add_items(rng.sample(known, 1))
        elif kind == "pop":
            wanted = model.pop() if model else None
            assert await self.session.pop_item() == wanted
        elif kind == "clear":
            model.clear()
            await self.session.clear_session()
        else:
            added = some(rng, lambda part: self._item(rng, f"{number}.{part}"))
            model += added
            await self.session.add_items(added)

    def _item(self, rng: random.Random, name: str) -> Any:
        said: dict[str, Any] = {"role": "user", "content": spoken(len(name), rng) + name}
        return (
            said
            if rng.random() < 0.5
            else {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "f", "arguments": "{}"}
        )

    async def all(self) -> list[Any]:
        return list(await self.session.get_items())


class Claude:
    key: ClassVar[Any] = {"project_key": "p", "session_id": "s"}

    def __init__(self, store: SessiondStore) -> None:
        self.store = store

    async def step(self, rng: random.Random, model: list[Any], number: int) -> None:
        if rng.random() < 0.05:
            model.clear()
            await self.store.delete(self.key)
            return
        entries = some(rng, lambda part: self._entry(rng, f"{number}.{part}"))
        known = [one for one in model if "uuid" in one]
        entries += rng.sample(known, min(len(known), rng.choice((0, 0, 2))))
        rng.shuffle(entries)
        model += [one for one in entries if one not in known]
        await self.store.append(self.key, entries)

    def _entry(self, rng: random.Random, name: str) -> Any:
        said: dict[str, Any] = {
            "type": "user",
            "message": {"role": "user", "content": spoken(len(name), rng)},
            "name": name,
        }
        return {**said, "uuid": f"u{name}"} if rng.random() < 0.7 else said

    async def all(self) -> list[Any]:
        return list(await self.store.load(self.key) or [])


class Langchain:
    """`blocking`: by the methods that block, in a thread."""

    def __init__(self, history: SessiondChatMessageHistory, *, blocking: bool) -> None:
        self.history = history
        self.blocking = blocking

    async def step(self, rng: random.Random, model: list[Any], number: int) -> None:
        if rng.random() < 0.1:
            model.clear()
            await (asyncio.to_thread(self.history.clear) if self.blocking else self.history.aclear())
            return
        messages = some(rng, lambda part: self._message(rng, f"{number}.{part}"))
        model += [message_to_dict(one) for one in messages]
        if self.blocking:
            await asyncio.to_thread(self.history.add_messages, messages)
        else:
            await self.history.aadd_messages(messages)

    def _message(self, rng: random.Random, name: str) -> Any:
        text = spoken(len(name), rng) + name
        return HumanMessage(text) if rng.random() < 0.5 else AIMessage(text, id=name)

    async def all(self) -> list[Any]:
        told = (
            await asyncio.to_thread(lambda: self.history.messages)
            if self.blocking
            else await self.history.aget_messages()
        )
        return [message_to_dict(one) for one in told]


@pytest.mark.parametrize("number", LIVES)
async def test_agents_sessions_are_plain_lists(at_home: KilledHome, number: int) -> None:
    """Items added, sent again, popped and cleared by two clients while the daemon is killed in the middle of operations."""
    sides = [Agents(SessiondSession("s")), Agents(SessiondSession("s", home=str(at_home.path)))]
    await live(at_home, sides, f"agents {number}", steps=STEPS, kills=KILLS)


@pytest.mark.parametrize("number", LIVES)
async def test_transcripts_are_plain_lists(at_home: KilledHome, number: int) -> None:
    """Entries appended, sent again and deleted by two clients while the daemon is killed: each uuid is there once."""
    sides = [Claude(SessiondStore()), Claude(SessiondStore(home=str(at_home.path)))]
    await live(at_home, sides, f"claude {number}", steps=STEPS, kills=KILLS)


@pytest.mark.parametrize("number", LIVES)
async def test_chat_histories_are_plain_lists(at_home: KilledHome, number: int) -> None:
    """Messages added and cleared by a blocking and an asynchronous client while the daemon is killed."""
    history = SessiondChatMessageHistory("s")
    sides = [Langchain(history, blocking=True), Langchain(history, blocking=False)]
    await live(at_home, sides, f"langchain {number}", steps=STEPS, kills=KILLS)


def writer(home: KilledHome, sdk: str, who: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.adapters.writer", sdk, who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=home.env, cwd=ROOT)


def told(sdk: str) -> list[list[str]]:
    """Writer and number of every item."""
    return [one.split(" ")[:2] for one in asyncio.run(SDKS[sdk]("read", 0))]


def acknowledged(one: subprocess.Popen[str], number: int) -> None:
    """Returns when the writer has said this number, or one after it."""
    assert one.stdout is not None
    while int(one.stdout.readline()) < number:
        pass


@pytest.mark.parametrize("sdk", list(SDKS))
def test_two_processes_write_to_one_session(at_home: KilledHome, sdk: str) -> None:
    """While the daemon is killed three times: nothing is lost or doubled, and each writer's order holds."""
    count = 60
    writers = [writer(at_home, sdk, who, count) for who in "ab"]
    for number in (15, 30, 45):
        for one in writers:
            acknowledged(one, number)
        assert at_home.kill_now()
    for one in writers:
        one.communicate(timeout=60)
        assert one.returncode == 0
    found = told(sdk)
    for who in "ab":
        assert [number for name, number in found if name == who] == [str(number) for number in range(count)]
    assert len(found) == 2 * count


@pytest.mark.parametrize("sdk", list(SDKS))
def test_a_killed_writer_begins_again(at_home: KilledHome, sdk: str) -> None:
    """A process that is killed in the middle and then repeats everything from the first item leaves each item once."""
    killed = writer(at_home, sdk, "a", 60)
    acknowledged(killed, 23)
    killed.kill()
    killed.communicate(timeout=60)
    again = writer(at_home, sdk, "a", 60)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert told(sdk) == [["a", str(number)] for number in range(60)]
