"""Windows that come and go, a host that is killed, and a session that goes on meanwhile: in the end all have the same.

The host, its windows and the service are real and in this process; what a window receives is cut off anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import operator
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from sessiond.agent_host import host as agent_host
from sessiond.agent_host import hosted, shapes, window
from sessiond.agent_host.host import AgentHost
from sessiond.errors import InvalidParams, SessionNotFound
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.schema.sessions import ActivityParams, AnswerParams, AskParams, AskResult
from sessiond.schema.types import Choice
from sessiond.service.sessions import Service
from tests.agent_host.reducers import open_questions, reduced
from tests.agent_host.window import VERSIONS, text
from tests.fakes.clock import ManualClock
from tests.fakes.peer import FakePeer
from tests.suite.explore import seeds

CHAT, SESSION = shapes.chat_uri("a"), shapes.session_uri("a")


class FakeChannel:
    kind = "ahp"
    trusted = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, message: bytes, *, soon: bool = False) -> None:
        self.sent.append(message)

    def at_once(self, message: bytes, claim: Callable[[], bool]) -> None:
        return None

    def limit_messages(self, size: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def close(self, *, linger: bool = False) -> None: ...

    def abort(self) -> None: ...


class Seat:
    """A window's side: it takes what it received, in order, as far as it came before the connection broke."""

    def __init__(self) -> None:
        self.states: dict[str, Any] = {}
        self.seen = 0
        self.connected = False
        self.cuts = 0
        """Actions that an open window does not show."""
        self.unconfirmed: dict[int, dict[str, Any]] = {}
        """What it changed, by the number that it gave it; in order."""
        self._changes = 0
        self._id = 0

    def connect(self, host: AgentHost) -> None:
        self._channel = FakeChannel()
        self._window = host.connect(self._channel, writes=True)
        self.connected = True

    def take(self, count: int | None = None) -> list[dict[str, Any]]:
        """The first of what came; the others stay."""
        taken = self._channel.sent[:count]
        del self._channel.sent[:count]
        found = [json.loads(message) for message in taken]
        for message in found:
            if message.get("method") == "action":
                self._act(message["params"])
        return found

    def _act(self, envelope: dict[str, Any]) -> None:
        self.seen = max(self.seen, envelope["serverSeq"])
        origin = envelope.get("origin")
        if origin is not None and origin["clientId"] == str(id(self)):
            self.unconfirmed.pop(origin["clientSeq"], None)  # one that was sent again may come back twice
        if "rejectionReason" in envelope:
            return
        self.cuts += envelope["action"]["type"] == "chat/truncated"
        if (state := self.states.get(envelope["channel"])) is not None:
            self.states[envelope["channel"]] = reduced(state, [envelope["action"]])

    def cut(self, pick: random.Random) -> None:
        if self.connected:
            self.connected = False
            self.take(pick.randrange(len(self._channel.sent) + 1))
            self._window.lost()

    def change(self, action: dict[str, Any]) -> None:
        self._changes += 1
        self.unconfirmed[self._changes] = action
        self._dispatch(self._changes, action)

    def _dispatch(self, number: int, action: dict[str, Any]) -> None:
        params = {"channel": CHAT, "clientSeq": number, "action": action}
        self._window.received(json.dumps({"jsonrpc": "2.0", "method": "dispatchAction", "params": params}).encode())

    async def ask(self, method: str, **params: Any) -> Any:
        self._id += 1
        self._window.received(
            json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode()
        )
        while True:
            for at, message in enumerate(self._channel.sent):
                if json.loads(message).get("id") == self._id:
                    return self.take(at + 1)[-1]
            await asyncio.sleep(0.001)

    async def come(self, host: AgentHost, *, cut: bool = False) -> None:
        """What was not confirmed is sent again. `cut`: as for `_come`."""
        await self._come(host, cut=cut)
        for number, action in [*self.unconfirmed.items()]:
            self._dispatch(number, action)

    async def _come(self, host: AgentHost, *, cut: bool) -> None:
        """`cut`: messages were removed since it was here, so it may have to begin again."""
        self.connect(host)
        if self.states:
            answer = await self.ask(
                "reconnect", clientId=str(id(self)), lastSeenServerSeq=self.seen, subscriptions=[*self.states]
            )
            if "result" in answer:
                for envelope in answer["result"]["actions"]:
                    self._act(envelope)
                return
            assert cut
            assert answer["error"]["code"] == -32008
        answer = await self.ask("initialize", protocolVersions=VERSIONS, clientId=str(id(self)))
        self.seen = answer["result"]["serverSeq"]
        for channel in (SESSION, CHAT):
            answer = await self.ask("subscribe", channel=channel)
            self.states[channel] = answer["result"]["snapshot"]["state"]


class World:
    def __init__(self, seed: int, path: str, service: Service, clock: ManualClock) -> None:
        self.pick = random.Random(seed)
        self._path = path
        self._service = service
        self._clock = clock
        self._peers = 100
        self._agent = FakePeer("agent")
        self.seats = [Seat(), Seat()]
        self._streamed = ""
        self._text = ""
        self._calls: list[str] = []
        self._said = 0
        self.typed: list[str] = []
        """What was said in windows."""
        self.cut_short = False
        """Messages were removed."""
        self._asks: list[asyncio.Task[AskResult]] = []
        self.answers: list[str | None] = []
        """Of the questions; None where one was withdrawn."""
        self._clicks = 0

    async def begin(self) -> None:
        self.host = AgentHost(self._service, RealFileSystem(), self._path, self._clock, Limits(), self._number)
        await self.host.start()

    def _number(self) -> int:
        self._peers += 1
        return self._peers

    async def step(self) -> None:
        steps: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (3, self.say), (2, self.answer), (2, self.stream), (5, self.extend), (2, self.finish), (2, self.call), (2, self.result),
            (1, self.ask), (0.5, self.withdraw), (0.7, self.reply), (2, self.click),
            (2, self.type), (0.3, self.stop), (0.1, self.truncate), (0.05, self.cut_off), (0.3, self.rename), (0.5, self.work), (2, self.pause), (1, self.cut), (2, self.come), (0.4, self.kill),
        ]  # fmt: skip
        await self.pick.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()

    async def append(self, role: str, content: str, **more: Any) -> str:
        self._said += 1
        sent = {"role": role, "content": content, "id": f"m{self._said}", **more}
        await self._service.append(None, "a", [sent])
        return f"m{self._said}"

    async def say(self) -> None:
        await self.append("user", f"Question {self._said}")

    def _writer(self) -> Seat | None:
        return self.pick.choice([seat for seat in self.seats if seat.connected] or [None])

    async def type(self) -> None:
        """As a window does: while a turn goes on, what is said is queued."""
        if (seat := self._writer()) is not None:
            self._said += 1
            said = {"text": f"Typed {self._said}.", "origin": {"kind": "user"}}
            self.typed.append(said["text"])
            if "activeTurn" in seat.states[CHAT]:
                seat.change(
                    {"type": "chat/pendingMessageSet", "kind": "queued", "id": f"t{self._said}", "message": said}
                )
            else:
                seat.change({"type": "chat/turnStarted", "turnId": f"t{self._said}", "message": said})

    async def stop(self) -> None:
        seat = self._writer()
        if seat is not None and (turn := seat.states[CHAT].get("activeTurn")) is not None:
            seat.change({"type": "chat/turnCancelled", "turnId": turn["id"], "duration": 1})

    async def cut_off(self) -> None:
        seat = self._writer()
        if seat is not None and not self._streamed and seat.states[CHAT]["turns"]:
            self.cut_short = True
            seat.change({"type": "chat/truncated", "turnId": self.pick.choice(seat.states[CHAT]["turns"][-4:])["id"]})

    async def answer(self) -> None:
        await self.append(
            "assistant", f"Answer {self._said}", **({"thinking": "Hm."} if self.pick.random() < 0.3 else {})
        )

    async def stream(self) -> None:
        if not self._streamed:
            self._text = self.pick.choice(("", "The "))
            self._streamed = await self.append("assistant", self._text, status="streaming")

    async def extend(self) -> None:
        if self._streamed:
            more = self.pick.choice(("lock", " is", "\n", "日本"))
            with self._unless_cut_off():
                await self._service.extend(None, "a", self._streamed, more, len(self._text))
                self._text += more

    async def finish(self) -> None:
        if self._streamed:
            streamed, self._streamed = self._streamed, ""
            calls = [{"id": f"f{self._said}", "name": "Bash", "arguments": {}}] if self.pick.random() < 0.3 else None
            status = self.pick.choice(("done", "interrupted", "error"))
            with self._unless_cut_off():
                await self._service.finish(None, "a", streamed, status, {"tokens": {"input": 3, "output": 1}}, calls)

    @contextlib.contextmanager
    def _unless_cut_off(self) -> Iterator[None]:
        """A window may have cut off what streams in."""
        try:
            yield
        except InvalidParams:
            assert self.cut_short
            self._streamed = ""

    async def call(self) -> None:
        self._calls.append(f"c{self._said}")
        await self.append(
            "assistant", "", toolCalls=[{"id": self._calls[-1], "name": "Bash", "arguments": {"command": "ls"}}]
        )

    async def result(self) -> None:
        if self._calls:
            await self.append("tool", "a.txt", toolCallId=self._calls.pop())

    async def truncate(self) -> None:
        if not self._streamed:
            self.cut_short = True
            head = (await self._service.read("a", last=1)).seq
            await self._service.truncate(None, "a", max(0, head - self.pick.randrange(6)))

    async def rename(self) -> None:
        await self._service.update(None, "a", {"name": f"Name {self._said}"})

    async def work(self) -> None:
        """A program says what goes on."""
        given = ActivityParams(session_id="a", state=self.pick.choice(("idle", "working", "waiting")))
        if given.state != "idle" and self.pick.random() < 0.7:
            given.text = f"Step {self._said}"
        sessions = self._service.open_sessions
        await sessions.activities.say(sessions.at("a"), self._agent, given)

    async def ask(self) -> None:
        """A program asks, with buttons or without."""
        self._said += 1
        choices = [Choice(id="yes", label="Yes"), Choice(id="no", label="No")] if self.pick.random() < 0.7 else None
        given = AskParams(session_id="a", text=f"Question {self._said}?", choices=choices)
        sessions = self._service.open_sessions
        asked = asyncio.create_task(sessions.activities.ask(sessions.at("a"), self._agent, given))
        asked.add_done_callback(self._ended)
        self._asks.append(asked)
        await asyncio.sleep(0)

    def _ended(self, asked: asyncio.Task[AskResult]) -> None:
        self._asks.remove(asked)
        self.answers.append(None if asked.cancelled() else asked.result().choice or asked.result().text)

    async def withdraw(self) -> None:
        for asked in self._asks[-1:]:
            asked.cancel()

    async def reply(self) -> None:
        """Somebody answers elsewhere."""
        activity = self._service.open_sessions.activities.of("a")
        if activity is not None and activity.question is not None:
            given = AnswerParams(session_id="a", question_id=activity.question.id)
            if activity.question.choices:
                given.choice = "yes"
            else:
                given.text = "elsewhere"
            assert self._service.open_sessions.activities.answer(FakePeer("page"), given)

    async def click(self) -> None:
        """A window answers what it shows, or closes it without an answer."""
        seat = self._writer()
        turn = None if seat is None else seat.states[CHAT].get("activeTurn")
        for own, part in open_questions(turn).items() if seat is not None and turn is not None else ():
            self._clicks += 1
            done: dict[str, Any] = {"type": "chat/inputCompleted", "requestId": own, "response": "accept"}
            with_choice = part["request"]["questions"][0]["kind"] == "single-select"
            value = (
                {"kind": "selected", "value": "no"} if with_choice else {"kind": "text", "value": f"w{self._clicks}"}
            )
            if self.pick.random() < 0.8:
                done["answers"] = {"answer": {"state": "submitted", "value": value}}
            else:
                done["response"] = "cancel"
            assert seat is not None
            seat.change(done)

    async def rest(self) -> None:
        """Nothing goes on any more."""
        for asked in self._asks:
            asked.cancel()
        await asyncio.gather(*self._asks, return_exceptions=True)
        sessions = self._service.open_sessions
        await sessions.activities.say(sessions.at("a"), self._agent, ActivityParams(session_id="a", state="idle"))

    async def pause(self) -> None:
        await asyncio.sleep(self.pick.choice((0, 0, 0.001, 0.03)))

    async def cut(self) -> None:
        self.pick.choice(self.seats).cut(self.pick)

    async def come(self) -> None:
        seat = self.pick.choice(self.seats)
        if seat.connected:
            seat.take(self.pick.randrange(20))
        else:
            await seat.come(self.host, cut=self.cut_short)

    async def kill(self) -> None:
        """Without a farewell: what the windows have not received is lost."""
        for seat in self.seats:
            seat.cut(self.pick)
        await self.host.close()
        await self.begin()


async def test_what_comes_while_a_session_is_read_is_shown(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Before"}])
    opening = service.open

    async def slow(*args: Any, **more: Any) -> Any:
        result = await opening(*args, **more)
        await service.append(None, "a", [{"role": "user", "content": "Meanwhile"}])
        await asyncio.sleep(0.01)
        return result

    monkeypatch.setattr(service, "open", slow)
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    seat = Seat()
    await seat.come(world.host)
    assert "Meanwhile" in text(seat.states[CHAT])


async def test_a_turn_that_had_ended_before_a_restart_does_not_grow(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that has it ended would ignore what comes for it."""
    monkeypatch.setattr(hosted, "SETTLE_S", 0.01)
    said = [{"role": "user", "content": "Question"}, {"role": "assistant", "content": "Answer"}]
    await service.new(None, session_id="a", messages=said)
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    seat = Seat()
    await seat.come(world.host)
    while "activeTurn" in seat.states[CHAT]:
        await asyncio.sleep(0.005)
        seat.take()
    await world.host.outbox.sent()
    seat.take()
    seat.cut(world.pick)
    await world.host.close()
    await service.append(None, "a", [{"role": "assistant", "content": "Later"}])
    await world.begin()
    await seat.come(world.host)
    assert "Later" in text(seat.states[CHAT])
    assert [turn["id"] for turn in seat.states[CHAT]["turns"]].count(seat.states[CHAT]["activeTurn"]["id"]) == 0
    assert seat.cuts == 0


async def test_a_turn_that_was_stopped_stays_so_after_a_restart(
    service: Service, clock: ManualClock, tmp_path: Path
) -> None:
    """Its question may still be answered; until then it does not go on again."""
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Question", "id": "q"}])
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    seat = Seat()
    await seat.come(world.host)
    seat.change({"type": "chat/turnCancelled", "turnId": "q", "duration": 1})
    while "activeTurn" in seat.states[CHAT]:
        await asyncio.sleep(0.005)
        seat.take()
    await service.update(None, "a", {"name": "Renamed"})
    await asyncio.sleep(0.01)
    seat.cut(world.pick)
    await world.host.close()
    await world.begin()
    await seat.come(world.host)
    assert "activeTurn" not in seat.states[CHAT]
    assert seat.cuts == 0


async def test_that_nobody_answered_is_known_after_a_restart(
    service: Service, clock: ManualClock, tmp_path: Path
) -> None:
    """A window that comes back and one that is new have the same turn."""
    await service.new(None, session_id="a")
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    seat, fresh = Seat(), Seat()
    await seat.come(world.host)
    said = {"text": "Question", "origin": {"kind": "user"}}
    seat.change({"type": "chat/turnStarted", "turnId": "t", "message": said})
    while not seat.states[CHAT]["turns"]:
        await asyncio.sleep(0.005)
        seat.take()
    assert seat.states[CHAT]["turns"][0]["state"] == "error"
    seat.cut(world.pick)
    await world.host.close()
    await world.begin()
    for one in (seat, fresh):
        await one.come(world.host)
    assert seat.cuts == 0
    assert known(seat) == known(fresh)


def known(seat: Seat) -> dict[str, Any]:
    """A session's own status only says what it was when it was opened; its chats say what goes on."""
    chat, (summary,) = seat.states[CHAT], seat.states[SESSION]["chats"]
    active = chat.get("activeTurn")
    found = {
        "turns": list(map(without_questions, chat["turns"])),
        "activeTurn": None if active is None else without_questions(active),
        "queued": chat.get("queuedMessages"),
        "title": seat.states[SESSION]["title"],
        "activity": seat.states[SESSION].get("activity"),
    }
    return {**found, "named": summary["title"], "status": summary["status"] & shapes.ACTIVITY}


def without_questions(turn: dict[str, Any]) -> dict[str, Any]:
    """One that was answered stays in the windows that saw it."""
    return {**turn, "responseParts": [part for part in turn["responseParts"] if part["kind"] != "inputRequest"]}


async def the_same_is_asked(world: World) -> None:
    """Every window shows the session's question, and none shows one that nobody asks."""
    for seat in world.seats:
        if not seat.connected:
            await seat.come(world.host, cut=world.cut_short)
    ends = asyncio.get_running_loop().time() + 10
    while True:
        for seat in world.seats:
            seat.take()
        found = [open_questions(seat.states[CHAT].get("activeTurn") or {"responseParts": []}) for seat in world.seats]
        shown = world.host._hosted["a"].asking.shown
        asked = world.host._service.open_sessions.activities.of("a")
        wanted = None if asked is None or asked.question is None else asked.question.id
        goes_on = world.host._hosted["a"].now.active is not None
        if shown == (wanted if goes_on else None) and all(list(one) == ([shown] if shown else []) for one in found):
            return
        assert asyncio.get_running_loop().time() < ends, (shown, wanted, found)
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", seeds(15, 1500))
async def test_windows_that_were_away_have_what_a_new_one_gets(
    seed: int, service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted, "SETTLE_S", 0.01)
    monkeypatch.setattr(hosted, "ANSWER_S", 0.02)
    monkeypatch.setattr(hosted, "WORKED_S", 0.02)
    await service.new(None, session_id="a")
    world = World(seed, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    for _ in range(60):
        await world.step()
    await world.finish()
    await the_same_is_asked(world)
    await world.rest()
    for seat in world.seats:
        seat.cut(world.pick)
        await seat.come(world.host, cut=world.cut_short)
    fresh = Seat()
    await fresh.come(world.host)
    ends = asyncio.get_running_loop().time() + 10
    while "activeTurn" in fresh.states[CHAT] or any(
        seat.unconfirmed or known(seat)["turns"] != known(fresh)["turns"] for seat in world.seats
    ):
        seats = (fresh, *world.seats)
        assert asyncio.get_running_loop().time() < ends, [(text(one.states[CHAT]), one.unconfirmed) for one in seats]
        await asyncio.sleep(0.005)
        for seat in (fresh, *world.seats):
            seat.take()
    for seat in world.seats:
        assert known(seat) == known(fresh)
    if not world.cut_short:
        kept = [one.get("content") for one in (await service.read("a", limit=500)).messages]
        assert [kept.count(text) for text in world.typed] == [1] * len(world.typed)
        assert world.cut_short or not seat.cuts
    await world.host.close()


async def test_what_comes_while_a_session_is_read(service: Service, clock: ManualClock, tmp_path: Path) -> None:
    """The reading began before it."""
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Before"}])
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    opened = world.host.opened

    async def slowly(*args: Any, **named: Any) -> Any:
        result = await opened(*args, **named)
        await world.append("user", "Meanwhile")
        await asyncio.sleep(0.01)
        return result

    world.host.opened = slowly  # type: ignore[method-assign]
    (seat, _) = world.seats
    await seat.come(world.host)
    await asyncio.sleep(0.01)
    seat.take()
    assert "Meanwhile" in text(seat.states[CHAT])
    await world.host.close()


async def test_a_row_does_not_say_for_ever_that_somebody_works(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nobody has the session open, nobody hears that its turn has ended."""
    monkeypatch.setattr(agent_host, "_LINGER_S", 0.01)
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Go"}])
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    (seat, _) = world.seats
    await seat.come(world.host)
    await seat.ask("subscribe", channel=shapes.ROOT)
    for channel in (SESSION, CHAT):
        await seat.ask("unsubscribe", channel=channel)
    await asyncio.sleep(0.1)
    told = [one["params"]["changes"] for one in seat.take() if one["method"] == "root/sessionSummaryChanged"]
    assert told == [{"status": shapes.IDLE | shapes.READ}]
    await world.host.close()


async def test_that_a_session_waits_is_in_its_row_and_in_its_chat(
    service: Service, clock: ManualClock, tmp_path: Path
) -> None:
    """As soon as a program says so, whether a window has the session open or only its list."""
    for name in ("a", "b"):
        await service.new(None, session_id=name)
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    seat, agent = world.seats[0], FakePeer("agent")
    await seat.come(world.host)
    await seat.ask("subscribe", channel=shapes.ROOT)
    await seat.ask("listSessions")
    rows: dict[str, dict[str, Any]] = {shapes.session_uri(name): {} for name in ("a", "b")}

    async def says(state: Literal["idle", "waiting"], text: str | None, doing: int) -> None:
        for name in ("a", "b"):
            given = ActivityParams(session_id=name, state=state, text=text)
            await service.open_sessions.activities.say(service.open_sessions.at(name), agent, given)
        async with asyncio.timeout(10):
            while any(
                (row.get("status", 1) & shapes.ACTIVITY, row.get("activity")) != (doing, text or "")
                for row in rows.values()
            ):
                await asyncio.sleep(0.01)
                for one in seat.take():
                    if one["method"] == "root/sessionSummaryChanged":
                        rows[one["params"]["session"]] |= one["params"]["changes"]
        assert seat.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY == doing
        assert seat.states[SESSION].get("activity") == text

    await says("waiting", "Run it?", shapes.INPUT_NEEDED)
    await says("idle", None, shapes.IDLE)
    await world.host.close()


async def test_a_window_that_opens_a_session_sees_its_question(
    service: Service, clock: ManualClock, tmp_path: Path
) -> None:
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Go"}])
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    first, second = world.seats
    await first.come(world.host)
    await world.ask()
    await asyncio.sleep(0.05)
    await second.come(world.host)
    first.take()
    asked = [open_questions(seat.states[CHAT]["activeTurn"]) for seat in (first, second)]
    assert len(asked[0]) == 1
    assert asked[0] == asked[1]
    await world.rest()
    await world.host.close()


async def test_a_session_that_is_opened_while_a_message_streams_in_does_not_work_for_good(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosted, "SETTLE_S", 0.01)
    writer = FakePeer("agent")
    streamed = {"id": "r", "role": "assistant", "content": "The", "status": "streaming"}
    await service.new(None, session_id="a", messages=[{"role": "user", "content": "Go"}])
    await service.open(writer, "a")
    await service.append(writer, "a", [streamed])
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    (seat, _) = world.seats
    await seat.come(world.host)
    assert seat.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY == shapes.IN_PROGRESS
    await service.finish(writer, "a", "r", "done")
    async with asyncio.timeout(10):
        while seat.states[SESSION]["chats"][0]["status"] & shapes.ACTIVITY != shapes.IDLE:
            await asyncio.sleep(0.01)
            seat.take()
    await world.host.close()


async def test_a_window_has_so_many_channels_at_most(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window, "_MOST_CHANNELS", 2)
    for name in ("a", "b"):
        await service.new(None, session_id=name)
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    (seat, _) = world.seats
    await seat.come(world.host)
    refused = await seat.ask("subscribe", channel=shapes.chat_uri("b"))
    assert refused["error"]["code"] == shapes.INVALID_REQUEST
    await seat.ask("unsubscribe", channel=SESSION)
    assert "result" in await seat.ask("subscribe", channel=shapes.chat_uri("b"))
    await world.host.close()


async def test_a_word_costs_the_same_in_a_long_turn(service: Service, clock: ManualClock, tmp_path: Path) -> None:
    """Of a turn that grows, what was there before is neither made again nor kept again."""
    await service.new(None, session_id="a")
    world = World(0, str(tmp_path / "numbers"), service, clock)
    await world.begin()
    for _ in range(20):
        await world.call()
        await world.result()
    (seat, _) = world.seats
    await seat.come(world.host)
    await world.stream()
    await asyncio.sleep(0.01)
    one = world.host._hosted["a"]
    before = one.now.active
    await world.extend()
    await asyncio.sleep(0.01)
    after = one.now.active
    assert before is not None
    assert after is not None
    assert before is not after
    assert all(map(operator.is_, before.response_parts[:20], after.response_parts))
    await world.host.close()


async def test_windows_that_leave_while_a_session_is_read(
    service: Service, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went wrong with it concerns nobody then, so nothing of it is in the log."""
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: said.append(about["message"]))
    reads = asyncio.Event()

    async def load(self: hosted.Hosted) -> None:
        await reads.wait()
        raise SessionNotFound("there is nothing")

    monkeypatch.setattr(hosted.Hosted, "load", load)
    host = AgentHost(service, RealFileSystem(), str(tmp_path / "marks"), clock, Limits(), itertools.count(1).__next__)
    await host.start()
    window = host.connect(FakeChannel(), writes=False)
    asked = asyncio.create_task(host.subscribe(window, [SESSION]))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    reads.set()
    for _ in range(5):
        await asyncio.sleep(0)
    await host.close()
    del asked  # its frames hold the task that read
    gc.collect()
    assert said == []
