"""`sessiond.adapters.langchain` gives LangChain its messages back, and writes a session that people can read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.runnables.history import RunnableWithMessageHistory

from sessiond.adapters.langchain import SessiondChatMessageHistory
from sessiond.client import aconnect, connect
from tests.adapters.conftest import KilledHome

CALL: Any = {"id": "c1", "name": "weather", "args": {"city": "Ulm"}, "type": "tool_call"}
USED: Any = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, "input_token_details": {"cache_read": 6}}


def turn() -> list[BaseMessage]:
    asked = AIMessage(
        [{"type": "reasoning", "reasoning": "A tool knows."}, {"type": "text", "text": "Looking."}], tool_calls=[CALL]
    )
    asked.usage_metadata, asked.response_metadata, asked.id = USED, {"model_name": "m"}, "run--1"
    return [
        SystemMessage("Be brief."),
        HumanMessage("Rain in Ulm?", id="h1"),
        asked,
        ToolMessage("It rains.", tool_call_id="c1", artifact={"mm": 3}, status="error"),
        AIMessage("Rain.", additional_kwargs={"odd": [1.0, None]}, id="run--2"),
    ]


def plain(messages: list[BaseMessage]) -> list[Any]:
    return [message_to_dict(one) for one in messages]


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_a_chain_remembers(at_home: KilledHome) -> None:
    """RunnableWithMessageHistory over two calls, with a fake model; each a process' worth of state apart."""
    model = GenericFakeChatModel(messages=iter([AIMessage("It rains."), AIMessage("Ulm.")]))
    chain = RunnableWithMessageHistory(model, lambda session_id: SessiondChatMessageHistory(session_id, name="Weather"))
    config: Any = {"configurable": {"session_id": "chat"}}
    chain.invoke("How is it?", config)
    chain.invoke("Where?", config)
    told = [one.content for one in SessiondChatMessageHistory("chat").messages]
    assert told == ["How is it?", "It rains.", "Where?", "Ulm."]
    with connect() as sessiond:
        assert [(one.role, one.text) for one in sessiond.session("chat").messages()] == [
            ("user", "How is it?"),
            ("assistant", "It rains."),
            ("user", "Where?"),
            ("assistant", "Ulm."),
        ]


async def test_messages_come_back_whole(at_home: KilledHome) -> None:
    """By the blocking and the asynchronous methods, with artifacts, metadata, reasoning and tokens; `last` gives the newest."""
    history = SessiondChatMessageHistory("chat")
    assert isinstance(history, BaseChatMessageHistory)
    assert history.messages == [] == await history.aget_messages()
    said = turn()
    history.add_messages(said[:2])
    await history.aadd_messages(said[2:])
    odd = [ChatMessage("x", role="critic"), FunctionMessage("1", name="f"), AIMessageChunk("Part")]
    history.add_messages(odd)
    assert plain(history.messages) == plain(await history.aget_messages()) == plain([*said, *odd])
    assert plain(SessiondChatMessageHistory("chat", last=2).messages) == plain(odd[1:])
    await history.aclear()
    assert history.messages == []
    history.add_user_message("again")
    history.clear()
    assert await history.aget_messages() == []


def test_people_read_it(at_home: KilledHome) -> None:
    """Roles, thinking, tool calls, results and tokens are where every client looks for them."""
    SessiondChatMessageHistory("chat").add_messages(turn())
    with connect() as sessiond:
        messages = sessiond.session("chat").messages()
        assert [(one.role, one.text, one.thinking, one.tool_call_id) for one in messages] == [
            ("system", "Be brief.", None, None),
            ("user", "Rain in Ulm?", None, None),
            ("assistant", "Looking.", "A tool knows.", None),
            ("tool", "It rains.", None, "c1"),
            ("assistant", "Rain.", None, None),
        ]
        (call,) = messages[2].tool_calls or []
        assert (call.id, call.name, call.arguments) == ("c1", "weather", {"city": "Ulm"})
        (row,) = sessiond.usage("model").rows
        assert (row.key, row.total.input, row.total.cache_read, row.total.output) == ("m", 4, 6, 4)


def test_a_message_with_an_id_is_there_once(at_home: KilledHome) -> None:
    """So a graph's whole state may be added after every step, and only what is new is appended."""
    history = SessiondChatMessageHistory("chat")
    said = [HumanMessage("Hi", id="1"), AIMessage("Hello", id="2"), HumanMessage("Bye", id="3")]
    for length in range(1, 4):
        history.add_messages(said[:length])
    assert plain(history.messages) == plain(said)


async def test_another_tool_goes_on(at_home: KilledHome) -> None:
    """What an editor or another adapter wrote becomes LangChain's messages."""
    async with await aconnect(name="editor") as sessiond:
        call = {"id": "c1", "name": "f", "arguments": '{"a": 1}'}
        odd = {"id": "c2", "name": "f", "arguments": "not an object"}
        said = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "", "toolCalls": [call, odd]},
            {"role": "tool", "content": "1", "toolCallId": "c1"},
            {"role": "assistant", "content": "", "thinking": "Hm."},
        ]
        await sessiond.call("session/new", {"sessionId": "chat", "messages": said})
    human, asked, result = SessiondChatMessageHistory("chat").messages
    assert (human.type, human.content, result.type, getattr(result, "tool_call_id", "")) == (
        "human",
        "Hi",
        "tool",
        "c1",
    )
    assert isinstance(asked, AIMessage)
    assert [one["args"] for one in asked.tool_calls] == [{"a": 1}, {"arguments": "not an object"}]


TEXT = st.text(st.characters(exclude_categories=()))
MESSAGES = st.one_of(
    st.builds(HumanMessage, content=TEXT),
    st.builds(SystemMessage, content=TEXT),
    st.builds(ToolMessage, content=TEXT, tool_call_id=TEXT),
    st.builds(
        AIMessage,
        content=TEXT
        | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning", "image"]), "text": TEXT})),
        additional_kwargs=st.dictionaries(TEXT, st.integers() | st.floats(allow_nan=False) | TEXT, max_size=2),
    ),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MESSAGES, min_size=1, max_size=10))
def test_every_message_comes_back(at_home: KilledHome, said: list[BaseMessage]) -> None:
    """Whatever is in it."""
    history = SessiondChatMessageHistory("all")
    history.clear()
    history.add_messages(said)
    assert plain(history.messages) == plain(said)


@pytest.mark.parametrize("name", ["user:7/chat", "日本語"])
def test_any_text_names_a_session(at_home: KilledHome, name: str) -> None:
    """As for the other adapters."""
    SessiondChatMessageHistory(name).add_user_message("Hi")
    assert [one.content for one in SessiondChatMessageHistory(name).messages] == ["Hi"]
