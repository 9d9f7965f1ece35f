"""The activity in sessions at the moment: in which of them an agent works, and which wait for a person.

Programs say it of themselves (`session/activity`); none of it is kept in a file. What a program said holds until it says something
else. It also ends with whoever said it: the connection, or the process, if it named one. An agent's hooks are scripts of a moment,
so they name the agent's process, and that is looked at every two seconds as long as anything depends on it.

A question (`session/ask`) is a request that is open until somebody answers it, the request is cancelled, its connection ends,
or the session is gone. The first answer closes it in the same turn of the loop, so there is never a second one.

Several programs may say something of one session. Shown is what needs a person first: the question that is open for longest,
because agents show their own dialogs in that order; else the newest that waits, else the newest that works. A session into which a
message is being streamed is shown as `working` where nobody says anything, without a notification of its own: those that have it
open hear of the message.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from sessiond.errors import Cancelled, InvalidParams, SessionNotFound
from sessiond.schema.sessions import ActivityParams, AnswerParams, AskParams, AskResult
from sessiond.schema.types import Activity, Question, SessionInfo
from sessiond.service.subscribers import Peer

if TYPE_CHECKING:
    from sessiond.service.open_session import OpenSession

_LOOK_S = 2.0
"""How often the processes are looked at."""
_MOST_ANSWERED = 100
_MOST_TEXT = 2_000
_MOST_ID = 256
_MOST_CHOICES = 20
_MOST_LABEL = 200
_MOST_ANSWER = 100_000


class _Who(NamedTuple):
    """The one who says something: one of the three."""

    peer: int = 0
    process: int = 0
    question: str = ""


class _Said(NamedTuple):
    activity: Activity
    seq: int
    """The session's, when it was said."""
    answer: asyncio.Future[AskResult] | None = None
    process: int = 0
    """With a question: whose it is."""


class Activities:
    """`owners`: of the sessions that have one. `came`: called with a session's id and a seq when its row in a list has changed."""

    def __init__(
        self,
        now: Callable[[], str],
        new_id: Callable[[], str],
        owners: Mapping[str, OpenSession],
        came: Callable[[str, int], None],
    ) -> None:
        self._now = now
        self._new_id = new_id
        self._owners = owners
        self._came = came
        self._said: dict[str, dict[_Who, _Said]] = {}
        """By session. Who said something last comes last."""
        self._answered: deque[str] = deque(maxlen=_MOST_ANSWERED)
        """Ids of questions."""
        self._watching: asyncio.Task[None] | None = None

    # What is shown

    def of(self, wire_id: str) -> Activity | None:
        """Return what goes on in a session, as far as programs say."""
        said = [one.activity for one in self._said.get(wire_id, {}).values()]
        asked = next((one for one in said if one.question is not None), None)
        waiting = next((one for one in reversed(said) if one.state == "waiting"), None)
        return asked or waiting or next(reversed(said), None)

    def was_answered(self, question_id: str) -> bool:
        """Return whether a question ended lately because somebody answered it."""
        return question_id in self._answered

    def shown(self, info: SessionInfo, writers: Mapping[str, Peer]) -> SessionInfo:
        """`info`, which nobody else has, with what goes on in the session. `writers`: of the messages that are being streamed."""
        activity = self.of(info.session_id)
        if activity is None and writers:
            activity = Activity(state="working", since=info.updated_at, client=next(iter(writers.values())).client)
        if activity is not None:
            info.activity = activity
        return info

    def in_state(self, state: str) -> set[str]:
        """The ids of the sessions that are shown in this state."""
        found = {wire_id for wire_id in self._said if (shown := self.of(wire_id)) and shown.state == state}
        if state == "working":
            found |= {wire_id for wire_id, one in self._owners.items() if one.writers and wire_id not in self._said}
        return found

    # What is said

    async def say(self, one: OpenSession, peer: Peer, given: ActivityParams) -> None:
        """InvalidParams; SessionNotFound, BadFile, Unavailable."""
        _check_activity(given)
        who = _Who(peer=peer.id) if given.process is None else _Who(process=given.process)

        def say(seq: int) -> None:
            if who.process and given.state != "waiting":
                self._goes_on(one.wire_id, who.process, given.tool_call_id)
            if given.state == "idle":
                self._change(one.wire_id, who, None)
            elif not peer.closed:  # while the session was read
                self._change(one.wire_id, who, _Said(self._as_said(one.wire_id, who, peer, given), seq))

        await one.look(lambda session: say(session.seq))
        self._watch_if(who.process)

    def _as_said(self, wire_id: str, who: _Who, peer: Peer, given: ActivityParams) -> Activity:
        before = self._said.get(wire_id, {}).get(who)
        same = before is not None and before.activity.state == given.state
        return Activity(
            state="waiting" if given.state == "waiting" else "working",
            since=before.activity.since if before is not None and same else self._now(),
            client=peer.client,
            waiting_for=given.waiting_for,
            text=given.text,
        )

    async def ask(self, one: OpenSession, peer: Peer, given: AskParams) -> AskResult:
        """Wait for the answer, however long it takes; cancelling this withdraws the question. Errors as for `say`."""
        _check_question(given)
        question = Question(id=self._new_id(), choices=given.choices, tool_call_id=given.tool_call_id)
        who = _Who(question=question.id)
        answer: asyncio.Future[AskResult] = asyncio.get_running_loop().create_future()

        def begin(seq: int) -> None:
            activity = Activity(
                state="waiting",
                since=self._now(),
                client=peer.client,
                waiting_for=given.waiting_for or "question",
                text=given.text,
                question=question,
            )
            self._change(one.wire_id, who, _Said(activity, seq, answer, given.process or 0))

        try:
            await one.look(lambda session: begin(session.seq))
            self._watch_if(given.process or 0)
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                return answer.result()  # whoever gave it was told that it counts
            raise
        finally:
            self._change(one.wire_id, who, None)

    def answer(self, peer: Peer, given: AnswerParams) -> bool:
        """Take an answer, and return whether it is the first one to a question that somebody asks. InvalidParams."""
        who = _Who(question=given.question_id)
        said = self._said.get(given.session_id, {}).get(who)
        if said is None or said.answer is None or said.answer.done():
            return False
        _check_answer(given, said.activity.question)
        answer = AskResult(client=peer.client)
        if given.choice is not None:
            answer.choice = given.choice
        if given.text is not None:
            answer.text = given.text
        said.answer.set_result(answer)
        self._answered.append(given.question_id)
        self._change(given.session_id, who, None)
        return True

    def disconnected(self, peer: Peer) -> None:
        self._end(who for said in self._said.values() for who in said if who.peer == peer.id)

    def vanished(self, wire_id: str) -> None:
        """The session is gone, and whoever had it open knows that."""
        for said in self._said.pop(wire_id, {}).values():
            if said.answer is not None and not said.answer.done():
                said.answer.set_exception(SessionNotFound(f"{wire_id} was deleted before anybody answered"))

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def _change(self, wire_id: str, who: _Who, said: _Said | None) -> None:
        before = self.of(wire_id)
        mine = self._said.setdefault(wire_id, {})
        old = mine.pop(who, None)
        if said is not None:
            mine[who] = said
        if not mine:
            del self._said[wire_id]
        after = self.of(wire_id)
        if after != before:
            if (one := self._owners.get(wire_id)) is not None:
                one.audience.activity(after)
            self._came(wire_id, max(one.seq for one in (old, said) if one is not None))

    def _end(self, gone: Iterable[_Who]) -> None:
        for who in set(gone):
            for wire_id in [one for one, said in self._said.items() if who in said]:
                self._change(wire_id, who, None)

    def _goes_on(self, wire_id: str, process: int, call: str | None = None) -> None:
        """A process does something else than to wait for an answer; or, with `call`, it is past that call only."""
        for who, said in list(self._said.get(wire_id, {}).items()):
            question = said.activity.question
            concerned = call is None or (question is not None and question.tool_call_id == call)
            if said.answer is not None and said.process == process and concerned and not said.answer.done():
                said.answer.set_exception(Cancelled("it goes on without the answer"))
                self._change(wire_id, who, None)

    def _watch_if(self, process: int) -> None:
        if process and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch(), name="activities")

    async def _watch(self) -> None:
        """End what processes said that have ended."""
        while processes := {who.process or one.process for said in self._said.values() for who, one in said.items()} - {
            0
        }:
            await asyncio.sleep(_LOOK_S)
            for ended in [process for process in processes if not _runs(process)]:
                for wire_id in list(self._said):
                    self._goes_on(wire_id, ended)
                self._end([_Who(process=ended)])


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def _check_activity(given: ActivityParams) -> None:
    said = given.waiting_for is not None or given.text is not None
    _refuse_if(given.state == "idle" and said, "state", "`idle` has nothing to say besides")
    _refuse_if(
        given.state == "working" and given.waiting_for is not None, "waitingFor", "belongs to the state `waiting`"
    )
    _check_process(given.process)
    _check_words(given.waiting_for, given.text)
    call = given.tool_call_id
    _refuse_if(call is not None and not 0 < len(call) <= _MOST_ID, "toolCallId", f"expected 1 to {_MOST_ID} characters")


def _check_question(given: AskParams) -> None:
    _check_words(given.waiting_for, given.text)
    _check_process(given.process)
    choices = given.choices or []
    _refuse_if(
        given.choices == [] or len(choices) > _MOST_CHOICES, "choices", f"expected 1 to {_MOST_CHOICES}, or none at all"
    )
    _refuse_if(len({one.id for one in choices}) < len(choices), "choices", "two have the same id")
    _refuse_if(
        any(len(one.label) > _MOST_LABEL for one in choices),
        "choices",
        f"a label is longer than {_MOST_LABEL} characters",
    )
    ids = [one.id for one in choices] + ([] if given.tool_call_id is None else [given.tool_call_id])
    _refuse_if(any(not 0 < len(one) <= _MOST_ID for one in ids), "choices", f"an id has 1 to {_MOST_ID} characters")


def _check_process(process: int | None) -> None:
    _refuse_if(process is not None and not 0 < process < 1 << 31, "process", "not the id of a process")


def _check_words(waiting_for: str | None, text: str | None) -> None:
    _refuse_if(len(text or "") > _MOST_TEXT, "text", f"longer than {_MOST_TEXT} characters")
    _refuse_if(
        waiting_for is not None and not 0 < len(waiting_for) <= _MOST_ID,
        "waitingFor",
        f"expected 1 to {_MOST_ID} characters",
    )


def _check_answer(given: AnswerParams, question: Question | None) -> None:
    known = [one.id for one in (question.choices if question else None) or []]
    if given.choice is None:
        _refuse_if(bool(known), "choice", f"expected one of {', '.join(known)}")
        _refuse_if(not given.text, "text", "the question has no choices, so its answer is a text")
    else:
        _refuse_if(
            given.choice not in known,
            "choice",
            f"expected one of {', '.join(known)}" if known else "the question has none",
        )
    _refuse_if(len(given.text or "") > _MOST_ANSWER, "text", f"longer than {_MOST_ANSWER} characters")


def _refuse_if(wrong: bool, field: str, why: str) -> None:
    if wrong:
        raise InvalidParams(f"{field}: {why}", field=field)
