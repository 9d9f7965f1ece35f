"""Tells the daemon what goes on in the sessions of a connection, and brings the agent the answers of other clients.

The spool has it all: prompts and questions of the agent that have no response yet.

    a prompt                  the session is `working` until its response
    a question                `session/ask`, until there is a response in the spool, or its turn has ended

It is told only once everything in the spool is recorded, so what is over by then is never told. Nothing of it outlives the
connection to the daemon, so over the next one it is told again; what could not be told is tried again while the recorder looks
(`restless`). The first answer to a question counts: what somebody answers in a client of the daemon goes to the agent through the
door (door.py), as that of any visitor, the editor is told there, and the response comes back in the spool.

An agent may give the next question the id of the last one. So an answer names the question as it was shown (`fingerprint`), and
counts only for that one: nobody's permission for `ls` is taken for another command.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from sessiond.acp import visitor
from sessiond.acp.acts import QUESTION, fingerprint
from sessiond.acp.bounds import PENDING
from sessiond.acp.content import listed, mapped, word
from sessiond.acp.steps import Begun, Over
from sessiond.client.aio.session import AsyncSession
from sessiond.client.types import Choice
from sessiond.endpoint import NoHome
from sessiond.errors import DaemonUnreachable, Indeterminate, SessiondError

_MOST_CHOICES = 20
_MOST_CHARS = 200

_State = tuple[str, str | None]
"""`working`, `waiting` or `idle`, and what for."""
_IDLE: _State = ("idle", None)
Request = tuple[str, str]
"""The agent's id of the session, and the id of the request as JSON."""


class _Question(NamedTuple):
    number: Any
    text: str
    choices: list[Choice]
    """Empty: only the editor can answer."""
    call: str | None
    fingerprint: str
    """Identifies what the agent asked, whatever id it gave it."""


class Doing:
    """Tells the daemon what goes on in the sessions of one connection. `pid`: of the process that has the agent. `session`: the recorded
    session, by the agent's id of it. `connection`: the number of the connection to the daemon, another one after it has ended.
    """

    def __init__(self, pid: int, session: Callable[[str], AsyncSession | None], connection: Callable[[], int]) -> None:
        self._pid = pid
        self._session = session
        self._connection = connection
        self._prompts: dict[Request, None] = {}
        self._questions: dict[Request, _Question] = {}
        self._said: dict[str, tuple[_State, int]] = {}
        """What was told of a session, and over which connection."""
        self._asks: dict[Request, tuple[_Question, asyncio.Task[None]]] = {}
        self._changed = asyncio.Event()
        """Set, and replaced, when a prompt is over."""

    def heed(self, step: Begun | Over) -> None:
        request = step.key, step.request
        if isinstance(step, Over) and step.question:
            self._questions.pop(request, None)
            self._withdraw()
        elif isinstance(step, Over):
            self._prompts.pop(request, None)
            self._drop_questions_of(step.key)
            self._withdraw()
            self._changed.set()
            self._changed = asyncio.Event()
        elif step.asked is None:
            self._prompts[request] = None
        else:
            self._questions[request] = _question(step.asked, json.loads(step.request))
        for kind in (self._prompts, self._questions):
            if len(kind) > PENDING:
                del kind[next(iter(kind))]

    def _drop_questions_of(self, key: str) -> None:
        """Its turn has ended: an agent may leave them open then."""
        if not self.runs(key):
            for request in [one for one in self._questions if one[0] == key]:
                del self._questions[request]

    def _withdraw(self) -> None:
        """Withdraw every question that the agent has stopped asking. Another one may have its id by now."""
        for request, (question, asking) in [*self._asks.items()]:
            if self._questions.get(request) is not question:
                asking.cancel()
                del self._asks[request]

    @property
    def restless(self) -> bool:
        """True while there is something that the daemon may not know yet, or may have forgotten."""
        return bool(self._prompts or self._questions) or any(state != _IDLE for state, _ in self._said.values())

    def runs(self, key: str) -> bool:
        """Return whether a prompt runs in a session."""
        return any(of == key for of, _ in self._prompts)

    async def idle(self, key: str) -> None:
        """Returns when no prompt runs in a session."""
        while self.runs(key):
            await self._changed.wait()

    async def begin(self, key: str, session: AsyncSession) -> None:
        """Tell the daemon of a prompt before it is given. A turn without a word may end before `tell` runs, and windows would go on
        waiting for its answer. SessiondError.
        """
        await session.activity("working")
        self._said[key] = ("working", None), self._connection()

    async def tell(self) -> None:
        """Bring the daemon up to date. What cannot be told now is told the next time."""
        self._withdraw()
        for key in {of for of, _ in (*self._prompts, *self._questions)} | {*self._said}:
            state = self._state(key)
            session = self._session(key)
            if session is None:
                continue
            told, over = self._said.get(key, (_IDLE, 0))
            if told == state and (over == self._connection() or state == _IDLE):
                continue
            try:
                waiting_for = "permission" if state[0] == "waiting" else None
                await session.activity(state[0], waiting_for=waiting_for, text=state[1])
            except SessiondError as error:
                print(f"{key}: {error.message}", file=sys.stderr, flush=True)
            else:
                self._said[key] = state, self._connection()
        for request, question in [*self._questions.items()]:
            session = self._session(request[0])
            if session is not None and question.choices and request not in self._asks:
                asking = self._ask(session, request, question)
                self._asks[request] = question, asyncio.create_task(asking, name=f"ask {request[1]}")

    def close(self) -> None:
        """The connection has ended."""
        for _, asking in self._asks.values():
            asking.cancel()

    def _state(self, key: str) -> _State:
        """Return what the daemon has to know besides the questions that are asked there."""
        for (of, _), question in self._questions.items():
            if of == key and not question.choices:
                return "waiting", question.text
        return ("working" if self.runs(key) else "idle"), None

    async def _ask(self, session: AsyncSession, request: Request, question: _Question) -> None:
        try:
            answered = await session.ask(
                question.text, choices=question.choices, waiting_for="permission", tool_call_id=question.call
            )
            if answered.choice is not None:
                await self._bring(request[0], question, answered.choice, answered.client)
        except (DaemonUnreachable, Indeterminate):
            self._forget(request, question)  # asked again the next time
        except (NoHome, OSError, TimeoutError) as error:
            # The answer did not get there: somebody has to give it once more.
            print(f"permission in {request[0]}: {error}", file=sys.stderr, flush=True)
            self._forget(request, question)
        except SessiondError as error:
            print(f"permission in {request[0]}: {error}", file=sys.stderr, flush=True)
            self._forget(request, question)
            if self._questions.get(request) is question:
                self._questions[request] = question._replace(choices=[])
                await self.tell()

    def _forget(self, request: Request, question: _Question) -> None:
        if request in self._asks and self._asks[request][0] is question:
            del self._asks[request]

    async def _bring(self, key: str, question: _Question, option: str, by: str) -> None:
        """To the agent. OSError, TimeoutError, NoHome: its process cannot be reached."""
        result = {"outcome": {"outcome": "selected", "optionId": option}}
        message = {"id": question.number, "result": result, "_meta": {QUESTION: question.fingerprint}}
        await visitor.say(self._pid, key, by, message)


def _question(params: dict[str, object], number: object) -> _Question:
    call = mapped(params.get("toolCall"))
    title = word(call.get("title")) or word(call.get("kind")) or "a tool"
    options = [mapped(one) for one in listed(params.get("options"))]
    choices = [_choice(word(one.get("optionId")) or "", one) for one in options]
    ids = {choice.id for choice in choices}
    askable = 0 < len(choices) <= _MOST_CHOICES and len(ids) == len(choices) and "" not in ids
    fits = all(len(one) <= _MOST_CHARS for one in ids)
    call_id = word(call.get("toolCallId"))
    return _Question(
        number,
        title[: 10 * _MOST_CHARS],
        choices if askable and fits else [],
        call_id if call_id is not None and len(call_id) <= _MOST_CHARS else None,
        fingerprint(params),
    )


def _choice(own: str, option: dict[str, object]) -> Choice:
    label = (word(option.get("name")) or own)[:_MOST_CHARS]
    kind = word(option.get("kind")) or ""
    if kind.startswith("allow"):
        return Choice(id=own, label=label, kind="allow")
    return Choice(id=own, label=label, kind="deny" if kind.startswith("reject") else None)
