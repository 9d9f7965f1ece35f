"""Runs of the OpenAI Agents SDK that use a session in other ways than by turns: each leaves what the SDK's own session has then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunState, SQLiteSession, function_tool
from agents.memory import OpenAIResponsesCompactionSession
from agents.run_internal.session_persistence import rewind_session_items

from sessiond.adapters.openai_agents import SessiondSession
from tests.adapters.conftest import KilledHome
from tests.adapters.test_openai_agents import NO_TRACES, Scripted, calls, says, spoken


@function_tool(needs_approval=True, name_override="weather")
def asks_first(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


@pytest.fixture
def both(at_home: KilledHome) -> Iterator[list[Any]]:
    """Ours, and the SDK's own in memory."""
    made = [SessiondSession("run"), SQLiteSession("run")]
    yield made
    made[1].close()


async def _run(agent: Agent[Any], given: Any, session: Any, *, streamed: bool) -> Any:
    if not streamed:
        return await Runner.run(agent, given, session=session, run_config=NO_TRACES)
    result = Runner.run_streamed(agent, given, session=session, run_config=NO_TRACES)
    async for _ in result.stream_events():
        pass
    return result


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_interrupted_run_goes_on_after_a_kill(at_home: KilledHome, both: list[Any], streamed: bool) -> None:
    """A tool waits for approval, the daemon is killed, and the run goes on from its written state: no item is there twice
    (agents-js#701), with a session object that has not seen the beginning.
    """
    kept = []
    for session in both:
        model = Scripted([calls("weather", city="Ulm")], [says("Rain.")])
        agent = Agent(name="a", model=model, tools=[asks_first])
        first = await _run(agent, "Rain?", session, streamed=streamed)
        assert len(first.interruptions) == 1
        state = await RunState.from_string(agent, first.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        ours = isinstance(session, SessiondSession)
        assert not ours or at_home.kill_now()
        again = SessiondSession("run") if ours else session
        assert (await _run(agent, state, again, streamed=streamed)).final_output == "Rain."
        kept.append(json.dumps(await again.get_items()))
    assert kept[0] == kept[1]
    kinds = [one.get("type", one.get("role")) for one in json.loads(kept[0])]
    assert kinds == ["user", "function_call", "function_call_output", "message"]


def test_blocking_runs(at_home: KilledHome) -> None:
    """`Runner.run_sync`, each in an event loop of its own: the second run is given the first."""
    model = Scripted([says("A")], [says("B", "msg_2")])
    agent = Agent(name="a", model=model)
    session = SessiondSession("sync")
    for prompt in ("one", "two"):
        with asyncio.Runner() as runner:
            asyncio.set_event_loop(runner.get_loop())
            Runner.run_sync(agent, prompt, session=session, run_config=NO_TRACES)
    asyncio.set_event_loop(None)
    assert [one.get("content") for one in model.asked[1]][::2] == ["one", "two"]
    assert len(model.asked[1]) == 3


async def test_a_callback_and_a_list_of_items(both: list[Any]) -> None:
    """`session_input_callback` chooses what the model is given of the history, and not what is kept; and input may be items."""
    found = []
    for session in both:
        await session.add_items(spoken("old", "reply"))
        model = Scripted([says("A")], [says("B", "msg_2")])
        agent = Agent(name="a", model=model)
        newest = RunConfig(tracing_disabled=True, session_input_callback=lambda history, new: history[-1:] + new)
        await Runner.run(agent, [{"role": "user", "content": "new"}], session=session, run_config=newest)
        await Runner.run(agent, [{"role": "user", "content": "newer"}], session=session, run_config=NO_TRACES)
        found.append(json.dumps([model.asked, await session.get_items()]))
    assert found[0] == found[1]
    asked, kept = json.loads(found[0])
    assert (len(asked[0]), len(asked[1]), len(kept)) == (2, 5, 6)


async def test_rewind_and_compaction_on_top(both: list[Any]) -> None:
    """The SDK takes items back before it tries again, and wraps a session for compaction."""
    found = []
    for session in both:
        items = [*spoken("a", "b"), calls("weather", city="Ulm").model_dump(exclude_unset=True)]
        await session.add_items(items)
        await rewind_session_items(session, items[1:])
        rewound = await session.get_items()
        compacting = OpenAIResponsesCompactionSession(
            session_id="run", underlying_session=session, should_trigger_compaction=lambda _: False
        )
        agent = Agent(name="a", model=Scripted([says("C")]))
        await Runner.run(agent, "x", session=compacting, run_config=NO_TRACES)
        found.append(json.dumps([rewound, await session.get_items()]))
    assert found[0] == found[1]
    rewound, kept = json.loads(found[0])
    assert rewound == spoken("a") and len(kept) == 3


async def test_what_was_taken_back_may_come_again(at_home: KilledHome) -> None:
    """An item with an id that was popped or cleared is there again once it is added again, in its new place, also after a kill."""
    session = SessiondSession("again")
    call, said = (one.model_dump(exclude_unset=True) for one in (calls("weather", city="Ulm"), says("Rain.")))
    await session.add_items([call, said])
    assert await session.pop_item() == said
    await session.add_items([said])
    assert await session.get_items() == [call, said]
    await session.clear_session()
    await session.add_items([call, said])
    assert await session.get_items() == [call, said]
    assert at_home.kill_now()
    await session.clear_session()
    await session.add_items([said, call])
    assert await session.get_items() == [said, call]
