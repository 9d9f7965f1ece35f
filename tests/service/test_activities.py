"""service/activities.py: what goes on in a session, questions and their answers."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from typing import Any, Literal

import pytest

from sessiond.errors import Cancelled, InvalidParams, SessionNotFound
from sessiond.schema.sessions import ActivityParams, AnswerParams, AskParams, AskResult
from sessiond.schema.types import Activity, Choice
from sessiond.service import activities
from sessiond.service.activities import Activities
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.peer import FakePeer, user
from tests.suite.explore import seeds

State = Literal["idle", "working", "waiting"]
YES_NO = [Choice(id="y", label="Allow", kind="allow"), Choice(id="n", label="Deny", kind="deny")]


def of(service: Service) -> Activities:
    return service.open_sessions.activities


async def say(service: Service, peer: FakePeer, session_id: str, state: State, **more: Any) -> None:
    given = ActivityParams(session_id=session_id, state=state, **more)
    await of(service).say(service.open_sessions.at(session_id), peer, given)


async def ask(
    service: Service, peer: FakePeer, session_id: str, text: str = "?", **more: Any
) -> asyncio.Task[AskResult]:
    """A question that is open by now."""
    given = AskParams(session_id=session_id, text=text, **more)
    task = asyncio.create_task(of(service).ask(service.open_sessions.at(session_id), peer, given))
    before = questions_of(service, session_id)
    while not task.done() and questions_of(service, session_id) == before:
        await asyncio.sleep(0)
    return task


def questions_of(service: Service, session_id: str) -> set[str]:
    """Those that are open, shown or not."""
    return {who.question for who in of(service)._said.get(session_id, {}) if who.question}


def question_of(service: Service, session_id: str) -> str:
    shown = of(service).of(session_id)
    assert shown is not None and shown.question is not None
    return shown.question.id


async def listed(service: Service, **wanted: Any) -> list[str]:
    return [one["sessionId"] for one in (await service.list(filter=wanted))["sessions"]]


def told(peer: FakePeer) -> list[str | None]:
    found = peer.take("session/activityChanged")
    return [None if one["activity"] is None else one["activity"]["state"] for one in found]


async def test_what_goes_on_is_shown_and_told(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """In the list, when a session is opened, and to all that have it open; nothing of it is in the session."""
    await service.new(peer, session_id="a", name="A")
    await service.open(other, "a")
    told(other)
    await say(service, peer, "a", "waiting", waiting_for="permission", text="rm -r build")
    session = (await service.list())["sessions"][0]
    activity = {
        "state": "waiting",
        "since": session["updatedAt"],
        "client": "one",
        "waitingFor": "permission",
        "text": "rm -r build",
    }
    assert session["activity"] == activity
    assert (await service.open(other, "a"))["session"]["activity"] == activity
    assert other.take("session/activityChanged") == [{"sessionId": "a", "activity": activity}]
    assert session["seq"] == (await service.open(other, "a"))["session"]["seq"]
    await say(service, peer, "a", "idle")
    assert told(other) == [None]
    assert "activity" not in (await service.list())["sessions"][0]
    assert "waiting" not in str(await service.export("a", "json"))


async def test_it_ends_with_the_connection_that_said_it(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Whether it has the session open or not. What others said remains."""
    agent = FakePeer("agent")
    for name in ("a", "b"):
        await service.new(peer, session_id=name)
    await say(service, agent, "a", "waiting")
    await say(service, agent, "b", "working")
    await say(service, other, "b", "working")
    told(peer)
    agent.closed = True
    service.disconnected(agent)
    assert [of(service).of("a"), of(service).of("b")] == [
        None,
        Activity(state="working", since=service.open_sessions.now(), client="two"),
    ]
    assert told(peer) == [None]
    await say(service, agent, "a", "waiting")  # it was on its way
    assert of(service).of("a") is None


async def test_it_ends_with_the_process_that_is_named(
    service: Service, peer: FakePeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script of a moment says it for the program that runs it."""
    monkeypatch.setattr(activities, "_LOOK_S", 0.01)
    await service.new(peer, session_id="a")
    agent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        script = FakePeer("hook")
        await say(service, script, "a", "working", process=agent.pid)
        service.disconnected(script)
        await asyncio.sleep(0.05)
        assert of(service).in_state("working") == {"a"}
        await say(service, FakePeer("hook"), "a", "waiting", process=agent.pid)
        assert (of(service).in_state("working"), of(service).in_state("waiting")) == (set(), {"a"})
    finally:
        agent.communicate(b"\n")
    async with asyncio.timeout(10):
        while of(service).of("a") is not None:
            await asyncio.sleep(0.01)
    await say(service, FakePeer("hook"), "a", "working", process=agent.pid)  # the watch begins again
    async with asyncio.timeout(10):
        while of(service).of("a") is not None:
            await asyncio.sleep(0.01)


async def test_what_streams_in_is_work(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Nobody has to say so, and whoever says more is believed."""
    await service.new(peer, session_id="a")
    await service.append(other, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    session = (await service.list())["sessions"][0]
    assert session["activity"] == {"state": "working", "since": session["updatedAt"], "client": "two"}
    assert await listed(service, activity="working") == ["a"]
    await say(service, other, "a", "waiting")
    assert (await listed(service, activity="working"), await listed(service, activity="waiting")) == ([], ["a"])
    await say(service, other, "a", "idle")
    await service.finish(other, "a", "r")
    assert await listed(service, activity="working") == []


async def test_the_list_of_those_that_wait(service: Service, peer: FakePeer) -> None:
    """All other filters hold as well, and it has pages and an order."""
    for number in range(5):
        await service.new(peer, session_id=f"s{number}", name=f"N{number}", tags=["odd"] if number % 2 else [])
        await say(service, peer, f"s{number}", "waiting")
    await service.new(peer, session_id="works")
    await say(service, peer, "works", "working")
    await service.update(peer, "s4", {"archived": True})
    assert sorted(await listed(service, activity="waiting")) == ["s0", "s1", "s2", "s3"]
    assert await listed(service, activity="waiting", tags=["odd"], name="n3") == ["s3"]
    assert await listed(service, activity="waiting", archived=True) == ["s4"]
    assert await listed(service, activity="waiting", store="elsewhere") == []
    assert await listed(service, activity="waiting", deleted=True) == []
    found, cursor = [], None
    while True:
        page = await service.list(limit=2, sort="-name", cursor=cursor, filter={"activity": "waiting"})
        found += [one["name"] for one in page["sessions"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert found == ["N3", "N2", "N1", "N0"]
    await service.delete("s0")
    assert sorted(await listed(service, activity="waiting")) == ["s1", "s2", "s3"]
    await service.restore(peer, "s0")
    assert "s0" not in await listed(service, activity="waiting")


async def test_a_list_that_is_watched_hears_of_it(
    service: Service, peer: FakePeer, other: FakePeer, clock: ManualClock
) -> None:
    """As of a change, with the row; the seqs of the session stay."""
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [user("hello")])
    result = await service.finder.changed(limit=None, cursor=None, tell=other)
    assert other.take("list/changed") == []
    await say(service, peer, "a", "waiting")
    assert other.take("list/changed") == [{}]
    result = await service.finder.changed(limit=None, cursor=result.cursor)
    assert [(one.session.session_id, one.since, one.begun) for one in result.sessions] == [("a", 1, False)]
    assert isinstance(result.sessions[0].session.activity, Activity)
    clock.advance(1.0)
    await say(service, peer, "a", "waiting")  # the same again is news for nobody
    assert (await service.finder.changed(limit=None, cursor=result.cursor)).sessions == []
    await say(service, peer, "a", "waiting", text="now with words")
    again = (await service.finder.changed(limit=None, cursor=result.cursor)).sessions
    assert [one.session.activity.since for one in again] == [result.sessions[0].session.activity.since]


async def test_the_first_answer_counts(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """It goes to whoever asks; then the session is what it was before."""
    agent = FakePeer("agent")
    await service.new(peer, session_id="a")
    await say(service, agent, "a", "working")
    asked = await ask(service, agent, "a", "Run it?", choices=YES_NO, waiting_for="permission", tool_call_id="c1")
    shown = of(service).of("a")
    assert shown is not None and shown.question is not None
    assert (shown.state, shown.waiting_for, shown.question.choices, shown.question.tool_call_id) == (
        "waiting",
        "permission",
        YES_NO,
        "c1",
    )
    no = shown.question.id
    answers = [
        of(service).answer(one, AnswerParams(session_id="a", question_id=no, choice=choice))
        for one, choice in ((other, "n"), (peer, "y"))
    ]
    assert answers == [True, False]
    closed = of(service).of("a")  # whoever lists now is not sent to a question that is answered
    assert closed is not None
    assert closed.state == "working"
    assert await asked == AskResult(client="two", choice="n")
    assert told(peer) == ["working", "waiting", "working"]
    assert not of(service).answer(other, AnswerParams(session_id="a", question_id=no, choice="n"))


async def test_a_question_in_words(service: Service, peer: FakePeer) -> None:
    """Two questions at once are two, and each has its own answer."""
    await service.new(peer, session_id="a")
    first = await ask(service, peer, "a", "Which port?")
    second = await ask(service, peer, "a", "Which host?")
    await say(service, peer, "a", "waiting")
    one = question_of(service, "a")
    assert of(service).answer(peer, AnswerParams(session_id="a", question_id=one, text="80"))
    two = question_of(service, "a")
    assert of(service).answer(peer, AnswerParams(session_id="a", question_id=two, text="here"))
    assert [(await task).text for task in (first, second)] == ["80", "here"]
    assert [of(service).was_answered(no) for no in (one, two, "another")] == [True, True, False]
    await say(service, peer, "a", "idle")
    assert of(service).of("a") is None


async def test_an_answer_that_counts_is_not_lost(service: Service, peer: FakePeer) -> None:
    """The asker is cancelled before it hears of it; whoever answered was told that it counts."""
    await service.new(peer, session_id="a")
    asked = await ask(service, peer, "a")
    assert of(service).answer(peer, AnswerParams(session_id="a", question_id=question_of(service, "a"), text="yes"))
    asked.cancel()
    assert (await asked).text == "yes"


async def test_a_question_that_is_withdrawn(service: Service, peer: FakePeer) -> None:
    """By its asker, or because its session is gone."""
    await service.new(peer, session_id="a")
    asked = await ask(service, peer, "a")
    no = question_of(service, "a")
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert of(service).of("a") is None
    assert not of(service).answer(peer, AnswerParams(session_id="a", question_id=no, text="late"))
    asked = await ask(service, peer, "a")
    await service.delete("a")
    with pytest.raises(SessionNotFound, match="deleted before anybody answered"):
        await asked
    with pytest.raises(SessionNotFound):
        await (await ask(service, peer, "nowhere"))
    with pytest.raises(SessionNotFound):
        await say(service, peer, "nowhere", "working")


async def test_a_question_that_is_withdrawn_before_its_turn(service: Service, peer: FakePeer) -> None:
    """While the session is read, for example: it must not be asked later, by nobody."""
    await service.new(peer, session_id="a")
    one, gate = service.open_sessions.at("a"), asyncio.Event()
    before = asyncio.create_task(one.alone(gate.wait))
    await asyncio.sleep(0)
    asked = asyncio.create_task(of(service).ask(one, peer, AskParams(session_id="a", text="?")))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    gate.set()
    await before
    await one.look(lambda _: None)
    assert of(service).of("a") is None


async def test_a_question_of_a_process_that_goes_on(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """Without the answer, as its next event says. Another process' word changes nothing."""
    await service.new(peer, session_id="a")
    asked = await ask(service, peer, "a", process=4711)
    await say(service, other, "a", "working", process=4712)
    no = question_of(service, "a")
    await say(service, other, "a", "working", process=4711)
    shown = of(service).of("a")
    assert shown is not None
    assert shown.state == "working"
    assert not of(service).answer(peer, AnswerParams(session_id="a", question_id=no, text="late"))
    with pytest.raises(Cancelled, match="goes on without"):
        await asked


async def test_a_question_about_one_of_several_calls(service: Service, peer: FakePeer, other: FakePeer) -> None:
    """The end of another call says nothing of it, and neither does that the process waits."""
    await service.new(peer, session_id="a")
    asked = await ask(service, peer, "a", process=4711, tool_call_id="c1")
    no = question_of(service, "a")
    await say(service, other, "a", "working", process=4711, tool_call_id="c2")
    await say(service, other, "a", "waiting", process=4711)
    assert question_of(service, "a") == no
    await say(service, other, "a", "working", process=4711, tool_call_id="c1")
    with pytest.raises(Cancelled, match="goes on without"):
        await asked


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (ActivityParams(session_id="a", state="idle", text="x"), "state: `idle` has nothing to say"),
        (ActivityParams(session_id="a", state="working", waiting_for="x"), "waitingFor: belongs to the state"),
        (ActivityParams(session_id="a", state="waiting", waiting_for=""), "waitingFor: expected 1 to 256"),
        (ActivityParams(session_id="a", state="working", text="x" * 2001), "text: longer than 2000"),
        (ActivityParams(session_id="a", state="working", tool_call_id=""), "toolCallId: expected 1 to 256"),
        (ActivityParams(session_id="a", state="working", process=0), "process: not the id of a process"),
        (ActivityParams(session_id="a", state="working", process=1 << 31), "process: not the id of a process"),
        (AskParams(session_id="a", text="x" * 2001), "text: longer than 2000"),
        (AskParams(session_id="a", text="?", choices=[]), "choices: expected 1 to 20"),
        (
            AskParams(session_id="a", text="?", choices=[Choice(id=str(n), label="") for n in range(21)]),
            "choices: expected 1",
        ),
        (AskParams(session_id="a", text="?", choices=[Choice(id="1", label="")] * 2), "choices: two have the same id"),
        (AskParams(session_id="a", text="?", choices=[Choice(id="", label="")]), "choices: an id has 1 to 256"),
        (AskParams(session_id="a", text="?", choices=[Choice(id="1", label="x" * 201)]), "choices: a label is longer"),
        (AskParams(session_id="a", text="?", tool_call_id="x" * 257), "choices: an id has 1 to 256"),
    ],
)
async def test_what_cannot_be_said(
    service: Service, peer: FakePeer, params: ActivityParams | AskParams, words: str
) -> None:
    """Each error names its field, and nothing is shown."""
    await service.new(peer, session_id="a")
    one = service.open_sessions.at("a")
    with pytest.raises(InvalidParams, match=words) as raised:
        await (
            of(service).ask(one, peer, params) if isinstance(params, AskParams) else of(service).say(one, peer, params)
        )
    assert raised.value.data["field"] == words.partition(":")[0]
    assert of(service).of("a") is None


@pytest.mark.parametrize(
    ("choices", "answer", "words"),
    [
        (YES_NO, {}, "choice: expected one of y, n"),
        (YES_NO, {"text": "yes"}, "choice: expected one of y, n"),
        (YES_NO, {"choice": "x"}, "choice: expected one of y, n"),
        (None, {"choice": "y"}, "choice: the question has none"),
        (None, {}, "text: the question has no choices"),
        (None, {"text": "x" * 100_001}, "text: longer than 100000"),
    ],
)
async def test_what_is_no_answer(
    service: Service, peer: FakePeer, choices: list[Choice] | None, answer: dict[str, Any], words: str
) -> None:
    """The question stays open."""
    await service.new(peer, session_id="a")
    asked = await ask(service, peer, "a", choices=choices)
    no = question_of(service, "a")
    with pytest.raises(InvalidParams, match=words):
        of(service).answer(peer, AnswerParams(session_id="a", question_id=no, **answer))
    assert question_of(service, "a") == no
    asked.cancel()


class _Model:
    """What ought to be shown: who said what, in this order, and who has which session open."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []
        """Session, who, state."""

    def say(self, session_id: str, who: str, state: str | None) -> None:
        self.said = [one for one in self.said if one[:2] != (session_id, who)]
        if state is not None:
            self.said.append((session_id, who, state))

    def shown(self, session_id: str) -> str | None:
        states = [state for one, _, state in self.said if one == session_id]
        return "waiting" if "waiting" in states else states[-1] if states else None


@pytest.mark.parametrize("seed", seeds(10, 200))
async def test_random_talk(service: Service, seed: int) -> None:
    """Whatever programs say, ask, answer and withdraw, and in whatever order they go: what is shown is what holds, and whoever has a
    session open heard it last.
    """
    rng = random.Random(seed)
    model, names = _Model(), ["a", "b"]
    reader = FakePeer("reader")
    peers = {f"p{number}": FakePeer(f"p{number}") for number in range(3)}
    questions: dict[str, tuple[str, str, asyncio.Task[AskResult]]] = {}
    heard: dict[str, str | None] = dict.fromkeys(names)
    for name in names:
        await service.new(reader, session_id=name)
    for step in range(40):
        name, who = rng.choice(names), rng.choice(list(peers))
        do = rng.choice(("say", "say", "say", "ask", "answer", "withdraw", "leave", "delete"))
        if do == "say":
            state: Any = rng.choice(("idle", "working", "waiting"))
            await say(service, peers[who], name, state)
            model.say(name, who, None if state == "idle" else state)
        elif do == "ask":
            task = await ask(service, peers[who], name, f"{step}?")
            (no,) = questions_of(service, name) - questions.keys()
            questions[no] = (name, who, task)
            model.say(name, no, "waiting")
        elif questions and do in ("answer", "withdraw"):
            no = rng.choice(list(questions))
            name, _, task = questions.pop(no)
            if do == "answer":
                assert of(service).answer(peers[who], AnswerParams(session_id=name, question_id=no, text=no))
                assert await task == AskResult(client=who, text=no)
            else:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            model.say(name, no, None)
        elif do == "leave":
            for no, (session_id, asker, task) in list(questions.items()):
                if asker == who:  # its requests are cancelled before the service hears of the end
                    del questions[no]
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    model.say(session_id, no, None)
            service.disconnected(peers[who])
            for session_id in names:
                model.say(session_id, who, None)
            peers[who] = FakePeer(who)
        elif do == "delete":
            await service.delete(name)
            for no, (session_id, _, task) in list(questions.items()):
                if session_id == name:
                    del questions[no]
                    with pytest.raises(SessionNotFound):
                        await task
            model.said = [one for one in model.said if one[0] != name]
            await service.restore(reader, name)
            await service.open(reader, name)
            heard[name] = None
            reader.take()
        for one in reader.take("session/activityChanged"):
            heard[one["sessionId"]] = one["activity"] and one["activity"]["state"]
        shown = {one: found.state if (found := of(service).of(one)) else None for one in names}
        assert shown == {one: model.shown(one) for one in names} == heard, f"step {step}: {do}"
        assert of(service).in_state("waiting") == {one for one in names if shown[one] == "waiting"}
    for _, _, task in questions.values():
        task.cancel()
