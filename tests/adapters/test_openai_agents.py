"""`sessiond.adapters.openai_agents` behaves as the SDK's own sessions do, and writes a session that people can read."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, SessionSettings, SQLiteSession, Usage, function_tool
from agents.memory import Session
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary

from sessiond.adapters.openai_agents import SessiondSession, items_of, message_of
from sessiond.client import Appended, Message, NewMessage, aconnect
from tests.adapters.conftest import KilledHome

NO_TRACES = RunConfig(tracing_disabled=True)


def spoken(*texts: str) -> list[Any]:
    return [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]


class Scripted(Model):
    """A model that says what it was given, turn by turn, and remembers what it was asked."""

    def __init__(self, *turns: list[Any]) -> None:
        self.turns = list(turns)
        self.asked: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        self.asked.append(copy.deepcopy(input))
        return ModelResponse(output=self.turns.pop(0), usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        said = (await self.get_response(system_instructions, input)).output
        response = Response(
            id="r",
            created_at=1,
            model="scripted",
            object="response",
            output=said,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def says(text: str, id: str = "msg_1") -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id=id, type="message", role="assistant", status="completed", content=[part])


def thinks(text: str, id: str = "rs_1") -> ResponseReasoningItem:
    return ResponseReasoningItem(
        id=id, type="reasoning", summary=[Summary(text=text, type="summary_text")], encrypted_content="c2VjcmV0"
    )


def calls(name: str, id: str = "fc_1", **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id=id, call_id=f"call_{id}", type="function_call", name=name, arguments=json.dumps(arguments)
    )


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


async def test_it_is_a_session(at_home: KilledHome) -> None:
    """The SDK takes it for one of its own."""
    session = SessiondSession("chat")
    assert isinstance(session, Session) and session.session_id == "chat"


@pytest.mark.parametrize("streamed", [False, True], ids=["run", "run_streamed"])
async def test_a_run_is_seen_while_it_runs(at_home: KilledHome, streamed: bool) -> None:
    """A turn with thinking, a tool call and its result: another client gets each as it is written, readable, and can find it."""
    model = Scripted([thinks("A tool knows."), calls("weather", city="Ulm")], [says("Take an umbrella.")])
    agent = Agent(name="a", model=model, tools=[weather])
    session = SessiondSession("trip", name="A trip", tags=["agents"])
    async with await aconnect(name="watcher") as sessiond:
        await sessiond.new(id="trip", name="A trip")
        async with await sessiond.session("trip").changes(since=0) as changes:
            if streamed:
                result = Runner.run_streamed(agent, "Rain in Ulm?", session=session, run_config=NO_TRACES)
                async for _ in result.stream_events():
                    pass
            else:
                await Runner.run(agent, "Rain in Ulm?", session=session, run_config=NO_TRACES)
            seen: list[Message] = []
            while len(seen) < 5:
                change = await changes.wait(20)
                assert change is not None
                seen += change.messages if isinstance(change, Appended) else []
        assert [(one.role, one.text, one.thinking) for one in seen] == [
            ("user", "Rain in Ulm?", None),
            ("assistant", "", "A tool knows."),
            ("assistant", "", None),
            ("tool", "It rains in Ulm.", None),
            ("assistant", "Take an umbrella.", None),
        ]
        (call,) = seen[2].tool_calls or []
        assert (call.id, call.name, call.arguments) == ("call_fc_1", "weather", {"city": "Ulm"})
        assert seen[3].tool_call_id == "call_fc_1"
        assert [hit.session_id async for hit in sessiond.search("umbrella")] == ["trip"]


async def test_the_next_run_is_given_what_was_said(at_home: KilledHome) -> None:
    """Exactly what the SDK's own SQLiteSession would give: reasoning, encrypted content and ids are there byte for byte."""
    asked = []
    for session in (SessiondSession("one"), SQLiteSession("one")):
        model = Scripted([thinks("Hm."), calls("weather", city="Ulm")], [says("Rain.")], [says("Still rain.", "msg_2")])
        agent = Agent(name="a", model=model, tools=[weather])
        await Runner.run(agent, "Rain?", session=session, run_config=NO_TRACES)
        await Runner.run(agent, "And now?", session=session, run_config=NO_TRACES)
        asked.append(json.dumps([model.asked, await session.get_items()]))
        if isinstance(session, SQLiteSession):
            session.close()
    assert asked[0] == asked[1]


async def test_items_and_limits(at_home: KilledHome) -> None:
    """`limit` gives the newest, oldest first; 0 gives none and a negative one all; the settings' limit holds unless one is given."""
    session = SessiondSession("chat", session_settings=SessionSettings(limit=2))
    items = spoken("one", "two", "three", "four")
    await session.add_items([])
    assert await session.get_items() == []
    await session.add_items(items[:3])
    await session.add_items(items[3:])
    assert await session.get_items() == items[2:]
    assert await session.get_items(3) == items[1:]
    assert await session.get_items(99) == await session.get_items(-1) == items
    assert await session.get_items(0) == []
    assert await SessiondSession("other").get_items() == []


async def test_pop_and_clear(at_home: KilledHome) -> None:
    """The newest item comes out, one after the other, then None; a cleared session is empty, may be written again, and is in
    the trash.
    """
    session = SessiondSession("chat")
    assert await session.pop_item() is None
    await session.clear_session()
    items = spoken("one", "two", "three")
    await session.add_items(items)
    assert [await session.pop_item(), await session.pop_item()] == [items[2], items[1]]
    assert await session.get_items() == items[:1]
    await session.clear_session()
    assert await session.get_items() == [] and await session.pop_item() is None
    await session.add_items(items[1:])
    assert await session.get_items() == items[1:]
    async with await aconnect() as sessiond:
        assert {one.reason async for one in sessiond.sessions(deleted=True)} == {"truncated", "cleared"}


@pytest.mark.parametrize("name", ["user:7/chat", "日本語", "", "a" * 300, "..", "x'; drop table --"])
async def test_any_text_names_a_session(at_home: KilledHome, name: str) -> None:
    """And different texts different sessions."""
    await SessiondSession(name).add_items(spoken("hello"))
    assert await SessiondSession(name).get_items() == spoken("hello")
    assert await SessiondSession(name + " ").get_items() == []


async def test_an_item_with_an_id_is_there_once(at_home: KilledHome) -> None:
    """As after an interruption whose turn the SDK saves again (agents-js issue 701). What was said twice without an id is there
    twice, and an item that changed under its id is there in both states.
    """
    session = SessiondSession("chat")
    call = calls("weather", city="Ulm").model_dump(exclude_unset=True)
    turn: list[Any] = [*spoken("Rain?"), call]
    await session.add_items(turn)
    await session.add_items(turn)
    done = {**call, "status": "completed"}
    await session.add_items([done, done])
    assert await session.get_items() == [*spoken("Rain?"), call, *spoken("Rain?"), done]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
TEXT = st.text(st.characters(exclude_categories=()))
ITEMS = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", "developer"]), "content": TEXT}),
    st.fixed_dictionaries({"content": TEXT, "role": st.just("user")}, optional={"extra": JSON}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["message", "reasoning", "function_call", "web_search_call", "function_call_output", "new"]
            )
        },
        optional={
            "id": st.text("abc", min_size=1),
            "call_id": TEXT,
            "role": TEXT,
            "content": JSON,
            "summary": JSON,
            "name": TEXT,
            "arguments": TEXT,
            "output": JSON,
            "encrypted_content": TEXT,
        },
    ),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ITEMS, min_size=1, max_size=20))
def test_every_item_comes_back(at_home: KilledHome, items: list[Any]) -> None:
    """Whatever JSON Python can write: odd keys, lone surrogates, 70-bit integers, infinity; in the same order of keys."""
    unique = [{**one, "n": n} if "id" in one else one for n, one in enumerate(items)]

    async def there_and_back() -> Any:
        session = SessiondSession("all")
        await session.clear_session()
        await session.add_items(unique)
        return await session.get_items()

    assert json.dumps(asyncio.run(there_and_back())) == json.dumps(unique)


async def test_a_call_id_may_be_used_again(at_home: KilledHome) -> None:
    """By servers that number their calls from the beginning in each turn."""
    call: Any = {"type": "function_call", "call_id": "call_0", "name": "rain", "arguments": '{"city": "Ulm"}'}
    output: Any = {"type": "function_call_output", "call_id": "call_0", "output": "yes"}
    session = SessiondSession("numbered")
    for _ in range(2):
        await session.add_items([call])
        await session.add_items([output])
    assert await session.get_items() == [call, output, call, output]


async def test_another_tool_goes_on(at_home: KilledHome) -> None:
    """What an editor wrote is given to the model, as items; and one of its messages is popped as a whole."""
    async with await aconnect(name="editor") as sessiond:
        chat = await sessiond.new(id="shared")
        await chat.append("user", "Rain?")
        message = {
            "role": "assistant",
            "content": "Looking.",
            "toolCalls": [{"id": "c1", "name": "weather", "arguments": {"city": "Ulm"}}],
        }
        await sessiond.call("session/append", {"sessionId": "shared", "messages": [message]})
        await chat.append("tool", "It rains.", tool_call_id="c1")
    session = SessiondSession("shared")
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Ulm"}'}
    output = {"type": "function_call_output", "call_id": "c1", "output": "It rains."}
    assert await session.get_items() == [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "Looking."},
        call,
        output,
    ]
    assert await session.get_items(2) == [call, output]
    assert [await session.pop_item(), await session.pop_item()] == [output, call]
    assert await session.get_items() == spoken("Rain?")


async def test_a_pop_takes_nobody_elses_item(at_home: KilledHome) -> None:
    """Two writers that add and pop at once: every item that was added is popped once or is still there."""
    places = [SessiondSession("race"), SessiondSession("race", home=str(at_home.path))]
    added: list[str] = []
    popped: list[str] = []

    async def write(who: int) -> None:
        for number in range(15):
            text = f"{who}-{number}"
            await places[who].add_items([{"role": "user", "content": text}])
            added.append(text)
            if number % 2 and (item := await places[who].pop_item()) is not None:
                popped.append(str(item["content"]))  # type: ignore[typeddict-item]

    await asyncio.gather(write(0), write(1))
    left = [str(one["content"]) for one in await places[0].get_items()]  # type: ignore[typeddict-item]
    assert sorted(popped + left) == sorted(added)


def test_a_message_without_words_is_no_item() -> None:
    """Such as one that only thinks, of another tool."""
    assert items_of(Message(id="m", role="assistant", content="", thinking="Hm.")) == []
    assert isinstance(message_of({"role": "user", "content": "Hi"}), NewMessage)
